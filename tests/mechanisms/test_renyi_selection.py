"""Keys selected under Rényi losses: every divergence of a table in 60 digits, and no entry could be larger."""

from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log1p, nextafter
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.laws.divergence import real
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.accounting import rdp
from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Approximate, Neighbours, RenyiBounded, Repeated
from sfumato.accounting.filter import RENYI_UNITS, Filter
from sfumato.errors import BadParameter
from sfumato.mechanisms import renyi_selection
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import BITS, RenyiSelection

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
MILLIONTH, HALF = Fraction(1, 10**6), Fraction(1, 2)
SELECTIONS = (
    RenyiSelection(MILLIONTH, 1, (23,), (HALF,), ADD),
    RenyiSelection(MILLIONTH, 20, (23,), (HALF,), ADD),
    RenyiSelection(MILLIONTH, 100, (9, 26), (Fraction(1, 4), HALF), ADD),
    RenyiSelection(Fraction(1, 50), 2, (2,), (Fraction(2),), REPLACE),
    RenyiSelection(Fraction(1, 10**15), 3, (5, 64, 1000), (Fraction(1, 10), HALF, Fraction(3)), REPLACE),
)
each = pytest.mark.parametrize("selection", SELECTIONS, ids=str)


def losses(more: Any, less: Any, failing: Any, order: int) -> Any:
    """The Rényi loss of two coins that may fail with an outcome of their own, the larger of both directions."""
    if more - less <= failing:
        return mpf(0)
    one = ((more - failing) / (1 - failing), (1 - more) / (1 - failing))
    other = (less / (1 - failing), (1 - less - failing) / (1 - failing))
    if min(*one, *other) <= 0:
        return mp.inf
    ways = ((one, other), (other, one))
    return max(mp.log(mp.fsum(p**order * q ** (1 - order) for p, q in zip(*way, strict=True))) for way in ways) / (
        order - 1
    )


def rates(selection: RenyiSelection) -> list[Any]:
    """Keep probabilities up to the first that is 1, twice."""
    found = [selection.keep(0)]
    while found[-1] < 1:
        found.append(selection.keep(len(found)))
    return [real(rate) for rate in [*found, Fraction(1)]]


@each
def test_one_unit_more_costs_at_each_order_what_the_event_says_and_not_less(selection: RenyiSelection) -> None:
    core, delta = separate(selection.event)
    assert delta == selection.delta
    with mp.workdps(60):
        failing = real(selection.delta_per_key)
        assert 1 - (1 - failing) ** selection.touched <= real(selection.delta)
        for order, whole in zip(selection.orders, selection.losses, strict=True):
            allowed = real(Fraction(rdp.core_loss(core, Fraction(order))) / selection.touched)
            assert allowed <= real(whole / selection.touched)
            found = max(losses(more, less, failing, order) for less, more in pairwise(rates(selection)))
            assert allowed * (1 - mpf(10) ** -6) <= found <= allowed


@each
def test_no_ratio_exceeds_the_pure_loss_of_the_event(selection: RenyiSelection) -> None:
    decision = separate(selection.event)[0]
    decision = decision.event if isinstance(decision, Repeated) else decision
    assert isinstance(decision, RenyiBounded)
    with mp.workdps(60):
        failing = real(selection.delta_per_key)
        largest = max(
            max((more - failing) / less, (1 - less - failing) / (1 - more))
            for less, more in pairwise(rates(selection))
            if more - less > failing
        )
        assert real(decision.epsilon) * (1 - mpf(10) ** -9) <= mp.log(largest) <= real(decision.epsilon)


@each
def test_no_probability_could_be_raised_by_a_millionth_of_its_step(selection: RenyiSelection) -> None:
    with mp.workdps(60):
        failing = real(selection.delta_per_key)
        for less, more in pairwise(rates(selection)[1:-2]):
            raised = more + (more - less - failing) * mpf(10) ** -6 + mpf(2) ** -100
            assert raised >= 1 or any(
                losses(raised, less, failing, order) > real(whole / selection.touched)
                for order, whole in zip(selection.orders, selection.losses, strict=True)
            )


@each
def test_probabilities_start_at_delta_and_rise_to_certainty(selection: RenyiSelection) -> None:
    found = [selection.keep(units) for units in range(selection.units_for("0.999999") + 9)]
    assert found[0] == 0
    assert selection.delta_per_key - Fraction(1, 1 << BITS) < found[1] <= selection.delta_per_key
    assert found == sorted(found)
    assert selection.keep(10**9) == 1
    assert selection.units_for("0.95") == next(units for units, rate in enumerate(found) if rate >= Fraction(95, 100))


