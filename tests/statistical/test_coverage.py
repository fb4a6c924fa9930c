"""The stated intervals cover the truth as often as they say: 95 %, for every aggregate, also in small groups.

One release of 10,000 cells with the same true values is 10,000 releases. The bits are fixed, so a failure is a bug and
not chance; with other bits a true coverage of 95 % would be seen outside the band of ±1 % with probability below 5e-6
(binomial, 4.58 standard deviations).
"""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from tests.release.plans import HIGH, OFFSET, RECEIPT, STEP, Mechanism, aggregates, gaussian, laplace, make_plan
from tests.sources import HashSource

from sfumato.engines.desk import evaluate
from sfumato.query.functions import Aggregation
from sfumato.release.publish import publish
from sfumato.release.release import Release, make_release

CELLS = 10_000
HALF = HIGH - OFFSET
COUNT, SUM, AVG, VARIANCE = Aggregation.COUNT, Aggregation.SUM, Aggregation.AVG, Aggregation.VAR_POP


def people(size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Costs of `size` visits, skewed as costs are, in steps."""
    shares = (np.arange(size) + 0.5) / size
    return np.asarray(np.minimum(-60_000 * np.log(1 - shares), HIGH), dtype=np.int64)


def noise(kind: str, scale: int) -> dict[str, Mechanism]:
    """Noise of a count, a centred total and its squares, each in proportion to its sensitivity."""
    make = laplace if kind == "laplace" else gaussian
    return {"N": make(scale), "T": make(scale * HALF), "Q": make(scale * HALF * HALF)}


def release(size: int, aggregation: Aggregation, mechanisms: Mapping[str, Mechanism]) -> tuple[Release, float]:
    values = people(size)
    centred = values if aggregation is SUM else values - OFFSET
    totals = {"N": size, "T": int(centred.sum()), "Q": int((centred**2).sum())}
    plan = make_plan([aggregation], mechanisms)
    exact = aggregates({name: [totals[name]] * CELLS for name in mechanisms})
    truth = {
        COUNT: float(size),
        SUM: float(totals["T"] * STEP),
        AVG: float(values.mean()) * float(STEP),
        VARIANCE: float(values.var()) * float(STEP) ** 2,
    }[aggregation]
    noisy = publish(plan, exact, HashSource((size, aggregation)))
    return make_release(plan, noisy, RECEIPT, evaluate), truth


def coverage(answer: Release, truth: float, level: Fraction = Fraction(95, 100)) -> tuple[float, float]:
    """Return how many of the intervals hold the truth, and how many cells have one."""
    name = answer.columns[1]
    found = [row[name] for row in answer.intervals(level) if row[name] is not None]
    ends = np.array(found, dtype=np.float64)
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()), len(found) / CELLS


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregation", [COUNT, SUM, AVG, VARIANCE])
def test_intervals_of_a_large_group_cover_at_their_level(kind: str, aggregation: Aggregation) -> None:
    share, answered = coverage(*release(2_000, aggregation, noise(kind, 20)))
    assert answered == 1
    assert 0.94 <= share <= 0.96


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [20, 60])
def test_averages_of_a_small_group_cover_too(kind: str, size: int) -> None:
    """Groups about as large as the noise: some cells have no average at all; the others cover nearly as promised."""
    share, answered = coverage(*release(size, AVG, noise(kind, 20)))
    assert answered > 0.8
    assert share >= 0.93


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_variances_of_a_small_group_cover_at_least_nearly(kind: str) -> None:
    share, _ = coverage(*release(60, VARIANCE, noise(kind, 20)))
    assert share >= 0.93


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
@pytest.mark.parametrize("aggregation", [COUNT, AVG])
def test_other_levels_cover_too(level: Fraction, aggregation: Aggregation) -> None:
    share, _ = coverage(*release(2_000, aggregation, noise("laplace", 20)), level)
    # five standard deviations (two-sided 6e-7), and above what a lattice adds: P[|Z| = z] is at most 1/20
    deviation = float(level * (1 - level) / CELLS) ** 0.5
    assert float(level) - 5 * deviation <= share <= float(level) + 5 * deviation + 0.05 * (1 - float(level))
