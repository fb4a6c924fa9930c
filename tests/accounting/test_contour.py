"""Laws of the contour: moments within their stated error, decay bounds above the truth, the aliasing identity."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpc, mpf
from tests.accounting import loss_oracle as oracle

from sfumato.accounting.distribution import contour
from sfumato.accounting.distribution.contour import Mixture
from sfumato.accounting.distribution.decay import CELL_GROWTH, log_envelope, swept
from sfumato.accounting.distribution.lattice import exact_lattice
from sfumato.accounting.distribution.mixture import mixture
from sfumato.accounting.distribution.moments import (
    Binary,
    BoundedRanges,
    Family,
    IntegerGaussian,
    IntegerLaplace,
    RealLaplace,
    Response,
)
from sfumato.accounting.event import Event, GaussianNoise, LaplaceNoise, Neighbours, Pure, RandomizedResponse

AR, RP = Neighbours.ADD_REMOVE, Neighbours.REPLACE
F = Fraction


def _floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def _real_laplace(e: mpf, z: mpc) -> mpc:
    return ((z + 1) * mp.exp(z * e) + z * mp.exp(-(z + 1) * e)) / (2 * z + 1)


def _bounded_range(e: mpf, z: mpc) -> mpc:
    return mp.quad(lambda y: mp.exp((y - e) / 2 + z * y) / 2, mp.linspace(-e, e, 6)) / -mp.expm1(-e)


def _of_law(event: Event, z: mpc) -> mpc:
    return mp.fsum(p * mp.exp(z * oracle.real(loss)) for loss, p in oracle.law(event).items())


MEMBERS: list[tuple[Family, Event | None]] = [
    (Binary(_floats(0.01), _floats(1)), Pure(F(0.01), AR)),
    (Binary(_floats(30.0), _floats(1)), Pure(F(30), AR)),
    (Response(_floats(0.75), _floats(8), _floats(1)), RandomizedResponse(F(3, 4), 10, RP)),
    (IntegerLaplace(_floats(3), _floats(0.125), _floats(1)), LaplaceNoise(3, F(8), AR)),
    (IntegerLaplace(_floats(60), _floats(2.0), _floats(1)), LaplaceNoise(60, F(1, 2), AR)),
    (IntegerLaplace(_floats(50), _floats(2.0**-10), _floats(1)), LaplaceNoise(50, F(1024), AR)),
    (IntegerGaussian(_floats(0.125), _floats(1)), GaussianNoise(1, F(1, 8), AR)),
    (IntegerGaussian(_floats(0.25), _floats(1)), GaussianNoise(1, F(1, 4), AR)),
    (IntegerGaussian(_floats(1.5), _floats(1)), GaussianNoise(1, F(3, 2), AR)),
    (IntegerGaussian(_floats(64.0), _floats(1)), GaussianNoise(1, F(64), AR)),
    (RealLaplace(_floats(0.5), _floats(1)), None),
    (RealLaplace(_floats(2.0**-9), _floats(1)), None),
    (BoundedRanges(_floats(0.5), _floats(1)), None),
]
NODES = [0.01, 3.7, 25.0]
HEIGHTS = [0.0, 0.3, 7.1, 95.0, 4000.0]


def _truth(family: Family, event: Event | None, z: mpc) -> mpc:
    if isinstance(family, RealLaplace):
        return _real_laplace(mpf(float(family.loss[0])), z)
    if isinstance(family, BoundedRanges):
        return _bounded_range(mpf(float(family.loss[0])), z)
    if event is None:
        raise ValueError(family)
    return _of_law(event, z)


@pytest.mark.parametrize(("family", "event"), MEMBERS, ids=str)
def test_moments_are_within_their_stated_error_of_sixty_digits(family: Family, event: Event | None) -> None:
    heights = HEIGHTS[:2] if isinstance(family, BoundedRanges) else HEIGHTS
    for c in NODES:
        at_foot = mp.re(_truth(family, event, mpc(c)))
        for t in heights:
            z = np.array([c + 1j * t])
            computed = mp.exp(mpc(complex(family.logs(z)[0, 0])))
            error = float(family.errors(np.abs(2 * z + 1), c)[0, 0])
            assert abs(computed - _truth(family, event, mpc(c, t))) <= error * at_foot


@pytest.mark.parametrize(("family", "event"), MEMBERS, ids=str)
def test_no_factor_exceeds_its_decay_bound(family: Family, event: Event | None) -> None:
    del event
    for c in NODES:
        foot = family.logs(np.array([c]))[0, 0].real
        for start in (0.5, 3.0, 40.0, 700.0):
            bound = log_envelope((family,), 0.0, c, np.array([start]))[0]
            inside = start * np.linspace(1, CELL_GROWTH, 60)
            assert np.all(family.logs(c + 1j * inside)[0].real - foot <= bound + 1e-9)


def test_no_product_of_many_factors_exceeds_its_decay_bound() -> None:
    """The pairs of events that do not return together are where the bound is proved and not obvious."""
    losses = np.sort(np.random.default_rng(0).uniform(0.05, 0.3, 200))
    many = Binary(losses, np.ones(200))
    c = 4.0
    foot = many.logs(np.array([c])).real
    for start in (1.0, 10.0, 60.0, 500.0, 9000.0):
        bound = log_envelope((many,), 0.0, c, np.array([start]))[0]
        inside = start * np.linspace(1, CELL_GROWTH, 400)
        actual = (many.logs(c + 1j * inside).real - foot).sum(axis=0)
        assert np.all(actual <= bound + 1e-9)
        assert bound < -0.05  # it says something


def test_nodes_that_were_only_visited_hold_no_more_than_was_said() -> None:
    losses = np.array([0.31, 0.17, 0.29])
    many = Binary(losses, np.array([20.0, 30.0, 10.0]))
    c, spacing, first = 3.0, 0.4, 5
    foot = (many.times[:, None] * many.logs(np.array([c])).real).sum()
    heights = spacing * np.arange(first + 1, 60_000)
    z = c + 1j * heights
    terms = np.exp((many.times[:, None] * many.logs(z).real).sum(axis=0) - foot) / np.abs(z * (z + 1))
    omitted = swept((many,), 0.0, c, spacing, first)
    for skip in (0, 10, 1000, 30_000):
        assert terms[skip:].sum() * spacing / math.pi <= omitted[skip]


def test_sums_over_nodes_are_sums_over_periods() -> None:
    """The aliasing identity, with a period so short that several terms count: (1 - e^(epsilon - L))+ of two losses."""
    e = F(1)
    binary = Mixture(0.0, (Binary(_floats(1.0), _floats(1)),))
    c, period, epsilon = 1.5, 0.8, 0.3
    spacing = 2 * math.pi / period
    heights = spacing * np.arange(2_000_000)
    logs, _ = binary.on_line(c, np.asarray(heights, dtype=np.float64))
    z = c + 1j * heights
    terms = (np.exp(logs - z * epsilon) / (z * (z + 1))).real
    total = (terms[0] / 2 + terms[1:].sum()) * spacing / math.pi
    losses = oracle.law(Pure(e, AR))
    shifts = [m for m in range(-60, 3) if m]
    expected = oracle.delta(losses, F(epsilon)) + mp.fsum(
        mp.exp(mpf(c) * m * mpf(period)) * oracle.delta(losses, F(epsilon) + m * F(period)) for m in shifts
    )
    assert abs(total - expected) < 1e-6


MANY: dict[Event, int] = {
    Pure(F(1, 10), AR): 40,
    LaplaceNoise(3, F(10), AR): 10,
    LaplaceNoise(1, F(20), AR): 25,
    GaussianNoise(1, F(40), AR): 15,
}


@pytest.mark.parametrize("epsilon", [0.5, 7.0])
def test_the_contour_and_the_lattice_tell_the_same_truth(epsilon: float) -> None:
    losses = mixture(MANY)
    exact = exact_lattice(MANY, 1e-6, epsilon)
    assert losses is not None
    assert exact is not None
    low, high = exact.delta(epsilon)
    for table in (contour.for_epsilon(losses, epsilon), contour.for_delta(losses, 1e-6)):
        lower, upper = table.delta(epsilon)
        assert max(low, lower) <= min(high, upper)
    lower, upper = contour.for_epsilon(losses, epsilon).delta(epsilon)
    assert upper - lower < 1e-4 * upper


def test_a_grown_table_still_brackets_the_lattice() -> None:
    half = {event: times // 5 for event, times in MANY.items()}
    start, step = mixture(MANY), mixture(half)
    assert start is not None
    assert step is not None
    table = contour.for_delta(start, 1e-8).plus(step)
    whole = exact_lattice({event: times + half[event] for event, times in MANY.items()}, 1e-8)
    assert whole is not None
    for epsilon in (6.0, 8.0, 10.0):
        lower, upper = table.delta(epsilon)
        low, high = whole.delta(epsilon)
        assert max(low, lower) <= min(high, upper)
    lower, upper = table.delta(8.0)
    assert upper - lower < 1e-3 * upper
