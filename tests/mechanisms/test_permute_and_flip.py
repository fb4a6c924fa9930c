"""Permute-and-flip: its price, its accuracy, and why it is never worse than the exponential mechanism."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from time import process_time
from typing import Any

import pytest
from mpmath import exp, log, mpf, quad, workdps
from tests.laws.case import Case
from tests.laws.choosing import CASES, breaks, exponential_law, permute_and_flip_law, real
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import Refusal
from sfumato.mechanisms.exponential import Exponential
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
MINE = [case for case in CASES if isinstance(case.mechanism, PermuteAndFlip)]
CONFIDENCES = (Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999999, 1000000))


@pytest.mark.parametrize("case", MINE, ids=str)
def test_the_price_cannot_be_nine_tenths_of_what_is_charged(case: Case) -> None:
    assert not breaks(case, case.epsilon)
    assert breaks(case, case.epsilon * Fraction(9, 10))


@pytest.mark.parametrize("scores", [(0, 1, 3), (2, 2, 0, -5), (0, 0, 0, 0, -1)], ids=str)
def test_the_law_over_all_orders_is_the_integral_of_the_proof(scores: tuple[int, ...]) -> None:
    rate = Fraction(1, 2)
    law = permute_and_flip_law(scores, rate)
    with workdps(40):
        coins = [exp(real(rate * (score - max(scores)))) for score in scores]

        def density(place: int, time: Any) -> Any:
            chance = coins[place]
            for other, coin in enumerate(coins):
                chance *= 1 if other == place else 1 - time * coin
            return chance

        for place in range(len(scores)):
            assert abs(quad(lambda time, place=place: density(place, time), [0, 1]) - law[place]) < mpf(10) ** -30


def test_the_expected_error_is_never_above_the_exponential_mechanisms() -> None:
    strictly = 0
    for gaps in product((0, 1, 2, 7), repeat=3):
        scores, rate = (0, *(-gap for gap in gaps)), Fraction(1, 2)
        with workdps(60):
            flip, exponential = (
                sum(-score * law[place] for place, score in enumerate(scores))
                for law in (permute_and_flip_law(scores, rate), exponential_law(scores, rate))
            )
            assert flip <= exponential + mpf(10) ** -50
            strictly += flip < exponential - mpf(10) ** -5
    assert strictly == 63  # all but the vector without any gap


def test_it_is_not_bounded_range_so_the_event_is_pure() -> None:
    mechanism = PermuteAndFlip(1, Fraction(1), REPLACE)
    with workdps(60):
        one, other = (permute_and_flip_law(scores, mechanism.rate) for scores in ((-3, 0), (-2, -1)))
        losses = [log(one[place] / other[place]) for place in one]
        assert max(losses) - min(losses) > real(mechanism.epsilon) + mpf(1) / 100
    assert mechanism.event == Pure(Fraction(1), REPLACE)


@pytest.mark.parametrize("confidence", CONFIDENCES, ids=str)
@pytest.mark.parametrize("candidates", [2, 5, 1000, 10**7])
def test_the_margin_is_the_smallest_that_covers_the_worst_scores(candidates: int, confidence: Fraction) -> None:
    mechanism = PermuteAndFlip(3, Fraction(2, 5), REPLACE)
    margin = mechanism.margin(confidence, candidates)

    def covered(reach: int) -> Any:
        coin = exp(-real(mechanism.rate * (reach + 1)))
        if candidates <= 5:
            return permute_and_flip_law((0, *[-(reach + 1)] * (candidates - 1)), mechanism.rate)[0]
        return (1 - (1 - coin) ** candidates) / (candidates * coin)

    with workdps(60):
        assert covered(margin) >= real(confidence)
        assert margin == 0 or covered(margin - 1) < real(confidence)


@pytest.mark.parametrize(("kind", "law_of"), [(Exponential, exponential_law), (PermuteAndFlip, permute_and_flip_law)])
def test_the_margin_covers_other_scores_too(
    kind: type[Exponential | PermuteAndFlip], law_of: Callable[..., dict[int, Any]]
) -> None:
    mechanism = kind(1, Fraction(1), REPLACE)
    for scores in ((0, -1, -2, -3), (5, 5, 5, -9), (0, -4, -4, -4), (0, -100, -7, -8)):
        law = law_of(scores, mechanism.rate)
        for confidence in CONFIDENCES:
            reach = mechanism.margin(confidence, len(scores))
            with workdps(60):
                within = sum(law[place] for place, score in enumerate(scores) if max(scores) - score <= reach)
                assert within >= real(confidence)


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_one_candidate_has_no_margin(kind: type[Exponential | PermuteAndFlip]) -> None:
    assert kind(1, Fraction(1, 100), ADD).margin(Fraction(99, 100), 1) == 0


def test_a_margin_is_found_at_once_however_large_epsilon_is() -> None:
    begun = process_time()
    assert PermuteAndFlip(1, Fraction(10**9), ADD).margin(Fraction(95, 100), 20) == 0
    assert process_time() - begun < 1


def test_release_returns_a_plain_index() -> None:
    assert PermuteAndFlip(1, Fraction(1000), ADD).release([1, 99, 3], HashSource(0)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (0, Fraction(1), ADD),
        (1.0, Fraction(1), ADD),
        (1, 0.1, ADD),
        (1, Fraction(0), ADD),
        (1, 1, None),
        (1, 1, ADD, "yes"),
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Refusal):
        PermuteAndFlip(*arguments)
