"""Integer noise with a heavy tail, exactly: P[Z = z] proportional to 1 / (scale^power + |z|^power), power 2 or 4.

A change of the scale by a factor changes every probability by a bounded factor: that is what noise needs whose scale
depends on the data. A block of integers is drawn by halving, an integer of it, and a coin keeps it or begins again.
Proof: proofs/power_tail.md
"""

from dataclasses import dataclass
from fractions import Fraction
from math import atan, ceil, log, pi, sqrt, tan

from sfumato.errors import BadParameter
from sfumato.exact import probability, rational
from sfumato.randomness.bernoulli import Bernoulli, Rational
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, broken_source, read_exactly
from sfumato.randomness.uniform import UniformInteger, fair_signs

MIN_SCALE = 2
"""Below it, the sum of the weights is no longer near to its integral, and the bounds on ratios would not hold."""
_BLOCK_WEIGHT_FACTOR = {2: 8, 4: 16}
"""What makes the coin's probability at most 1 in every block. Proof: proofs/power_tail.md, (1)"""
_MAX_COMPARED_BITS = 24_000
_SUM_ERROR_FACTOR = 1.0005
"""The sum of the weights is at least the integral over this. Proof: proofs/power_tail.md, (2)"""


@dataclass(frozen=True, slots=True)
class PowerTail:
    """P[Z = z] proportional to 1 / (scale^power + |z|^power) on all integers. Proof: proofs/power_tail.md."""

    scale: Fraction
    power: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", rational(self.scale, "scale"))
        if self.scale < MIN_SCALE or self.power not in _BLOCK_WEIGHT_FACTOR:
            raise BadParameter(
                "The law has a scale of at least 2 and the power 2 or 4.",
                "What is proved about it holds for these.",
                "Use a finer grid, so that the scale has more steps.",
            )

    def draw_one(self, source: Source) -> int:
        """Draw one sample. How long it takes varies with the scale by less than a factor of 2."""
        base, width = self.scale**self.power, ceil(self.scale)
        for _ in range(_MAX_COMPARED_BITS):
            block = _leading_zeros(source)
            inside = int(UniformInteger(width << block).draw(1, source)[0])
            sign = int(fair_signs(1, source)[0])
            reach = width * ((1 << block) - 1) + inside
            kept = Fraction(4 ** (block + 1), _BLOCK_WEIGHT_FACTOR[self.power]) * base / (base + reach**self.power)
            if Bernoulli(Rational(kept)).draw(1, source)[0] and (reach or sign > 0):  # zero has one sign
                return sign * reach
        raise broken_source()

    def margin(self, confidence: Fraction) -> int:
        """Return a t with P[|Z| <= t] >= confidence, near the smallest one."""
        missed = float(1 - probability(confidence, "confidence")) / _SUM_ERROR_FACTOR
        scale = float(self.scale)
        guess = scale / tan(pi * missed / 2) if self.power == 2 else scale * (sqrt(8) / (3 * pi * missed)) ** (1 / 3)
        return smallest_covering(lambda reach: self._tail_share(reach / scale) <= missed, guess)

    def _tail_share(self, t: float) -> float:
        """Return the share of the real law outside ±t, in scales."""
        if self.power == 2:
            return 1 - 2 * atan(t) / pi
        if t > 100:  # the closed form cancels; 1/z^4 is more than 1/(1 + z^4)
            return sqrt(8) / (3 * pi * t**3)
        root = sqrt(2)
        angles = atan(root * t + 1) + atan(root * t - 1)
        inside = log((t * t + root * t + 1) / (t * t - root * t + 1)) / 2 + angles
        return 1 - inside / pi


def _leading_zeros(source: Source) -> int:
    """Return how many fair bits are 0 before the first 1."""
    for octets in range(_MAX_COMPARED_BITS // 8):
        octet = read_exactly(source, 1)[0]
        if octet:
            return 8 * octets + 8 - octet.bit_length()
    raise broken_source()
