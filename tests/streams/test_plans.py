"""What plans say of themselves: known values, independent computations, bounds that nothing goes below."""

from fractions import Fraction
from itertools import combinations, pairwise, product
from math import log, pi, sin, sqrt

import numpy as np
import pytest
from tests.streams.plans_of_all_kinds import ADD

from sfumato.accounting.event import Concentrated, GaussianNoise, LaplaceNoise, Neighbours, Pure, Repeated
from sfumato.errors import BadParameter
from sfumato.streams.plans import GaussianSums, PeriodTables, TreeSums, UnboundedSums, WindowEvents
from sfumato.streams.toeplitz import square_root

HALF = Fraction(1, 2)
"""At this rho an error is its own unit constant."""


def lower_bound(steps: int) -> float:
    return sum(1 / (2 * sin((2 * j - 1) * pi / (4 * steps + 2))) for j in range(1, steps + 1)) / steps


def decoding_matrix(coefficients: object) -> np.ndarray:
    """Return A·C^-1, by solving: another way than power series."""
    series = np.asarray(coefficients, dtype=np.float64)
    steps = len(series)
    lower = sum(np.diag(np.full(steps - j, series[j]), -j) for j in range(steps))
    summing = np.tril(np.ones((steps, steps)))
    return np.linalg.solve(np.asarray(lower).T, summing.T).T


@pytest.mark.parametrize(
    ("steps", "mean", "most", "bound"),
    [
        (10, 1.653180580767, 1.791343941586, 1.497933074835),
        (100, 2.370658207297, 2.531352112636, 2.177703116737),
        (1000, 3.102239063529, 3.265003080672, 2.902063362253),
        (10_000, 3.835610968757, 3.998010291062, 3.633812006968),
        (100_000, 4.569033526987, 4.730953051832, 4.366595932359),
    ],
)
def test_the_errors_of_the_square_root_are_those_of_the_literature(
    steps: int, mean: float, most: float, bound: float
) -> None:
    plan = GaussianSums.by_rho(HALF, steps, ADD)
    assert plan.rmse == pytest.approx((mean, most), rel=1e-7)
    assert lower_bound(steps) == pytest.approx(bound, rel=1e-9)
    assert plan.rmse[0] > bound


def test_coefficients_and_sensitivities_are_the_known_integers() -> None:
    plan = GaussianSums(6, Fraction(1), ADD)
    assert plan.coefficients.tolist() == [1048576, 524288, 393216, 327680, 286720, 258048]
    assert plan.event == GaussianNoise(1785179668480, Fraction(1), ADD)
    assert GaussianSums(100, Fraction(1), ADD).event.sensitivity_squared == 2783250715848
    assert GaussianSums(1000, Fraction(1), ADD).event.sensitivity_squared == 3589908814280
    several = GaussianSums(1000, Fraction(1), ADD, participations=4, separation=250)
    assert several.event.sensitivity_squared / 2**40 == pytest.approx(19.222791682, rel=1e-9)


def test_the_rounded_coefficients_are_the_nearest_integers_and_never_rise() -> None:
    scale, exact = 2**20, Fraction(1)
    for place, coefficient in enumerate(square_root(300, scale).tolist()):
        assert abs(coefficient - scale * exact) <= HALF
        exact *= Fraction(2 * place + 1, 2 * place + 2)
    assert (np.diff(square_root(5000, 7)) <= 0).all()


@pytest.mark.parametrize("buffers", [0, 2, 5])
@pytest.mark.parametrize("scale", [4, 2**20])
def test_variances_are_those_of_a_solved_system(buffers: int, scale: int) -> None:
    plan = GaussianSums(90, Fraction(50), ADD, buffers=buffers, scale=scale)
    decoding = decoding_matrix(plan.coefficients)
    assert plan.variance() == pytest.approx(50 * (decoding**2).sum(axis=1), rel=1e-9)
    for width in (1, 7, 90, 200):
        earlier = np.vstack([np.zeros((min(width, 90), 90)), decoding])[:90]
        assert plan.window_variance(width) == pytest.approx(50 * ((decoding - earlier) ** 2).sum(axis=1), rel=1e-9)
    assert plan.window_variance(200) == pytest.approx(plan.variance())


