"""The entropy of noise against its own law."""

from fractions import Fraction
from math import log2

import pytest

from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits


@pytest.mark.parametrize(
    ("scale", "bits"), [(1, 2.34128480453), (10, 5.76342299138), (100, 9.08653920842)], ids=["1", "1/10", "1/100"]
)
def test_laplace_noise_has_the_printed_entropy(scale: int, bits: float) -> None:
    assert entropy_bits(DiscreteLaplace(Fraction(scale))) == pytest.approx(bits, abs=1e-11)


@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(Fraction(1, 3)),
        DiscreteLaplace(Fraction(7)),
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(9)),
        DiscreteGaussian(Fraction(150)),
    ],
    ids=repr,
)
def test_it_is_the_sum_over_the_law(law: DiscreteLaplace | DiscreteGaussian) -> None:
    chances = [law.pmf(abs(place), 80)[0] / 2**80 for place in range(-400, 401)]
    assert entropy_bits(law) == pytest.approx(-sum(p * log2(p) for p in chances if p > 0), abs=1e-9)


def test_a_very_large_scale_keeps_its_digits() -> None:
    assert entropy_bits(DiscreteLaplace(Fraction(2**48))) == pytest.approx(
        48 + log2(2) + log2(2.718281828459045), abs=1e-6
    )


def test_every_variance_has_an_entropy() -> None:
    """Far out, a share of the law may be too small for a float: once, half of these variances raised."""
    bits = [entropy_bits(DiscreteGaussian(Fraction(tenths, 10))) for tenths in range(1, 1_100)]
    assert bits == sorted(bits)
