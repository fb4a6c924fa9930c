"""Laws of the certified accountant: the truth lies between its two numbers, whatever the composition."""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.accounting import loss_oracle as oracle

from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.pld import Pld, bounds, delta_bounds
from sfumato.errors import BadParameter, MixedNeighbours, UnsupportedEvent

AR, RP = Neighbours.ADD_REMOVE, Neighbours.REPLACE
F = Fraction
SAMPLED = PoissonSampled(F(256, 60000), RealGaussianNoise(F(1), F(121, 100), AR))
MIXTURE = Composed(
    (
        Repeated(RealLaplaceNoise(F(1), F(20), AR), 50),
        Repeated(RealGaussianNoise(F(1), F(400), AR), 30),
        Repeated(LaplaceNoise(1, F(10), AR), 20),
    )
)
# event, delta, epsilon(delta), an epsilon, delta(epsilon): references/accounting.md, section 11
KNOWN: list[tuple[Event, str, float, int, float]] = [
    (Repeated(RealLaplaceNoise(F(1), F(10), AR), 100), "1e-6", 4.69266741468, 3, 0.00117117412153),
    (RealGaussianNoise(F(1), F(1), AR), "1e-6", 4.88655411746, 1, 0.126936737507),
    (Repeated(RandomizedResponse(F(1, 10), 2, RP), 100), "1e-6", 4.77456758811, 3, 0.00136139869483),
    (Repeated(RandomizedResponse(F(1, 100), 2, RP), 10000), "1e-6", 4.88551560101, 4, 4.69825300986e-5),
    (Repeated(Approximate(Pure(F(1, 10), AR), F(1, 10**8)), 100), "1e-5", 4.32963671402, 3, 0.00136239733294),
    (GaussianNoise(1, F(1), AR), "1e-6", 4.49959098219, 1, 0.141351339406),
    (Repeated(GaussianNoise(1, F(100), AR), 100), "1e-6", 4.88657074586, 2, 0.0209225565245),
    (Repeated(SAMPLED, 14062), "1e-5", 2.38159692142, 2, 1.19042632179e-4),
    (MIXTURE, "1e-6", 2.83433819599, 2, 2.93275108462e-4),
]
DIGITS = 1e-11  # the known values are printed to twelve digits


@pytest.mark.parametrize(("event", "delta", "epsilon", "_", "__"), KNOWN)
def test_known_epsilons_lie_between_the_bounds_and_both_are_near(
    event: Event, delta: str, epsilon: float, _: int, __: float
) -> None:
    lower, upper = bounds(event, delta)
    assert lower <= epsilon * (1 + DIGITS)
    assert upper >= epsilon * (1 - DIGITS)
    assert upper - lower < 1e-4 * epsilon


@pytest.mark.parametrize(("event", "_", "__", "epsilon", "delta"), KNOWN)
def test_known_deltas_lie_between_the_bounds_and_both_are_near(
    event: Event, _: str, __: float, epsilon: int, delta: float
) -> None:
    lower, upper = delta_bounds(event, epsilon)
    assert lower <= delta * (1 + DIGITS)
    assert upper >= delta * (1 - DIGITS)
    assert upper - lower < 1e-4 * delta


def test_ten_pure_losses_of_one_need_almost_ten() -> None:
    lower, upper = bounds(Repeated(Pure(F(1), AR), 10), 1e-6)
    assert lower <= 9.99997706582 * (1 + DIGITS)
    assert 9.99997706582 * (1 - DIGITS) <= upper < 9.9999770959


DISCRETE: list[list[tuple[Event, int]]] = [
    [(Pure(F(1, 1000), AR), 1)],
    [(Pure(F(100), AR), 1)],
    [(Pure(F(7, 10), AR), 12)],
    [(Pure(F(1, 3), AR), 5), (Pure(F(1, 7), AR), 6)],
    [(Pure(F(123457, 1000003), AR), 3), (Pure(F(765433, 1000033), AR), 2), (Pure(F(1, 9), AR), 2)],
    [(RandomizedResponse(F(1), 5, RP), 1)],
    [(RandomizedResponse(F(1, 2), 10, RP), 15)],
    [(LaplaceNoise(3, F(10), AR), 8)],
    [(LaplaceNoise(7, F(2), AR), 4), (LaplaceNoise(1, F(3), AR), 5)],
    [(LaplaceNoise(40, F(15), AR), 3)],
    [(GaussianNoise(1, F(1, 10), AR), 1)],
    [(GaussianNoise(1, F(7, 3), AR), 3)],
    [(GaussianNoise(1, F(20), AR), 2), (Pure(F(1, 10), AR), 3)],
]


