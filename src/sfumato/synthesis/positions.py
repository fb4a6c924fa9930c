"""Where numbers and dates lie inside their cells: a finer noisy histogram of a column, within each of its cells.

Cells of a marginal are wide, so that pairs of them can be counted. Numbers have positions inside a cell: salaries are
round, and most costs are near the low end. A second histogram of the single column, on a grid that divides the cells,
measures them. Proof: proofs/marginals.md §6
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import BadParameter, quote_value
from sfumato.synthesis.combining import Counts
from sfumato.synthesis.domain import Choices, Codes, ColumnDomain, Continuum, Floats, Nullable, Stepped

MAX_FINE_CELLS = 4096
"""Maximum number of cells of a finer histogram, unless the column's own cells are more."""
FineColumns = tuple[tuple[int, ColumnDomain], ...]
"""The finer grids of some columns, by the numbers of the columns."""
_SIGNAL_VARIANCES = 4.0
"""How many variances of its noise a squared difference between two halves has to exceed to be more than noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The noisy finer histogram of one column."""

    axis: int
    column: ColumnDomain
    """The column as it is measured with the others."""
    fine: ColumnDomain
    """The same column on the finer grid: each of its cells lies in one cell of `column`."""
    counts: Counts
    sigma_squared: Fraction

    def drawn(self, codes: Codes, within: Floats, totals: Floats) -> pa.Array:
        """Return a value in each cell; `totals` estimates the number of rows in each, `within` is uniform in [0, 1)."""
        fine = present_part(self.fine)
        missing, held = self.column.held(codes) if isinstance(self.column, Nullable) else (codes < 0, codes)
        ends = self.share_ends(totals)
        starts = np.append(first_cells(self.column, self.fine), fine.size)
        place = np.searchsorted(ends, held + within, side="right")
        place = np.clip(place, starts[held], starts[held + 1] - 1)
        low = np.maximum(np.concatenate([[0.0], ends])[place], held)
        width = np.maximum(ends[place] - low, np.finfo(float).tiny)
        inside = np.clip((held + within - low) / width, 0.0, np.nextafter(1.0, 0.0))
        values = fine.drawn(place, inside)
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values) if missing.any() else values

    def share_ends(self, totals: Floats) -> Floats:
        """Return where each finer cell ends on a line on which cell c of the column reaches from c to c + 1."""
        column, fine = present_part(self.column), present_part(self.fine)
        starts = np.append(first_cells(self.column, self.fine), fine.size)
        counts, widths = self.counts[: fine.size].astype(np.float64), cell_widths(fine)
        ends = np.empty(fine.size)
        for cell in range(column.size):
            low, after = int(starts[cell]), int(starts[cell + 1])
            shares = split_shares(
                counts[low:after], widths[low:after], float(self.sigma_squared), max(float(totals[cell]), 0.0)
            )
            ends[low:after] = cell + np.cumsum(shares)
            ends[after - 1] = cell + 1
        return ends


def split_shares(counts: Floats, widths: Floats, variance: float, total: float) -> Floats:
    """Return the shares of adjacent finer cells: ranges are halved, and halves differ as far as noise is exceeded.

    Halves whose noisy counts differ from an even spread by less than noise does are spread evenly, by their widths.

    >>> split_shares(np.array([1000.0, 4.0, -3.0, 2.0]), np.ones(4), 25.0, 1000.0).round(2).tolist()
    [1.0, 0.0, 0.0, 0.0]
    >>> split_shares(np.array([3.0, -4.0, 5.0, 0.0]), np.ones(4), 25.0, 10.0).round(2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    shares = np.zeros(len(counts))
    waiting = [(0, len(counts), 1.0)]
    while waiting:
        low, after, share = waiting.pop()
        if after - low == 1:
            shares[low] = share
            continue
        middle = (low + after) // 2
        even = float(widths[low:middle].sum() / widths[low:after].sum())
        rows, left, right = share * total, float(counts[low:middle].sum()), float(counts[middle:after].sum())
        signal = (1 - even) * left - even * right  # 0 where rows are spread evenly
        noise = variance * ((1 - even) ** 2 * (middle - low) + even**2 * (after - middle))
        kept = max(0.0, 1.0 - _SIGNAL_VARIANCES * noise / (signal * signal)) if signal and rows > 0 else 0.0
        part = min(max(even + kept * signal / rows, 0.0), 1.0) if kept else even
        waiting += [(low, middle, share * part), (middle, after, share * (1 - part))]
    return shares


def finer(column: ColumnDomain) -> ColumnDomain:
    """Return the column on a grid that divides its cells: single values, or the same number of finer cells in each."""
    if isinstance(column, Nullable):
        present = finer(column.present)
        if isinstance(present, Nullable):
            raise AssertionError("NULL is one value")
        return Nullable(present)
    if isinstance(column, Choices):
        raise BadParameter(
            f"{quote_value(column.name)} has no positions inside its cells.",
            "Each of its cells is one declared value.",
            "Name columns of numbers or dates that have bounds.",
        )
    cells = max(MAX_FINE_CELLS // column.size, 1) * column.size
    if isinstance(column, Continuum):
        return Continuum(column.name, column.low, column.high, cells)
    bins = column.count if column.count <= MAX_FINE_CELLS else cells
    return Stepped(column.name, column.least, column.greatest, bins, column.step, column.kind)


def present_part(column: ColumnDomain) -> Continuum | Stepped:
    """Return what a column of numbers or dates holds beside NULL."""
    present = column.present if isinstance(column, Nullable) else column
    if isinstance(present, Choices):
        raise AssertionError("`finer` refuses listed values")
    return present


def first_cells(column: ColumnDomain, fine: ColumnDomain) -> Codes:
    """Return the first finer cell of each cell."""
    held, inner = present_part(column), present_part(fine)
    if isinstance(held, Continuum) or isinstance(inner, Continuum):
        return np.arange(held.size) * (inner.size // held.size)
    return inner.of_steps(held.first(np.arange(held.size)))


def cell_widths(fine: Continuum | Stepped) -> Floats:
    """Return how many values each finer cell has, or its length."""
    if isinstance(fine, Continuum):
        return np.ones(fine.size)
    cells = np.arange(fine.size)
    return np.asarray(fine.first(cells + 1) - fine.first(cells), dtype=np.float64)


def columns_with_positions(columns: Sequence[ColumnDomain], names: frozenset[str]) -> FineColumns:
    """Return the finer grid of each named column, by its place; columns whose cells are single values need none."""
    wanted = [(axis, finer(column)) for axis, column in enumerate(columns) if column.name in names]
    return tuple((axis, fine) for axis, fine in wanted if fine.size > columns[axis].size)