def test_the_variance_of_a_window_is_not_the_sum_of_two() -> None:
    plan = GaussianSums.by_rho(HALF, 400, ADD)
    assert plan.window_variance(30)[-1] < 0.6 * (plan.variance()[-1] + plan.variance()[-31])


@pytest.mark.parametrize(("participations", "separation"), [(1, 1), (2, 1), (2, 3), (3, 2), (4, 2), (9, 1)])
@pytest.mark.parametrize("buffers", [0, 3])
def test_no_pattern_of_participation_moves_more_than_the_event_says(
    participations: int, separation: int, buffers: int
) -> None:
    steps = 7
    plan = GaussianSums(
        steps, Fraction(1), ADD, participations=participations, separation=separation, scale=64, buffers=buffers
    )
    series = np.asarray(plan.coefficients, dtype=np.float64)
    worst = 0.0
    for count in range(1, participations + 1):
        for places in combinations(range(steps), count):
            if any(later - earlier < separation for earlier, later in pairwise(places)):
                continue
            for signs in product((1, -1), repeat=count):
                moved = np.zeros(steps)
                for place, sign in zip(places, signs, strict=True):
                    moved[place:] += sign * series[: steps - place]
                worst = max(worst, float((moved**2).sum()))
    claimed = plan.event.sensitivity_squared
    assert worst <= claimed * (1 + 1e-12)
    assert claimed == pytest.approx(worst, rel=0 if not buffers else 1e-3, abs=1e-9 if buffers == 0 else 1)


def test_a_target_is_read_as_it_was_typed() -> None:
    assert GaussianSums.by_rho(0.1, 9, ADD) == GaussianSums.by_rho("1/10", 9, ADD)


def test_a_change_is_a_factor_of_the_sensitivity() -> None:
    one, many = GaussianSums(9, Fraction(1), ADD), GaussianSums(9, Fraction(1), ADD, change_squared=12)
    assert many.event.sensitivity_squared == 12 * one.event.sensitivity_squared


@pytest.mark.parametrize(("steps", "buffers"), [(1000, 4), (1000, 8), (10_000, 8), (100_000, 8)])
def test_few_buffers_err_at_most_a_hundredth_more_than_the_square_root(steps: int, buffers: int) -> None:
    mean, _ = GaussianSums.by_rho(HALF, steps, ADD, buffers=buffers).rmse
    assert lower_bound(steps) < mean <= 1.01 * GaussianSums.by_rho(HALF, steps, ADD).rmse[0]


def test_eight_buffers_over_a_thousand_steps_are_as_the_reference_says() -> None:
    plan = GaussianSums.by_rho(HALF, 1000, ADD, buffers=8)
    assert plan.rmse == pytest.approx((3.0705, 3.3545), abs=5e-5)
    floors = plan.event.sensitivity_squared / float((plan.coefficients**2).sum()) - 1
    assert 0 < floors < 1e-8
    assert 0 < plan.nodes.bias(1000) < 1e-7


def test_buffers_too_fine_for_their_scale_are_refused() -> None:
    with pytest.raises(BadParameter, match="too fine"):
        GaussianSums(2**22, Fraction(1), ADD, buffers=24, scale=1)


def test_the_tree_errs_and_costs_as_the_reference_says() -> None:
    plan = TreeSums(1000, Fraction(10), ADD)
    assert plan.rmse == pytest.approx((31.413013407, 42.408734356), rel=1e-9)
    assert plan.event == Repeated(LaplaceNoise(1, Fraction(10), ADD), 10)
    assert TreeSums(1024, Fraction(10), ADD).levels == 11
    doubled = TreeSums(1000, Fraction(10), ADD, pan_private=True)
    assert doubled.event == plan.event
    assert doubled.variance() == pytest.approx(2 * plan.variance())


def test_tables_cost_as_often_as_one_person_can_be_in_them() -> None:
    assert PeriodTables(30, Fraction(9), ADD, change=2).event == Repeated(LaplaceNoise(2, Fraction(9), ADD), 1)
    assert PeriodTables(30, Fraction(9), ADD, participations=50).event.times == 30


