"""Smaller integer Laplace noise given larger noise, exactly: both together reveal what the smaller one does.

With q = e^(-1/scale) the law of the larger noise is that of the smaller plus an independent W, which is 0 with
probability w and else Laplace noise of the larger scale. So the smaller noise is drawn given their sum.
Proof: proofs/refinement.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.certified.enclosure import Enclosure, enclose
from sfumato.errors import BadParameter
from sfumato.exact import positive_rational
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.source import Source, broken_source, read_exactly
from sfumato.randomness.uniform import Integers

_FIRST_BITS = 96
"""Bits of the first uniform number; more are read where its place is not decided, once in 2^60 draws."""
_MAX_BITS = 1 << 14


@dataclass(frozen=True, slots=True)
class RefinedLaplace:
    """The law of Laplace noise of `scale`, given that this noise and an independent W are noise of scale `before`."""

    before: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        for name in ("before", "scale"):
            object.__setattr__(self, name, positive_rational(getattr(self, name), name))
        if self.scale >= self.before:
            raise BadParameter(
                f"scale = {self.scale} is not below before = {self.before}.",
                "Noise is refined to smaller noise.",
                "Give a smaller scale.",
            )

    def draw(self, larger: Integers, source: Source) -> Integers:
        """Draw for each larger noise the smaller one."""
        count = len(larger)
        # all parts are drawn for every number, so that the work does not depend on the noise
        tails = Geometric(1 / (1 / self.scale + 1 / self.before)).draw(count, source)
        steps = Geometric(1 / (1 / self.scale - 1 / self.before)).draw(count, source)
        found = []
        for noise, tail, step in zip(larger.tolist(), tails.tolist(), steps.tolist(), strict=True):
            reach, sign = abs(int(noise)), -1 if noise < 0 else 1
            part = _choose(self._thresholds(reach), source)
            values = (reach, -1 - int(tail), int(step) % (reach + 1), reach + 1 + int(tail))
            found.append(sign * values[part])
        return np.array(found, dtype=larger.dtype)

    def pmf(self, value: int, larger: int, digits: int) -> Enclosure:
        """Enclose the probability of a value given the larger noise: for tests."""
        reach, at = abs(larger), value if larger >= 0 else -value
        parts = _parts(self.before, self.scale, reach, digits)
        total = parts[0] + parts[1] + parts[2] + parts[3]
        ratio = (enclose(-(1 / self.scale - 1 / self.before), digits)).exp()
        product = (enclose(-(1 / self.scale + 1 / self.before), digits)).exp()
        one = enclose(1, digits)
        if at < 0:
            mass = parts[1] * _power(product, -at - 1, one) * (one - product)
        elif at <= reach:
            mass = parts[2] * _power(ratio, at, one) * (one - ratio) / (one - _power(ratio, reach + 1, one))
        else:
            mass = parts[3] * _power(product, at - reach - 1, one) * (one - product)
        return (mass + parts[0] if at == reach else mass) / total

    def _thresholds(self, reach: int) -> Callable[[int], tuple[Enclosure, ...]]:
        return lambda digits: _thresholds(self.before, self.scale, reach, digits)


def _power(base: Enclosure, exponent: int, one: Enclosure) -> Enclosure:
    found = one
    for _ in range(exponent):
        found = found * base
    return found


def _parts(before: Fraction, scale: Fraction, reach: int, digits: int) -> tuple[Enclosure, ...]:
    """Enclose the weights of four cases: W = 0, and with W ≠ 0 the smaller noise below 0, up to `reach`, and beyond.

    All are divided by P[smaller = 0] · q^reach, q of the larger noise.
    """
    one = enclose(1, digits)
    q, p = enclose(-1 / before, digits).exp(), enclose(-1 / scale, digits).exp()
    ratio, product = (
        enclose(-(1 / scale - 1 / before), digits).exp(),
        enclose(-(1 / scale + 1 / before), digits).exp(),
    )
    at_reach = enclose(-reach * (1 / scale - 1 / before), digits).exp()
    stays = (one - q) * (one - q) / ((one - p) * (one - p)) * ratio
    moves = (one - stays) * (one - q) / (one + q)
    outer = product / (one - product)
    inner = (one - at_reach * ratio) / (one - ratio)
    return stays * at_reach, moves * outer, moves * inner, moves * outer * at_reach


def _thresholds(before: Fraction, scale: Fraction, reach: int, digits: int) -> tuple[Enclosure, ...]:
    first, second, third, fourth = _parts(before, scale, reach, digits)
    total = first + second + third + fourth
    return first / total, (first + second) / total, (first + second + third) / total


def _choose(thresholds: Callable[[int], tuple[Enclosure, ...]], source: Source) -> int:
    """Return in which of the parts between thresholds a uniform number lies: exactly, by as many bits as it takes."""
    bits = _FIRST_BITS
    number = int.from_bytes(read_exactly(source, bits // 8), "big")
    while bits <= _MAX_BITS:
        low, high = Fraction(number, 1 << bits), Fraction(number + 1, 1 << bits)
        ends = [(Fraction(threshold.low), Fraction(threshold.high)) for threshold in thresholds(bits // 2)]
        below = [high <= least for least, _ in ends]
        above = [low >= most for _, most in ends]
        if all(first or other for first, other in zip(below, above, strict=True)):
            return above.count(True)
        number = number << bits | int.from_bytes(read_exactly(source, bits // 8), "big")
        bits *= 2
    raise broken_source()
