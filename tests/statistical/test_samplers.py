"""A million samples of each law from the production source. Each p-value is held against 1e-6, without a retry.

A correct sampler fails one of the checks below with probability 1e-6; the whole file, with some 60 checks, fails by
chance once in 16,000 runs.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chisquare, norm

from sfumato.randomness.bernoulli import Bernoulli, exp_minus
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.source import system_source
from sfumato.randomness.uniform import UniformInteger

COUNT = 1_000_000
LEVEL = 1e-6
LAWS: list[DiscreteLaplace | DiscreteGaussian] = [
    *(DiscreteLaplace(Fraction(text)) for text in ("1/2", "1", "10", "100/3", "1000", "1000000")),
    *(DiscreteGaussian(Fraction(text)) for text in ("1/4", "1", "100", "1024", "70001/7", "1000000000000")),
]


def p_of(z: float) -> float:
    return float(2 * norm.sf(abs(z)))


def moments(law: DiscreteLaplace | DiscreteGaussian) -> tuple[float, float]:
    """The variance and the fourth moment, by closed forms; Gaussian sums are added up while they are short."""
    if isinstance(law, DiscreteLaplace):
        x = np.exp(-1 / float(law.scale))
        gap = -np.expm1(-1 / float(law.scale))
        return 2 * x / gap**2, 2 * x * (1 + 10 * x + x * x) / gap**4
    variance = float(law.sigma_squared)
    if variance > 100:
        return variance, 3 * variance**2
    values = np.arange(-200, 201, dtype=float)
    weights = np.exp(-values * values / (2 * variance))
    return (float(weights @ values**2 / weights.sum()), float(weights @ values**4 / weights.sum()))


def cells(law: DiscreteLaplace | DiscreteGaussian) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Bin edges and the probability of each bin [edge, next edge), the outermost ones open."""
    scale = float(law.scale) if isinstance(law, DiscreteLaplace) else float(law.sigma_squared) ** 0.5
    reach = max(3, int(4 * scale))
    width = max(1, reach // 40)
    edges = np.arange(-reach, reach + 1, width, dtype=np.int64)
    if isinstance(law, DiscreteLaplace):
        tails = np.array([law.upper_tail(int(edge), 80)[0] / 2**80 for edge in edges])
    else:
        inside = np.arange(edges[0], edges[-1]) if width < 10_000 else None
        if inside is None:  # σ = 10^6: the bins are wide, and the real Gaussian at half-integers is right to 1e-13
            tails = norm.sf((edges - 0.5) / scale)
        else:
            weights = np.exp(-(np.arange(-20 * reach, 20 * reach + 1) ** 2) / (2 * scale**2))
            upper = np.cumsum((weights / weights.sum())[::-1])[::-1]
            tails = upper[edges + 20 * reach]
    return edges, -np.diff(np.concatenate([[1.0], tails, [0.0]]))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_million_samples_follow_the_law_with_error_rate_1e_6_per_check(
    law: DiscreteLaplace | DiscreteGaussian,
) -> None:
    drawn = law.draw(COUNT, system_source())
    edges, expected = cells(law)
    found = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(edges) + 1)
    large = expected * COUNT >= 20
    observed = np.append(found[large], found[~large].sum())
    wanted = np.append(expected[large], expected[~large].sum()) * COUNT
    if wanted[-1] < 5:  # too few for a bin of their own: the rare ones join the first
        observed, wanted = (
            np.append(observed[0] + observed[-1], observed[1:-1]),
            np.append(wanted[0] + wanted[-1], wanted[1:-1]),
        )
    assert chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue > LEVEL

    values = drawn.astype(float)
    variance, fourth = moments(law)
    assert p_of(values.mean() / (variance / COUNT) ** 0.5) > LEVEL
    assert p_of(((values**2).mean() - variance) / ((fourth - variance**2) / COUNT) ** 0.5) > LEVEL

    signs = np.sign(values)
    pairs = signs[::2] * signs[1::2]  # neighbours in the stream: independent signs multiply to nothing
    assert p_of(pairs.sum() / max(1.0, np.abs(pairs).sum()) ** 0.5) > LEVEL
    odd = (drawn % 2).astype(float)
    share = odd.mean()
    together = (odd[::2] * odd[1::2]).mean() - share**2
    assert p_of(together / (share * (1 - share)) * (COUNT / 2) ** 0.5) > LEVEL


def test_a_million_geometric_samples_follow_the_law_with_error_rate_1e_6() -> None:
    for scale in (1.0, 100.0):
        drawn = Geometric(Fraction(int(scale))).draw(COUNT, system_source())
        x = np.exp(-1 / scale)
        top = int(9 * scale)
        expected = np.append((1 - x) * x ** np.arange(top), x**top) * COUNT
        found = np.bincount(np.minimum(drawn, top), minlength=top + 1)
        assert chisquare(found, expected).pvalue > LEVEL


@pytest.mark.parametrize("below", [3, 100, 1000])
def test_a_million_uniform_integers_are_even_with_error_rate_1e_6(below: int) -> None:
    drawn = UniformInteger(below).draw(COUNT, system_source())
    assert chisquare(np.bincount(drawn, minlength=below)).pvalue > LEVEL


@pytest.mark.parametrize(("probability", "mean"), [(Fraction(1, 3), 1 / 3), (exp_minus(Fraction(1)), np.exp(-1))])
def test_a_million_coins_have_their_probability_with_error_rate_1e_6(probability: Any, mean: float) -> None:
    heads = int(Bernoulli(probability).draw(COUNT, system_source()).sum())
    assert p_of((heads - COUNT * mean) / (COUNT * mean * (1 - mean)) ** 0.5) > LEVEL
