"""What the rest of a budget would still buy of a question that does not fit into it."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.event import Event
from sfumato.accounting.loss import round_down
from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import BudgetExhausted, Setting
from sfumato.planning.planner import Wish, make_plan
from sfumato.planning.quote import make_quote

_SHARES = (Fraction(1), Fraction(4, 5), Fraction(1, 2), Fraction(1, 5), Fraction(1, 20))
"""Shares of what a pure release may still cost; the noise of a question may be of another kind, and need less."""


def afforded(
    private: PrivateQuery, wish: Wish, refusal: BudgetExhausted, most: Fraction, fits: Callable[[Event], int]
) -> BudgetExhausted:
    """Say at which price the same question would still be answered, and how exactly; from plan and ledger alone."""
    for share in _SHARES:
        price = round_down(most * share, 2)
        if price == "0":
            break
        plan = make_plan(private, replace(wish, epsilon=Fraction(price), within=()))
        if plan.event is not None and fits(plan.event):
            said = ("What is left buys this question at ", Setting("epsilon", price), f"{make_quote(plan).bought()}.")
            return BudgetExhausted(refusal.what, refusal.why, (f"{refusal.remedy} ", *said))
    return refusal
