"""Add dummy rows to every cell, so that the sizes that a store sees are a private release.

Theorem: cells of true size n_i, padded by max(0, shift + Z_i) dummies with integer Laplace noise of scale k / epsilon,
are (epsilon, delta)-DP for a person with at most k rows in all.  Proof: proofs/sealed.md
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Approximate, Neighbours, Pure
from sfumato.certified.binary import exp_minus_enclosure
from sfumato.exact import integer, positive_rational, probability
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import Integers


@dataclass(frozen=True, slots=True)
class Padding:
    """Number of dummy rows for each cell of a batch.

    Under replace, k rows go and k others come: give twice `rows_per_unit`, here and in the event.

    >>> Padding("1/2", "1e-6", 1).shift, Padding(1, "1e-6", 5).shift
    (27, 75)
    """

    epsilon: Fraction
    delta: Fraction
    rows_per_unit: int
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rational(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))
        object.__setattr__(self, "rows_per_unit", integer(self.rows_per_unit, "rows_per_unit", 1))

    @property
    def moved_rows(self) -> int:
        """Number of rows that differ between neighbours: k, or 2k under replace."""
        return self.rows_per_unit * (2 if self.neighbours is Neighbours.REPLACE else 1)

    @property
    def shift(self) -> int:
        """The least shift with x^(shift + 1) / (1 + x) · max(e^epsilon, k / x) <= delta, x = e^(-epsilon/k)."""
        step = self.epsilon / self.moved_rows
        guess = self.moved_rows  # affects the time, never the result
        return smallest_covering(lambda shift: self._hides_one_unit(shift, step), guess)

    @property
    def event(self) -> Approximate:
        """Event of all sizes of a table and epoch."""
        return Approximate(Pure(self.epsilon, self.neighbours), self.delta)

    def draw(self, cells: int, source: Source) -> Integers:
        """Draw the number of dummies for each of `cells` cells."""
        noise = DiscreteLaplace(self.moved_rows / self.epsilon).draw(integer(cells, "cells", 0), source)
        dummies: Integers = np.maximum(noise + self.shift, 0)
        return dummies

    def _hides_one_unit(self, shift: int, step: Fraction) -> bool:
        """Decide both bounds by enclosures: one cell that changes by k rows, and k cells that change by one."""
        return all(
            _is_at_most(step * (shift + 1) - credit, step, factor, self.delta)
            for factor, credit in ((1, self.epsilon), (self.moved_rows, step))
        )


def _is_at_most(exponent: Fraction, step: Fraction, factor: int, delta: Fraction) -> bool:
    """Decide factor · e^-exponent / (1 + e^-step) <= delta."""
    if exponent < 0:
        return False  # e^-exponent / (1 + x) is above 1/2, and the cell would hide nothing
    bits = 64
    while True:
        low, high = exp_minus_enclosure(exponent, bits)
        step_low, step_high = exp_minus_enclosure(step, bits)
        one = 1 << bits
        if factor * high <= delta * (one + step_low):
            return True
        if factor * low > delta * (one + step_high):
            return False
        bits *= 2  # ends: the two sides are different by Lindemann
