"""A quote says what the plan does: its margins are the mechanism's own, and it tells what bounding removes."""

from fractions import Fraction

import pytest
from tests.planning.clinic_groups import AGE, COST, PUBLIC_DEPT, SECRET_DEPT, asked, group_of, price, private_of

from sfumato.analysis.private_query import PrivateQuery
from sfumato.errors import BadParameter
from sfumato.language.facts import Facts, Kind
from sfumato.language.numbers import shifted
from sfumato.language.rel_nodes import FilterNode, Item, ProjectNode
from sfumato.language.scalar import column
from sfumato.planning.planner import make_plan
from sfumato.planning.quote import for_household, make_quote
from sfumato.query.types import Type

VISITS = private_of(group_of(asked("count"), asked("sum", COST), asked("avg", AGE), keys=(PUBLIC_DEPT,)))


def test_margins_of_counts_and_sums_are_the_mechanisms_own() -> None:
    plan = make_plan(VISITS, price(1))
    count, total = plan.groups[0].measured[:2]
    quote = make_quote(plan)
    assert quote.margins["a1"] == count.mechanism.margin(Fraction(95, 100))
    assert isinstance(quote.margins["a1"], int)
    assert quote.margins["a2"] == float(total.mechanism.margin(Fraction(95, 100)) * Fraction(1, 100))
    assert quote.margins["a3"] is None
    assert "dept" not in quote.margins
    assert quote.loss == plan.loss


def test_mechanisms_are_told_in_words() -> None:
    quote = make_quote(make_plan(private_of(group_of(asked("count"), rows=4)), price("0.1")))
    assert quote.mechanisms == {"a1": "discrete Laplace, scale 40"}
    quote = make_quote(make_plan(VISITS, price(1)))
    assert quote.mechanisms["dept"] == "public keys"
    assert quote.mechanisms["a3"].endswith("(2 measurements)")
    assert "±" in str(quote)
    assert "depends on the data" in str(quote)


def test_notes_tell_what_bounding_may_have_removed() -> None:
    notes = make_quote(make_plan(VISITS, price(1))).notes
    sentence = "Each person contributes at most 20 rows in at most 3 groups; extra rows are dropped."
    assert any(note.startswith(sentence) for note in notes)
    assert "Values of `cost` are clipped to 0 to 5000." in notes


def test_selected_keys_are_told_with_the_size_that_appears() -> None:
    for groups, counted in ((1, "people"), (20, "rows")):
        plan = make_plan(private_of(group_of(asked("count"), keys=(SECRET_DEPT,), groups=groups)), price(1, "1e-6"))
        selection = plan.groups[0].selection
        assert selection is not None
        quote = make_quote(plan)
        assert quote.mechanisms["dept"] == "keys selected privately"
        assert any(f"{selection.units_for('0.95'):,} {counted}" in note for note in quote.notes)


def test_what_is_computed_from_a_count_has_no_fixed_margin_and_what_is_renamed_has() -> None:
    truth = column("group", "a1", Facts(Type.BOOLEAN, Kind.BOOLEAN))
    whole = Facts(Type.INTEGER, Kind.INTEGER, low=-(1 << 40), high=1 << 40)
    renamed = ProjectNode(FilterNode(VISITS.outcome.source, truth), "inner", (Item("n", column("group", "a1", whole)),))
    shown = column("inner", "n", whole)
    outcome = ProjectNode(renamed, "answer", (Item("n", shown), Item("more", shifted(shown, 1))))
    plan = make_plan(PrivateQuery(VISITS.groups, outcome, ("n", "more"), VISITS.neighbours), price(1))
    quote = make_quote(plan)
    assert quote.margins["n"] == plan.groups[0].measured[0].mechanism.margin(Fraction(95, 100))
    assert quote.margins["more"] is None
    assert quote.mechanisms["n"] == quote.mechanisms["more"]


def test_a_household_loses_as_often_as_much_as_it_has_people() -> None:
    quote = make_quote(make_plan(private_of(group_of(asked("count"), rows=4)), price("0.1")))
    assert for_household(quote, None) is quote
    first, *others = for_household(quote, 4).notes
    assert first == "A household of 4 loses ε = 0.4, δ = 0 together; each person in it loses ε = 0.1, δ = 0."
    assert tuple(others) == quote.notes
    for wrong in (0, 1001, "four", 2.5, 10**400):
        with pytest.raises(BadParameter) as refused:
            for_household(quote, wrong)
        assert len(str(refused.value)) < 200
