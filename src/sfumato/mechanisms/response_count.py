"""Estimate how many of n people hold an answer from n noisy reports with known probabilities.

A report says so with probability `hit` for a holder and `false` for anybody else, independently. With t holders the
number of such reports is Y = Bin(t, hit) + Bin(n - t, false). This is post-processing: it is free,
and floats may compute it. Proof: proofs/randomized_response.md §3–§5
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtri

from sfumato.errors import BadParameter
from sfumato.exact import integer, probability

# the tails below are computed to a relative error below 1e-9; the interval pays a thousand times that
_TAIL_ERROR_SHARE = 1e-6
_BERRY_ESSEEN = 0.56  # for independent, not identically distributed summands [Shevtsova 2010]


@dataclass(frozen=True, slots=True)
class Channel:
    """Probability that a report says so, for holders and for others; hit > false."""

    hit: float
    false: float

    def interval(self, says: int, reports: int, confidence: object) -> tuple[Fraction, Fraction]:
        """Return bounds on the true share of holders that cover it with at least this probability.

        Theorem: with t holders, P[low <= t / n <= high] >= confidence for every t: the ends are the exact tests of
        each t at half the error, inverted (Clopper–Pearson's construction for the law of Y).
        Proof: proofs/randomized_response.md §4
        """
        size = _read_reports(reports)
        low, high = self._holder_bounds(_at_most(says, size), size, _read_error(confidence), (size // 2, size // 2))
        return Fraction(low, size), Fraction(high, size)

    def intervals(self, says: npt.NDArray[np.int64], reports: int, confidence: object) -> npt.NDArray[np.float64]:
        """Return `interval` for each of many counts, as rows (low, high); each different count is computed once."""
        size, error = _read_reports(reports), _read_error(confidence)
        counts, places = np.unique(says, return_inverse=True)
        bounds = np.empty((len(counts), 2))
        before = 0
        ends = (size // 2, size // 2)
        for position, count in enumerate(counts.tolist()):
            # both ends move with the count: the last ones, moved on, are near the next ones
            shift = round((count - before) / (self.hit - self.false)) if position else 0
            guess = (min(size, ends[0] + shift), min(size, ends[1] + shift))
            ends, before = self._holder_bounds(_at_most(count, size), size, error, guess), count
            bounds[position] = ends
        return bounds[places.reshape(-1)] / size

    def _holder_bounds(self, count: int, size: int, level: float, guess: tuple[int, int]) -> tuple[int, int]:
        error = level / 2 * (1 - _TAIL_ERROR_SHARE)
        least = _first_holding(
            size, lambda holders: self._upper_probability(count, holders, size, error) > error, guess[0]
        )
        fewest = _first_holding(
            size, lambda absent: self._at_most(count, size - absent, size, error) > error, size - guess[1]
        )
        return min(least, size - fewest), max(least, size - fewest)

    def margin(self, reports: int, confidence: object) -> float:
        """Return the margin of the share's estimate at this confidence, for every true share.

        The smaller of two bounds that hold for every n: Hoeffding's, and the normal one with Berry–Esseen's error.
        It is known before any report is in; `interval` is sharper once they are. Proof: proofs/randomized_response.md
        """
        size, error = _read_reports(reports), _read_error(confidence)
        deviation = sqrt(size * log(2 / error) / 2)
        spread = [chance * (1 - chance) for chance in (self.hit, self.false)]
        unlike = 2 * _BERRY_ESSEEN * (1 - 2 * min(spread))
        rest = error - unlike / sqrt(size * min(spread)) if min(spread) > 0 else 0.0
        if rest > 0:
            deviation = min(deviation, -float(ndtri(rest / 2)) * sqrt(size * max(spread)))
        return deviation / (size * (self.hit - self.false)) * (1 + 1e-9)

    def _upper_probability(self, seen: int, holders: int, reports: int, error: float) -> float:
        """Return P[Y >= seen], up to error · 1e-9."""
        true, weights = _binomial(holders, self.hit, error * 1e-9)
        return float(weights @ _upper_tail(reports - holders, self.false, seen - true))

    def _at_most(self, seen: int, holders: int, reports: int, error: float) -> float:
        """Return P[Y <= seen], up to error · 1e-9: the other reports are at least reports - seen."""
        true, weights = _binomial(holders, self.hit, error * 1e-9)
        others = reports - holders
        return float(weights @ _upper_tail(others, 1 - self.false, others - (seen - true)))


def _binomial(size: int, chance: float, missing: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a window of values that holds all but `missing` of Bin(size, chance), and their probabilities."""
    if chance >= 1:  # as a float: the rest is below 2^-53
        return np.array([float(size)]), np.ones(1)
    reach = sqrt(size * log(2 / missing) / 2)  # Hoeffding
    values = np.arange(max(0, floor(size * chance - reach)), min(size, ceil(size * chance + reach)) + 1, dtype=float)
    steps = np.log((size - values[:-1]) / (values[:-1] + 1) * (chance / (1 - chance)))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return values, weights / weights.sum()


def _upper_tail(size: int, chance: float, least: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return P[Bin(size, chance) >= least]."""
    inside = np.clip(least, 1, max(size, 1))
    tail = betainc(inside, size - inside + 1, chance) if size else np.zeros_like(least)
    return np.where(least <= 0, 1.0, np.where(least > size, 0.0, tail))


def _first_holding(most: int, holds: Callable[[int], bool], guess: int) -> int:
    """Return the smallest of 0 … most from which on a monotone statement holds; `most` when it never does.

    The search starts at a guess and widens from there, so that a good guess is found in a few steps.
    """
    low, high, step = -1, most, 1
    if guess < most and not holds(guess):
        low = guess
        while low + step < most and not holds(low + step):
            low, step = low + step, 2 * step
        high = min(most, low + step)
    else:
        high = min(guess, most)
        while high - step >= 0 and holds(high - step):
            high, step = high - step, 2 * step
        low = max(-1, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def share_of(says: int, reports: int) -> Fraction:
    """Return the observed share: at most all of the reports say so."""
    size = _read_reports(reports)
    return Fraction(_at_most(says, size), size)


def _read_reports(reports: int) -> int:
    size = integer(reports, "reports", 1)
    if size > 10**12:
        raise BadParameter(f"reports = {size} is too many.", "Intervals are computed up to 10^12.", "Split them.")
    return size


def _read_error(confidence: object) -> float:
    error = 1 - probability(confidence, "confidence")
    if error < Fraction(1, 10**12):
        raise BadParameter(
            f"confidence = {confidence} is too near to 1.",
            "These intervals are computed for levels up to 1 - 1e-12.",
            "Give a confidence such as 0.95.",
        )
    return float(error)


def _at_most(says: int, reports: int) -> int:
    seen = integer(says, "says", 0)
    if seen > reports:
        raise BadParameter(
            f"{seen} of {reports} reports is not possible.", "Each report counts once.", "Give at most all reports."
        )
    return seen
