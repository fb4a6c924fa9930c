"""The exponential mechanism: bounded range, its price in both cases, and its accuracy theorem."""

from fractions import Fraction
from typing import Any

import pytest
from mpmath import exp, log, mpf, workdps
from tests.laws.case import Case
from tests.laws.choosing import CASES, breaks, exponential_law, real
from tests.sources import HashSource

from sfumato.accounting.event import BoundedRange, Neighbours
from sfumato.errors import Refusal
from sfumato.mechanisms.exponential import Exponential

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
MINE = [case for case in CASES if isinstance(case.mechanism, Exponential)]
CONFIDENCES = (Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999999, 1000000))


@pytest.mark.parametrize("case", MINE, ids=str)
def test_log_ratios_between_neighbours_span_at_most_the_epsilon_of_the_event(case: Case) -> None:
    spans = []
    with workdps(60):
        for left, right in case.pairs:
            one, other = case.law(left), case.law(right)
            losses = [log(one[place] / other[place]) for place in one]
            spans.append(max(losses) - min(losses))
        assert max(spans) <= real(case.mechanism.event.epsilon) + mpf(10) ** -40
        assert max(spans) >= real(case.mechanism.event.epsilon) - mpf(10) ** -40  # the bound is attained


@pytest.mark.parametrize("case", MINE, ids=str)
def test_the_price_cannot_be_nine_tenths_of_what_is_charged(case: Case) -> None:
    assert not breaks(case, case.epsilon)
    assert breaks(case, case.epsilon * Fraction(9, 10))


def test_scores_that_move_both_ways_break_the_price_of_monotone_ones() -> None:
    mechanism = Exponential(2, Fraction(1), ADD, monotone=True)
    pairs = (((0, 60), (2, 58)),)
    case = Case("misused", mechanism, pairs, lambda scores: exponential_law(scores, mechanism.rate), Fraction(1))
    assert breaks(case, Fraction(19, 10))
    assert not breaks(case, Fraction(2))


@pytest.mark.parametrize("confidence", CONFIDENCES, ids=str)
@pytest.mark.parametrize("candidates", [2, 3, 1000, 10**12])
def test_the_margin_is_the_smallest_that_covers_the_worst_scores(candidates: int, confidence: Fraction) -> None:
    mechanism = Exponential(3, Fraction(2, 5), REPLACE)
    margin = mechanism.margin(confidence, candidates)

    def covered(reach: int) -> Any:  # one best, all others just beyond reach
        return 1 / (1 + (candidates - 1) * exp(-real(mechanism.rate * (reach + 1))))

    with workdps(60):
        assert covered(margin) >= real(confidence)
        assert margin == 0 or covered(margin - 1) < real(confidence)


def test_the_event_carries_epsilon_also_in_the_monotone_case() -> None:
    for monotone in (False, True):
        assert Exponential(4, Fraction(1, 3), ADD, monotone).event == BoundedRange(Fraction(1, 3), ADD)
    assert Exponential(4, Fraction(1, 3), ADD).rate == Fraction(1, 24)
    assert Exponential(4, Fraction(1, 3), ADD, monotone=True).rate == Fraction(1, 12)


def test_texts_and_integers_are_read_exactly() -> None:
    assert Exponential(1, "1/3", "replace") == Exponential(1, Fraction(1, 3), REPLACE)  # type: ignore[arg-type]


def test_release_returns_a_plain_index() -> None:
    assert Exponential(1, Fraction(1000), ADD).release([1, 99, 3], HashSource(0)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (0, Fraction(1), ADD),
        (1.0, Fraction(1), ADD),
        (True, Fraction(1), ADD),
        (1, 0.1, ADD),
        (1, Fraction(0), ADD),
        (1, Fraction(1), "both"),
        (1, Fraction(1), ADD, 1),
        (1, Fraction(1), ADD, None),
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Refusal):
        Exponential(*arguments)


@pytest.mark.parametrize(
    ("confidence", "candidates"), [(0, 2), (1, 2), (Fraction(1, 2), 0), ("x", 2), (Fraction(1, 2), 2.0)]
)
def test_margins_that_mean_nothing_are_refused(confidence: Any, candidates: Any) -> None:
    with pytest.raises(Refusal):
        Exponential(1, Fraction(1), ADD).margin(confidence, candidates)
