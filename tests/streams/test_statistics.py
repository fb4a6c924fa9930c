"""What is drawn fits what is stated: errors have the stated variance, margins cover at their level.

Seeds are fixed. Each test states how many standard deviations it allows; at five or more the chance of a false alarm is
below one in a million.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.sources import HashSource
from tests.streams.plans_of_all_kinds import ADD, name

from sfumato.streams.plans import GaussianSums, PeriodTables, StreamPlan, TreeSums, UnboundedSums
from sfumato.streams.stream import Stream

CELLS = 6000
STEPS = 11
PLANS: tuple[StreamPlan, ...] = (
    GaussianSums.by_rho(Fraction(1, 2), STEPS, ADD, cells=CELLS),
    GaussianSums.by_rho(Fraction(1, 2), STEPS, ADD, cells=CELLS, buffers=3),
    GaussianSums(STEPS, Fraction(3), ADD, cells=CELLS, scale=4),
    TreeSums(STEPS, Fraction(5), ADD, cells=CELLS),
    PeriodTables(STEPS, Fraction(5), ADD, cells=CELLS),
    UnboundedSums(Fraction(1, 2), ADD, cells=CELLS, first=2),
)


def errors(plan: StreamPlan, folder: Path) -> np.ndarray:
    """Return what the noise did to every step and cell: each cell is a stream of its own."""
    source = HashSource(("statistics", name(plan)))
    with Stream.create(folder / "s", plan) as stream:
        for step in range(STEPS):
            stream.observe(np.full(CELLS, step), source)
        released = stream.released
    true = np.arange(STEPS) if isinstance(plan, PeriodTables) else np.cumsum(np.arange(STEPS))
    return np.asarray(released - true[:, None])


@pytest.mark.parametrize("plan", PLANS, ids=name)
def test_errors_are_unbiased_have_the_stated_variance_and_lie_within_the_margins(
    tmp_path: Path, plan: StreamPlan
) -> None:
    """Means within 5.5 sd, variances within 5.5 sd of a law with kurtosis up to 6, coverage at least 4.5 sd below."""
    found = errors(plan, tmp_path)
    variance = plan.variance_until(STEPS) if isinstance(plan, UnboundedSums) else plan.variance()  # type: ignore[union-attr]
    assert np.abs(found.mean(axis=1) / np.sqrt(variance / CELLS)).max() < 5.5
    assert np.abs(found.var(axis=1) / variance - 1).max() < 5.5 * np.sqrt(5 / CELLS)
    for level in (Fraction(9, 10), Fraction(95, 100)):
        margins = np.array([plan.margin(level, time) for time in range(1, STEPS + 1)])  # type: ignore[union-attr]
        covered = (np.abs(found) <= margins[:, None]).mean(axis=1)
        assert covered.min() > float(level) - 4.5 * np.sqrt(0.1 * 0.9 / CELLS)


@pytest.mark.parametrize("plan", PLANS[:5], ids=name)
@pytest.mark.parametrize("width", [1, 3])
def test_windows_have_their_own_margins(tmp_path: Path, plan: StreamPlan, width: int) -> None:
    """Coverage of 95 % at every step, at least 4.5 sd below; and of fine noise no more than 4.5 sd above."""
    found = errors(plan, tmp_path)
    totals = np.cumsum(found, axis=0) if isinstance(plan, PeriodTables) else found
    before = np.vstack([np.zeros((width, CELLS)), totals])[:STEPS]
    margins = np.array([plan.margin("0.95", time, width) for time in range(1, STEPS + 1)])  # type: ignore[union-attr, call-arg]
    covered = (np.abs(totals - before) <= margins[:, None]).mean(axis=1)
    spread = 4.5 * np.sqrt(0.05 * 0.95 / CELLS)
    assert covered.min() > 0.95 - spread
    if isinstance(plan, GaussianSums) and plan.scale > 4:
        assert covered.max() < 0.95 + spread
