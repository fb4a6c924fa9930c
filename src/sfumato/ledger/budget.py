"""What an account may spend, how much of it is used, and what the answers so far reveal at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.accounting.event import Event
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss, percent_down, percent_up
from sfumato.errors import BadParameter
from sfumato.planning.budget_effect import BudgetEffect

FILTER_USAGE_NOTE = (
    "`used` decides what can still be asked. `spent` bounds what all answers so far reveal together; with a delta it "
    "is not proportional to `used` (docs/budget.md)."
)
"""What a budget with a delta says of itself."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap and how much of it is used. `used` decides what can still be asked."""

    total: PrivacyLoss
    spent: PrivacyLoss
    """A proven bound of everything answered so far: proofs/odometer.md"""
    remaining: PrivacyLoss
    used: Fraction
    """The share of the cap that is used, from 0 to 1, as the ledger counts it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remaining", replace(self.remaining, left=True))

    def __str__(self) -> str:
        lines = [
            f"used       {percent_up(self.used)} of the budget",
            f"total      {self.total}",
            f"spent      {self.spent}",
            f"remaining  {self.remaining}",
        ]
        if self.total.delta and self.used:
            lines.append(FILTER_USAGE_NOTE)
        return "\n".join(lines)


def budget_of(cap: Filter, dataset: Filter, granted: bool = False) -> Budget:
    """Return the budget of an account, whose charges are charged to the dataset, too.

    Charges that a grant paid for (`granted`) are in the dataset's sums alone, so its bound is the one that holds.
    """
    spent = dataset.spent if granted else smaller_loss(cap.spent, dataset.spent)  # proofs/approvals.md, 7
    return Budget(cap.total, spent, cap.remaining, min(Fraction(1), cap.used))


def smaller_loss(own: PrivacyLoss, dataset: PrivacyLoss) -> PrivacyLoss:
    """Return the smaller bound of what an analyst has seen: of the own charges, or of everybody's."""
    return min(own, dataset, key=lambda loss: loss.epsilon)  # proofs/odometer.md, 5


def effect_on(cap: Filter, dataset: Filter, event: Event | None, granted: bool = False) -> BudgetEffect:
    """Return what a charge would do to an account; None is an answer that costs nothing."""
    bounds = (dataset,) if granted else (cap, dataset)  # proofs/odometer.md, 5, and proofs/approvals.md, 7
    if event is None:
        spent = min((bound.spent for bound in bounds), key=lambda loss: loss.epsilon)
        return BudgetEffect(Fraction(0), min(Fraction(1), cap.used), spent)
    used = cap.used_after(event)
    after = [loss for bound in bounds if (loss := bound.spent_after(event)) is not None]
    return BudgetEffect(
        None if used is None else used - cap.used, used, min(after, key=lambda loss: loss.epsilon, default=None)
    )


def tightest(caps: Sequence[Filter]) -> Filter:
    """Return the cap with the least left: it decides what can still be asked."""
    return min(caps, key=lambda cap: (cap.epsilon * (1 - cap.used), cap.remaining.delta))


def used_text(budget: Budget) -> str:
    """Return what is used and spent in one line, the share first."""
    return f"{percent_up(budget.used)} of the budget used; spent at most {budget.spent}"


def same_usage(before: Budget, after: Budget) -> bool:
    """Tell whether nothing was charged in between: both numbers grow with every charge."""
    return (before.used, before.spent) == (after.used, after.spent)


def left_share_text(budget: Budget) -> str:
    """Return the share that is left, never more than there is."""
    return f"{percent_down(1 - budget.used)} left"


def existing_account(accounts: Mapping[str, Filter], name: str) -> Filter:
    """Return the filter of an account, or refuse a name that the policy does not have."""
    if name in accounts:
        return accounts[name]
    raise BadParameter("This account does not exist.", "The policy names no such analyst.", "Use one that it names.")
