"""Draw noise in shares: any `threshold` of them sum to integer Laplace noise, and fewer do not reveal it.

Theorem: the sum of t independent differences of two negative binomials of size 1/t and ratio x = e^(-1/scale) is
integer Laplace noise of that scale.  Proof: proofs/sealed.md
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.exact import integer, positive_rational
from sfumato.randomness.bernoulli import Bernoulli, Rational
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import Integers


@dataclass(frozen=True, slots=True)
class PolyaShare:
    """One party's share of integer Laplace noise; any `threshold` honest shares together are the whole noise."""

    scale: Fraction
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_rational(self.scale, "scale"))
        object.__setattr__(self, "threshold", integer(self.threshold, "threshold", 1))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent shares."""
        size = integer(count, "count", 0)
        difference: Integers = self._draw_negative_binomial(size, source) - self._draw_negative_binomial(size, source)
        return difference

    def _draw_negative_binomial(self, size: int, source: Source) -> Integers:
        """Draw negative binomials: keep a geometric K if coins of probability (i + 1/t) / (i + 1), i < K, all fall."""
        drawn = Geometric(self.scale).draw(0, source)
        while len(drawn) < size:
            candidates = Geometric(self.scale).draw(max(64, 2 * (size - len(drawn))), source)
            drawn = np.concatenate([drawn, candidates[self._accept(candidates, source)]])
        return drawn[:size]

    def _accept(self, candidates: Integers, source: Source) -> Integers:
        accepted = np.ones(len(candidates), dtype=bool)
        for count in range(int(candidates.max(initial=0))):
            chance = (count + Fraction(1, self.threshold)) / (count + 1)
            waiting = np.flatnonzero(accepted & (candidates > count))
            if not len(waiting):
                break
            accepted[waiting] = Bernoulli(Rational(chance)).draw(len(waiting), source)
        return accepted
