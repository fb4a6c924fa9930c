"""The truth, found by brute force, lies between the certified bounds, whoever is added or removed."""

import math
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting import pair_oracle as oracle
from tests.accounting.compositions import AR, COMPOSITIONS, DELTAS, FOUND

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Parallel,
    PoissonSampled,
    Pure,
    RealGaussianNoise,
    Repeated,
)
from sfumato.errors import UnsupportedEvent
from sfumato.mechanisms.gaussian import Gaussian

F = Fraction
ASKED = 1.1e-6  # relative width of the engines' own bounds up to which no other accountant is asked
ROUNDING = 1e-8  # of the oracle's floats, and of the tenth digit that is rounded outwards


def the_truth_lies_between(event: Event, epsilon: float, target: Fraction) -> None:
    members = oracle.members(event)

    def at_least(loss: float) -> float:
        return max(oracle.delta(member.least, loss) for member in members)

    def at_most(loss: float) -> float:
        return max(oracle.delta(member.most, loss) for member in members)

    lower, upper = pld.delta_bounds(event, epsilon)
    assert lower <= at_most(epsilon) * (1 + ROUNDING) + 1e-13
    assert upper >= at_least(epsilon) * (1 - ROUNDING) - 1e-13
    lower, upper = pld.bounds(event, target)
    assert 0 <= lower <= upper
    assert lower == 0 or at_most(min(lower, 500.0) * (1 - ROUNDING)) >= target * (1 - F(ROUNDING))
    assert upper > 500 or at_least(upper * (1 + ROUNDING) + 1e-13) <= target * (1 + F(ROUNDING))


@pytest.mark.parametrize("event", FOUND, ids=str)
@pytest.mark.parametrize(("epsilon", "target"), [(0.0, F(1, 20)), (0.3, F(1, 1000))])
def test_the_truth_lies_between_the_bounds(event: Event, epsilon: float, target: Fraction) -> None:
    the_truth_lies_between(event, epsilon, target)


@settings(max_examples=25)
@given(COMPOSITIONS, st.sampled_from([0.0, 0.1, 0.7, 2.0]), DELTAS)
def test_the_truth_lies_between_the_bounds_of_random_compositions(
    event: Event, epsilon: float, target: Fraction
) -> None:
    the_truth_lies_between(event, epsilon, target)


def test_where_adding_decides_a_failure_in_the_sample_is_not_a_failure_of_the_whole() -> None:
    """The case that was certified wrongly: a lower bound of 0.4164 where the truth is 0.4045."""
    both = pld.bounds(FOUND[0], F(1, 20))
    (member,) = oracle.members(FOUND[0])
    truth = oracle.crossing(lambda loss: oracle.delta(member.least, loss), F(1, 20))
    assert both[0] <= truth <= both[1] <= both[0] * 1.0001


ACCOUNTANTS: list[Callable[[Event, Fraction], float]] = [
    zcdp.epsilon,
    rdp.epsilon,
    lambda event, _: float(pure.epsilon(event)),
]


def known(accountant: Callable[[Event, Fraction], float], event: Event, delta: Fraction) -> float:
    """Return what an accountant says, or infinity if it has no theorem for the event."""
    try:
        return accountant(event, delta)
    except UnsupportedEvent:
        return math.inf


def no_accountant_says_less(event: Event, delta: Fraction) -> None:
    lower, upper = pld.bounds(event, delta)
    assert 0 <= lower <= upper
    for accountant in ACCOUNTANTS:
        assert upper <= known(accountant, event, delta) * (1 + ASKED)


LONGER: list[Event] = [
    *FOUND,
    Repeated(BoundedRange(F(1, 2), AR), 50),
    Repeated(BoundedRange(F(1, 5), AR), 200),
    Repeated(Concentrated(F(1, 200), AR), 50),
    Composed((Repeated(BoundedRange(F(1, 2), AR), 50), Repeated(PoissonSampled(F(1, 10), Pure(F(1), AR)), 10))),
    Composed((Concentrated(F(1, 3), AR), Parallel((Concentrated(F(1, 2), AR), RealGaussianNoise(F(1), F(2), AR))))),
    Repeated(PoissonSampled(F(1, 100), Approximate(RealGaussianNoise(F(1), F(1), AR), F(1, 10**8))), 100),
    Repeated(GaussianNoise(100, F(400), AR), 3),
]


