"""Optimal key selection: the keep probability in three independent ways, its privacy, and that none is larger."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import ROUNDING, real, worst
from tests.laws.keys import keep_probabilities, laplace_tail, optimal_cases
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import Approximate, Neighbours, Pure, Repeated
from sfumato.certified.binary import exp_minus_bounds
from sfumato.errors import BadParameter
from sfumato.mechanisms.optimal_selection import KeepProbability, OptimalSelection, _bends, _thresholds
from sfumato.mechanisms.threshold import Threshold

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
CASES = optimal_cases()
LOSSES = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 10), Fraction(1, 10**9)),
    (Fraction(5), Fraction(1, 100)),
    (Fraction(1), Fraction(1, 2)),
    (Fraction(1), Fraction(3, 5)),
    (Fraction(1, 3), Fraction(2, 5)),
    (Fraction(50), Fraction(1, 10**5)),
]


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES)
def test_closed_form_table_and_recurrence_agree(epsilon: Fraction, delta: Fraction) -> None:
    turns, table = _bends(epsilon, delta), _thresholds(epsilon, delta)
    with mp.workdps(120):
        rates = [mpf(0)]
        grown, small = mp.exp(mpf(epsilon.numerator) / epsilon.denominator), mpf(delta.numerator) / delta.denominator
        while rates[-1] < 1:
            rates.append(min(grown * rates[-1] + small, 1 - (1 - rates[-1] - small) / grown, mpf(1)))
        assert (turns.sure, len(table)) == (len(rates) - 1, len(rates) - 1)
        for units, rate in enumerate(rates):
            low, high = KeepProbability(epsilon, delta, units).bounds(150)
            assert high - low <= 1
            assert mpf(low) - mpf(10) ** -30 <= rate * mpf(2) ** 150 <= mpf(high) + mpf(10) ** -30
            assert units == turns.sure or 0 <= rate * 2**64 - int(table[units]) < 1


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES)
def test_the_papers_closed_form_gives_the_same_turning_points(epsilon: Fraction, delta: Fraction) -> None:
    with mp.workdps(60):
        e, d = mp.exp(real(epsilon)), real(delta)
        bend = 1 + int(mp.floor(mp.log((e + 2 * d - 1) / ((e + 1) * d)) / real(epsilon)))
        top = d * (e**bend - 1) / (e - 1)
        last = bend + int(mp.floor(mp.log(1 + (e - 1) / d * (1 - top)) / real(epsilon)))
        if delta < Fraction(1, 2):  # above, the first step already decides
            assert _bends(epsilon, delta).bend == bend
            assert _bends(epsilon, delta).sure == last + 1


def test_a_key_of_one_unit_appears_with_delta_exactly_and_an_absent_key_never() -> None:
    assert KeepProbability(Fraction(1), Fraction(1, 1000), 1).rational() == Fraction(1, 1000)
    assert KeepProbability(Fraction(1), Fraction(1, 1000), 0).bounds(64) == (0, 0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neighbours_stay_within_the_stated_loss_exactly(case: Case) -> None:
    with mp.workdps(60):
        assert worst(case, case.epsilon) <= real(case.delta) + real(ROUNDING)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_half_the_delta_or_nine_tenths_of_the_epsilon_would_be_too_little(case: Case) -> None:
    with mp.workdps(60):
        assert worst(case, case.epsilon) > real(case.delta / 2)
        if case.delta < Fraction(1, 2):  # with two units to be sure there is no step at which epsilon decides
            assert worst(case, case.epsilon * Fraction(9, 10)) > real(case.delta)


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_delta_is_attained_by_some_pair(place: int) -> None:
    with mp.workdps(60):
        assert worst(CASES[place], CASES[place].epsilon) > real(CASES[place].delta * (1 - Fraction(1, 10**15)))


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES[:3])
def test_no_probability_could_be_raised_without_breaking_the_loss(epsilon: Fraction, delta: Fraction) -> None:
    rates = keep_probabilities(epsilon, real(delta), _bends(epsilon, delta).sure)
    with mp.workdps(60):
        grown, more = mp.exp(real(epsilon)), mpf(10) ** -30
        for before, after in pairwise(rates):
            raised = after + more
            assert (
                raised > 1 or raised > grown * before + real(delta) or 1 - before > grown * (1 - raised) + real(delta)
            )


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("epsilon", "delta"), LOSSES[:3])
def test_it_keeps_every_key_at_least_as_often_as_the_laplace_threshold_of_the_same_cost(
    epsilon: Fraction, delta: Fraction, groups: int
) -> None:
    optimal = OptimalSelection(epsilon, delta, groups, ADD)
    laplace = Threshold.by_loss(epsilon, delta, 1, groups, ADD)
    sure = optimal.units_for("0.999999999999")
    rates = keep_probabilities(optimal.epsilon_per_key, real(optimal.delta_per_key), sure)
    with mp.workdps(60):
        tails = [laplace_tail(laplace.scale, laplace.threshold - units) for units in range(1, sure + 1)]
        assert all(rate >= tail - mpf(2) ** -60 for rate, tail in zip(rates[1:], tails, strict=True))
        assert any(rate > tail for rate, tail in zip(rates[1:], tails, strict=True))
    assert optimal.units_for("0.5") <= laplace.units_for("0.5")


def test_the_event_counts_one_decision_for_each_key_that_a_unit_touches() -> None:
    delta = Fraction(1, 10**6)
    assert OptimalSelection(Fraction(1), delta, 1, ADD).event == Approximate(Pure(Fraction(1), ADD), delta)
    shared = OptimalSelection(Fraction(1), delta, 3, REPLACE).event
    assert shared == Approximate(Repeated(Pure(Fraction(1, 6), REPLACE), 6), delta)


@pytest.mark.parametrize("units", [1, 2, 9, 14, 15, 20, 27])
def test_a_word_below_the_threshold_keeps_a_word_above_drops_and_the_word_itself_draws_more(units: int) -> None:
    mechanism = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD)
    low, high = mechanism.keep(units).bounds(128)
    word, rest = divmod(low, 2**64)

    def kept(value: int, more: bytes = b"") -> bool:
        source = ScriptedSource(value.to_bytes(8, "little") + more)
        places = mechanism.release([units], source).tolist()
        assert source.given == 8 + len(more)
        return bool(places == [0])

    assert (kept(word - 1), kept(word + 2)) == (True, False)
    assert kept(word, (rest - 1).to_bytes(8, "big"))
    assert not kept(word, (rest + 1).to_bytes(8, "big"))
    assert high - low == 1


def test_a_draw_that_needs_more_bits_leaves_no_trace_of_the_number_of_units() -> None:
    mechanism = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD)
    word = mechanism.keep(9).bounds(64)[0]
    mechanism.release([9], HashSource("warm"))  # the table, which is public
    before = exp_minus_bounds.cache_info()
    mechanism.release([9], ScriptedSource(word.to_bytes(8, "little") + bytes(8)))
    assert exp_minus_bounds.cache_info() == before


def test_absent_keys_never_appear_sure_keys_always_and_each_draws_one_word() -> None:
    mechanism = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD)
    source = ScriptedSource(b"\x00" * 24)
    assert mechanism.release([0, 0, 0], source).tolist() == []
    assert source.given == 24
    source = ScriptedSource(b"\xff" * 32)
    assert mechanism.release([28, 27, 29, 2**62], source).tolist() == [0, 2, 3]
    assert source.given == 32


def test_a_least_number_of_units_shifts_the_law() -> None:
    plain = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD)
    later = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD, min_units=5)
    assert later.keep(4).bounds(64) == (0, 0)
    assert all(later.keep(units + 4) == plain.keep(units) for units in range(1, 30))
    assert later.units_for("0.5") == plain.units_for("0.5") + 4
    counts = np.arange(200) % 40
    shifted = later.release(counts + 4, HashSource("same")).tolist()
    assert plain.release(counts, HashSource("same")).tolist() == shifted


@pytest.mark.parametrize("chance", ["1e-6", "1e-7", "0.01", "0.5", "0.95", "0.999999999"])
def test_units_for_is_the_smallest_number_of_units_kept_as_often(chance: str) -> None:
    mechanism = OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD)
    rates = keep_probabilities(Fraction(1), real(Fraction(1, 10**6)), 30)
    with mp.workdps(60):
        assert mechanism.units_for(chance) == next(n for n, rate in enumerate(rates) if rate >= real(Fraction(chance)))
    assert mechanism.margin(chance) == mechanism.units_for(chance)


def test_keys_are_kept_as_often_as_stated_two_sided_z_at_1e_6() -> None:
    mechanism, count = OptimalSelection(Fraction(1), Fraction(1, 1000), 2, ADD), 100_000
    rates = keep_probabilities(mechanism.epsilon_per_key, real(mechanism.delta_per_key), 30)
    for units in (10, 13, 16, 20):
        rate = float(rates[units])
        kept = len(mechanism.release(np.full(count, units), HashSource(units)))
        assert abs(kept - count * rate) < 4.9 * (count * rate * (1 - rate)) ** 0.5  # P < 1e-6


@pytest.mark.parametrize(
    "bad",
    [
        lambda: OptimalSelection(Fraction(0), Fraction(1, 10), 1, ADD),
        lambda: OptimalSelection(1.0, Fraction(1, 10), 1, ADD),  # type: ignore[arg-type]
        lambda: OptimalSelection(Fraction(1), Fraction(0), 1, ADD),
        lambda: OptimalSelection(Fraction(1), Fraction(1), 1, ADD),
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 0, ADD),
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 1, None),  # type: ignore[arg-type]
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 1, ADD, min_units=0),
        lambda: OptimalSelection(Fraction(2000), Fraction(1, 10), 1, ADD),
        lambda: OptimalSelection(Fraction(1, 10**6), Fraction(1, 10**9), 1, ADD),
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 1, ADD).release([-1], HashSource(0)),
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 1, ADD).keep(-1),
        lambda: OptimalSelection(Fraction(1), Fraction(1, 10), 1, ADD).units_for(0),
    ],
)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        bad()
