"""The public grid of a column: which integers its values become."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import BadParameter
from sfumato.exact import positive_rational, rational


@dataclass(frozen=True, slots=True)
class Grid:
    """The integers that stand for values in [low, high] at multiples of `step`."""

    low: Fraction
    high: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", rational(self.low, "low"))
        object.__setattr__(self, "high", rational(self.high, "high"))
        object.__setattr__(self, "step", positive_rational(self.step, "step"))
        if self.low > self.high:
            raise BadParameter(
                f"low = {self.low} is above high = {self.high}.",
                "The lower bound must not be above the upper one.",
                "Give low ≤ high, in this order.",
            )

    @property
    def least(self) -> int:
        """The integer that `low` becomes."""
        return round(self.low / self.step)

    @property
    def greatest(self) -> int:
        """The integer that `high` becomes."""
        return round(self.high / self.step)