@cache
def _losses(index: int) -> oracle.Law:
    return oracle.sum_of([oracle.law(event) for event, times in DISCRETE[index] for _ in range(times)])


@pytest.mark.parametrize("index", range(len(DISCRETE)), ids=[str(parts) for parts in DISCRETE])
@pytest.mark.parametrize("share", [F(0), F(1, 3), F(4, 5), F(99, 100)])
def test_discrete_compositions_bracket_the_sixty_digit_law(index: int, share: Fraction) -> None:
    parts, losses = DISCRETE[index], _losses(index)
    largest = max(loss for loss, p in losses.items() if p > mpf("1e-18"))
    epsilon = share * largest
    event = Composed(tuple(Repeated(event, times) for event, times in parts))
    lower, upper = delta_bounds(event, epsilon)
    truth = oracle.delta(losses, epsilon)
    assert lower <= truth <= upper
    assert upper - lower <= 1e-6 * truth


@pytest.mark.parametrize("index", range(len(DISCRETE)), ids=[str(parts) for parts in DISCRETE])
@pytest.mark.parametrize("delta", ["0.01", "1e-9", "1e-15"])
def test_discrete_epsilons_bracket_the_sixty_digit_law(index: int, delta: str) -> None:
    parts, losses = DISCRETE[index], _losses(index)
    lower, upper = bounds(Composed(tuple(Repeated(event, times) for event, times in parts)), delta)
    assert oracle.delta(losses, F(upper)) <= oracle.real(F(delta))
    assert lower == 0 or oracle.delta(losses, F(lower)) >= oracle.real(F(delta))
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("times", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("delta", ["0.1", "1e-5", "1e-12", "1e-15"])
@pytest.mark.parametrize("sigma_squared", [F(1), F(10**4), F(10**8), F(1, 3)])
def test_gaussians_are_never_below_the_truth_nor_above_it(times: int, delta: str, sigma_squared: Fraction) -> None:
    lower, upper = bounds(Repeated(RealGaussianNoise(F(1), sigma_squared, AR), times), delta)
    assert oracle.gaussian_delta(times / sigma_squared, upper) <= oracle.real(F(delta))
    assert lower == 0 or oracle.gaussian_delta(times / sigma_squared, lower) >= oracle.real(F(delta))
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("loss", [F(1, 1000), F(1, 2), F(3), F(100)])
@pytest.mark.parametrize("share", [F(1, 10), F(9, 10)])
def test_one_real_laplace_release_has_its_closed_form(loss: Fraction, share: Fraction) -> None:
    lower, upper = delta_bounds(RealLaplaceNoise(loss, F(1), AR), share * loss)
    truth = -mp.expm1(oracle.real(share * loss - loss) / 2)
    assert lower <= truth <= upper <= truth * (1 + 3e-9)


@pytest.mark.parametrize("epsilon", [F(1, 10), F(1, 2), F(1)])
def test_two_real_laplace_releases_bracket_their_integral(epsilon: Fraction) -> None:
    e = mpf("0.75")
    at = oracle.real(epsilon)

    def gain(loss: mpf) -> mpf:  # one more release when the first lost this much
        # P[L=e] = 1/2, density e^((l-e)/2)/4 on (-e, e), P[L=-e] = e^-e/2
        need = at - loss
        atoms = sum(p * max(0, -mp.expm1(need - place)) for p, place in ((0.5, e), (mp.exp(-e) / 2, -e)))
        start = min(max(need, -e), e)
        return atoms + mp.quad(lambda y: mp.exp((y - e) / 2) / 4 * -mp.expm1(need - y), [start, e])

    with mp.workdps(18):
        inner = mp.quad(lambda y: mp.exp((y - e) / 2) / 4 * gain(y), sorted({-e, max(-e, at - e), e}))
        truth = gain(e) / 2 + mp.exp(-e) / 2 * gain(-e) + inner
    lower, upper = delta_bounds(Repeated(RealLaplaceNoise(F(3), F(4), AR), 2), epsilon)
    assert lower <= truth <= upper <= truth * (1 + 1e-4)
    assert lower >= truth * (1 - 1e-4)


def _vectors(norm: int, largest: int) -> list[tuple[int, ...]]:
    """List every integer vector of this squared norm, up to signs and order."""
    if norm == 0:
        return [()]
    tops = [top for top in range(1, largest + 1) if top * top <= norm]
    return [(top, *rest) for top in tops for rest in _vectors(norm - top * top, top)]


@cache
def _vector_laws(norm: int, sigma_squared: Fraction) -> list[oracle.Law]:
    laws = []
    for vector in _vectors(norm, norm):
        total: oracle.Law = {F(0): mpf(1)}
        for shift in vector:
            one = oracle.shifted_gaussian(shift, sigma_squared)
            likely = {loss: p for loss, p in one.items() if p > mpf("1e-27")}
            total = {loss: p for loss, p in oracle.sum_of([total, likely]).items() if p > mpf("1e-27")}
        laws.append(total)
    return laws


NORMS = [(2, F(3)), (4, F(1)), (4, F(9)), (5, F(2)), (5, F(16)), (7, F(5)), (9, F(2)), (9, F(1, 3))]


@pytest.mark.parametrize(("norm", "sigma_squared"), NORMS)
@pytest.mark.parametrize("epsilon", [F(1, 5), F(1), F(3)])
def test_one_integer_gaussian_release_costs_what_its_worst_vector_costs(
    norm: int, sigma_squared: Fraction, epsilon: Fraction
) -> None:
    worst = max(oracle.delta(losses, epsilon) for losses in _vector_laws(norm, sigma_squared))
    lower, upper = delta_bounds(GaussianNoise(norm, sigma_squared, AR), epsilon)
    assert lower <= worst * (1 + mpf("1e-15"))  # the oracle leaves out what is less likely than 1e-27
    assert worst <= upper <= worst * (1 + 3e-9)
    assert lower >= worst * (1 - 3e-9)


def test_two_integer_gaussian_releases_cost_at_least_what_each_pair_of_vectors_costs() -> None:
    """Each release may move another vector: all pairs are below the upper bound, the best of them near the lower."""
    one = [{loss: p for loss, p in law.items() if p > mpf("1e-18")} for law in _vector_laws(4, F(3))]
    event = Repeated(GaussianNoise(4, F(3), AR), 2)
    for epsilon in (F(1, 2), F(2), F(4)):
        pairs = [oracle.delta(oracle.sum_of([a, b]), epsilon) for a in one for b in one]
        lower, upper = delta_bounds(event, epsilon)
        assert lower <= max(pairs) * (1 + mpf("1e-12"))
        assert max(pairs) <= upper * (1 + mpf("1e-12"))
        assert upper <= lower * 1.1  # in between: vectors chosen after seeing the first answer


def test_a_sampled_integer_gaussian_release_costs_what_its_worst_vector_costs() -> None:
    rate, sigma_squared = F(1, 10), F(4)
    q = oracle.real(rate)
    for epsilon in (F(1, 20), F(1, 2)):
        x = mp.exp(oracle.real(epsilon))
        truth = mpf(0)
        for law in _vector_laws(5, sigma_squared):
            # P = (1 - q) Q + q P', and P'/Q = e^loss under P' of probability p
            removed = mp.fsum(
                max(mpf(0), q * p - (x - 1 + q) * p * mp.exp(-oracle.real(loss))) for loss, p in law.items()
            )
            added = mp.fsum(
                max(mpf(0), (1 - x * (1 - q)) * p - x * q * p * mp.exp(-oracle.real(loss))) for loss, p in law.items()
            )  # by symmetry the loss of (Q, P') under Q has the same law
            truth = max(truth, removed, added)
        lower, upper = delta_bounds(PoissonSampled(rate, GaussianNoise(5, sigma_squared, AR)), epsilon)
        assert lower <= truth * (1 + mpf("1e-12"))
        assert truth * (1 - mpf("1e-12")) <= upper
        assert upper <= lower * (1 + 1e-3)


def test_on_a_fine_grid_integer_gaussian_noise_costs_what_real_noise_costs() -> None:
    _, real = bounds(RealGaussianNoise(F(25), F(10**6), AR), 1e-6)
    lower, upper = bounds(GaussianNoise(25, F(10**6), AR), 1e-6)
    assert abs(lower - real) < 1e-5 * real
    assert abs(upper - real) < 1e-5 * real


@pytest.mark.parametrize("x", [F(1, 2), F(9, 10)])
@pytest.mark.parametrize("steps", [2, 3, 5, 8])
def test_one_cell_moved_by_the_whole_sensitivity_dominates_every_split(x: Fraction, steps: int) -> None:
    """Exact, in fractions: with x = e^(-1/s) all probabilities are rational, and e^epsilon = x^-m."""
    for left in range(1, steps):
        split = _convolved(_steps_law(left, x), _steps_law(steps - left, x))
        for m in range(steps):
            assert _delta_in_steps(split, m, x) <= _delta_in_steps(_steps_law(steps, x), m, x)


def _steps_law(steps: int, x: Fraction) -> dict[int, Fraction]:
    law = {steps - 2 * j: (1 - x) / (1 + x) * x**j for j in range(1, steps)}
    return law | {steps: 1 / (1 + x), -steps: x**steps / (1 + x)}


def _convolved(a: dict[int, Fraction], b: dict[int, Fraction]) -> dict[int, Fraction]:
    result: dict[int, Fraction] = {}
    for i, p in a.items():
        for j, q in b.items():
            result[i + j] = result.get(i + j, F(0)) + p * q
    return result


def _delta_in_steps(law: dict[int, Fraction], m: int, x: Fraction) -> Fraction:
    return sum((p * (1 - x ** (loss - m)) for loss, p in law.items() if loss > m), F(0))


def test_nothing_costs_nothing_and_no_guarantee_costs_everything() -> None:
    assert bounds(Composed(()), 1e-6) == (0.0, 0.0)
    assert delta_bounds(Composed(()), 0) == (0.0, 0.0)
    assert bounds(NonPrivate(AR), 1e-6) == (math.inf, math.inf)
    assert delta_bounds(Composed((NonPrivate(AR), Pure(F(1), AR))), 5) == (1.0, 1.0)


def test_a_failure_as_likely_as_delta_leaves_the_pure_loss() -> None:
    lower, upper = bounds(Approximate(Pure(F(1), AR), F(1, 10**6)), 1e-6)
    assert 1 - 3e-9 < lower <= 1 <= upper < 1 + 3e-9
    assert bounds(Approximate(Pure(F(1), AR), F(2, 10**6)), 1e-6) == (math.inf, math.inf)


def test_failures_add_up_as_the_exact_product() -> None:
    inner = Repeated(Pure(F(1, 10), AR), 100)
    low, high = delta_bounds(inner, 3)
    lower, upper = delta_bounds(Repeated(Approximate(Pure(F(1, 10), AR), F(1, 1000)), 100), 3)
    kept = F(999, 1000) ** 100
    assert lower <= 1 - kept * (1 - F(high))
    assert 1 - kept * (1 - F(low)) <= upper
    assert upper - lower < 1e-9


def test_a_sampled_failure_counts_only_for_the_sampled() -> None:
    rate, delta = F(1, 10), F(1, 10**4)
    inner = PoissonSampled(rate, Pure(F(1), AR))
    low, high = delta_bounds(inner, F(1, 10))
    lower, upper = delta_bounds(PoissonSampled(rate, Approximate(Pure(F(1), AR), delta)), F(1, 10))
    assert lower <= rate * delta + (1 - delta) * F(high)  # a release that shows the sample when it fails
    assert upper >= rate * delta + (1 - delta) * F(low)
    assert upper - lower < 2e-4 * upper


def test_parallel_parts_cost_what_the_worst_of_them_costs() -> None:
    parts: tuple[Event, ...] = (Pure(F(1), AR), RealGaussianNoise(F(1), F(1), AR), LaplaceNoise(2, F(3), AR))
    for epsilon in (F(1, 10), F(9, 10), F(2)):
        each = [delta_bounds(part, epsilon) for part in parts]
        assert delta_bounds(Parallel(parts), epsilon) == (max(a for a, _ in each), max(b for _, b in each))
    assert bounds(Parallel(parts), 1e-6) == max(bounds(part, 1e-6) for part in parts)


def test_a_bounded_range_costs_between_its_symmetric_case_and_its_pure_bound() -> None:
    lower, upper = bounds(Repeated(BoundedRange(F(1, 5), AR), 50), 1e-6)
    assert bounds(Repeated(Pure(F(1, 10), AR), 50), 1e-6)[0] * (1 - 1e-6) <= lower <= upper
    assert upper < bounds(Repeated(Pure(F(1, 5), AR), 50), 1e-6)[1]


@pytest.mark.parametrize("share", [F(1, 10), F(1, 2), F(19, 20)])
def test_one_bounded_range_release_has_the_curve_of_its_worst_pair(share: Fraction) -> None:
    e = F(3, 2)
    y = oracle.real(share * e)
    truth = mp.expm1((y - oracle.real(e)) / 2) ** 2 / -mp.expm1(-oracle.real(e))
    lower, upper = delta_bounds(BoundedRange(e, AR), share * e)
    assert lower <= truth <= upper <= truth * (1 + 1e-4)
    assert lower >= truth * (1 - 1e-4)


def test_a_concentrated_release_costs_between_the_gaussian_and_the_tail_bound() -> None:
    lower, upper = bounds(Concentrated(F(1, 2), AR), 1e-6)
    assert 4.8865 <= lower <= 4.8865541175 <= upper  # the Gaussian with this rho
    assert upper <= 5.221534445 * (1 + 1e-6)  # [CKS20]


@pytest.mark.parametrize("delta", [1, -1e-6, 2, math.nan, "much", True])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    with pytest.raises(BadParameter):
        bounds(Pure(F(1), AR), delta)


@pytest.mark.parametrize("epsilon", [-1, -1e-300, math.nan, math.inf, "x", 10**400])
def test_an_epsilon_that_is_no_loss_is_refused(epsilon: float) -> None:
    with pytest.raises(BadParameter):
        delta_bounds(Pure(F(1), AR), epsilon)


def test_what_is_not_an_event_is_refused() -> None:
    strangers: list[Any] = [[], {}, None, "pure", 3]
    for stranger in strangers:
        with pytest.raises(UnsupportedEvent, match="cannot bound"):
            bounds(stranger, 1e-6)
        with pytest.raises(UnsupportedEvent, match="cannot bound"):
            delta_bounds(stranger, 1)


EVENTS = st.one_of(
    st.builds(lambda n: Pure(F(n, 97), AR), st.integers(1, 200)),
    st.builds(lambda d, n: LaplaceNoise(d, F(n, 3), AR), st.integers(1, 5), st.integers(2, 90)),
    st.builds(lambda n: GaussianNoise(1, F(n, 2), AR), st.integers(1, 400)),
    st.builds(lambda n: RealLaplaceNoise(F(1), F(n, 7), AR), st.integers(3, 200)),
    st.builds(lambda n: RealGaussianNoise(F(1), F(n, 7), AR), st.integers(3, 2000)),
    st.builds(lambda n: BoundedRange(F(n, 50), AR), st.integers(1, 100)),
)


EXTREMES: list[Event] = [
    Composed((BoundedRange(F(1, 10**200), AR), PoissonSampled(F(1, 2), RealGaussianNoise(F(1), F(1), AR)))),
    Composed((BoundedRange(F(10**200), AR), PoissonSampled(F(1, 2), RealGaussianNoise(F(1), F(1), AR)))),
    BoundedRange(F(10**10), AR),
    BoundedRange(F(1, 10**300), AR),
    Composed((Pure(F(10**300), AR), RealLaplaceNoise(F(1), F(10**300), AR), GaussianNoise(1, F(1, 10**300), AR))),
    Repeated(Composed((RealLaplaceNoise(F(10**150), F(1), AR), GaussianNoise(9, F(21), AR))), 10**9),
    PoissonSampled(1 - F(1, 10**21), Parallel((LaplaceNoise(5, F(10**60), AR), Concentrated(F(10**300), AR)))),
    PoissonSampled(F(1, 10**300), Repeated(GaussianNoise(10**9, F(10**300), AR), 10**9)),
    Approximate(Concentrated(F(1, 10**300), AR), 1 - F(1, 10**30)),
    Pure(F(10**400), AR),
]


@pytest.mark.parametrize("event", EXTREMES, ids=range(len(EXTREMES)))
def test_parameters_at_the_ends_of_the_floats_are_bounded_and_raise_nothing(event: Event) -> None:
    for delta in (F(1, 10**300), F(999, 1000)):
        lower, upper = bounds(event, delta)
        assert 0 <= lower <= upper
    for epsilon in (F(0), F(10**6)):
        lower, upper = delta_bounds(event, epsilon)
        assert 0 <= lower <= upper <= 1


def test_far_below_the_epsilon_it_was_laid_for_a_contour_claims_nothing() -> None:
    """Laplace noise and a bounded range, at a delta near the largest loss: the lower side has its own, smaller, end."""
    event = Composed((LaplaceNoise(2, F(82, 3), AR), BoundedRange(F(3, 25), AR)))
    lower, upper = bounds(event, 1e-8)
    assert F(6, 82) + F(3, 50) - F(1, 1000) < lower <= upper <= F(6, 82) + F(3, 25)


@settings(max_examples=5, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), EVENTS, st.integers(1, 30), st.sampled_from([1e-3, 1e-8, 1e-14]))
def test_more_events_never_cost_less_and_bounds_are_in_order(
    events: list[Event], another: Event, times: int, delta: float
) -> None:
    lower, upper = bounds(Composed(tuple(events)), delta)
    assert 0 <= lower <= upper < math.inf
    more_lower, more_upper = bounds(Composed((*events, Repeated(another, times))), delta)
    assert more_lower <= more_upper
    assert lower <= more_upper  # the truths are in order, so these are


