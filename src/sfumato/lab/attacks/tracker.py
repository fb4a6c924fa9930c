"""The differencing attack and the tracker: a forbidden query is the difference of two allowed ones.

One person's bit is the count of a set with him less the count of the same set without him. A tracker does the same for
any set that is too small to be asked [Denning, Denning, Schwartz 1979].
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.auditing import read_refusals
from sfumato.lab.attacks.bounds import recovered_share
from sfumato.lab.attacks.historical import (
    Auditor,
    BoundedNoise,
    CountingSystem,
    Declined,
    InputPerturbation,
    RoundedOutput,
    SizeControl,
    StickyNoise,
    SubsetRelease,
    share_equal,
)
from sfumato.lab.attacks.protected import Protected
from sfumato.lab.generators.seeded import Mask, coins, single
from sfumato.randomness.source import Source

AUDITED_ROWS = 14
"""Rows behind the auditor, who lists all databases."""
FLIPPED_ONE_IN = 20
EPSILON = Fraction(1)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of one attack on one system."""

    system: str
    rows: int
    questions: int
    declined: int
    recovered: Fraction
    bound: float | None
    """The largest share that can be expected, where there is a guarantee at all."""


@dataclass(frozen=True, slots=True)
class Differencing:
    """The same attack on every system, one line each."""

    lines: tuple[Recovery, ...]
    forbidden: float
    """The count of one single person, worked out by a tracker although the system declines to say it."""
    truth: int

    def of(self, system: str) -> Recovery:
        """Return the line of a system."""
        return next(line for line in self.lines if line.system == system)

    def report(self) -> str:
        """Return what was recovered, line by line."""
        return "\n".join(
            [
                (
                    "Differencing: the bit of every person, as the difference of two counts that differ in this one "
                    "person"
                ),
                "",
                "  system                    rows   questions   declined   recovered   any attack, expected",
                *(
                    f"  {line.system:22}  {line.rows:6,}   {line.questions:9,}   {line.declined:8,}   "
                    f"{float(line.recovered):9.1%}   {'no limit' if line.bound is None else f'{line.bound:.1%}':>20}"
                    for line in self.lines
                ),
                "",
                "A coin would get 50 %. The auditor was attacked through its refusals: each says that two bits are",
                "equal. A general tracker asked the size control for the forbidden count of one person by four",
                f"permitted ones: {self.forbidden:g}, and the truth is {self.truth}. Bounded, rounded and sticky noise",
                "falls to averaging and to reconstruction.",
            ]
        )


def count_by_tracker(system: CountingSystem, wanted: Mask, tracker: Mask) -> float | Declined:
    """Count a set that may not be asked: q(C) = q(C ∪ T) + q(C ∪ ¬T) - q(T) - q(¬T).

    With a least size k <= n/4, any T of between 2k and n - 2k rows serves for every C of fewer than k rows.
    """
    answers = [system.answer(mask) for mask in (wanted | tracker, wanted | ~tracker, tracker, ~tracker)]
    if any(isinstance(answer, Declined) for answer in answers):
        return Declined("one of the four sets was declined")
    with_tracker, with_rest, only_tracker, only_rest = answers
    return with_tracker + with_rest - only_tracker - only_rest  # type: ignore[operator]  # none of them declined


def difference(system: CountingSystem, row: int, base: Mask) -> float | Declined:
    """Return the count of the base with this row less the count of the base without it."""
    target = single(row, len(base))
    there, away = system.answer(base | target), system.answer(base & ~target)
    if isinstance(there, Declined) or isinstance(away, Declined):
        return Declined("one of the two sets was declined")
    return there - away


def recover(system: CountingSystem, secret: Mask, base: Mask, bound: float | None) -> Recovery:
    """Recover each row from two queries: with it in the base set, and without."""
    values = [difference(system, row, base) for row in range(len(secret))]
    guess = np.array([not isinstance(value, Declined) and value > 0.5 for value in values])
    declined = sum(isinstance(value, Declined) for value in values)
    return Recovery(system.name, len(secret), 2 * len(secret), declined, share_equal(guess, secret), bound)


def run(rows: int, source: Source) -> Differencing:
    """Attack made-up bits behind every system."""
    secret, base = coins(rows, source), coins(rows, source)
    control = SizeControl(secret, rows // 10)
    loss = PrivacyLoss(EPSILON)
    systems: tuple[tuple[CountingSystem, float | None], ...] = (
        (control, None),
        (SubsetRelease.drawn(secret, 2, source), None),
        (InputPerturbation.flipped(secret, FLIPPED_ONE_IN, source), 1 - 1 / FLIPPED_ONE_IN),  # randomized response
        (BoundedNoise(secret, 2, source), None),
        (RoundedOutput(secret, 5), None),
        (StickyNoise(secret, 2, key=1), None),
        (Protected(secret, loss, 2 * rows, source), recovered_share(loss)),
    )
    lines = [recover(system, secret, base, bound) for system, bound in systems]
    forbidden = count_by_tracker(control, single(0, rows), base)
    if isinstance(forbidden, Declined):
        raise AssertionError("a random half of the rows is a general tracker")
    return Differencing((_attack_auditor(source), *lines), forbidden, int(secret[0]))


def _attack_auditor(source: Source) -> Recovery:
    secret = coins(AUDITED_ROWS, source)
    read = read_refusals(Auditor(secret), AUDITED_ROWS, own=bool(secret[0]))
    return Recovery(Auditor.name, AUDITED_ROWS, AUDITED_ROWS - 1, read.declined, share_equal(read.guess, secret), None)
