"""Noisy marginals are combined as generalised least squares would, and the stated deviations are that estimate's."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from sfumato.synthesis.combining import JointEstimate, combine, onto_counts, shrinkage_factors
from sfumato.synthesis.design import Axes, all_marginals

SIZES = (2, 3, 4)
CHOICES: dict[str, tuple[Axes, ...]] = {
    "all pairs": all_marginals(3),
    "a tree": ((0,), (1,), (2,), (0, 1), (1, 2)),
    "a triple and its parts": ((0,), (1,), (2,), (0, 1), (0, 1, 2)),
}


def operator(axes: Axes) -> np.ndarray:
    """Return the matrix that sums the whole table to a marginal."""
    cells = list(product(*(range(size) for size in SIZES)))
    wanted = {cell: place for place, cell in enumerate(product(*(range(SIZES[axis]) for axis in axes)))}
    matrix = np.zeros((len(wanted), len(cells)))
    for at, cell in enumerate(cells):
        matrix[wanted[tuple(cell[axis] for axis in axes)], at] = 1.0
    return matrix


@pytest.mark.parametrize("chosen", CHOICES)
def test_the_closed_form_is_generalised_least_squares(chosen: str) -> None:
    marginals, random = CHOICES[chosen], np.random.default_rng(5)
    variances = [Fraction(3 + 7 * at, 2) for at in range(len(marginals))]
    tables = [random.integers(-5, 60, [SIZES[axis] for axis in axes]) for axes in marginals]
    combined = combine(SIZES, marginals, variances, tables)
    design = np.vstack(
        [operator(axes) / float(variance) ** 0.5 for axes, variance in zip(marginals, variances, strict=True)]
    )
    seen = np.concatenate(
        [table.ravel() / float(variance) ** 0.5 for table, variance in zip(tables, variances, strict=True)]
    )
    inverse = np.linalg.pinv(design.T @ design)
    whole = inverse @ design.T @ seen
    for axes in combined.parts:
        if not axes:
            continue
        matrix = operator(axes)
        assert np.allclose(combined.table(axes).ravel(), matrix @ whole)
        covariance = matrix @ inverse @ matrix.T
        assert np.allclose(combined.deviation(axes) ** 2, np.diag(covariance))
        weights = random.normal(size=len(matrix))
        shaped = weights.reshape([SIZES[axis] for axis in axes])
        assert np.isclose(combined.deviation_of(axes, shaped) ** 2, weights @ covariance @ weights)


def test_marginals_agree_with_each_other_and_their_total() -> None:
    random = np.random.default_rng(6)
    tables = [random.integers(-5, 60, [SIZES[axis] for axis in axes]) for axes in all_marginals(3)]
    combined = combine(SIZES, all_marginals(3), [Fraction(4)] * 6, tables)
    for axes in ((0, 1), (0, 2), (1, 2)):
        for place, axis in enumerate(axes):
            assert np.allclose(combined.table(axes).sum(axis=1 - place), combined.table((axis,)))
        assert np.isclose(combined.table(axes).sum(), combined.total)


def test_without_noise_the_truth_comes_back() -> None:
    whole = np.random.default_rng(7).integers(0, 50, SIZES)
    tables = [whole.sum(axis=tuple(axis for axis in range(3) if axis not in axes)) for axes in all_marginals(3)]
    combined = combine(SIZES, all_marginals(3), [Fraction(1)] * 6, tables)
    for axes, table in zip(all_marginals(3), tables, strict=True):
        assert np.allclose(combined.table(axes), table)


def test_noise_alone_is_shrunk_away_and_a_strong_component_is_kept() -> None:
    random, sizes = np.random.default_rng(8), (16, 16)
    noise = random.normal(0, 10, sizes).round().astype(int)
    strong = np.outer(np.tile([1, -1], 8), np.tile([1, -1], 8)) * 1000
    for table, low, high in ((noise, 0.0, 0.2), (strong + noise, 0.999, 1.0)):
        combined = combine(sizes, ((0, 1),), [Fraction(100)], [table])
        (factor,) = shrinkage_factors(combined).values()
        assert low <= factor <= high


@pytest.mark.parametrize("total", [0.0, 1.0, 17.5])
def test_the_projection_is_the_nearest_table_without_negative_cells(total: float) -> None:
    random = np.random.default_rng(9)
    for _ in range(20):
        table = random.normal(0, 5, (3, 4))
        nearest = onto_counts(table, total)
        assert nearest.min() >= 0
        assert np.isclose(nearest.sum(), total)
        if total:  # the conditions of Karush, Kuhn and Tucker
            moved = table - nearest
            level = moved[nearest > 0]
            assert np.allclose(level, level[0])
            assert (moved[nearest == 0] <= level[0] + 1e-9).all()


def test_noise_of_any_size_can_be_projected() -> None:
    """Beyond 2^53 a float has no digit left for a small total."""
    for far in (1e15, 1e16, 1e17, 1e19, 1e30):
        assert (onto_counts(np.array([far, -far, 2.0]), 1.0) >= 0).all()
        assert np.isfinite(onto_counts(np.array([far, far, -far]), 1.0)).all()


def test_an_unknown_marginal_is_not_known() -> None:
    combined = combine(SIZES, ((0, 1),), [Fraction(1)], [np.zeros((2, 3), dtype=int)])
    assert isinstance(combined, JointEstimate)
    assert combined.knows((0,))
    assert not combined.knows((0, 2))
    assert prod(combined.sizes) == 24
