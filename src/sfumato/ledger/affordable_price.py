"""What the rest of a budget would buy of a question that it does not pay for as it was asked."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import floor

from sfumato.accounting.loss import round_down
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import BudgetExhausted, Refusal, Setting
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.ledger import Ledger
from sfumato.planning.budget_share import choose_plan
from sfumato.planning.planner import PriceTarget, make_plans
from sfumato.planning.quote import make_quote

_SHARES = (Fraction(1), Fraction(4, 5), Fraction(1, 2), Fraction(1, 5), Fraction(1, 20))
"""At which shares of what a pure release may still cost a question is tried, whose noise may be of another kind."""


def afforded(
    ledger: Ledger,
    account: str,
    private: PrivateQuery,
    target: PriceTarget,
    refusal: BudgetExhausted,
    paying: PayingCohorts | None = None,
) -> BudgetExhausted:
    """Say at which price the same question would still be answered, and how exactly; from plan and ledger alone."""
    if target.share is not None:
        return _affordable_share(ledger, account, private, target, refusal, paying)
    for share in _SHARES:
        price = round_down(ledger.affords(account, paying) * share, 2)
        if price == "0":
            break
        try:
            plans = make_plans(private, replace(target, epsilon=Fraction(price), within=()))
        except Refusal:  # more is left than this question can be given
            continue
        own, dataset = ledger.account(account, paying), ledger.account(paying=paying)
        plan = choose_plan(plans, own, None, epsilon=Fraction(price), dataset=dataset)
        if plan.event is not None and ledger.count_affordable(plan.event, account, paying):
            bought = make_quote(plan).bought()
            said = ("What is left buys this question at ", Setting("epsilon", price), f"{bought}.")
            return BudgetExhausted(refusal.what, refusal.why, (f"{refusal.remedy} ", *said))
    return refusal


def _affordable_share(
    ledger: Ledger,
    account: str,
    private: PrivateQuery,
    target: PriceTarget,
    refusal: BudgetExhausted,
    paying: PayingCohorts | None,
) -> BudgetExhausted:
    """Say which share would still be answered."""
    now, dataset = ledger.account(account, paying), ledger.account(paying=paying)
    for part in _SHARES:
        left = floor((1 - now.used) * part * 1000)
        if target.share is None or left <= 0:
            break
        smaller = replace(target, share=replace(target.share, fraction=Fraction(left, 1000)))
        plan = choose_plan(make_plans(private, smaller), now, Fraction(left, 1000), dataset=dataset)
        if plan.event is not None and ledger.count_affordable(plan.event, account, paying):
            share = Setting("share", f"{Decimal(left) / 10:f}%")
            said = ("What is left buys this question at ", share, f"{make_quote(plan).bought()}.")
            return BudgetExhausted(refusal.what, refusal.why, (f"{refusal.remedy} ", *said))
    return refusal
