"""Keys selected by their own noisy number: the threshold, and bars that hold given that a key was released."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from tests.laws.divergence import real
from tests.laws.keys import gaussian_tail, laplace_tail
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace

ADD = Neighbours.ADD_REMOVE
NOISES: list[Laplace | Gaussian] = [
    Laplace(1, Fraction(1), ADD),
    Laplace(3, Fraction(6), ADD),
    Gaussian(1, Fraction(1, 2), ADD),
    Gaussian(4, Fraction(25), ADD),
]
LEVELS = [Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999, 1000)]


def made(noise: Laplace | Gaussian, groups: int = 1, delta: object = "1e-6") -> CountedKeys:
    return CountedKeys.by_delta(noise, noise.event, groups, delta)


def tail(noise: Laplace | Gaussian, least: int) -> mp.mpf:
    return laplace_tail(noise.scale, least) if isinstance(noise, Laplace) else gaussian_tail(noise.sigma_squared, least)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("groups", [1, 7])
def test_the_threshold_is_the_smallest_whose_exact_delta_fits(noise: Laplace | Gaussian, groups: int) -> None:
    mechanism = made(noise, groups)
    with mp.workdps(60):
        exact = [1 - (1 - tail(noise, mechanism.threshold - 1 - less)) ** groups for less in (0, 1)]
        assert exact[0] <= real(mechanism.delta) <= real(Fraction(1, 10**6)) < exact[1]
        assert real(mechanism.delta) / exact[0] - 1 < mp.mpf(2) ** -50


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_a_bar_holds_given_that_its_key_was_released_whatever_its_number(
    noise: Laplace | Gaussian, level: Fraction
) -> None:
    mechanism = made(noise, delta="1e-3")
    reach = 4 * noise.margin(Fraction(999, 1000)) + 5
    values = np.arange(-reach, reach + 1)
    scaled = (
        -np.abs(values) / float(noise.scale)
        if isinstance(noise, Laplace)
        else -(values**2) / (2 * float(noise.sigma_squared))
    )
    masses = np.exp(scaled)
    for people in range(1, mechanism.threshold + reach):
        released = people + values >= mechanism.threshold
        bars = [mechanism.bar(int(people + value), level) for value in values[released]]
        held = np.array([low <= people <= high for low, high in bars])
        assert masses[released][held].sum() >= (float(level) - 1e-9) * masses[released].sum()


def test_keys_pass_by_their_noisy_number_and_absent_ones_never() -> None:
    mechanism = made(Laplace(1, Fraction(1), ADD))
    counts = np.array([0, 1, mechanism.threshold + 40, 0, 10**6] * 50)
    selected = mechanism.release(counts, HashSource("counted"))
    assert set(counts[selected.places].tolist()) == {mechanism.threshold + 40, 10**6}
    assert len(selected.places) == 100
    assert (selected.counts >= mechanism.threshold).all()


def test_the_size_from_which_on_a_key_appears_is_exact() -> None:
    for noise in NOISES:
        mechanism = made(noise)
        needed = mechanism.units_for("0.95")
        with mp.workdps(60):
            assert tail(noise, mechanism.threshold - needed) >= 0.95 > tail(noise, mechanism.threshold - needed + 1)


def test_many_groups_per_person_appear_far_sooner_under_gaussian_noise() -> None:
    laplace = CountedKeys.by_delta(noise := Laplace(10, Fraction(10), ADD), noise.event, 10, "1e-9")
    gaussian = CountedKeys.by_delta(smooth := Gaussian(10, Fraction(450), ADD), smooth.event, 10, "1e-9")
    assert gaussian.units_for("0.95") < laplace.units_for("0.95")


def test_what_makes_no_mechanism_is_refused() -> None:
    noise = Laplace(1, Fraction(1), ADD)
    for groups, delta in ((0, "1e-6"), (1, 0), (1, "1e-2000")):
        with pytest.raises(BadParameter):
            CountedKeys.by_delta(noise, noise.event, groups, delta)
    with pytest.raises(BadParameter):
        CountedKeys(noise, noise.event, 1, 1)


def test_noise_that_is_hardly_any_has_bars_at_once() -> None:
    """A chance below what is ever computed was looked for without an end."""
    mechanism = made(Laplace(1, Fraction(1, 10**6), ADD))
    assert mechanism.overshoot(Fraction(1, 20)) == 0
    assert mechanism.bar(mechanism.threshold + 1, Fraction(95, 100)) == (mechanism.threshold + 1,) * 2
