"""What an account may spend, has spent and has left."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sfumato.accounting.loss import PrivacyLoss

FILTER_USAGE_NOTE = (
    "The used share can be less than the sum of the prices: with a delta, several answers together reveal less "
    "than the sum of their prices (docs/accounting.md)."
)
"""What a budget with a delta says of itself: one answer at ε = 0.5 may take 0.4194 of it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap and how much of it is used, in the cap's own unit."""

    total: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss

    def __post_init__(self) -> None:
        object.__setattr__(self, "remaining", replace(self.remaining, left=True))

    @property
    def share(self) -> Fraction:
        """The share of the cap that is used, from 0 to 1."""
        return min(Fraction(1), self.spent.epsilon / self.total.epsilon) if self.total.epsilon else Fraction(1)

    def __str__(self) -> str:
        used = f"{ceil(100 * self.share)} % of the budget is used."
        if self.total.delta and self.share:
            used += f" {FILTER_USAGE_NOTE}"
        return f"total      {self.total}\nspent      {self.spent}\nremaining  {self.remaining}\n{used}"
