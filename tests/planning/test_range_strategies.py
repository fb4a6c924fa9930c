"""Blocks of an ordered key: planned errors are those of dense algebra, and no sum is clearly worse than without."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.planning.range_strategies import OrderedSum, SumKind, level_shares, variance_ratios

Matrix = npt.NDArray[np.float64]
CELLS, RUNNING, RANGES = (OrderedSum(kind) for kind in (SumKind.CELLS, SumKind.RUNNING, SumKind.RANGES))
TOTAL = OrderedSum(SumKind.TOTAL)
EVERY = (CELLS, RUNNING, RANGES, TOTAL)


def _weights(cells: int, one: OrderedSum) -> Matrix:
    """Return the sums of a kind, one in each row."""
    match one.kind:
        case SumKind.CELLS:
            return np.eye(cells)
        case SumKind.RUNNING:
            return np.tril(np.ones((cells, cells)))
        case SumKind.TOTAL:
            return np.ones((1, cells))
        case _:
            place = np.arange(cells)
            rows = [(place >= low) & (place <= high) for low in range(cells) for high in range(low, cells)]
            return np.array(rows, dtype=np.float64)


def _precision(cells: int, sizes: tuple[int, ...], precisions: list[float]) -> Matrix:
    """Return the precision of the cells from blocks of these sizes."""
    place, found = np.arange(cells), np.zeros((cells, cells))
    for size, precision in zip(sizes, precisions, strict=True):
        found += precision * (place[:, None] // size == place[None, :] // size)
    return found


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.kind)
def test_the_planned_variance_is_that_of_generalised_least_squares(one: OrderedSum) -> None:
    sizes, precisions = (1, 4, 16), [0.5, 0.2, 0.3]
    weights, covariance = _weights(32, one), np.linalg.inv(_precision(32, sizes, precisions))
    direct = np.einsum("ij,jk,ik->", weights, covariance, weights) / (weights**2).sum()
    np.testing.assert_allclose(variance_ratios(32, sizes, (one,), precisions), [direct], rtol=1e-10)


def test_windows_are_planned_as_if_all_of_them_lay_inside() -> None:
    sizes, precisions, width = (1, 4, 16), [0.5, 0.2, 0.3], 5
    place = np.arange(-width, 16 + width)
    weights = np.array([(place >= first) & (place < first + width) for first in place], dtype=np.float64)[
        :, width:-width
    ]
    covariance = np.linalg.inv(_precision(16, sizes, precisions))
    direct = np.einsum("ij,jk,ik->", weights, covariance, weights) / (weights**2).sum()
    found = variance_ratios(16, sizes, (OrderedSum(SumKind.WINDOW, width),), precisions)
    np.testing.assert_allclose(found, [direct], rtol=1e-10)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("cells", [16, 52, 100, 365])
def test_no_sum_at_all_is_a_tenth_worse_where_single_cells_are_shown(cells: int, power: int) -> None:
    shares = level_shares(cells, (CELLS, RUNNING), power)
    if shares is None:
        assert cells < 365, "long keys gain by blocks"
        return
    precision = _precision(cells, shares.sizes, [float(part) ** power for part in shares.parts])
    assert np.linalg.eigvalsh(precision).min() >= 1 / 1.21 - 1e-9


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("one", [RUNNING, RANGES, OrderedSum(SumKind.WINDOW, 30)], ids=lambda one: one.kind)
def test_the_parts_of_all_levels_add_up_to_the_price(one: OrderedSum, power: int) -> None:
    shares = level_shares(1024, (one,), power)
    assert shares is not None
    assert sum(shares.parts) == 1
    assert all(part > 0 for part in shares.parts)
    assert all((part / max(shares.parts) * 64).denominator == 1 for part in shares.parts)
    assert all(size % before == 0 for before, size in zip(shares.sizes, shares.sizes[1:], strict=False))


def test_ranges_and_running_totals_come_near_the_lower_bound() -> None:
    cells = 1024
    place = np.arange(cells)
    least, most = np.minimum.outer(place, place), np.maximum.outer(place, place)
    for one, gram, ratio in ((RANGES, (least + 1.0) * (cells - most), 1.28), (RUNNING, cells - most * 1.0, 1.29)):
        bound = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() ** 2 / cells
        shares = level_shares(cells, (one,), 1)
        assert shares is not None
        (planned,) = variance_ratios(cells, shares.sizes, (one,), [float(part) for part in shares.parts])
        assert (planned * np.trace(gram) / bound) ** 0.5 < ratio


def test_few_cells_and_single_cells_are_measured_as_they_are() -> None:
    assert level_shares(12, (RUNNING,), 1) is None
    assert level_shares(1024, (CELLS,), 1) is None
    assert level_shares(1024, (CELLS,), 2) is None
    assert level_shares(52, (CELLS, RUNNING), 2) is None
    found = level_shares(1024, (CELLS, RUNNING), 1)
    assert found is not None
    assert found.parts[0] >= Fraction(100, 121)
