"""The cap of an account, the used part of it, and a bound on what the answers so far reveal."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss, percent_down, percent_up
from sfumato.errors import BadParameter, quote_value
from sfumato.policy.policy import Period

FILTER_USAGE_NOTE = (
    "`used` decides what can still be asked. `spent` bounds what all answers so far reveal together; with a delta it "
    "is not proportional to `used` (docs/budget.md)."
)
"""What a budget with a delta says of itself."""
_MAX_LISTED_COHORTS = 20


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap and how much of it is used. `used` decides what can still be asked."""

    total: PrivacyLoss
    spent: PrivacyLoss
    """A proven bound of everything answered so far: proofs/odometer.md"""
    remaining: PrivacyLoss
    used: Fraction
    """The share of the cap that is used, from 0 to 1, as the ledger counts it."""
    every: Period | None = None
    """How often this cap renews; then `spent`, `remaining` and `used` are of the window that is open."""
    renews: datetime | None = None
    """When the next window begins."""
    promise: str = ""
    """What holds for the people in the data, where no cap holds over all windows; empty elsewhere."""
    cohorts: Mapping[str, "Budget"] = field(default_factory=dict, hash=False)
    """The remaining budget of each cohort, if there are budgets by cohort; the other fields are of the fullest one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remaining", replace(self.remaining, left=True))

    def __str__(self) -> str:
        lines = [
            f"used       {percent_up(self.used)} of the budget",
            f"total      {self.total}",
            f"spent      {self.spent}",
            f"remaining  {self.remaining}",
        ]
        if self.every is not None and self.renews is not None:
            lines.insert(1, f"renews     {renewal_text(self)}")
        if self.promise:
            lines.append(self.promise)
        if self.cohorts:
            lines.append(cohorts_text(self.cohorts))
        if self.total.delta and self.used:
            lines.append(FILTER_USAGE_NOTE)
        return "\n".join(lines)


def budget_of_cohort(budget: Budget, cohort: object) -> Budget:
    """Return the budget of one cohort, or refuse a name that no cohort has."""
    if isinstance(cohort, str) and cohort in budget.cohorts:
        return budget.cohorts[cohort]
    raise BadParameter(
        f"{quote_value(cohort)} is not a cohort.",
        f"Cohorts of this account are: {', '.join(list(budget.cohorts)[:_MAX_LISTED_COHORTS]) or 'none'}.",
        "Use one of these names, or leave it out.",
    )


def cohorts_text(cohorts: Mapping[str, Budget]) -> str:
    """Return the share that each cohort has used, the fullest first; the numbers above are of that one."""
    listed = sorted(cohorts.items(), key=lambda entry: -entry[1].used)[:_MAX_LISTED_COHORTS]
    more = f"; {len(cohorts) - len(listed):,} more" if len(listed) < len(cohorts) else ""
    return "cohorts    " + "; ".join(f"{name} {percent_up(budget.used)}" for name, budget in listed) + more


def renewal_text(budget: Budget) -> str:
    """Return when a cap renews; empty where it does not."""
    if budget.every is None or budget.renews is None:
        return ""
    return f"every {budget.every}, next on {budget.renews:%Y-%m-%d} (UTC); nothing is carried over"


def used_text(budget: Budget) -> str:
    """Return what is used and spent in one line, the share first."""
    window = f" in this {budget.every}" if budget.every is not None else ""
    return f"{percent_up(budget.used)} of the budget used; spent at most {budget.spent}{window}"


def same_usage(before: Budget, after: Budget) -> bool:
    """Tell whether nothing was charged in between: both numbers grow with every charge."""
    return (before.used, before.spent) == (after.used, after.spent)


def left_share_text(budget: Budget) -> str:
    """Return the share that is left, never more than there is."""
    return f"{percent_down(1 - budget.used)} left"
