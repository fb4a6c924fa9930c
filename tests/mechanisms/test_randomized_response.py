"""Warner's response: its cost, its two coins, its estimate, and intervals whose coverage is summed exactly."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.laws import local
from tests.laws.case import Case
from tests.laws.divergence import worst
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import Neighbours, RandomizedResponse
from sfumato.errors import BadParameter
from sfumato.mechanisms.randomized_response import Warner
from sfumato.mechanisms.response_count import Channel

TRUTHS = [Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)]


@cache
def law_of_yes(hit: Fraction, false: Fraction, holders: int, reports: int) -> tuple[Fraction, ...]:
    """P[Y = y] for Y = Bin(holders, hit) + Bin(reports - holders, false), by multiplying out."""
    law = [Fraction(1)]
    for person in range(reports):
        chance = hit if person < holders else false
        law = [a * (1 - chance) + b * chance for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    return tuple(law)


def chances(truth: Fraction) -> tuple[Fraction, Fraction]:
    return (1 + truth) / 2, (1 - truth) / 2


@settings(max_examples=60, deadline=None)
@given(st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6)))
def test_the_stated_loss_is_the_true_one_rounded_up_by_less_than_1e_12(truth: Fraction) -> None:
    with mp.workdps(60):
        ratio = mpf((1 + truth).numerator * (1 - truth).denominator) / ((1 + truth).denominator * (1 - truth).numerator)
        stated = mpf(Warner(truth).epsilon.numerator) / Warner(truth).epsilon.denominator
        assert 0 <= stated - mp.log(ratio) <= mpf(10) ** -12


@settings(max_examples=60, deadline=None)
@given(st.fractions(Fraction(1, 10**12), 200))
def test_built_by_epsilon_it_never_costs_more_and_at_most_1e_12_less(epsilon: Fraction) -> None:
    assert 0 <= epsilon - Warner.by_epsilon(epsilon).epsilon < Fraction(1, 10**12)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "0.123456789012", "30", "1000", "1e-12"])
def test_built_by_a_decimal_it_costs_exactly_that(epsilon: str) -> None:
    assert Warner.by_epsilon(epsilon).event == RandomizedResponse(Fraction(epsilon), 2, Neighbours.REPLACE)


def test_half_the_truth_costs_ln_3() -> None:
    assert float(Warner(Fraction(1, 2)).epsilon) == pytest.approx(1.09861228866811, abs=1e-12)


@pytest.mark.parametrize("case", local.CASES, ids=str)
def test_each_local_law_stays_within_its_loss_and_nine_tenths_of_it_are_too_little(case: Case) -> None:
    with mp.workdps(60):
        assert worst(case, case.epsilon) <= mpf(10) ** -40
        assert worst(case, case.epsilon * Fraction(9, 10)) > mpf(10) ** -12


@pytest.mark.parametrize("truth", [False, True])
@pytest.mark.parametrize("first", [b"\x00\x00", b"\xff\xff"])
@pytest.mark.parametrize("second", [b"\x00\x00", b"\xff\xff"])
def test_the_first_coin_chooses_between_the_truth_and_the_second(truth: bool, first: bytes, second: bytes) -> None:
    # a word of zeros is below every threshold (yes), a word of ones above every one (no)
    report = Warner(Fraction(1, 2)).release([truth], ScriptedSource(first + second))
    assert report.tolist() == [truth if first == b"\x00\x00" else second == b"\x00\x00"]


def test_everybody_tosses_both_coins_whatever_they_say() -> None:
    given_bytes = set()
    for bits in (np.zeros(50, dtype=bool), np.ones(50, dtype=bool)):
        for word in (b"\x00", b"\xff"):
            source = ScriptedSource(b"", after=word)
            Warner(Fraction(1, 3)).release(bits, source)
            given_bytes.add(source.given)
    assert given_bytes == {200}


def test_reports_are_true_as_often_as_stated_two_sided_z_at_1e_6() -> None:
    mechanism, count = Warner(Fraction(3, 10)), 200_000
    bits = np.arange(count) % 3 == 0
    agree = int((mechanism.release(bits, HashSource("warner")) == bits).sum())
    assert abs(agree - 0.65 * count) < 4.9 * sqrt(count * 0.65 * 0.35)  # P < 1e-6


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("holders", range(8))
def test_the_estimate_is_unbiased_with_the_stated_variance_exactly(truth: Fraction, holders: int) -> None:
    mechanism, law = Warner(truth), law_of_yes(*chances(truth), holders, 7)
    errors = [mechanism.estimate(yes, 7) - Fraction(holders, 7) for yes in range(8)]
    assert sum(mass * error for mass, error in zip(law, errors, strict=True)) == 0
    assert sum(mass * error**2 for mass, error in zip(law, errors, strict=True)) == mechanism.variance(7)


def test_the_estimate_follows_the_formula_of_the_reference() -> None:
    share, truth = Fraction(30, 100), Fraction(1, 4)
    assert Warner(truth).estimate(30, 100) == (share - (1 - truth) / 2) / truth


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999, 1000)])
def test_intervals_cover_every_true_count_at_their_level_summed_exactly(truth: Fraction, confidence: Fraction) -> None:
    mechanism, reports = Warner(truth), 24
    intervals = [mechanism.interval(yes, reports, confidence) for yes in range(reports + 1)]
    covered = [
        sum(
            mass
            for mass, (low, high) in zip(law_of_yes(*chances(truth), holders, reports), intervals, strict=True)
            if low <= Fraction(holders, reports) <= high
        )
        for holders in range(reports + 1)
    ]
    assert min(covered) >= confidence
    if truth == Fraction(9, 10):
        assert min(covered) < 1  # not by saying "anything"


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("yes", [0, 3, 11, 17, 24])
def test_interval_ends_are_the_exact_tests_inverted(truth: Fraction, yes: int) -> None:
    reports, half = 24, Fraction(1, 40)
    laws = [law_of_yes(*chances(truth), holders, reports) for holders in range(reports + 1)]
    kept = [t for t, law in enumerate(laws) if sum(law[yes:]) > half and sum(law[: yes + 1]) > half]
    if kept:
        low, high = Warner(truth).interval(yes, reports, Fraction(95, 100))
        assert (low, high) == (Fraction(kept[0], reports), Fraction(kept[-1], reports))


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize(("reports", "stride"), [(1, 1), (10, 1), (100, 3)])
def test_the_margin_holds_for_every_true_count(truth: Fraction, reports: int, stride: int) -> None:
    mechanism, confidence = Warner(truth), 0.95
    margin = mechanism.margin(confidence, reports)
    for holders in range(0, reports + 1, stride):
        law = law_of_yes(*chances(truth), holders, reports)
        inside = sum(
            mass
            for yes, mass in enumerate(law)
            if abs(mechanism.estimate(yes, reports) - Fraction(holders, reports)) <= margin
        )
        assert inside >= confidence


def test_the_margin_of_many_reports_holds_and_comes_near_to_the_normal_one() -> None:
    hit, false, reports = 0.75, 0.25, 40_000
    margin = Channel(hit, false).margin(reports, 0.95)
    normal = 1.959964 * sqrt(hit * (1 - hit) / reports) / (hit - false)
    assert normal < margin < 1.05 * normal
    for holders in (0, 1, 7777, 20_000, 40_000):
        law = np.array([1.0])
        for size, chance in ((holders, hit), (reports - holders, false)):
            law = np.convolve(law, [_binomial(size, k, chance) for k in _window(size, chance)])
        start = sum(_window(size, chance)[0] for size, chance in ((holders, hit), (reports - holders, false)))
        errors = np.abs((start + np.arange(len(law))) / reports - (false + holders / reports * (hit - false)))
        assert law[errors <= margin * (hit - false)].sum() >= 0.95


def _window(size: int, chance: float) -> range:
    reach = int(7 * sqrt(size)) + 1
    return range(max(0, int(size * chance) - reach), min(size, int(size * chance) + reach) + 1)


def _binomial(size: int, value: int, chance: float) -> float:
    with mp.workdps(30):
        return float(mp.binomial(size, value) * mpf(chance) ** value * mpf(1 - chance) ** (size - value))


def test_intervals_of_a_million_reports_are_quick_and_near_the_normal_ones() -> None:
    low, high = Warner(Fraction(1, 2)).interval(400_000, 10**6, Fraction(95, 100))
    assert float(high - low) / 2 == pytest.approx(1.959964 * sqrt(0.1875 / 10**6) / 0.5, rel=0.01)
    assert float(low + high) / 2 == pytest.approx(0.3, abs=1e-4)


def test_without_noise_the_count_is_known() -> None:
    assert Channel(1.0, 0.0).interval(7, 20, 0.95) == (Fraction(7, 20), Fraction(7, 20))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Warner(Fraction(0)),
        lambda: Warner(Fraction(1)),
        lambda: Warner(0.5),  # type: ignore[arg-type]
        lambda: Warner.by_epsilon(0),
        lambda: Warner.by_epsilon(0.1),
        lambda: Warner.by_epsilon(1001),
        lambda: Warner.by_epsilon("1e-13"),
        lambda: Warner(Fraction(1, 2)).release([2], HashSource(0)),
        lambda: Warner(Fraction(1, 2)).release([0.5], HashSource(0)),
        lambda: Warner(Fraction(1, 2)).release([[True]], HashSource(0)),
        lambda: Warner(Fraction(1, 2)).release([[1], [1, 2]], HashSource(0)),
        lambda: Warner(Fraction(1, 2)).release("yes", HashSource(0)),
        lambda: Warner(Fraction(1, 2)).estimate(1, 0),
        lambda: Warner(Fraction(1, 2)).interval(5, 4, 0.95),
        lambda: Warner(Fraction(1, 2)).interval(5, 10**13, 0.95),
        lambda: Warner(Fraction(1, 2)).interval(1, 4, 1),
        lambda: Warner(Fraction(1, 2)).interval(1, 4, "0.9999999999999"),
        lambda: Warner(Fraction(1, 2)).margin(0.95, 0),
    ],
)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        bad()


def test_nobody_gives_no_reports() -> None:
    assert Warner(Fraction(1, 2)).release([], ScriptedSource(b"")).tolist() == []