@pytest.mark.parametrize("event", LONGER, ids=str)
@pytest.mark.parametrize("delta", [F(1, 1000), F(1, 10**7)])
def test_the_certified_upper_bound_is_the_least_that_any_accountant_knows(event: Event, delta: Fraction) -> None:
    no_accountant_says_less(event, delta)


@settings(max_examples=15)
@given(COMPOSITIONS, DELTAS)
def test_no_accountant_says_less_of_random_compositions(event: Event, delta: Fraction) -> None:
    no_accountant_says_less(event, delta)


@pytest.mark.parametrize("event", LONGER, ids=str)
def test_delta_is_bounded_by_what_the_renyi_accountant_knows(event: Event) -> None:
    for epsilon in (F(1), F(8)):
        lower, upper = pld.delta_bounds(event, epsilon)
        assert 0 <= lower <= upper <= known(rdp.delta, event, epsilon) * (1 + ASKED)


@pytest.mark.parametrize("delta", [F(1, 10**9), F(1, 10**12)])
@pytest.mark.parametrize("rate", [F(1, 2), F(1, 100), F(1, 10**5)])
@pytest.mark.parametrize(
    "inner",
    [
        Pure(F(1), AR),
        LaplaceNoise(3, F(10), AR),
        GaussianNoise(5, F(9), AR),
        RealGaussianNoise(F(1), F(4), AR),
        BoundedRange(F(1), AR),
        Repeated(LaplaceNoise(1, F(5), AR), 3),
        Approximate(Pure(F(1), AR), F(1, 10**15)),
    ],
    ids=str,
)
def test_one_release_on_a_sample_is_bracketed_closely_at_a_small_delta(
    inner: Event, rate: Fraction, delta: Fraction
) -> None:
    lower, upper = pld.bounds(PoissonSampled(rate, inner), delta)
    assert 0 < lower <= upper <= lower * 1.0001


def test_concentrated_releases_are_bounded_wherever_they_stand() -> None:
    noise, bound = RealGaussianNoise(F(1), F(4), AR), Concentrated(F(1, 8), AR)
    for event in (
        Repeated(PoissonSampled(F(1, 10), bound), 10),
        Composed((bound, Repeated(PoissonSampled(F(1, 10), noise), 10))),
        PoissonSampled(F(1, 10), Composed((bound, noise))),
        Composed((noise, Parallel((bound, Pure(F(1), AR))))),
    ):
        lower, upper = pld.bounds(event, F(1, 10**6))
        assert 0 < lower < upper < 10 * lower


SAMPLES = [PoissonSampled(rate, GaussianNoise(1, v, AR)) for rate in (F(1, 100), F(1, 3)) for v in (F(1), F(10**4))]
SINGLE_CALLS: dict[str, Callable[[], object]] = {
    "one coarse release": lambda: pld.bounds(LaplaceNoise(500_000, F(5_000_000), AR), 1e-6),
    "three of them": lambda: pld.bounds(Repeated(LaplaceNoise(500_000, F(5_000_000), AR), 3), 1e-6),
    "calibration over 10,000 cells": lambda: Gaussian.by_loss(1, 1e-6, 10**4, AR),
    "calibration over 40 cells": lambda: Gaussian.by_loss(5, 1e-5, 40, AR),
    **{f"rdp {one}": lambda one=one: rdp.epsilon(one, 1e-6) for one in SAMPLES},  # type: ignore[misc]
    **{f"rdp 1000 {one}": lambda one=one: rdp.epsilon(Repeated(one, 1000), 1e-6) for one in SAMPLES},  # type: ignore[misc]
    "rdp real": lambda: rdp.epsilon(PoissonSampled(F(1, 3), RealGaussianNoise(F(1), F(100), AR)), 1e-6),
    "sampled and concentrated": lambda: pld.bounds(FOUND[5], 1e-6),
}


@pytest.mark.parametrize("name", SINGLE_CALLS)
def test_no_single_call_takes_a_second(name: str) -> None:
    """Processor time, since machines are shared, of the best of two; measured at 0.01 to 0.7 s, allowed 2."""
    spent = []
    for _ in range(2):
        start = time.process_time()
        SINGLE_CALLS[name]()
        spent.append(time.process_time() - start)
        if spent[-1] < 1:
            break
    assert min(spent) < 2