@settings(max_examples=5, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.sampled_from([1e-3, 1e-8, 1e-14]))
def test_the_delta_of_an_epsilon_bound_is_on_its_side(events: list[Event], delta: float) -> None:
    event = Composed(tuple(events))
    lower, upper = bounds(event, delta)
    assert delta_bounds(event, upper)[0] <= delta
    assert lower == 0 or delta_bounds(event, lower)[1] >= delta


def test_an_accountant_that_grew_agrees_with_one_that_started_over() -> None:
    events = [LaplaceNoise(1 + i % 3, F(100 + i), AR) for i in range(120)]
    history = Pld.of(Composed(tuple(events[:100])), 1e-6)
    before = history.bounds()
    for event in events[100:]:
        history = history.compose(event)
    lower, upper = history.bounds()
    low, high = bounds(Composed(tuple(events)), 1e-6)
    assert max(lower, low) <= min(upper, high)
    assert upper - lower < 1e-4 * upper
    assert Pld.of(Composed(tuple(events[:100])), 1e-6).bounds() == before


def test_composing_refuses_another_neighbour_relation() -> None:
    with pytest.raises(MixedNeighbours):
        Pld.of(Pure(F(1), AR), 1e-6).compose(Pure(F(1), RP))


def test_equal_events_are_one_however_they_are_nested() -> None:
    pure = Pure(F(1, 10), AR)
    nested = Composed((Repeated(Composed((pure, Repeated(pure, 4))), 10), Repeated(pure, 50)))
    assert bounds(nested, 1e-6) == bounds(Repeated(pure, 100), 1e-6)


