"""The first stage that most models share: where the rows are, and how far from there half of them lie."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.model import StageNoise
from sfumato.learn.rows import UNIT_STEPS, Sums, radii_of
from sfumato.learn.sensitivities import CELL_COUNT_STEPS, in_box, in_cells
from sfumato.learn.table_metadata import Floats, TableMetadata

WEIGHT = UNIT_STEPS
"""A row's contribution to the count that is measured together with the centre."""


def centre_stage(metadata: TableMetadata, share: Fraction) -> Stage:
    """Return the stage that measures the mean of the rows, clipped to their box, and their number."""
    return Stage(share, in_box(metadata, WEIGHT, squares=False))


def radius_stage(metadata: TableMetadata, share: Fraction) -> Stage:
    """Return the stage that counts rows by their distance."""
    return Stage(share, in_cells(metadata))


def measure_centre(sums: Sums, metadata: TableMetadata, noise: StageNoise, stage: int) -> tuple[tuple[int, ...], float]:
    """Return the noisy mean, rounded to the units of the columns and inside their box, and the noisy number of rows."""
    width = len(metadata.low)
    exact = sums.clipped_sums(squares=False).sum(axis=0)
    exact[0] *= WEIGHT
    noisy = noise.add(stage, exact)
    count = max(1.0, noisy[0] / WEIGHT)
    # a mean of few rows is mostly noise: it is drawn to the middle by how much of it the noise is
    mean = noisy[1:] / count
    variance = (noise.deviation(stage) / count) ** 2
    shrinkage = max(0.0, 1 - width * variance / max(float(mean @ mean), 1e-300))
    return tuple(round(value) for value in np.clip(shrinkage * mean, -UNIT_STEPS, UNIT_STEPS).tolist()), count


def measure_radius(
    sums: Sums,
    metadata: TableMetadata,
    centre: Sequence[int],
    noise: StageNoise,
    stage: int,
    *,
    measured: bool,
    quantile: float = 0.5,
) -> int:
    """Return the public radius within which the noisy share of the rows first reaches the quantile, from inside out."""
    radii = radii_of(metadata, around_measured=measured)
    counts = noise.add(stage, sums.radii(centre, radii) * CELL_COUNT_STEPS)
    return radii[_quantile_class(counts, quantile)]


def _quantile_class(counts: Floats, quantile: float) -> int:
    """Return the last class such that the rows inside it are at least that share of all."""
    total = max(float(counts.sum()), 1.0)
    inside = np.cumsum(counts[::-1])[::-1]  # rows in this class and in all that are nearer
    reached = np.flatnonzero(inside >= quantile * total)
    return int(reached[-1]) if reached.size else 0


def shrink_towards(values: Floats, aim: Floats, variance: Floats) -> Floats:
    """Return rows drawn to an aim by how much of their distance is noise (James and Stein); one variance per row."""
    apart = values - aim
    squares = (apart**2).sum(axis=1)
    shrinkage = np.maximum(0.0, 1 - apart.shape[1] * variance / np.maximum(squares, 1e-300))
    return np.asarray(aim + shrinkage[:, None] * apart)
