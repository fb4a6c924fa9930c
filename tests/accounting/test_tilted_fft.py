"""Laws of the tilted FFT: certified at every size of delta, whatever tilt was guessed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.accounting.distribution.tilted_fft import RepeatedLaw, convolved_delta, tilted_law


def _binomial_delta(p: float, times: int, unit: float, epsilon: float) -> mpf:
    """Return E (1 - e^(epsilon - L))+ for L = unit * (2 B - times), B binomial, from exact floats."""
    with mp.workdps(60):
        total = mpf(0)
        for j in range(times + 1):
            loss = mpf(unit) * (2 * j - times)
            if loss > epsilon:
                weight = mp.binomial(times, j) * mpf(p) ** j * (1 - mpf(p)) ** (times - j)
                total -= weight * mp.expm1(mpf(epsilon) - loss)
        return total


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0, 7.0, 9.5, 14.0])
@pytest.mark.parametrize("target", [0.5, 1e-6, 1e-15])
def test_deltas_down_to_a_trillionth_of_a_trillionth_are_bracketed(epsilon: float, target: float) -> None:
    p, times, unit = 0.53125, 500, 0.0625  # exact in binary
    masses: list[RepeatedLaw] = [(np.array([1 - p, 0.0, p]), -1, times)]
    truth = _binomial_delta(p, times, unit, epsilon)
    lower, upper = convolved_delta(masses, unit, epsilon, 0.0, target)
    assert lower <= truth <= upper
    assert upper - lower <= 1e-9 * truth
    lower, upper = tilted_law(masses, unit, target).delta(epsilon)  # tilted for another epsilon: wider, still right
    assert lower <= truth <= upper


@pytest.mark.parametrize("epsilon", [3.0, 6.0])
def test_a_window_that_cuts_the_support_is_paid_for(epsilon: float) -> None:
    p, times, unit = 0.50390625, 40_000, 2.0**-7
    masses: list[RepeatedLaw] = [(np.array([1 - p, 0.0, p]), -1, times)]
    prepared = tilted_law(masses, unit, 1e-9, epsilon)
    assert prepared.spill > 0
    assert len(prepared.masses) < times
    lower, upper = prepared.delta(epsilon)
    truth = _large_binomial_delta(p, times, unit, epsilon)
    assert lower <= truth * (1 + 1e-12)
    assert upper >= truth * (1 - 1e-12)
    assert upper - lower <= 1e-6 * truth


def _large_binomial_delta(p: float, times: int, unit: float, epsilon: float) -> float:
    first = math.floor((epsilon / unit + times) / 2) + 1
    with mp.workdps(30):
        weight = mp.binomial(times, first) * mpf(p) ** first * (1 - mpf(p)) ** (times - first)
        total, ratio = mpf(0), mpf(p) / (1 - mpf(p))
        for j in range(first, min(times, first + 6000) + 1):
            total -= weight * mp.expm1(mpf(epsilon) - mpf(unit) * (2 * j - times))
            weight *= ratio * (times - j) / (j + 1)
        return float(total)


def test_dense_and_sparse_transforms_agree() -> None:
    generator = np.random.default_rng(7)
    dense = generator.random(300)
    dense /= dense.sum() * 1.01  # a little mass is missing
    few = np.zeros(300)
    few[[0, 40, 299]] = [0.2, 0.5, 0.25]
    unit = 2.0**-6
    masses: list[RepeatedLaw] = [(dense, -150, 3), (few, -120, 2)]
    direct = np.ones(1)
    for array in (dense, dense, dense, few, few):
        direct = np.convolve(direct, array)
    losses = unit * (np.arange(len(direct)) - 150 * 3 - 120 * 2)
    for epsilon in (0.0, 1.5, 4.0):
        truth = float((direct * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())
        lower, upper = convolved_delta(masses, unit, epsilon, 0.0, 1e-3)
        assert lower <= truth * (1 + 1e-12)
        assert upper >= truth * (1 - 1e-12)
        assert upper - lower < 1e-9 * truth


def test_mass_at_infinity_is_added_and_beyond_the_support_nothing_else_is() -> None:
    masses: list[RepeatedLaw] = [(np.array([0.25, 0.75]), 0, 4)]
    lower, upper = convolved_delta(masses, 1.0, 5.0, 1e-9, 1e-9)
    assert lower <= Fraction(1, 10**9) <= upper
    assert upper < 1.001e-9
    assert convolved_delta(masses, 1.0, 4.0000001, 0.0, 1e-9) == (0.0, 0.0)
    assert convolved_delta([(np.zeros(3), 0, 2)], 1.0, 0.5, 0.0, 1e-9) == (0.0, 0.0)


def test_the_stated_error_of_masses_widens_the_bounds() -> None:
    masses: list[RepeatedLaw] = [(np.array([0.25, 0.75]), -1, 100)]
    lower, upper = convolved_delta(masses, 0.1, 1.0, 0.0, 1e-3, mass_error=1e-8)
    exact_lower, exact_upper = convolved_delta(masses, 0.1, 1.0, 0.0, 1e-3)
    assert lower <= exact_lower * (1 - 0.99e-6)
    assert upper >= exact_upper * (1 + 0.99e-6)
