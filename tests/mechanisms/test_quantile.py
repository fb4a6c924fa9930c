"""Quantiles on a grid: the score is the missed rank, its sensitivity is stated, and the law is drawn as defined."""

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import workdps
from scipy.stats import chisquare
from tests.laws.case import Case
from tests.laws.choosing import CASES, quantile_law, real
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import BoundedRange, Neighbours, Repeated
from sfumato.errors import Refusal
from sfumato.mechanisms import quantile
from sfumato.mechanisms.quantile import Quantile

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
MINE = [case for case in CASES if isinstance(case.mechanism, Quantile)]
LEVELS = (Fraction(1, 100), Fraction(1, 4), HALF, Fraction(9, 10))

some_values = st.lists(st.integers(-3, 14), max_size=9)


def scores(values: list[int], level: Fraction, low: int, high: int) -> list[int]:
    """The definition, point by point."""
    p, q, size = level.numerator, level.denominator, len(values)
    clipped = [min(max(value, low), high) for value in values]
    found = []
    for point in range(low, high + 1):
        below, upto = sum(value < point for value in clipped), sum(value <= point for value in clipped)
        found.append(-max(0, q * below - p * size, p * size - q * upto))
    return found


@given(some_values, st.sampled_from(LEVELS))
@settings(max_examples=200, deadline=None)
def test_the_stretches_hold_every_point_once_with_its_score(values: list[int], level: Fraction) -> None:
    mechanism = Quantile((level,), 0, 10, 1, ONE, ADD)
    array = mechanism._clip_values(np.array(values, dtype=np.int64))
    starts, widths, before, upto = mechanism._stretches(*np.unique(array, return_counts=True))
    found = np.repeat(quantile._rank_scores(before, upto, level), widths).tolist()
    assert found == scores(values, level, 0, 10)
    assert np.repeat(starts, widths).tolist() == sorted(np.repeat(starts, widths).tolist())
    assert max(found) == 0  # some point is a quantile


@given(some_values, st.lists(st.integers(-3, 14), max_size=2), st.sampled_from(LEVELS))
@settings(max_examples=200, deadline=None)
def test_two_more_rows_move_no_score_beyond_the_add_remove_sensitivity(
    values: list[int], more: list[int], level: Fraction
) -> None:
    bound = Quantile((level,), 0, 10, 2, ONE, ADD).sensitivity(level)
    moves = zip(scores(values, level, 0, 10), scores(values + more, level, 0, 10), strict=True)
    assert all(abs(one - other) <= bound for one, other in moves)


@given(some_values, *[st.lists(st.integers(-3, 14), max_size=2)] * 2, st.sampled_from(LEVELS))
@settings(max_examples=200, deadline=None)
def test_two_other_rows_move_no_score_beyond_the_replace_sensitivity(
    values: list[int], mine: list[int], other: list[int], level: Fraction
) -> None:
    bound = Quantile((level,), 0, 10, 2, ONE, REPLACE).sensitivity(level)
    moves = zip(scores(values + mine, level, 0, 10), scores(values + other, level, 0, 10), strict=True)
    assert all(abs(one - two) <= bound for one, two in moves)


def test_both_sensitivities_are_attained() -> None:
    level = Fraction(1, 4)
    one, more = scores([1, 2], level, 0, 10), scores([1, 2, 0], level, 0, 10)
    assert max(abs(a - b) for a, b in zip(one, more, strict=True)) == Quantile(
        (level,), 0, 10, 1, ONE, ADD
    ).sensitivity(level)
    one, other = scores([1, 2, 9], level, 0, 10), scores([1, 2, 0], level, 0, 10)
    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) == Quantile(
        (level,), 0, 10, 1, ONE, REPLACE
    ).sensitivity(level)


def test_frequencies_fit_the_exact_law_with_error_rate_one_in_a_million() -> None:
    mechanism, source, draws = Quantile((HALF,), 0, 12, 1, ONE, ADD), HashSource("quantile"), 6000
    values = np.array([3, 3, 4, 8, 99])
    found = Counter(int(mechanism.release(values, source)[0]) for _ in range(draws))
    law = quantile_law(tuple(values.tolist()), mechanism)
    expected = np.array([float(law[(point,)]) for point in range(13)])
    assert chisquare([found[point] for point in range(13)], draws * expected / expected.sum()).pvalue > 1e-6


def test_a_value_that_many_rows_share_is_found() -> None:
    mechanism = Quantile((HALF,), 0, 1000, 1, Fraction(2), ADD)
    assert mechanism.release(np.full(100, 437), HashSource(3)).tolist() == [437]


def test_large_data_give_close_quantiles() -> None:
    mechanism = Quantile((Fraction(1, 4), HALF, Fraction(3, 4)), 0, 10**6, 1, ONE, ADD)
    found = mechanism.release(np.arange(100_000) * 10, HashSource(4))
    reach = 10 * (mechanism.margin(Fraction(999999, 1000000)) + 1)
    assert all(
        abs(int(value) - target) <= reach for value, target in zip(found, (250_000, 500_000, 750_000), strict=True)
    )


