"""Laplace thresholds: the delta they state, the smallest threshold, what is shown and what never is."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import ROUNDING, real, worst
from tests.laws.keys import laplace_tail, threshold_cases
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.accounting.event import Approximate, LaplaceNoise, Neighbours, Repeated
from sfumato.errors import BadParameter, EntropyFailed
from sfumato.mechanisms.keys import chance_of_any, share_of_delta
from sfumato.mechanisms.threshold import Threshold
from sfumato.randomness.discrete_laplace import DiscreteLaplace

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
CASES = threshold_cases()
BUILDS = [
    (epsilon, delta, most, groups, neighbours, least)
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(7, 2))
    for delta in (Fraction(1, 10**12), Fraction(1, 1000), Fraction(2, 5), Fraction(9, 10))
    for most, groups, neighbours, least in ((1, 1, ADD, 1), (1, 20, ADD, 1), (3, 2, REPLACE, 1), (1, 4, ADD, 5))
]


def exact_delta(mechanism: Threshold, threshold: int) -> mpf:
    with mp.workdps(60):
        reach = threshold - mechanism.min_count + 1 - mechanism.sensitivity
        return 1 - (1 - laplace_tail(mechanism.scale, reach)) ** mechanism.groups_per_unit


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_the_threshold_is_the_smallest_whose_exact_delta_fits(
    build: tuple[Fraction, Fraction, int, int, Neighbours, int],
) -> None:
    mechanism, delta = Threshold.by_loss(*build), real(build[1])
    with mp.workdps(60):
        assert exact_delta(mechanism, mechanism.threshold) <= delta < exact_delta(mechanism, mechanism.threshold - 1)
        assert 0 <= real(mechanism.delta) / exact_delta(mechanism, mechanism.threshold) - 1 < mpf(2) ** -62


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neighbours_stay_within_the_stated_loss_exactly(case: Case) -> None:
    with mp.workdps(60):
        assert worst(case, case.epsilon) <= real(case.delta) + real(ROUNDING)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_half_the_delta_or_nine_tenths_of_the_epsilon_would_be_too_little(case: Case) -> None:
    with mp.workdps(60):
        assert worst(case, case.epsilon) > real(case.delta * (1 - Fraction(1, 10**15)))  # delta is attained
        assert worst(case, case.epsilon) > real(case.delta / 2)
        assert worst(case, case.epsilon * Fraction(9, 10)) > real(case.delta)


def test_the_law_of_the_cases_sums_to_one() -> None:
    with mp.workdps(60):
        for case in CASES:
            for counts in {counts for pair in case.pairs for counts in pair}:
                assert abs(sum(case.law(counts).values()) - 1) < mpf(10) ** -50


def test_the_event_names_the_cells_a_unit_touches_and_the_delta_really_spent() -> None:
    add = Threshold(2, 3, Fraction(5), 40, ADD)
    assert add.event == Approximate(Repeated(LaplaceNoise(2, Fraction(5), ADD), 3), add.delta)
    replace = Threshold(2, 3, Fraction(5), 40, REPLACE)
    assert replace.event == Approximate(Repeated(LaplaceNoise(2, Fraction(5), REPLACE), 6), add.delta)


def test_several_keys_per_unit_cost_less_than_their_sum() -> None:
    one, many = Threshold(1, 1, Fraction(2), 5, ADD), Threshold(1, 50, Fraction(2), 5, ADD)
    assert many.delta < 50 * one.delta
    assert Threshold.by_loss(1, many.delta, 1, 50, ADD).delta <= many.delta


def test_a_key_is_shown_with_its_noisy_count_exactly_when_that_reaches_the_threshold() -> None:
    mechanism = Threshold(1, 1, Fraction(3), 12, ADD, min_count=4)
    counts = np.arange(0, 400) % 40
    noisy = counts + DiscreteLaplace(Fraction(3)).draw(len(counts), HashSource("keys"))
    selected = mechanism.release(counts, HashSource("keys"))
    assert selected.places.tolist() == [i for i in range(400) if noisy[i] >= 12 and counts[i] >= 4]
    assert selected.counts.tolist() == [noisy[i] for i in selected.places]


def test_absent_keys_and_keys_below_the_least_count_never_appear() -> None:
    eager = Threshold(1, 1, Fraction(50), 2, ADD, min_count=2)
    assert eager.release(np.zeros(2000, dtype=np.int64), HashSource(1)).places.tolist() == []
    assert eager.release(np.ones(2000, dtype=np.int64), HashSource(1)).places.tolist() == []
    assert len(eager.release(np.full(2000, 2), HashSource(1)).places) > 500


def test_the_bytes_drawn_do_not_depend_on_the_counts() -> None:
    mechanism, drawn = Threshold.by_loss(1, "1e-6", 1, 1, ADD), set()
    for counts in (np.zeros(300, dtype=np.int64), np.full(300, 10**9)):
        source = ScriptedSource(HashSource("fixed").read(100_000))
        mechanism.release(counts, source)
        drawn.add(source.given)
    assert len(drawn) == 1


@pytest.mark.parametrize("chance", [Fraction(1, 100), Fraction(1, 2), Fraction(95, 100), Fraction(999999, 10**6)])
@pytest.mark.parametrize("least", [1, 30])
def test_units_for_is_the_smallest_count_that_is_kept_as_often(chance: Fraction, least: int) -> None:
    mechanism = Threshold(1, 1, Fraction(4), 20 + least, ADD, min_count=least)
    units = mechanism.units_for(chance)
    with mp.workdps(60):
        assert laplace_tail(Fraction(4), mechanism.threshold - units) >= real(chance)
        assert units == least or laplace_tail(Fraction(4), mechanism.threshold - units + 1) < real(chance)


def test_the_margin_is_that_of_the_noise() -> None:
    assert [Threshold(1, 1, Fraction(10), 99, ADD).margin(Fraction(c, 100)) for c in (90, 95, 99)] == [23, 30, 46]


@pytest.mark.parametrize("times", [2, 3, 40, 1000])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 3), Fraction(99, 100)])
def test_a_share_of_delta_is_rounded_down_and_its_sum_up(delta: Fraction, times: int) -> None:
    share = share_of_delta(delta, times)
    with mp.workdps(60):
        exact = -mp.expm1(mp.log1p(-real(delta)) / times)
        assert 0 <= 1 - real(share) / exact < mpf(2) ** -60
    assert 1 - (1 - share) ** times <= delta
    bits = 256
    stated = chance_of_any(-((-share.numerator << bits) // share.denominator), bits, times)
    assert 0 <= stated - (1 - (1 - share) ** times) < stated / 2**60


def test_a_delta_that_no_threshold_can_promise_is_refused_and_not_sought_for_ever() -> None:
    with pytest.raises(BadParameter, match="promise"):
        Threshold.by_loss(1, Fraction(1, 2**4095), 1, 4, ADD)
    assert Threshold.by_loss(1, Fraction(1, 2**4000), 1, 4, ADD).delta <= Fraction(1, 2**4000)


def test_the_places_of_shown_keys_are_not_printed() -> None:
    shown = Threshold(1, 1, Fraction(1, 100), 15, ADD).release([0, 30, 0, 30], HashSource("places"))
    assert shown.places.tolist() == [1, 3]
    assert repr(shown) == "Selected(counts=array([30, 30]))"


def test_a_source_that_dies_releases_nothing() -> None:
    with pytest.raises(SourceDied):
        Threshold(1, 1, Fraction(3), 12, ADD).release([100, 100], ScriptedSource(b"\x01"))


@pytest.mark.parametrize("noise", [2**62, 2**62 + 1, -(2**62) - 1])
def test_noise_that_could_wrap_is_a_broken_source(noise: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda *_: np.array([noise]))
    with pytest.raises(EntropyFailed):
        Threshold(1, 1, Fraction(2**48), 2**50, ADD).release([2**62], ScriptedSource(b""))


def test_scales_beyond_the_machine_word_are_added_as_python_integers() -> None:
    counts = Threshold(1, 1, Fraction(2**70), 1, ADD).release([2**62] * 20, HashSource("wide")).counts
    assert counts.dtype == object
    assert max(counts) > 2**63


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Threshold(0, 1, Fraction(1), 10, ADD),
        lambda: Threshold(1, 0, Fraction(1), 10, ADD),
        lambda: Threshold(1, 1, Fraction(0), 10, ADD),
        lambda: Threshold(1, 1, 1.5, 10, ADD),  # type: ignore[arg-type]
        lambda: Threshold(1, 1, Fraction(1), 10, "both"),  # type: ignore[arg-type]
        lambda: Threshold(1, 1, Fraction(1), 10, ADD, min_count=0),
        lambda: Threshold(1, 1, Fraction(1), -(10**6), ADD),
        lambda: Threshold.by_loss(0, "1e-6", 1, 1, ADD),
        lambda: Threshold.by_loss(1, 0, 1, 1, ADD),
        lambda: Threshold.by_loss(1, 1, 1, 1, ADD),
        lambda: Threshold(1, 1, Fraction(1), 10, ADD).release([-1], HashSource(0)),
        lambda: Threshold(1, 1, Fraction(1), 10, ADD).release([0.5], HashSource(0)),
        lambda: Threshold(1, 1, Fraction(1), 10, ADD).release([2**63], HashSource(0)),
        lambda: Threshold(1, 1, Fraction(1), 10, ADD).units_for(1),
        lambda: Threshold(1, 1, Fraction(1), 10, ADD).margin(Fraction(2)),
    ],
)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        bad()


def test_no_keys_give_no_keys() -> None:
    assert Threshold(1, 1, Fraction(1), 10, ADD).release([], ScriptedSource(b"")).places.tolist() == []
