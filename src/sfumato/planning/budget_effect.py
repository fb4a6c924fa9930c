"""What a charge would do to the budget of an account."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss, percent_up


@dataclass(frozen=True, slots=True)
class BudgetEffect:
    """What a charge would do to an account, as its ledger counts it now. None stands for an unbounded loss."""

    share: Fraction | None
    used: Fraction | None
    spent: PrivacyLoss | None

    def __str__(self) -> str:
        if self.share is None or self.used is None or self.spent is None:
            return "share: its share of the budget has no bound"
        fits = "" if self.used <= 1 else "; it does not fit"
        taken = f"{percent_up(self.share)} of the budget"
        return f"share: {taken}; after it {percent_up(self.used)} used, spent at most {self.spent}{fits}"
