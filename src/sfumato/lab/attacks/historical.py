"""Statistical databases of the past: each holds one secret bit per person and counts the ones in any set of rows.

They are written as their designers meant them. None of them is private; the other files of this room say why.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from sfumato.errors import BadParameter
from sfumato.lab.generators.seeded import Mask, Seeded, one_in
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

MAX_AUDITED_ROWS = 20
"""The auditor lists every database that is still possible: 2^rows of them."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The system would not say."""

    reason: str


class CountingSystem(Protocol):
    """Anything that counts the ones in a set of rows, more or less."""

    @property
    def name(self) -> str:
        """Name in a report."""

    def answer(self, mask: Mask) -> float | Declined:
        """Return how many rows of the set hold a one, or decline."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeControl:
    """Exact counts, but not of fewer than `least` people, nor of all but fewer [Fellegi 1972; Denning et al. 1979]."""

    secret: Mask
    least: int
    name: str = "query-set-size control"

    def answer(self, mask: Mask) -> float | Declined:
        if self.least <= int(mask.sum()) <= len(self.secret) - self.least:
            return _count_selected(self.secret, mask)
        return Declined("the set is too small or too large")


class Auditor:
    """Exact counts, declined where the answers so far would determine a bit.

    It keeps every database that fits the answers given so far. It is careful about answers; what a refusal says, it
    does not ask [Kenthapadi, Mishra, Nissim 2005].
    """

    name = "query auditing"

    def __init__(self, secret: Mask) -> None:
        rows = len(secret)
        if rows > MAX_AUDITED_ROWS:
            raise BadParameter(
                f"The auditor cannot hold {rows} rows.",
                "It lists all databases that fit its answers.",
                f"Give it at most {MAX_AUDITED_ROWS} rows.",
            )
        self._secret = secret
        codes = np.arange(1 << rows)[:, np.newaxis]
        self._possible: Mask = (codes >> np.arange(rows) & 1).astype(np.bool_)

    def answer(self, mask: Mask) -> float | Declined:
        count = _count_selected(self._secret, mask)
        left = self._possible[self._possible[:, mask].sum(axis=1) == count]
        if (left == left[0]).all(axis=0).any():
            return Declined("the answer would reveal one person's value")
        self._possible = left
        return count


@dataclass(frozen=True, slots=True, eq=False)
class SubsetRelease:
    """Counts over a random part of the rows, drawn once, scaled up: "you are probably not in the sample"."""

    secret: Mask
    sampled: Mask
    one_in: int
    name: str = "subset release"

    @classmethod
    def drawn(cls, secret: Mask, share_one_in: int, source: Source) -> "SubsetRelease":
        return cls(secret, one_in(share_one_in, len(secret), source), share_one_in)

    def answer(self, mask: Mask) -> float | Declined:
        return _count_selected(self.secret, mask & self.sampled) * self.one_in


@dataclass(frozen=True, slots=True, eq=False)
class InputPerturbation:
    """Exact counts of bits of which some were flipped once, before anything was asked.

    Flipping with probability p is randomized response: it is ln((1 - p) / p)-DP, which for a rare flip is not much.
    """

    reported: Mask
    name: str = "input perturbation"

    @classmethod
    def flipped(cls, secret: Mask, flip_one_in: int, source: Source) -> "InputPerturbation":
        return cls(secret ^ one_in(flip_one_in, len(secret), source))

    def answer(self, mask: Mask) -> float | Declined:
        return _count_selected(self.reported, mask)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedNoise:
    """Counts with fresh uniform integer noise, never further off than `bound`."""

    secret: Mask
    bound: int
    source: Source
    name: str = "bounded noise"

    def answer(self, mask: Mask) -> float | Declined:
        return _count_selected(self.secret, mask) + _bounded_error(self.bound, self.source)


@dataclass(frozen=True, slots=True, eq=False)
class RoundedOutput:
    """Counts rounded to the nearest multiple of `step`, upwards when two are as near."""

    secret: Mask
    step: int
    name: str = "rounded output"

    def answer(self, mask: Mask) -> float | Declined:
        return (2 * _count_selected(self.secret, mask) + self.step) // (2 * self.step) * self.step


@dataclass(frozen=True, slots=True, eq=False)
class StickyNoise:
    """Bounded noise drawn from a key and the set itself: the same question always has the same answer."""

    secret: Mask
    bound: int
    key: int
    name: str = "sticky noise"

    def answer(self, mask: Mask) -> float | Declined:
        return _count_selected(self.secret, mask) + _bounded_error(
            self.bound, Seeded((self.key, np.packbits(mask).tobytes()))
        )


def share_equal(guess: Mask, secret: Mask) -> Fraction:
    """Return the share of rows that a guess has right."""
    return Fraction(int((guess == secret).sum()), len(secret))


def _count_selected(secret: Mask, mask: Mask) -> int:
    return int(np.count_nonzero(secret & mask))


def _bounded_error(bound: int, source: Source) -> int:
    return int(UniformInteger(2 * bound + 1).draw(1, source)[0]) - bound
