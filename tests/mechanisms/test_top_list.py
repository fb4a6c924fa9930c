"""Top lists: the span of a choice, what is shown, and how often; laws of whole lists are in tests/laws/top_lists.py."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from tests.laws.divergence import real
from tests.laws.top_lists import chosen_law, made
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.accounting.zcdp import rho
from sfumato.errors import BadParameter
from sfumato.mechanisms.top_list import TopList

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def told(mechanism: TopList, counts: tuple[int, ...], common: set[int], empty: int) -> dict[object, mp.mpf]:
    """The law of one choice where empty keys and those that only one database has look alike."""
    weights = {key: mp.exp(real(mechanism.rate * count)) for key, count in enumerate(counts) if count}
    total = mp.fsum(weights.values()) + empty
    law = {key: weight / total for key, weight in weights.items() if key in common}
    return law | {None: 1 - mp.fsum(law.values())}


def span(mechanism: TopList, one: tuple[int, ...], other: tuple[int, ...], empty: int) -> mp.mpf:
    with mp.workdps(40):
        common = {key for key, pair in enumerate(zip(one, other, strict=True)) if all(pair)}
        first, second = (told(mechanism, counts, common, empty) for counts in (one, other))
        ratios = [mp.log(first[outcome] / second[outcome]) for outcome in first]
        return max(ratios) - min(ratios)


@pytest.mark.parametrize("relation", Neighbours)
def test_one_choice_among_keys_nobody_declared_has_the_range_it_is_charged_for(relation: Neighbours) -> None:
    mechanism, _ = made(1, 3, relation, Fraction(1, 100))
    people = list(product((0, 1), repeat=3))
    spans = []
    for base in [(0, 0, 0), (0, 0, 5), (0, 1, 5), (1, 5, 5), (5, 5, 5)]:
        with_one = [tuple(n + more for n, more in zip(base, joins, strict=True)) for joins in people]
        sides = [base] if relation is ADD else with_one
        spans += [span(mechanism, one, two, mechanism.empty) for one in sides for two in with_one]
    exact = real(mechanism.epsilon)
    assert exact * mp.mpf("0.9") <= max(spans) <= exact * mp.mpf("1.000001")
    # with half as many empty keys it would not hold: here a key stays, or loses somebody, and three come
    pair = ((5, 0, 0, 0), (5, 1, 1, 1)) if relation is ADD else ((6, 0, 0, 0), (5, 1, 1, 1))
    assert span(mechanism, *pair, mechanism.empty // 2) > exact * mp.mpf("1.2")


def test_the_price_does_not_grow_with_the_keys_of_one_person() -> None:
    few, many = (replace(made(3, 3, ADD, None)[0], groups_per_unit=groups) for groups in (3, 3000))
    assert few.event == many.event
    assert pure_epsilon(many.event) == Fraction(3, 2) + 3
    assert rho(many.choices_event) == pytest.approx(3 * 0.5**2 / 8)


def test_samples_follow_the_exact_law_of_choices() -> None:
    """False alarms: below 1e-6 (two-sided, five standard deviations, four lists)."""
    mechanism, _ = made(2, 3, ADD, Fraction(1, 100))
    counts, rounds, source = (3, 9, 14), 500, HashSource("top lists")
    found = [tuple(mechanism._choose_keys(np.array(counts), source)) for _ in range(rounds)]
    for picked, chance in sorted(chosen_law(mechanism, counts).items(), key=lambda pair: -pair[1])[:4]:
        share, wanted = found.count(picked) / rounds, float(chance)
        assert abs(share - wanted) < 5 * (wanted * (1 - wanted) / rounds) ** 0.5


def test_a_public_list_has_exactly_as_many_keys_as_were_asked_for() -> None:
    mechanism, _ = made(2, 3, ADD, None)
    shown = mechanism.release([0, 0, 0, 7], HashSource("public"))
    assert len(set(shown.places.tolist())) == len(shown.counts) == 2
    assert sorted(mechanism.release([4, 5], HashSource("few")).places.tolist()) == [0, 1]


def test_absent_keys_are_never_shown_and_large_ones_nearly_always() -> None:
    mechanism, _ = made(3, 50, ADD, Fraction(1, 10**9))
    needed = mechanism.units_for("0.95")
    source, rounds = HashSource("shown"), 100
    hits = 0
    for _ in range(rounds):
        places = mechanism.release([0, needed, 0, 1], source).places.tolist()
        assert 0 not in places
        assert 2 not in places
        hits += 1 in places
    assert hits / rounds > 0.95 - 3 * (0.05 * 0.95 / rounds) ** 0.5


@pytest.mark.parametrize("wrong", [{"chosen": 0}, {"epsilon": 0}, {"groups_per_unit": 0}, {"threshold": 1}])
def test_impossible_lists_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        replace(made(1, 1, ADD, None)[0], **wrong)
