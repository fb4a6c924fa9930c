"""Several quantiles at once: the law is drawn as defined, parts share no weight, and ends hold what they promise."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare
from tests.laws.many_quantiles import one_level_law, together_law
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import BoundedRange, Composed, LaplaceBounded, Neighbours, Repeated
from sfumato.accounting.pure import PureLoss
from sfumato.errors import Refusal
from sfumato.mechanisms import quantiles
from sfumato.mechanisms.held_values import held_values
from sfumato.mechanisms.quantile_ends import choose_distances, farther
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.spacing import Spacing

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
QUARTERS = (Fraction(1, 4), HALF, Fraction(3, 4))


def held(values: list[int]) -> tuple[np.ndarray, np.ndarray]:
    places, weights = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return places, weights


@pytest.mark.parametrize("level", [HALF, Fraction(9, 10), Fraction(0)], ids=str)
def test_frequencies_fit_the_exact_law_with_error_rate_one_in_a_million(level: Fraction) -> None:
    mechanism, source, draws = Quantiles((level,), 7, 1, Fraction(2), ADD), HashSource(f"ends {level}"), 600
    values = [1, 1, 2, 5] * 4
    found = Counter(tuple(mechanism.release(*held(values), source)[0].tolist()) for _ in range(draws))
    law = {outcome: float(chance) for outcome, chance in one_level_law(values, mechanism).items()}
    assert set(found) <= set(law)
    often = [outcome for outcome, chance in law.items() if chance * draws > 5]
    rest = draws - sum(found[outcome] for outcome in often)
    expected = np.array([law[outcome] for outcome in often] + [1 - sum(law[outcome] for outcome in often)]) * draws
    assert chisquare([found[outcome] for outcome in often] + [rest], expected).pvalue > 1e-6


def position_law(
    mechanism: Quantiles, values: list[int], within: tuple[int, int], level: Fraction, scale: int
) -> dict[int, float]:
    """The law of one choice in a part, step by step of each bucket, from the definition."""
    low, high = within[0], max(within[1], within[0] + 1)
    empty = within[1] <= within[0]
    counts = Counter(values)
    pieces = mechanism._pieces
    before = [0]
    for step in range(low, high):
        before.append(before[-1] + (0 if empty else counts[step // scale]))
    _p, q, wanted = level.numerator, level.denominator, level.numerator * before[-1]
    scores = []
    for step in range(low, high):
        bucket, inside = divmod(step, scale)
        start, end = step, step + 1
        if counts[bucket]:  # the steps of one piece share one score
            piece = scale // pieces
            start = max(low, bucket * scale + inside // piece * piece)
            end = min(high, bucket * scale + (inside // piece + 1) * piece)
        scores.append(-max(0, q * before[start - low] - wanted, wanted - q * before[end - low]))
    rate = float(mechanism._rate(mechanism._round_epsilon, level))
    weights = [exp(rate * score) for score in scores]
    return {low + place: weight / sum(weights) for place, weight in enumerate(weights)}


def two_level_law(mechanism: Quantiles, values: list[int], scale: int) -> dict[tuple[int, int], float]:
    one, two = mechanism.levels
    law: dict[tuple[int, int], float] = {}
    for place, chance in position_law(mechanism, values, (0, mechanism.buckets * scale), two, scale).items():
        for other, share in position_law(mechanism, values, (0, place), one / two, scale).items():
            outcome = other // scale, place // scale
            law[outcome] = law.get(outcome, 0.0) + chance * share
    return law


@pytest.fixture
def four_steps(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(quantiles, "_MAX_UNIT_PIECES", 4)
    monkeypatch.setattr(quantiles, "_MIN_PIECES", 2)
    monkeypatch.setattr(quantiles, "_MAX_TOTAL_PIECES", 8)
    return 4


@pytest.mark.usefixtures("four_steps")
@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3), st.sampled_from([ADD, REPLACE]), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_one_person_moves_two_levels_together_by_no_more_than_epsilon(
    values: list[int], more: int, neighbours: Neighbours, other: int
) -> None:
    mechanism = Quantiles((Fraction(1, 3), Fraction(3, 4)), 4, 1, Fraction(2), neighbours, ends=False)
    left, right = (values, [*values, more]) if neighbours is ADD else ([*values, other], [*values, more])
    one, two = two_level_law(mechanism, left, 4), two_level_law(mechanism, right, 4)
    for outcome in one:
        assert exp(-2) * (1 - 1e-9) <= one[outcome] / two[outcome] <= exp(2) * (1 + 1e-9)


def extreme_law(mechanism: Quantiles, values: list[int], level: int) -> list[float]:
    """The law of the least or greatest value by itself, chosen on all values, from the definition."""
    counts, scale = Counter(values), mechanism._scale
    over = mechanism.passed_over if level == 0 else len(values) - mechanism.passed_over
    before = np.cumsum([0, *(counts[bucket] for bucket in range(mechanism.buckets))]) * scale
    scores = -np.maximum(0, np.maximum(before[:-1] - over * scale, over * scale - before[1:]))
    weights = np.exp(float(mechanism._rate(mechanism._round_epsilon, Fraction(level))) * scores)
    return list(weights / weights.sum())


@pytest.mark.parametrize("levels", [(Fraction(0),), (ONE,), (Fraction(0), ONE)], ids=str)
def test_one_person_moves_both_extremes_together_by_no_more_than_epsilon(levels: tuple[Fraction, ...]) -> None:
    """Without a level between them nothing parts the values: both extremes are chosen on all of them."""
    mechanism = Quantiles(levels, 41, 1, ONE, ADD, ends=False)
    few = mechanism.passed_over - 1
    values = [0, *[1] * (few - 1), *[39] * (few - 1), 40]
    losses = []
    for level in map(int, levels):
        pairs = zip(*(extreme_law(mechanism, data, level) for data in (values, [*values, 20])), strict=True)
        losses.append(max(np.log(one / two) for one, two in pairs))
    assert 0.2 < sum(losses) <= 1


@pytest.mark.usefixtures("four_steps")
def test_two_levels_are_drawn_as_defined_with_error_rate_one_in_a_million() -> None:
    mechanism = Quantiles((Fraction(1, 3), Fraction(3, 4)), 4, 1, Fraction(2), ADD, ends=False)
    values, source, draws = [0, 1, 1, 1, 3], HashSource("two"), 600
    found = Counter(tuple(mechanism.release(*held(values), source)[:, 1].tolist()) for _ in range(draws))
    law = two_level_law(mechanism, values, 4)
    assert set(found) <= set(law)
    often = [outcome for outcome, chance in law.items() if chance * draws > 5]
    rest = draws - sum(found[outcome] for outcome in often)
    expected = np.array([law[outcome] for outcome in often] + [1 - sum(law[outcome] for outcome in often)]) * draws
    assert chisquare([found[outcome] for outcome in often] + [rest], expected).pvalue > 1e-6


@pytest.mark.parametrize("levels", [(HALF,), QUARTERS, (Fraction(0), HALF, ONE)], ids=len)
@pytest.mark.parametrize("values", [list(range(200)), [7] * 60 + [90] * 50, [3] * 4, []], ids=len)
def test_the_ends_of_each_level_hold_19_times_of_20_with_error_rate_one_in_a_million(
    levels: tuple[Fraction, ...], values: list[int]
) -> None:
    mechanism, source, draws = Quantiles(levels, 256, 1, Fraction(3), ADD), HashSource("hold"), 80
    truths = np.quantile(values or [0], [float(level) for level in levels])
    hits = np.zeros(len(levels), dtype=int)
    for _ in range(draws):
        ends = mechanism.release(*held(values), source)
        hits += (not values) | ((ends[:, 0] <= truths) & (truths <= ends[:, 2]))
    assert all(binomtest(int(each), draws, 19 / 20, alternative="less").pvalue > 1e-6 for each in hits)


def missed(law: dict[Any, Any], mechanism: Quantiles, truth: float, further: int) -> float:
    """How often ends that lie so many distances further out miss a number: from the law of ends and answer."""
    missing = 0.0
    for (low, answer, high), chance in law.items():
        if (low, high) != (0, mechanism.buckets - 1):
            far = farther(mechanism.buckets, max(answer - low, high - answer), further)
            missing += float(chance) * (abs(answer - truth) > far)
    return missing


@pytest.mark.parametrize(("level", "epsilon"), [(HALF, ONE), (Fraction(1, 10), Fraction(8))], ids=str)
def test_on_no_small_data_ends_miss_more_often_than_they_say(level: Fraction, epsilon: Fraction) -> None:
    """Exact laws of the answer with its ends; further out they miss less often still."""
    mechanism = Quantiles((level,), 9, 1, epsilon, ADD)
    for counts in [
        (1, 0, 0, 0),
        (3, 0, 0, 2),
        (0, 4, 0, 4),
        (4, 5, 0, 0),
        (20, 21, 0, 0),
        (20, 0, 3, 20),
        (9, 1, 1, 9),
    ]:
        values = [place for place, count in zip((0, 4, 5, 8), counts, strict=True) for _ in range(count)]
        law, truth = one_level_law(values, mechanism), float(np.quantile(values, float(level)))
        assert missed(law, mechanism, truth, 0) <= 1 / 20
        assert all(missed(law, mechanism, truth, further) <= 1 / (80 * further) for further in (1, 2, 3))


@pytest.mark.parametrize("many", [0, 1, 3, 30, 200])
def test_ends_that_are_chosen_later_miss_one_time_in_twenty_at_most_and_nearly_so_on_some_data(many: int) -> None:
    """Half of the people have 0, and one more than half another value, which the answer misses by some distance."""
    mechanism, shares = Quantiles((HALF,), 1 << 17, 1, ONE, ADD), []
    (ends,), there = quantiles._ends_by_level(mechanism), 1 << 16
    cell = held_values(np.array([0, there]), np.array([many, many + 1]), mechanism.buckets)
    for away in (1, 9, 97, 769, 24_577, 49_153, 60_000):
        table = np.array(ends.distances(there - away))
        misses = ends.misses(cell, np.array([there - away]), len(table))[0]
        weights = np.exp(-float(mechanism._joint_rate) * misses.astype(np.float64))
        for further in range(4):
            far = np.array([farther(mechanism.buckets, int(one), further) for one in table])
            share = float(weights[far < away].sum() / weights.sum())
            assert share <= 1 / (80 * further if further else 20)
            shares.append(share)
    assert max(shares) > (0.035 if many == 200 else 0)


LEVELS = (Fraction(1, 3), Fraction(3, 4), ONE)


def test_ends_of_several_levels_are_drawn_as_defined_with_error_rate_one_in_a_million() -> None:
    mechanism, source, draws = Quantiles(LEVELS, 9, 1, Fraction(6), ADD), HashSource("lists"), 400
    values, places = [0, 1, 1, 2, 4, 4, 5, 5, 6, 7, 7, 8] * 4, [2, 5, 7]
    ends = quantiles._ends_by_level(mechanism)
    cell, rate = held_values(*held(values), 9), mechanism._joint_rate
    found = Counter(
        tuple(
            one.at(place, far)
            for one, place, far in zip(ends, places, choose_distances(cell, ends, places, rate, source), strict=True)
        )
        for _ in range(draws)
    )
    law = {outcome: float(chance) for outcome, chance in together_law(values, mechanism, places).items()}
    assert set(found) <= set(law)
    often = [outcome for outcome, chance in law.items() if chance * draws > 5]
    assert len(often) > 3
    rest = draws - sum(found[outcome] for outcome in often)
    expected = np.array([law[outcome] for outcome in often] + [1 - sum(law[outcome] for outcome in often)]) * draws
    assert chisquare([found[outcome] for outcome in often] + [rest], expected).pvalue > 1e-6


@given(st.lists(st.integers(0, 4), max_size=7), st.integers(0, 4), st.sampled_from([ADD, REPLACE]), st.integers(0, 4))
@settings(max_examples=12, deadline=None)
def test_one_person_moves_the_ends_of_all_levels_together_by_no_more_than_their_share(
    values: list[int], more: int, neighbours: Neighbours, other: int
) -> None:
    mechanism = Quantiles(LEVELS, 5, 1, Fraction(10), neighbours)
    left, right = (values, [*values, more]) if neighbours is ADD else ([*values, other], [*values, more])
    one, two = (together_law(data, mechanism, [1, 2, 4]) for data in (left, right))
    assert all(exp(-2) * (1 - 1e-9) <= one[outcome] / two[outcome] <= exp(2) * (1 + 1e-9) for outcome in one)


def test_answers_rise_with_their_levels_and_lie_between_their_ends() -> None:
    mechanism, source = Quantiles((Fraction(0), *QUARTERS, ONE), 1000, 1, ONE, ADD), HashSource("rise")
    random = np.random.default_rng(5)
    for size in (0, 3, 500):
        found = mechanism.release(*held(random.integers(0, 1000, size).tolist()), source)
        assert (np.diff(found[:, 1]) >= 0).all()
        assert ((found[:, 0] >= 0) & (found[:, 0] <= found[:, 1]) & (found[:, 1] <= found[:, 2])).all()
        assert (found[:, 2] < 1000).all()


def test_a_value_that_most_share_does_not_push_the_levels_above_it_away() -> None:
    random = np.random.default_rng(6)
    values = [0] * 6000 + random.integers(1, 1000, 4000).tolist()
    found = Quantiles(QUARTERS, 1000, 1, Fraction(5), ADD).release(*held(values), HashSource("zeros"))
    assert found[0, 1] == found[1, 1] == 0
    assert abs(found[2, 1] - np.quantile(values, 0.75)) < 25


def test_cells_are_released_one_by_one() -> None:
    mechanism = Quantiles((HALF,), 10, 1, Fraction(50), ADD)
    cells, places, weights = np.array([0, 0, 2]), np.array([3, 4, 8]), np.array([1, 90, 50])
    found = mechanism.release_cells(cells, places, weights, 3, HashSource("cells"))
    assert found.shape == (3, 1, 3)
    assert found[:, 0, 1].tolist()[::2] == [4, 8]


def test_every_release_reads_the_same_number_of_bits_whatever_the_values_are() -> None:
    for mechanism in (
        Quantiles((Fraction(0), *QUARTERS), 10**5, 1, ONE, ADD),
        Quantiles((HALF,), 50, 1, ONE, ADD),
        Quantiles((HALF,), 600, 1, ONE, ADD),
    ):
        given_bits = set()
        for values in ([], [1, 2, 3], list(range(50)), [49] * 70):
            source = ScriptedSource(HashSource(7).read(10_000))
            mechanism.release(*held(values), source)
            given_bits.add(source.given)
        assert len(given_bits) == 1


def test_long_levels_and_heavy_weights_stay_exact() -> None:
    level = Fraction(5 * 10**17, 10**18 + 9)
    places, weights = np.arange(51) + 20, np.full(51, 720720)
    found = Quantiles((level,), 3000, 720720, Fraction(500), ADD).release(places, weights, HashSource(0))
    assert found[0, 1] == 45


@pytest.mark.parametrize(("levels", "rounds"), [((HALF,), 1), (QUARTERS, 2), ((Fraction(0), HALF, ONE), 2)], ids=str)
def test_the_event_is_all_that_epsilon_pays_for(levels: tuple[Fraction, ...], rounds: int) -> None:
    """A single level of a short range is chosen with its ends; else the ends of all levels are one choice more."""
    alone = len(levels) == 1
    later = Fraction(1, 4) if alone else Fraction(1, 5)
    event = Quantiles(levels, 10**6, 1, ONE, ADD).event
    assert event == Composed((Repeated(BoundedRange((1 - later) / rounds, ADD), rounds), BoundedRange(later, ADD)))
    assert PureLoss().compose(event).epsilon == 1
    if alone:
        assert Quantiles(levels, 100, 1, ONE, ADD).event == Composed((Repeated(LaplaceBounded(ONE, ADD), 1),))
        assert Quantiles(levels, 1000, 1, ONE, ADD).event == Composed((Repeated(BoundedRange(ONE, ADD), 1),))
    assert PureLoss().compose(Quantiles(levels, 10**6, 1, ONE, ADD, ends=False).event).epsilon == 1


@pytest.mark.parametrize(("low", "high"), [(0, 0), (5, 131), (0, 10**7), (-(10**6), 10**5), (2**40, 2**41), (-9, -3)])
def test_buckets_cover_a_range_without_gap_and_numbers_find_them(low: int, high: int) -> None:
    spacing = Spacing(low, high)
    values = np.unique(np.concatenate(([low, high], np.random.default_rng(3).integers(low, high + 1, 500))))
    for value, number in zip(values.tolist(), spacing.numbers(values).tolist(), strict=True):
        start, end = spacing.ends(number)
        assert start <= value <= end
        assert end - start <= max(abs(value - spacing.origin) >> 12, 0)
    assert spacing.ends(0)[0] == low
    assert spacing.ends(spacing.buckets - 1)[1] == high
    for number in np.random.default_rng(4).integers(0, spacing.buckets, 200).tolist():
        if number + 1 < spacing.buckets:
            assert spacing.ends(number)[1] + 1 == spacing.ends(number + 1)[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": ()},
        {"levels": (HALF, HALF)},
        {"levels": (Fraction(3, 2),)},
        {"levels": (0.5,)},
        {"buckets": 0},
        {"buckets": 2**41},
        {"weight": 0},
        {"epsilon": 0.5},
        {"neighbours": "some"},
    ],
    ids=repr,
)
def test_parameters_that_mean_nothing_are_refused(changes: dict[str, Any]) -> None:
    fine: dict[str, Any] = {"levels": (HALF,), "buckets": 9, "weight": 1, "epsilon": ONE, "neighbours": ADD}
    Quantiles(**fine)
    with pytest.raises(Refusal):
        Quantiles(**(fine | changes))


def test_all_pairs_of_small_data_stay_within_the_price_of_one_level() -> None:
    mechanism = Quantiles((Fraction(1, 4),), 3, 1, ONE, ADD)
    for size in range(4):
        for values in product(range(3), repeat=size):
            for more in range(3):
                one, two = one_level_law(values, mechanism), one_level_law((*values, more), mechanism)
                assert all(abs(float(one[outcome] / two[outcome])) <= exp(1) + 1e-9 for outcome in one)
                assert all(float(two[outcome] / one[outcome]) <= exp(1) + 1e-9 for outcome in one)
