"""One frame for the means: reports are integers, decoded to unbiased numbers of known range and variance.

Everything here is after the noise. Proof: proofs/local_means.md
"""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.local.reading import (
    Integers,
    Reals,
    no_reports,
    not_reports,
    read_epsilon,
    read_integer,
    read_value,
    require_listable,
)
from sfumato.mechanisms.columns import integer_column

_BERRY_ESSEEN = 0.56  # for independent, not identically distributed summands [Shevtsova 2010]
_MIN_RARE_REPORTS = 400
"""Minimum expected number of reports of the rarest kind from which the sample variance is used."""
_SKEW_FACTOR = 3.0
_MAX_TOP_VALUE = 1 << 31


@dataclass(frozen=True, slots=True)
class Variances:
    """Public facts about decoded reports: their range, their least and greatest variance.

    `rarest` is the least probability of a kind of report: without enough of these the spread seen may mislead.
    """

    least: float
    greatest: float
    low: Fraction
    high: Fraction
    rarest: float

    @property
    def range(self) -> float:
        return float(self.high - self.low)


class Mean(Hashable, Protocol):
    """A mean of integers 0 … top of a public grid, from one noisy report per person."""

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def top(self) -> int: ...

    @property
    def reports(self) -> int:
        """How many different reports there are: 0 … reports - 1."""

    @property
    def spread(self) -> Variances: ...

    def checked(self, reports: object) -> Integers: ...

    def decoded(self, reports: object) -> Reals: ...

    def exact_variance(self, value: int) -> Fraction: ...

    def margin(self, confidence: object, reports: int) -> float: ...

    def likelihood(self, report: object, value: int, bits: int) -> Between: ...


@lru_cache(maxsize=256)
def _cached_variances(mean: Mean) -> Variances:
    """Return the spread of a mechanism, computed once."""
    return mean.spread


@dataclass(frozen=True, slots=True)
class MeanFrame:
    """The parameters of every mean, and what every mean does alike, given how its reports are decoded."""

    epsilon: Fraction
    top: int

    def __post_init__(self) -> None:
        read_epsilon(self)
        read_integer(self, "top", 1, _MAX_TOP_VALUE)

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    def checked(self: Mean, reports: object) -> Integers:
        """Return reports that `release` can have returned, or refuse them."""
        try:
            return integer_column(reports, 0, self.reports - 1, "reports")
        except BadParameter:
            raise not_reports(f"one integer each, from 0 to {self.reports - 1}") from None

    def estimate(self: Mean, reports: object) -> float:
        """Return the unbiased estimate of these people's mean; it may leave 0 … top."""
        decoded = self.decoded(reports)
        if decoded.size == 0:
            raise no_reports()
        return float(decoded.mean())

    def variance(self: Mean, value: int) -> float:
        """Return the variance of one decoded report of a person with this value: what the coins do."""
        return float(self.exact_variance(read_value(value, self.top + 1)))

    def margin(self: Mean, confidence: object, reports: int) -> float:
        """Return a half-width within which the estimate from n reports stays at this level, whatever the values.

        The least of three bounds that hold for every n: Hoeffding's, Bernstein's, and the normal one with
        Berry–Esseen's error.
        """
        size, error = integer(reports, "reports", 1), 1 - float(probability(confidence, "confidence"))
        spread, depth = _cached_variances(self), log(2 / error)
        hoeffding = spread.range * sqrt(depth / (2 * size))
        bernstein = sqrt(2 * spread.greatest * depth / size) + 2 * spread.range * depth / (3 * size)
        rest = error - 2 * _BERRY_ESSEEN * spread.range / sqrt(spread.least * size)
        normal = -float(ndtri(rest / 2)) * sqrt(spread.greatest / size) if rest > 0 else hoeffding
        return min(hoeffding, bernstein, normal) * (1 + 1e-9)

    def interval(self: Mean, reports: object, confidence: object) -> tuple[float, float]:
        """Return bounds on these people's mean at this level, within 0 … top.

        From few reports it is the margin, which holds for every n; from many the spread of the decoded reports, which
        holds coins and values: a safe side. Proof: proofs/local_means.md
        """
        decoded = self.decoded(reports)
        if decoded.size == 0:
            raise no_reports()
        half, centre = self.margin(confidence, decoded.size), float(decoded.mean())
        effective = decoded.size * _cached_variances(self).rarest
        if effective >= _MIN_RARE_REPORTS:
            error = 1 - float(probability(confidence, "confidence"))
            deviation = sqrt(float(decoded.var(ddof=1)) / decoded.size)
            half = min(half, -float(ndtri(error / 2)) * deviation * (1 + _SKEW_FACTOR / effective))
        low, high = np.clip([centre - half, centre + half], 0.0, float(self.top)).tolist()
        return low, high

    def report_space(self: Mean) -> Integers:
        """List all possible reports, sorted."""
        return np.arange(require_listable(self.reports))
