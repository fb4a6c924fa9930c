"""What every mechanism that chooses by scores keeps: its price is sharp, and its margin covers."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from mpmath import exp, workdps
from tests.laws.case import Case
from tests.laws.choosing import CASES, breaks, exponential_law, permute_and_flip_law, real
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.errors import Refusal
from sfumato.mechanisms.exponential import Exponential
from sfumato.mechanisms.noisy_max import NoisyMax, NoisyTop
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantile import Quantile
from sfumato.mechanisms.sparse_vector import SparseVector

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
CONFIDENCES = (Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999999, 1000000))
LAWS: dict[type, Callable[..., Any]] = {Exponential: exponential_law, PermuteAndFlip: permute_and_flip_law}


def cases_of(*mechanisms: type) -> list[Case]:
    return [case for case in CASES if isinstance(case.mechanism, mechanisms)]


SHARP = [
    *cases_of(Exponential, PermuteAndFlip, NoisyMax, NoisyTop),
    *cases_of(Quantile)[:2],
    *cases_of(SparseVector)[:3:2],
]
"""Cases whose worst pair of scores attains the price."""


@pytest.mark.parametrize("case", SHARP, ids=str)
def test_the_price_cannot_be_nine_tenths_of_what_is_charged(case: Case) -> None:
    assert not breaks(case, case.epsilon)
    assert breaks(case, case.epsilon * Fraction(9, 10))


def _best_is_chosen(mechanism: Any, candidates: int, reach: int) -> Any:
    """Return the probability of the best where all others are just beyond reach."""
    coin = exp(-real(mechanism.rate * (reach + 1)))
    if candidates <= 5:
        return LAWS[type(mechanism)]((0, *[-(reach + 1)] * (candidates - 1)), mechanism.rate)[0]
    if isinstance(mechanism, Exponential):
        return 1 / (1 + (candidates - 1) * coin)
    return (1 - (1 - coin) ** candidates) / (candidates * coin)


@pytest.mark.parametrize("chooser", LAWS)
@pytest.mark.parametrize("confidence", CONFIDENCES, ids=str)
@pytest.mark.parametrize("candidates", [2, 3, 5, 1000, 10**7, 10**12])
def test_the_margin_is_the_smallest_that_covers_the_worst_scores(
    chooser: Any, candidates: int, confidence: Fraction
) -> None:
    mechanism = chooser(3, Fraction(2, 5), REPLACE)
    margin = mechanism.margin(confidence, candidates)
    with workdps(60):
        assert _best_is_chosen(mechanism, candidates, margin) >= real(confidence)
        assert margin == 0 or _best_is_chosen(mechanism, candidates, margin - 1) < real(confidence)


@pytest.mark.parametrize("chooser", LAWS)
def test_the_margin_covers_other_scores_too(chooser: Any) -> None:
    mechanism = chooser(1, Fraction(1), REPLACE)
    for scores in ((0, -1, -2, -3), (5, 5, 5, -9), (0, -4, -4, -4), (0, -100, -7, -8)):
        law = LAWS[chooser](scores, mechanism.rate)
        for confidence in CONFIDENCES:
            reach = mechanism.margin(confidence, len(scores))
            with workdps(60):
                within = sum(law[place] for place, score in enumerate(scores) if max(scores) - score <= reach)
                assert within >= real(confidence)


@pytest.mark.parametrize("chooser", LAWS)
def test_one_candidate_has_no_margin(chooser: Any) -> None:
    assert chooser(1, Fraction(1, 100), ADD).margin(Fraction(99, 100), 1) == 0


@pytest.mark.parametrize("chooser", LAWS)
def test_release_returns_a_plain_index(chooser: Any) -> None:
    assert chooser(1, Fraction(1000), ADD).release([1, 99, 3], HashSource(0)) == 1


@pytest.mark.parametrize("chooser", LAWS)
@pytest.mark.parametrize(
    "arguments",
    [
        (0, Fraction(1), ADD),
        (1.0, Fraction(1), ADD),
        (True, Fraction(1), ADD),
        (1, 0.1, ADD),
        (1, Fraction(0), ADD),
        (1, Fraction(1), "both"),
        (1, 1, None),
        (1, Fraction(1), ADD, 1),
        (1, Fraction(1), ADD, None),
        (1, 1, ADD, "yes"),
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(chooser: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Refusal):
        chooser(*arguments)