@pytest.mark.parametrize(("first", "worst"), [(16, (1.394, 1.417, 1.641, 1.752)), (256, (1.683, 1.511, 1.702))])
def test_an_unknown_horizon_costs_no_more_than_the_reference_says(first: int, worst: tuple[float, ...]) -> None:
    plan = UnboundedSums(HALF, ADD, first=first)
    assert plan.event == Concentrated(HALF, ADD)
    steps = 120_000
    known = np.cumsum((square_root(steps, 2**20) / 2**20) ** 2)
    ratio = np.sqrt(plan.variance_until(steps)) / known
    begins, length = 0, first
    for most in worst:
        part = ratio[begins : begins + length]
        assert part.max() == pytest.approx(most, abs=6e-4)
        begins, length = begins + length, length * length
    assert ratio.max() < 1.83


def test_the_longest_epoch_is_bounded_from_above_and_closely() -> None:
    plan = UnboundedSums(HALF, ADD, first=16)
    _, length, sigma_squared = plan.epoch(100_000)
    assert length == 16**8
    limit = (log(length) + 4 * log(2) + 0.5772156649) / pi  # Σ f² = (ln T + 4 ln 2 + γ) / π + o(1)
    assert limit * 0.9999 < float(sigma_squared) / 2**40 < 1.001 * limit


def test_a_window_of_events_states_its_price() -> None:
    plan = WindowEvents(HALF, 4, ADD, change=3)
    assert plan.event == Pure(HALF, ADD)
    assert plan.decision == LaplaceNoise(3, Fraction(48), ADD)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianSums(0, Fraction(1), ADD),
        lambda: GaussianSums(5, 0.5, ADD),  # type: ignore[arg-type]
        lambda: GaussianSums(5, Fraction(0), ADD),
        lambda: GaussianSums(5, Fraction(1), "neither"),  # type: ignore[arg-type]
        lambda: GaussianSums(5, Fraction(1), ADD, cells=0),
        lambda: GaussianSums(5, Fraction(1), ADD, participations=0),
        lambda: GaussianSums(5, Fraction(1), ADD, buffers=-1),
        lambda: GaussianSums(5, Fraction(1), ADD, scale=2**40),
        lambda: GaussianSums.by_rho(0, 5, ADD),
        lambda: TreeSums(5, Fraction(-1), ADD),
        lambda: TreeSums(2**30, Fraction(1), ADD),
        lambda: PeriodTables(5, Fraction(1), ADD, change=0),
        lambda: UnboundedSums(Fraction(1), ADD, first=1),
        lambda: UnboundedSums(Fraction(0), ADD),
        lambda: WindowEvents(Fraction(1), 0, ADD),
        lambda: WindowEvents(Fraction(1), 3, ADD, scheme="hope"),
        lambda: GaussianSums(5, Fraction(1), ADD).margin("0.95", 6),
        lambda: GaussianSums(5, Fraction(1), ADD).margin(1, 5),
        lambda: GaussianSums(5, Fraction(1), ADD).window_variance(0),
    ],
)
def test_what_means_nothing_is_refused(make: object) -> None:
    with pytest.raises(BadParameter):
        make()  # type: ignore[operator]


def test_neighbours_have_no_default() -> None:
    with pytest.raises(TypeError):
        GaussianSums(5, Fraction(1))  # type: ignore[call-arg]
    assert GaussianSums(5, Fraction(1), "replace").neighbours is Neighbours.REPLACE  # type: ignore[arg-type]


def test_plans_say_whom_they_protect() -> None:
    assert "Each event" in GaussianSums(9, Fraction(1), ADD).protects
    assert (
        "at most 3 steps, any two at least 2 apart"
        in GaussianSums(20, Fraction(1), ADD, participations=3, separation=2).protects
    )
    assert "in all its steps" in PeriodTables(9, Fraction(1), ADD, participations=9).protects
    assert "4 consecutive" in WindowEvents(Fraction(1), 4, ADD).protects


def test_margins_are_never_below_those_of_the_noise() -> None:
    plan = GaussianSums.by_rho(HALF, 50, ADD)
    normal = 1.959963984540054 * sqrt(plan.variance()[-1])
    assert normal <= plan.margin("0.95", 50) < 1.000001 * normal
    coarse = GaussianSums(50, Fraction(30), ADD, scale=1)
    assert coarse.margin("0.95", 50) > 1.3 * 1.96 * sqrt(coarse.variance()[-1])  # few integers: the certain bound
    assert TreeSums(50, Fraction(10), ADD).margin("0.95", 32) == 30