def test_no_values_are_no_refusal_but_a_uniform_point() -> None:
    mechanism, source = Quantile((HALF,), 5, 8, 1, ONE, ADD), HashSource("empty")
    found = Counter(int(mechanism.release([], source)[0]) for _ in range(400))
    assert set(found) == {5, 6, 7, 8}


@pytest.mark.parametrize("values", [[], [3], [3] * 40], ids=len)
def test_a_level_beyond_64_bits_is_answered_whatever_the_number_of_values(values: list[int]) -> None:
    for level in (Fraction(1, 2**70), Fraction(2**63 - 1, 2**63), Fraction(1, 2**62 - 1)):
        assert 0 <= int(Quantile((level,), 0, 10, 1, ONE, ADD).release(values, HashSource("long"))[0]) <= 10


def test_every_release_reads_the_same_number_of_bits_whatever_the_values_are() -> None:
    mechanism, given = Quantile((HALF, Fraction(1, 3)), 0, 2**40, 1, ONE, ADD), set()
    for values in ([], [1, 2, 3], list(range(0, 10**6, 9999)), [2**40] * 7):
        source = ScriptedSource(HashSource(7).read(10_000))
        mechanism.release(values, source)
        given.add(source.given)
    assert len(given) == 1


def test_every_integer_type_is_clipped_without_wrapping() -> None:
    mechanism = Quantile((HALF,), -10, 10, 1, Fraction(2000), ADD)
    for values in (
        np.array([2**64 - 1], dtype=np.uint64),
        [10**30],
        np.array([2**63 - 1]),
        np.array([100], dtype=np.int8),
    ):
        assert mechanism.release(values, HashSource(0)).tolist() == [10]
    assert mechanism.release([-(10**30)], HashSource(0)).tolist() == [-10]
    wide = Quantile((HALF,), -(2**62) + 1, 2**62 - 1, 1, Fraction(2000), ADD)
    assert wide.release([2**62 - 1] * 3, HashSource(0)).tolist() == [2**62 - 1]


def test_a_level_with_a_long_denominator_stays_exact() -> None:
    level = Fraction(5 * 10**17, 10**18 + 9)  # scores beyond 64 bits
    mechanism = Quantile((level,), 0, 100, 1, Fraction(500), ADD)
    assert mechanism.release(np.arange(51) + 20, HashSource(0)).tolist() == [45]


@pytest.mark.parametrize("case", MINE, ids=str)
def test_answers_miss_their_rank_by_at_most_the_margin_with_that_confidence(case: Case) -> None:
    mechanism = case.mechanism
    for values in case.pairs[0]:
        for confidence in (HALF, Fraction(95, 100)):
            reach = mechanism.margin(confidence)
            tables = [scores(list(values), level, mechanism.low, mechanism.high) for level in mechanism.levels]
            with workdps(60):
                within = sum(
                    chance
                    for points, chance in case.law(values).items()
                    if all(
                        -table[point - mechanism.low] <= reach * level.denominator
                        for point, table, level in zip(points, tables, mechanism.levels, strict=True)
                    )
                )
                assert within >= real(confidence)


def test_events_charge_each_level() -> None:
    one = BoundedRange(Fraction(1, 3), REPLACE)
    assert Quantile((HALF,), 0, 9, 1, Fraction(1, 3), REPLACE).event == one
    assert Quantile((HALF, Fraction(1, 9)), 0, 9, 1, Fraction(1, 3), REPLACE).event == Repeated(one, 2)


def test_levels_are_read_as_people_write_them() -> None:
    assert Quantile((0.9, "1/4"), 0, 9, 1, ONE, ADD).levels == (Fraction(9, 10), Fraction(1, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": ()},
        {"levels": HALF},
        {"levels": (Fraction(3, 2),)},
        {"levels": (HALF, ONE)},
        {"levels": (0,)},
        {"levels": (float("nan"),)},
        {"low": 10},
        {"low": 0.0},
        {"high": 2**62},
        {"low": -(2**62)},
        {"rows_per_unit": 0},
        {"epsilon": 0.5},
        {"neighbours": "some"},
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(changes: dict[str, Any]) -> None:
    fine: dict[str, Any] = {
        "levels": (HALF,),
        "low": 0,
        "high": 9,
        "rows_per_unit": 1,
        "epsilon": ONE,
        "neighbours": ADD,
    }
    Quantile(**fine)
    with pytest.raises(Refusal):
        Quantile(**(fine | changes))


@pytest.mark.parametrize("values", [[1.0], np.array([float("nan")]), [True], "12", None], ids=repr)
def test_values_of_another_type_are_refused(values: Any) -> None:
    with pytest.raises(Refusal):
        Quantile((HALF,), 0, 9, 1, ONE, ADD).release(values, HashSource(0))
