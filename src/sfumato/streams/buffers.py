"""Long streams in little memory: a few decaying buffers in place of the whole past.

B_i ← ⌊s_i·B_i⌋ + w_i·x with s_i = a_i / 2^24 and integer w_i. What is released is the sum of the buffers with noise, so
the coefficients are c_j = Σ w_i s_i^j, and the floors move an answer by at most e_j more. Proof: proofs/buffers.md
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np

from sfumato.errors import BadParameter
from sfumato.streams.limbs import FARTHEST, MOST_SHARE_BITS
from sfumato.streams.toeplitz import Floats, Integers, square_root, summed_inverse

SHARE_BITS = MOST_SHARE_BITS
_MOST_VALUE = 1 << 41  # a value and its floor
_GUARD = 64
_FIRST = -4.0
_SHIFTS = tuple(place / 2 for place in range(-4, 5))
_NEAR = 1.01
"""As far above the square root as the closed form may be before the end of its nodes is searched for."""
_SEARCHED = 1 << 16


@dataclass(frozen=True, slots=True)
class Buffers:
    """How fast each buffer decays, and how much of a value it takes: public integers."""

    shares: tuple[int, ...]
    """a_i < 2^24: what is kept from one step to the next is a_i / 2^24."""
    weights: tuple[int, ...]

    @property
    def total(self) -> int:
        """The first coefficient."""
        return sum(self.weights)

    @property
    def decays(self) -> Floats:
        """The s_i; as floats they are exact."""
        return np.array(self.shares, dtype=np.float64) / (1 << SHARE_BITS)

    def coefficients(self, count: int) -> Floats:
        """Return c_j for j < count."""
        powers = np.arange(count, dtype=np.float64)
        found = np.zeros(count)
        for decay, weight in zip(self.decays, self.weights, strict=True):
            found += weight * decay**powers
        return found

    def reach(self, count: int) -> Integers:
        """Return upper bounds of c_j + e_j in units of 2^-64, as Python integers, for j < count.

        e_j = Σ_i Σ_{m < j} s_i^m is what the floors can add. Every rounding goes up.
        """
        rows = [0] * count
        for share, weight in zip(self.shares, self.weights, strict=True):
            power, floors = 1 << _GUARD, 0
            for place in range(count):
                rows[place] += weight * power + floors
                floors += power
                power = -((-power * share) >> SHARE_BITS)
        reach = np.empty(count, dtype=object)
        reach[:] = rows
        return reach

    def bias(self, count: int) -> float:
        """Return how far the floors can move a decoded sum: e_T · Σ |coefficients of the decoding|."""
        decays = self.decays
        floors = float(((1 - decays**count) / (1 - decays)).sum())
        return floors * float(np.abs(summed_inverse(self.coefficients(count))).sum())


def squared_reach(values: Integers) -> int:
    """Return the sum of squares of numbers in units of 2^-64, rounded up to an integer."""
    total = sum(int(value) ** 2 for value in values.tolist())
    return -(-total >> (2 * _GUARD))


@lru_cache(maxsize=32)
def make_buffers(count: int, horizon: int, total: int) -> Buffers:
    """Return the nodes of a quadrature of (1 - x)^(-1/2): evenly spaced from -4 to ln T + 1/2 in u = logit(s).

    Where so few buffers come out more than 1 % above the square root, a better end is searched for on a grid. Floats
    choose here; what is charged is computed from the integers that come out.
    """
    end = log(horizon) + 0.5
    chosen = _nodes(count, end, total)
    tried = min(horizon, _SEARCHED)
    if count > 1 and _error(chosen.coefficients(tried)) > _NEAR * _error(square_root(tried, 1 << 20)):
        others = [_nodes(count, end + shift, total) for shift in _SHIFTS if end + shift > _FIRST + 1]
        chosen = min([chosen, *others], key=lambda nodes: _error(nodes.coefficients(tried)))
    if any(
        weight * ((1 << SHARE_BITS) - share) < 1 << SHARE_BITS
        or weight * _MOST_VALUE << SHARE_BITS >= FARTHEST * ((1 << SHARE_BITS) - share)
        for share, weight in zip(chosen.shares, chosen.weights, strict=True)
    ):
        raise BadParameter(
            "These buffers are too fine for their scale.",
            "A floor must weigh less than what a buffer forgets, and a full buffer must fit into 100 bits.",
            "Take another scale, fewer buffers or a shorter horizon.",
        )
    return chosen


def _nodes(count: int, end: float, total: int) -> Buffers:
    places = [_FIRST + (end - _FIRST) * place / max(count - 1, 1) for place in range(count)]
    whole = 1 << SHARE_BITS
    shares = tuple(min(round(whole / (1 + exp(-place))), whole - 1) for place in places)
    sizes = [exp(place / 2) / (1 + exp(place)) for place in places]
    weights = [max(1, round(total * size / sum(sizes))) for size in sizes]
    weights[0] += total - sum(weights)  # the first coefficient is the scale, exactly
    return Buffers(shares, tuple(weights))


def _error(coefficients: Integers) -> float:
    """Return the root mean squared error per √(2 rho)."""
    lengths = np.cumsum(summed_inverse(coefficients) ** 2)
    exact = np.asarray(coefficients, dtype=np.float64)
    return float((lengths.mean() * (exact @ exact)) ** 0.5)
