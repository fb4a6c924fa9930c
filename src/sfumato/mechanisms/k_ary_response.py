"""Randomized response among k categories: report the true one with a known probability, otherwise another."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, RandomizedResponse
from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.mechanisms.columns import integer_column
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.response_count import Channel
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

_MAX_EPSILON = 1000
_MAX_CATEGORIES = 2**32


@dataclass(frozen=True, slots=True)
class KAryResponse:
    """Keep the category with probability e^ε / (e^ε + k - 1), else report one of the k - 1 others uniformly.

    Theorem: a report is ε-DP under replace, and for no smaller ε.  [Kairouz, Oh, Viswanath 2014]
    Proof: proofs/k_ary_response.md
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "categories", integer(self.categories, "categories", 2))
        if self.epsilon > _MAX_EPSILON or self.categories > _MAX_CATEGORIES:
            raise BadParameter(
                f"epsilon = {self.epsilon} with {self.categories} categories is out of reach.",
                f"A response is built for epsilon up to {_MAX_EPSILON} and up to 2^32 categories.",
                "Lower epsilon, or join categories.",
            )

    @property
    def event(self) -> RandomizedResponse:
        """Event of one report."""
        return RandomizedResponse(self.epsilon, self.categories, Neighbours.REPLACE)

    def release(self, values: object, source: Source) -> npt.NDArray[np.int64]:
        """Return one report per true category 0 … k - 1. Both draws are made for every value."""
        true = integer_column(values, 0, self.categories - 1, "categories")
        kept = Bernoulli(self._keep_probability).draw(len(true), source)
        others = UniformInteger(self.categories - 1).draw(len(true), source)
        others = others + (others >= true)  # skip the true one
        return np.where(kept, true, others)

    def estimate(self, tally: object) -> npt.NDArray[np.float64]:
        """Return unbiased estimates of all true shares, given the number of reports of each category."""
        counts = self._read_tally(tally)
        channel = self._channel
        return np.asarray((counts / counts.sum() - channel.false) / (channel.hit - channel.false), dtype=np.float64)

    def variance(self, tally: object) -> npt.NDArray[np.float64]:
        """Return unbiased estimates of the variances that the draws give to `estimate`.

        With true share f it is (f·hit(1-hit) + (1-f)·false(1-false)) / (n (hit-false)²): linear in f, so the
        unbiased estimate of f may be put in its place.
        """
        reports, share, channel = self._read_tally(tally).sum(), self.estimate(tally), self._channel
        spread = share * channel.hit * (1 - channel.hit) + (1 - share) * channel.false * (1 - channel.false)
        return np.asarray(spread / (reports * (channel.hit - channel.false) ** 2), dtype=np.float64)

    def intervals(self, tally: object, confidence: object) -> list[tuple[Fraction, Fraction]]:
        """Return, for each category, bounds on its true share that cover it at this level, each on its own."""
        counts = self._read_tally(tally)
        return [self._channel.interval(int(count), int(counts.sum()), confidence) for count in counts]

    def margin(self, confidence: object, reports: int) -> float:
        """Return the half-width within which each share's estimate from n reports stays at this level."""
        return self._channel.margin(reports, confidence)

    @property
    def _keep_probability(self) -> ExpRatio:
        # e^ε / (e^ε + k - 1) = 1 / (1 + (k - 1) x)
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=self.categories - 1)

    @property
    def _channel(self) -> Channel:
        one = 1 << 128
        hit = Fraction(self._keep_probability.bounds(128)[0], one)
        return Channel(float(hit), float((1 - hit) / (self.categories - 1)))

    def _read_tally(self, tally: object) -> npt.NDArray[np.int64]:
        counts = integer_column(tally, 0, 2**62, "numbers of reports")
        if len(counts) == self.categories and counts.any():
            return counts
        raise BadParameter(
            "tally is not one number of reports per category.",
            f"There are {self.categories} categories and at least one report.",
            "Give np.bincount(reports, minlength=categories).",
        )
