"""Add noise scaled to smooth sensitivity, which adapts to the data and stays secret."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import exp_minus_bounds
from sfumato.errors import BadParameter
from sfumato.exact import integer, rational
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.power_tail import MIN_SCALE, PowerTail
from sfumato.randomness.source import Source

_MAX_LOG_SLOPE = {2: Fraction(1), 4: Fraction(22_796, 10_000)}
"""Largest slope of the logarithm of 1/(1 + |z|^power): 1, and 3^(3/4) rounded up."""
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class SmoothNoise:
    """Add integer noise whose scale is proportional to the smooth sensitivity of the data.

    `power` 4 has a variance; 2 has a longer tail and a faster decay, so a smaller smooth sensitivity.
    Theorem: if `smooth` is at least the local sensitivity and differs by a factor of at most 1/`decay` between
    neighbours, then `release` is epsilon-DP [NRS07]. Neither `smooth` nor `margin` may be shown: both are secret.
    Proof: proofs/smooth_sensitivity.md, (8)

    >>> SmoothNoise(Fraction(1), Neighbours.REPLACE).decay < 1
    True
    """

    epsilon: Fraction
    neighbours: Neighbours
    power: int = 4

    def __post_init__(self) -> None:
        read_parameters(self)
        if self.power not in _MAX_LOG_SLOPE:
            raise BadParameter(
                f"power = {self.power} has no proof.", "The law is known for 2 and 4.", "Use 4, or 2 for longer tails."
            )

    @property
    def event(self) -> Pure:
        """Event of one release."""
        return Pure(self.epsilon, self.neighbours)

    @property
    def decay(self) -> Fraction:
        """Discount per changed unit in `smooth`: half of epsilon pays for the change of scale."""
        slowest = self.epsilon / 2 / (self.power - 1 + Fraction(1, 100))
        digits = _DIGITS
        while True:
            _, high = exp_minus_bounds(slowest, digits)
            if high < 1 << digits:
                return Fraction(high, 1 << digits)  # rounded up: a slower decay is safe
            digits *= 2  # a tiny epsilon: the decay is nearer to 1 than so few digits can tell

    def release(self, value: int, smooth: Fraction, source: Source) -> int:
        """Return the value with noise; the other half of epsilon pays for the move of the value."""
        return integer(value, "value", None) + self._law(smooth).draw_one(source)

    def margin(self, smooth: Fraction, confidence: Fraction) -> int:
        """Return the margin of the noise at this confidence, for the data owner."""
        return self._law(smooth).margin(confidence)

    def _law(self, smooth: Fraction) -> PowerTail:
        scale = 2 * _MAX_LOG_SLOPE[self.power] * rational(smooth, "smooth") / self.epsilon
        return PowerTail(max(Fraction(MIN_SCALE), scale), self.power)