@pytest.mark.parametrize("digits", [10, 12])
def test_a_value_printed_with_ten_digits_still_lies_inside(digits: int) -> None:
    """A bracket narrower than the paper it is printed on would exclude the truth as people write it."""
    for event, delta in ((RealGaussianNoise(F(1), F(1), AR), 1e-6), (Repeated(Pure(F(1, 10), AR), 100), 1e-9)):
        lower, upper = bounds(event, delta)
        assert lower <= float(f"{(lower + upper) / 2:.{digits - 1}e}") <= upper


@pytest.mark.parametrize("variance", [10**7, 3 * 10**8, 10**9, 3 * 10**9, 10**12])
@pytest.mark.parametrize("delta", ["1e-6", "1e-9"])
def test_on_a_fine_grid_integer_noise_costs_what_real_noise_costs(variance: int, delta: str) -> None:
    """The lattice has 10^4 points and more per deviation: the two laws differ by less than a millionth."""
    lower, upper = bounds(GaussianNoise(1, F(variance), AR), delta)
    least, most = bounds(RealGaussianNoise(F(1), F(variance), AR), delta)
    assert lower <= most * (1 + 1e-6)
    assert least <= upper * (1 + 1e-6)
    assert upper - lower <= 1e-6 * max(upper, 1e-9)
