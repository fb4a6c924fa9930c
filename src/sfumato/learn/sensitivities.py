"""Compute the squared L2 sensitivity of each measurement, as exact integers.

A row gives a vector p, or nothing; a unit with at most m rows gives a sum of m of them. Such sums lie in m times the
convex hull of all p and 0, and two of them are farthest apart at its corners: so Δ² = m²·max‖p‖² under
add-remove, and Δ² = m²·max‖p - p'‖² (p or p' may be 0) under replace.  Proof: proofs/learn.md §2
"""

from sfumato.accounting.event import Neighbours
from sfumato.learn.rows import UNIT_STEPS
from sfumato.learn.table_metadata import TableMetadata

CELL_COUNT_STEPS = 1 << 10
"""The contribution of one row to its cell: on a finer grid integer noise is as good as real noise."""


def squared_sensitivity(norm_squared: int, apart_squared: int, metadata: TableMetadata) -> int:
    """Return Δ² from the largest ‖p‖² and the largest ‖p - p'‖² of two rows."""
    farthest = norm_squared if metadata.neighbours is Neighbours.ADD_REMOVE else max(norm_squared, apart_squared)
    return metadata.rows_per_person**2 * farthest


def in_cells(metadata: TableMetadata) -> int:
    """Each row counts `CELL_COUNT_STEPS` in one cell."""
    return squared_sensitivity(CELL_COUNT_STEPS**2, 2 * CELL_COUNT_STEPS**2, metadata)


def in_box(metadata: TableMetadata, weight: int, *, squares: bool) -> int:
    """Each row gives its class `weight`, and x in [-UNIT, UNIT] of each column, with ⌊x²/UNIT⌋ where asked for."""
    width = len(metadata.low) * UNIT_STEPS**2
    norm = weight**2 + width * (2 if squares else 1)
    return squared_sensitivity(norm, max(4 * width, _elsewhere(norm, len(metadata.classes))), metadata)


def in_ball(metadata: TableMetadata, weight: int, classes: int) -> int:
    """Each row gives its class, or cluster, `weight` and a vector of length at most UNIT."""
    norm = weight**2 + UNIT_STEPS**2
    return squared_sensitivity(norm, max(4 * UNIT_STEPS**2, _elsewhere(norm, classes)), metadata)


def of_products(metadata: TableMetadata, constant: int) -> int:
    """Each row gives zz', of z with a constant: ‖zz'‖ = ‖z‖², and ‖zz' - ww'‖² = ‖z‖⁴ + ‖w‖⁴ - 2(z·w)²."""
    norm = (UNIT_STEPS**2 + constant**2) ** 2
    return squared_sensitivity(norm, 2 * norm, metadata)


def of_gradients(metadata: TableMetadata, length: int) -> int:
    """Each row gives a vector of at most this length."""
    return squared_sensitivity(length**2, 4 * length**2, metadata)


def _elsewhere(norm: int, classes: int) -> int:
    """Two rows of different classes share no entry."""
    return 2 * norm if classes > 1 else norm
