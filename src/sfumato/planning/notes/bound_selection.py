"""What an answer chooses by itself, and for which part of its price, in words."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from sfumato.accounting.loss import round_up
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement


def choosing_notes(plan: Plan) -> Iterator[str]:
    """Say what will be chosen, among what, and what that costs."""
    for group in plan.groups:
        if group.is_bound_selection:
            (one,) = group.measured
            price = round_up(price_of(group))
            yield (
                f"The answer chooses privately {_what(one)} among {_listed(one)}: ε = {price} of the price finds it, "
                "and the rest is spent on one measurement there. Its margin depends on the data."
            )


def chosen_note(one: PlannedMeasurement, price: Fraction, above: int | None) -> str:
    """Say what was chosen; `one` is a measurement whose level is known, `above` what was added for what lies above."""
    beyond = "What they have beyond is left out, and the interval holds without it; intervals(bias=True) includes it."
    if above is not None:
        beyond = (
            f"What they have beyond, about {_number(above * _step(one))} in all, is estimated by the same finding and "
            "added. The interval holds the number without it; intervals(bias=True) all that it may be."
        )
    return f"Chosen privately: one person {_level(one)}; ε = {round_up(price)} of the price found that. {beyond}"


def price_of(group: GroupPlan) -> Fraction:
    """Return what finding a level costs."""
    (one,) = group.measured
    return one.mechanism.sensitivity / one.mechanism.scale if isinstance(one.mechanism, Laplace) else Fraction(0)


def _what(one: PlannedMeasurement) -> str:
    return "how many rows of a person count" if _by_rows(one) else "how much a person adds at most to a sum"


def _level(one: PlannedMeasurement) -> str:
    amounts = () if one.candidates is None else one.candidates.thresholds
    amount = amounts[one.selected or 0] * _step(one)
    if _by_rows(one):
        return f"counts with at most {_number(amount)} row{'s' * (amount != 1)}"
    return f"adds at most {_number(amount)} to a sum"


def _listed(one: PlannedMeasurement) -> str:
    amounts: Sequence[int] = () if one.candidates is None else one.candidates.thresholds
    texts = [_number(amount * _step(one)) for amount in amounts]
    return ", ".join([*texts[:3], "…", texts[-1]] if len(texts) > 5 else texts)


def _by_rows(one: PlannedMeasurement) -> bool:
    return one.candidates is None or one.candidates.bounds_rows


def _step(one: PlannedMeasurement) -> Fraction:
    return Fraction(1) if _by_rows(one) else one.quantity.arguments[0].facts.step


def _number(amount: Fraction) -> str:
    return f"{float(amount):,.12g}"
