"""The three means: known variances, exactly unbiased, intervals that cover also from few reports.

Where samples are drawn, seeds are fixed, and a test of a right program fails with probability below 1e-5.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.sources import HashSource

from sfumato.errors import Refusal
from sfumato.local.binomial import mean_chance
from sfumato.local.mean import HybridMean, OneBitMean, PiecewiseMean

KINDS = (OneBitMean, PiecewiseMean, HybridMean)
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@pytest.mark.parametrize(
    ("epsilon", "known"),
    [
        (1, (4.682694376831, 5.223597452044, 4.288992493282)),
        (4, (1.076021829838, 0.2413538869888, 0.2189786262062)),
    ],
)
def test_worst_variances_are_the_references(epsilon: int, known: tuple[float, ...]) -> None:
    """Those of the real mechanisms on [-1, 1]; the window of the integer one is rounded, which matters below 0.2 %."""
    for kind, worst in zip(KINDS, known, strict=True):
        for top, near in ((1000, 2.5e-3), (10**7, 1e-6)):
            mechanism: Any = kind(epsilon, top)  # type: ignore[arg-type]
            variances = [mechanism.variance(value) for value in (0, top // 4, top // 2, top)]
            assert 4 * max(variances) / top**2 == pytest.approx(worst, rel=near)


def test_the_coins_have_the_references_thresholds() -> None:
    assert HybridMean(1, 5).coin.bounds(64)[0] == 7258228221132386316  # type: ignore[arg-type]
    assert HybridMean("0.61", 5).coin.bounds(64) == (0, 0)  # type: ignore[arg-type]


@every
@pytest.mark.parametrize(("epsilon", "top"), [("1/2", 1), ("1", 7), ("3", 40), ("8", 25), ("40", 9)])
def test_decoded_reports_are_exactly_unbiased_and_vary_as_stated(kind: Any, epsilon: str, top: int) -> None:
    mechanism = kind(epsilon, top)
    reports = mechanism.report_space()
    decoded = mechanism.decoded(reports)
    for value in {0, top // 3, top}:
        chance = np.array([mechanism.likelihood(report, value, 140)[0] / 2**140 for report in reports.tolist()])
        assert chance.sum() == pytest.approx(1)
        assert chance @ decoded == pytest.approx(value, abs=1e-9 * top)
        assert chance @ (decoded - value) ** 2 == pytest.approx(mechanism.variance(value), rel=1e-9, abs=1e-12)
    spread = mechanism.spread
    assert decoded.min() == pytest.approx(float(spread.low))
    assert decoded.max() == pytest.approx(float(spread.high))
    variances = [mechanism.variance(value) for value in range(top + 1)]
    if kind is not HybridMean or mechanism.epsilon > Fraction("0.61"):
        assert min(variances) == pytest.approx(spread.least)
    assert max(variances) == pytest.approx(spread.greatest)


def people(shape: str, count: int, top: int) -> Any:
    return {
        "all at the end": np.full(count, top),
        "spread": np.arange(count) % (top + 1),
        "two ends": np.where(np.arange(count) % 5 == 0, top, 0),
    }[shape]


@every
@pytest.mark.parametrize("epsilon", ["1/2", "2", "7"])
@pytest.mark.parametrize("shape", ["all at the end", "spread", "two ends"])
def test_intervals_and_margins_cover_at_every_size(kind: Any, epsilon: str, shape: str) -> None:
    """Sizes on both sides of where the spread of the reports begins to stand for their variance."""
    mechanism, source = kind(epsilon, 50), HashSource((kind.__name__, epsilon, shape))
    for count, rounds in ((2, 100), (30, 80), (4000, 40)):
        values, inside, within = people(shape, count, 50), {0.9: 0, 0.95: 0}, 0
        for _ in range(rounds):
            reports = mechanism.release(values, source)
            for level in inside:
                low, high = mechanism.interval(reports, level)
                assert 0 <= low <= high <= 50
                inside[level] += low <= values.mean() <= high
            within += abs(mechanism.estimate(reports) - values.mean()) <= mechanism.margin(0.9, count)
        for level, covered in inside.items():
            assert binom.cdf(covered, rounds, level) > 1e-5
        assert binom.cdf(within, rounds, 0.9) > 1e-5


@every
def test_many_reports_give_intervals_hardly_wider_than_the_spread(kind: Any) -> None:
    mechanism, values = kind(1, 100), np.full(60_000, 50)
    low, high = mechanism.interval(mechanism.release(values, HashSource(3)), 0.95)
    normal = 1.96 * (mechanism.variance(50) / 60_000) ** 0.5
    assert normal * 0.98 < (high - low) / 2 < normal * 1.03
    assert mechanism.margin(0.95, 60_000) < 1.5 * 1.96 * (mechanism.spread.greatest / 60_000) ** 0.5


@pytest.mark.parametrize("chances", [[0.5] * 12, [0.01] * 11 + [0.99], [0.0] * 6 + [1.0] * 6, [0.004] * 12, [0.3, 0.9]])
def test_the_mean_chance_of_unlike_coins_is_covered(chances: list[float]) -> None:
    """Summed exactly over the law of the sum, for every level."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    for error in (0.3, 0.1, 0.05, 0.01):
        low, high = mean_chance(np.arange(len(law)), len(chances), error).T
        covered = law[(low <= np.mean(chances) + 1e-12) & (np.mean(chances) - 1e-12 <= high)].sum()
        assert covered >= 1 - error - 1e-12


BAD: list[Callable[[Any], object]] = [
    lambda kind: kind(0, 5),
    lambda kind: kind(0.5, 5),
    lambda kind: kind(1, 0),
    lambda kind: kind(1, 2**32),
    lambda kind: kind(1, 2.5),
    lambda kind: kind(1, 5).release([6], HashSource(0)),
    lambda kind: kind(1, 5).release([-1], HashSource(0)),
    lambda kind: kind(1, 5).release([1.5], HashSource(0)),
    lambda kind: kind(1, 5).release([float("nan")], HashSource(0)),
    lambda kind: kind(1, 5).release([[1]], HashSource(0)),
    lambda kind: kind(1, 5).estimate([]),
    lambda kind: kind(1, 5).estimate([1000]),
    lambda kind: kind(1, 5).estimate([-1]),
    lambda kind: kind(1, 5).decoded([[0]]),
    lambda kind: kind(1, 5).interval([], 0.9),
    lambda kind: kind(1, 5).interval([0], 0),
    lambda kind: kind(1, 5).interval([0], "x"),
    lambda kind: kind(1, 5).margin(0.9, 0),
    lambda kind: kind(1, 5).variance(6),
    lambda kind: kind(1, 5).variance(-1),
    lambda kind: kind(1, 5).likelihood(0, 6, 10),
    lambda kind: kind(1, 5).likelihood(99, 1, 10),
]


@every
@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_meant_is_refused(kind: Any, bad: Callable[[Any], object]) -> None:
    with pytest.raises(Refusal):
        bad(kind)
