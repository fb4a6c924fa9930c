"""Sparse vector: the exact law over all answer sequences, its price, its stop, its state."""

from collections import Counter
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import exp, workdps
from scipy.stats import chisquare
from tests.laws.case import Case
from tests.laws.choosing import CASES, LaplaceTable, breaks, real, sparse_vector_law
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import BadParameter, Refusal
from sfumato.mechanisms.sparse_vector import SparseVector, Watch

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
MINE = [case for case in CASES if isinstance(case.mechanism, SparseVector)]
SURE = SparseVector(100, 2, 1, Fraction(1000), Fraction(4000), ADD)  # noise of scale 1/1000: always zero


def test_the_noise_for_one_above_would_not_pay_for_six() -> None:
    right = SparseVector(0, 6, 1, ONE, ONE, REPLACE)

    def chance(belows: int, aboves: int, scale: Fraction) -> Any:
        """Return the probability of nine belows, all at this value, and then six aboves."""
        rho, nu = LaplaceTable(ONE), LaplaceTable(scale)
        return sum(
            rho.mass(noise) * (1 - nu.at_least(noise - belows)) ** 9 * nu.at_least(noise - aboves) ** 6
            for noise in range(-110, 111)
        )

    with workdps(60):
        for scale, holds in ((right.query_noise.scale, True), (right.query_noise.scale / 6, False)):
            ratio = chance(10, 0, scale) / chance(11, -1, scale)
            assert (ratio <= exp(real(right.event.epsilon))) is holds


def test_queries_that_move_both_ways_break_the_price_of_monotone_ones() -> None:
    pairs = (((0,) * 39 + (1,), (1,) * 39 + (0,)),)
    wrong = SparseVector(0, 1, 1, HALF, ONE, ADD, monotone=True)
    case = Case("misused", wrong, pairs, lambda queries: sparse_vector_law(queries, 0, 1, Fraction(2), ONE), HALF + ONE)
    assert breaks(case, wrong.event.epsilon)


@pytest.mark.parametrize("case", MINE, ids=str)
def test_frequencies_fit_the_exact_law_with_error_rate_one_in_a_million(case: Case) -> None:
    queries, source, draws = case.pairs[0][0], HashSource(case.name), 3000
    law = case.law(queries)
    found = Counter(tuple(case.mechanism.release(queries, source).tolist()) for _ in range(draws))
    assert set(found) <= set(law)
    expected = np.array([float(chance) for chance in law.values()])
    counted = [found[answers] for answers in law]
    assert chisquare(counted, draws * expected / expected.sum()).pvalue > 1e-6


def test_answers_end_with_the_last_above_that_was_paid_for() -> None:
    assert SURE.release([50, 150, 99, 100, 500, 1], HashSource(0)).tolist() == [False, True, False, True]
    assert SURE.release([50, 150, 99], HashSource(0)).tolist() == [False, True, False]
    assert SURE.release([], HashSource(0)).tolist() == []


def test_a_stream_may_be_asked_in_parts_and_each_part_returns_where_it_stands() -> None:
    source = HashSource(0)
    start = SURE.start(source)
    first, second = SURE.answer(start, [150, 3], source)
    third, last = SURE.answer(second, [7, 700, 700], source)
    assert (first.tolist(), third.tolist()) == ([True, False], [False, True])
    assert [watch.left for watch in (start, second, last)] == [2, 1, 0]
    with pytest.raises(Refusal, match="ended"):
        SURE.answer(last, [1], source)


def test_a_watch_is_continued_by_the_mechanism_that_started_it_only() -> None:
    dear = SparseVector(0, 10, 1, Fraction(1), Fraction(1), ADD)
    cheap = SparseVector(0, 1, 1, Fraction(1), Fraction(1), ADD)  # a tenth of the noise on each query
    watch = dear.start(HashSource("watch"))
    with pytest.raises(BadParameter, match="another mechanism"):
        cheap.answer(watch, [1, 2, 3], HashSource("watch"))
    assert repr(watch) == "Watch(left=10)"


def test_the_threshold_is_noised_once_and_its_noise_is_never_shown() -> None:
    noisy = SparseVector(100, 3, 1, Fraction(1, 100), ONE, ADD)
    source = HashSource(5)
    start = noisy.start(source)
    _, after = noisy.answer(start, [-(10**6)] * 5, source)
    assert start.noisy_threshold == after.noisy_threshold != 100
    assert str(start.noisy_threshold) not in repr(start)
    with pytest.raises(FrozenInstanceError):
        start.left = 9  # type: ignore[misc]


def test_scales_follow_the_theorem() -> None:
    general = SparseVector(0, 3, 2, HALF, Fraction(1, 4), ADD)
    assert general.threshold_noise.scale == 4
    assert general.query_noise.scale == 48  # 2 c Δ / ε₂
    assert SparseVector(0, 3, 2, HALF, Fraction(1, 4), ADD, monotone=True).query_noise.scale == 24
    assert general.event == Pure(Fraction(3, 4), ADD)


def test_huge_queries_and_thresholds_do_not_wrap() -> None:
    huge = SparseVector(10**30, 1, 1, ONE, ONE, ADD)
    assert huge.release([2**63 - 1, 10**31], HashSource(0)).tolist() == [False, True]
    assert SURE.release(np.array([-(2**63), 2**63 - 1, 2**63 - 1]), HashSource(0)).tolist() == [False, True, True]


@pytest.mark.parametrize("confidence", [HALF, Fraction(95, 100)], ids=str)
def test_the_margin_covers_all_answers_at_once(confidence: Fraction) -> None:
    mechanism = SparseVector(0, 2, 1, ONE, ONE, ADD)
    reach = mechanism.margin(confidence, 4)
    queries = (reach + 1, -reach - 1, reach + 1, -reach - 1)
    law = sparse_vector_law(queries, 0, 2, ONE, Fraction(4))
    with workdps(60):
        right = sum(
            chance
            for answers, chance in law.items()
            if all(answer == (query > 0) for answer, query in zip(answers, queries, strict=False))
        )
        assert right >= real(confidence)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0.5},
        {"threshold": True},
        {"threshold": None},
        {"aboves": 0},
        {"sensitivity": 0},
        {"threshold_epsilon": 0.5},
        {"answers_epsilon": Fraction(0)},
        {"neighbours": None},
        {"monotone": 1},
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(changes: dict[str, Any]) -> None:
    fine: dict[str, Any] = {
        "threshold": -5,
        "aboves": 1,
        "sensitivity": 1,
        "threshold_epsilon": ONE,
        "answers_epsilon": ONE,
        "neighbours": ADD,
    }
    SparseVector(**fine)
    with pytest.raises(Refusal):
        SparseVector(**(fine | changes))


@pytest.mark.parametrize("queries", [[1.0], [True], None, np.array([0.5])], ids=repr)
def test_queries_of_another_type_are_refused(queries: Any) -> None:
    with pytest.raises(Refusal):
        SURE.answer(Watch(0, 1, SURE), queries, HashSource(0))
