"""Keep long streams in little memory: a few decaying buffers replace the whole past.

B_i ← ⌊s_i·B_i⌋ + w_i·x with s_i = a_i / 2^24 and integer w_i. The noisy sum of the buffers is released, so the
coefficients are c_j = Σ w_i s_i^j, and the floors move an answer by at most e_j more. Proof: proofs/buffers.md
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np

from sfumato.errors import BadParameter
from sfumato.streams.limbs import MAX_LIMBS_VALUE, SHARE_BITS
from sfumato.streams.toeplitz import Floats, Integers, decoding_of_sums, square_root

_MAX_BUFFERED_VALUE = 1 << 41  # a value and its floor
_GUARD_BITS = 64
_FIRST_LOGIT = -4.0
_END_SHIFTS = tuple(index / 2 for index in range(-4, 5))
_MAX_ERROR_RATIO = 1.01
"""Error of the closed form over that of the square root, from which a better last node is searched for."""
_MAX_SEARCH_STEPS = 1 << 16


@dataclass(frozen=True, slots=True)
class Buffers:
    """Decay and weight of each buffer: public integers."""

    shares: tuple[int, ...]
    """a_i < 2^24: a buffer keeps a_i / 2^24 of its content from one step to the next."""
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

        e_j = Σ_i Σ_{m < j} s_i^m bounds what the floors add. Every rounding goes up.
        """
        rows = [0] * count
        for share, weight in zip(self.shares, self.weights, strict=True):
            power, floors = 1 << _GUARD_BITS, 0
            for power_index in range(count):
                rows[power_index] += weight * power + floors
                floors += power
                power = -((-power * share) >> SHARE_BITS)
        reach = np.empty(count, dtype=object)
        reach[:] = rows
        return reach

    def bias(self, count: int) -> float:
        """Return how far the floors can move a decoded sum: e_T · Σ |coefficients of the decoding|."""
        decays = self.decays
        floors = float(((1 - decays**count) / (1 - decays)).sum())
        return floors * float(np.abs(decoding_of_sums(self.coefficients(count))).sum())


def squared_reach(values: Integers) -> int:
    """Return the sum of squares of numbers in units of 2^-64, rounded up to an integer."""
    total = sum(int(value) ** 2 for value in values.tolist())
    return -(-total >> (2 * _GUARD_BITS))


@lru_cache(maxsize=32)
def make_buffers(count: int, horizon: int, total: int) -> Buffers:
    """Return the nodes of a quadrature of (1 - x)^(-1/2): evenly spaced from -4 to ln T + 1/2 in u = logit(s).

    Where few buffers come out more than 1 % above the square root, a better end is searched for on a grid. Floats
    choose the nodes; the charge is computed from the resulting integers.
    """
    end = log(horizon) + 0.5
    chosen = _quadrature_buffers(count, end, total)
    steps = min(horizon, _MAX_SEARCH_STEPS)
    if count > 1 and _rmse_per_rho(chosen.coefficients(steps)) > _MAX_ERROR_RATIO * _rmse_per_rho(
        square_root(steps, 1 << 20)
    ):
        alternatives = [
            _quadrature_buffers(count, end + shift, total) for shift in _END_SHIFTS if end + shift > _FIRST_LOGIT + 1
        ]
        chosen = min([chosen, *alternatives], key=lambda nodes: _rmse_per_rho(nodes.coefficients(steps)))
    if any(
        weight * ((1 << SHARE_BITS) - share) < 1 << SHARE_BITS
        or weight * _MAX_BUFFERED_VALUE << SHARE_BITS >= MAX_LIMBS_VALUE * ((1 << SHARE_BITS) - share)
        for share, weight in zip(chosen.shares, chosen.weights, strict=True)
    ):
        raise BadParameter(
            "These buffers are too fine for their scale.",
            "A floor must weigh less than what a buffer forgets, and a full buffer must fit into 100 bits.",
            "Take another scale, fewer buffers or a shorter horizon.",
        )
    return chosen


def _quadrature_buffers(count: int, end: float, total: int) -> Buffers:
    logits = [_FIRST_LOGIT + (end - _FIRST_LOGIT) * index / max(count - 1, 1) for index in range(count)]
    whole = 1 << SHARE_BITS
    shares = tuple(min(round(whole / (1 + exp(-index))), whole - 1) for index in logits)
    sizes = [exp(index / 2) / (1 + exp(index)) for index in logits]
    weights = [max(1, round(total * size / sum(sizes))) for size in sizes]
    weights[0] += total - sum(weights)  # the first coefficient is the scale, exactly
    return Buffers(shares, tuple(weights))


def _rmse_per_rho(coefficients: Integers) -> float:
    """Return the root mean squared error per √(2 rho)."""
    lengths = np.cumsum(decoding_of_sums(coefficients) ** 2)
    exact = np.asarray(coefficients, dtype=np.float64)
    return float((lengths.mean() * (exact @ exact)) ** 0.5)
