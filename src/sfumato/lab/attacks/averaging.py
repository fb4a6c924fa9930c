"""The averaging attack: noise that is drawn again can be averaged away, and sticky noise is drawn again for a new set.

The bit of one person is the mean of many differences: the count of a set with him less the count without him. Asking
the same two counts again wears down fresh noise. Asking with another set each time wears down sticky noise and rounding
too, because a different number is then added each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import recovered_share
from sfumato.lab.attacks.historical import (
    BoundedNoise,
    CountingSystem,
    Declined,
    RoundedOutput,
    StickyNoise,
    share_equal,
)
from sfumato.lab.attacks.protected import Protected
from sfumato.lab.attacks.tracker import difference
from sfumato.lab.generators.seeded import Mask, coins, subsets
from sfumato.randomness.source import Source

REPEATS = (1, 2, 8, 32, 128)
MAX_ERROR = 2
"""No answer of the historical systems is further off than this; the rounding step is twice as much and one."""
EPSILON = Fraction(1)


@dataclass(frozen=True, slots=True)
class SystemLine:
    """The share of targets recovered with each number of repeats."""

    system: str
    same_set: bool
    recovered: tuple[Fraction, ...]

    @property
    def label(self) -> str:
        """Name in a report."""
        return f"{self.system}, {'the same set' if self.same_set else 'another set'} each time"


@dataclass(frozen=True, slots=True)
class Averaging:
    """Every system against the same targets."""

    targets: int
    repeats: tuple[int, ...]
    lines: tuple[SystemLine, ...]
    bound: float

    def of(self, system: str, *, same_set: bool) -> SystemLine:
        """Return the line of a system."""
        return next(line for line in self.lines if (line.system, line.same_set) == (system, same_set))

    def report(self) -> str:
        """Return what was recovered, line by line."""
        off = 1 / sqrt(self.targets)  # two standard deviations
        return "\n".join(
            [
                f"Averaging: the bit of each of {self.targets} people, from pairs of counts about each",
                "",
                f"  {'pairs of counts':48}" + "".join(f"{repeats:7}" for repeats in self.repeats),
                *(
                    f"  {line.label:48}" + "".join(f"{float(share):7.0%}" for share in line.recovered)
                    for line in self.lines
                ),
                "",
                (
                    f"A coin would get 50 %; with this few people every share is off by up to {off:.0%}. sfumato "
                    "gives each"
                ),
                "person's attacker one budget for all questions: more of them means less of each, and no",
                f"attack can expect more than {self.bound:.1%}. (In sfumato, the same question asked again is the",
                "same release: there is nothing to average.)",
            ]
        )


def differences(system: CountingSystem, row: int, bases: Mask) -> npt.NDArray[np.float64]:
    """Return one difference for each base; each is the person's bit plus what noise did."""
    values = [difference(system, row, base) for base in bases]
    return np.array([0.5 if isinstance(value, Declined) else value for value in values], dtype=np.float64)


def run(rows: int, targets: int, source: Source) -> Averaging:
    """Attack the first `targets` of made-up bits behind systems that bound, round or repeat their noise."""
    secret = coins(rows, source)
    sticky, rounded = StickyNoise(secret, MAX_ERROR, key=1), RoundedOutput(secret, 2 * MAX_ERROR + 1)
    attacked: tuple[tuple[CountingSystem, bool], ...] = (
        (BoundedNoise(secret, MAX_ERROR, source), True),
        (rounded, True),
        (rounded, False),
        (sticky, True),
        (sticky, False),
    )
    loss = PrivacyLoss(EPSILON)
    lines = [_system_line(system, secret, targets, same_set, source) for system, same_set in attacked]
    shares = (against_sfumato(secret, targets, loss, repeats, source) for repeats in REPEATS)
    lines.append(SystemLine("sfumato", True, tuple(shares)))
    return Averaging(targets, REPEATS, tuple(lines), recovered_share(loss))


def _system_line(system: CountingSystem, secret: Mask, targets: int, same_set: bool, source: Source) -> SystemLine:
    def _means(row: int) -> npt.NDArray[np.float64]:
        values = differences(system, row, _bases(REPEATS[-1], len(secret), same_set, source))
        return np.array([values[:repeats].mean() for repeats in REPEATS])

    guesses = _over_targets(targets, _means) > 0.5
    return SystemLine(system.name, same_set, tuple(share_equal(column, secret[:targets]) for column in guesses.T))


def against_sfumato(secret: Mask, targets: int, loss: PrivacyLoss, repeats: int, source: Source) -> Fraction:
    """Give every target an attacker of his own, with the whole budget for this one person."""

    def _mean(row: int) -> npt.NDArray[np.float64]:
        system = Protected(secret, loss, 2 * repeats, source)
        return np.array([differences(system, row, _bases(repeats, len(secret), True, source)).mean()])

    guess: Mask = _over_targets(targets, _mean)[:, 0] > 0.5
    return share_equal(guess, secret[:targets])


def _bases(count: int, rows: int, same_set: bool, source: Source) -> Mask:
    return np.repeat(subsets(1, rows, source), count, axis=0) if same_set else subsets(count, rows, source)


def _over_targets(targets: int, measure: Callable[[int], npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.array([measure(row) for row in range(targets)])
