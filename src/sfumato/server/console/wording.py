"""Numbers, prices and sentences of the console, as people read them."""

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.accounting.loss import PrivacyLoss, percent_down, percent_up, round_up
from sfumato.ledger.approvals import BudgetRequest
from sfumato.ledger.ledger import Budget, Entry
from sfumato.planning.quote import AnswerSource, Quote
from sfumato.release.release import Release

Price = Mapping[str, object]


def loss_text(loss: PrivacyLoss) -> str:
    """Return a loss, rounded up."""
    delta = f", δ = {round_up(loss.delta)}" if loss.delta else ""
    return f"ε = {round_up(loss.epsilon)}{delta}"


def left_text(budget: Budget) -> str:
    """Return the share that is left and the bound of everything answered so far."""
    window = f" in this {budget.every}" if budget.every is not None else ""
    promise = f" · {budget.promise}" if budget.promise else ""
    fullest = f" in the fullest of {len(budget.cohorts)} cohorts" if budget.cohorts else ""
    left = f"{percent_down(1 - budget.used)} left{window}{fullest}"
    return f"{left} · spent at most ε {round_up(budget.spent.epsilon)}{promise}"


def percent(part: Fraction, whole: Fraction) -> float:
    """Return a part of a whole in percent, between 0 and 100."""
    return float(min(Fraction(100), max(Fraction(0), 100 * part / whole))) if whole else 0.0


def used_percent(budget: Budget) -> float:
    """Return how much of a budget is used, in percent."""
    return percent(budget.used, Fraction(1))


def price_text(quote: Quote) -> str:
    """Return what a question costs, and which share of the budget that is."""
    if quote.loss_if_new is not None:
        day = f"your answer of {quote.answered}" if quote.answered else "an earlier answer"
        return f"free: from {day} (new, it would cost {loss_text(quote.loss_if_new)})"
    if not quote.loss.epsilon:
        return "free: from earlier answers" if quote.source is AnswerSource.KNOWN else "free"
    if quote.share is None or quote.used_after is None:
        return f"costs {loss_text(quote.loss)}"
    after = f"{percent_up(quote.used_after)} used after it" if quote.used_after <= 1 else "it does not fit"
    return f"costs {percent_up(quote.share)} of the budget ({loss_text(quote.loss)}); {after}"


def column_facts(column: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """Return the type, bounds, step and keys of a column on one line."""
    facts = [column["type"]]
    unit = table.get("unit")
    if column["name"] == unit:
        facts.append("names the person")
    elif isinstance(unit, list) and column["name"] in [words.rpartition(": ")[2] for words in unit]:
        facts.append("names one of the two people of a row")
    if "bounds" in column:
        facts.append("{} to {}".format(*column["bounds"]))
    if "step" in column:
        facts.append(f"steps of {column['step']}")
    values = column.get("values", [])
    if isinstance(values, str):
        facts.append(f"keys of {values}")
    elif "values" in column:
        facts.append(", ".join(map(str, values[:6])) + (f" and {len(values) - 6} more" if len(values) > 6 else ""))
    return " · ".join(facts)


def margins_text(quote: Quote) -> str:
    """Return the expected ± of every noisy column.

    >>> from sfumato.accounting.loss import PrivacyLoss
    >>> margins_text(Quote(PrivacyLoss(Fraction(1)), {"n": 24, "mean": None}, {}, ()))
    'n ± 24 · mean ± depends on the data'
    """
    words = []
    for name, margin in quote.margins.items():
        words.append(f"{name} ± {'depends on the data' if margin is None else number_text(margin)}")
    return " · ".join(words)


def number_text(value: float) -> str:
    """Return a number with as many digits as one reads.

    >>> number_text(1234567), number_text(0.01234), number_text(3.0)
    ('1,234,567', '0.0123', '3')
    """
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def requested_price(entry: Entry) -> Price:
    """Return the price that a charged question was asked at, as the form takes it."""
    try:
        kept = json.loads(entry.release or "{}").get("wish") or {}
    except (ValueError, AttributeError):
        kept = {}
    found = {key: kept[key] for key in ("epsilon", "within") if kept.get(key)}
    if kept.get("share"):
        found = {"share": percent_text(Fraction(kept["share"]))}
    return found or {"epsilon": str(entry.loss.epsilon)}


def request_fields(request: BudgetRequest) -> dict[str, str]:
    """Return the fields of the editor's form that ask the question of a request at its price."""
    within = request.price.get("within")
    if isinstance(within, dict) and within:
        column, margin = next(iter(within.items()))
        return {"by": "margin", "margin": str(margin), "column": str(column)}
    return {"by": "epsilon", "epsilon": str(request.price.get("epsilon", ""))}


def requested_text(request: BudgetRequest) -> str:
    """Return the price that a request names, while its cost is not known."""
    fields = request_fields(request)
    return f"at most ε {fields['epsilon']}" if "epsilon" in fields else f"within ±{fields['margin']}"


def percent_text(part: Fraction) -> str:
    """Return a share as a percentage where that is short, else as the fraction that it is.

    >>> percent_text(Fraction(1, 50)), percent_text(Fraction(1, 3))
    ('2%', '1/3')
    """
    percent = Decimal(100 * part.numerator) / Decimal(part.denominator)
    return f"{percent.normalize():f}%" if len(percent.normalize().as_tuple().digits) < 10 else str(part)


def price_code(price: Price) -> str:
    """Return a price as Python writes it.

    >>> price_code({"within": {"n": "25"}})
    ", within={'n': '25'}"
    """
    return "".join(f", {name}={value!r}" for name, value in price.items())


def python_line(url: str, sql: str, price: Price) -> str:
    """Return the line of Python that asks the same."""
    return f"sfumato.connect({url!r}, token=TOKEN).ask({sql!r}{price_code(price)})"


def citation(name: str, sql: str, release: Release, day: str) -> str:
    """Return how an answer is cited: what, under which promise, and where it is written down."""
    receipt = release.receipt
    question = " ".join(sql.split())
    if release.event is None:
        return f"{name}, answered on {day}: {question}. Exact, from public tables. sfumato."
    if receipt.sequence is None:
        return (
            f"{name}, answered on {day}: {question}. Differentially private, computed from the answers with the "
            f"receipts {', '.join(receipt.rests_on)}; intervals at 95 %. sfumato."
        )
    return (
        f"{name}, answered on {day}: {question}. Differentially private, {loss_text(release.loss)}; intervals at 95 %. "
        f"Receipt {receipt.id}, ledger entry {receipt.sequence} ({(receipt.head or '')[:16]}), "
        f"policy {receipt.policy[:16]}, data version {receipt.version[:16]}. sfumato."
    )