@pytest.mark.parametrize(
    ("epsilon", "groups", "most"), [("1", 3, 43), ("1", 20, 95), ("1", 100, 175), ("0.3", 20, 285)]
)
def test_the_filter_of_the_price_accepts_it_and_groups_are_smaller(epsilon: str, groups: int, most: int) -> None:
    price = Filter(Fraction(epsilon), MILLIONTH)
    assert price.order is not None
    assert price.capacity is not None
    loss = Fraction(price.capacity // groups * groups, RENYI_UNITS)
    selection = RenyiSelection(MILLIONTH / 2, groups, (price.order,), (loss,), ADD)
    assert price.accepts(selection.event)
    pure = OptimalSelection(Fraction(epsilon), MILLIONTH, groups, ADD)
    assert selection.units_for("0.95") == most < pure.units_for("0.95")


def test_a_delta_of_one_half_keeps_two_units_surely_and_costs_nothing_beside_it() -> None:
    selection = RenyiSelection(HALF, 1, (3,), (Fraction(1),), ADD)
    assert [selection.keep(units) for units in range(4)] == [0, HALF, 1, 1]
    assert rdp.loss(separate(selection.event)[0], 3) < 1e-15


def test_words_decide_exactly_at_the_seams() -> None:
    selection = SELECTIONS[1]
    units = selection.units_for("0.3")
    numerator = int(selection.keep(units) * (1 << BITS))

    def kept(word: int) -> bool:
        high, low = divmod(word, 1 << 64)
        source = ScriptedSource(high.to_bytes(8, "little") + low.to_bytes(8, "little"))
        return len(selection.release([units], source)) == 1

    assert [kept(word) for word in (0, numerator - 1, numerator, (1 << BITS) - 1)] == [True, True, False, False]
    assert [kept(word) for word in (numerator - (1 << 64), numerator + (1 << 64))] == [True, False]


def test_keys_are_released_as_often_as_said_with_error_rate_1e_6() -> None:
    selection, count = SELECTIONS[1], 40_000
    for units in (0, 1, selection.units_for("0.3"), selection.units_for("0.9"), 10**6):
        expected = float(selection.keep(units)) * count
        hits = len(selection.release(np.full(count, units), HashSource(units)))
        assert abs(hits - expected) <= 5 * max(1.0, expected * (1 - expected / count)) ** 0.5


def test_an_event_is_one_decision_per_key_and_a_source_that_ends_releases_nothing() -> None:
    event = SELECTIONS[1].event
    assert isinstance(event, Approximate)
    assert isinstance(event.event, Repeated)
    assert event.event.times == 20
    with pytest.raises(SourceDied):
        SELECTIONS[0].release([5, 6], ScriptedSource(bytes(16)))


@pytest.mark.parametrize(
    ("orders", "losses"),
    [((), ()), ((1,), (1,)), ((3, 2), (1, 1)), ((3, 3), (1, 1)), ((3,), (1, 1)), ((3,), (0,)), ((5000,), (1,))],
)
def test_orders_that_are_none_are_refused(orders: tuple[int, ...], losses: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter):
        RenyiSelection(MILLIONTH, 1, orders, tuple(map(Fraction, losses)), ADD)


@pytest.mark.parametrize(("delta", "loss"), [("1e-30", "1"), ("1e-6", "1e-12")])
def test_too_little_to_select_keys_is_refused(delta: str, loss: str) -> None:
    with pytest.raises(BadParameter):
        RenyiSelection(Fraction(delta), 2, (8,), (Fraction(loss),), ADD)


@each
def test_the_event_does_not_depend_on_the_last_digit_of_a_float(
    selection: RenyiSelection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grants and stored answers are found by it, on another machine, too, whose logarithms may be rounded otherwise."""
    event = selection.event
    monkeypatch.setattr(renyi_selection, "log1p", lambda value: nextafter(log1p(value), inf))
    monkeypatch.setattr(renyi_selection, "exp", lambda value: nextafter(exp(value), inf))
    monkeypatch.setattr(renyi_selection, "keep_table", renyi_selection.keep_table.__wrapped__)
    assert selection.event == event
