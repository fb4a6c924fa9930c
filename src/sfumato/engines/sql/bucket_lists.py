"""Where the cells have very many buckets together, each cell's rows leave the engine as one list of numbers.

Nearly every row then has a bucket of its own, so that adding them up in the engine would take longer than sorting the
lists. A number holds a row's bucket and how many rows its owner has.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.analysis.private_query import Group
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.row_weights import with_counts
from sfumato.planning.plan import PlannedSelection

if TYPE_CHECKING:
    import pyarrow as pa

MIN_LISTED_BUCKETS = 1 << 21
"""Minimum number of buckets of all cells together for which rows are listed. Key selection may need any number."""
MIN_LISTED_BUCKETS_OF_A_CELL = 1 << 12
_INT32_LIMIT = 1 << 31
_PORTION_NUMBERS = 1 << 15
"""Number of integers that are added up at a time: they stay in the processor's cache."""

Integers = npt.NDArray[np.int64]


def lists_buckets(group: Group, one: PlannedSelection, dialect: Dialect) -> bool:
    """Whether the rows of each cell leave the engine as a list: text and policy decide it."""
    if dialect.listed is None or not group.keys:
        return False
    span = one.quantity.arguments[0].facts.span
    if not group.public_keys:
        return span >= MIN_LISTED_BUCKETS_OF_A_CELL
    return group.cells * span >= MIN_LISTED_BUCKETS


def bucket_list_sql(bucket: str, own: str, group: Group, one: PlannedSelection, dialect: Dialect) -> str:
    """Return the aggregate of a cell: a number for each row. `bucket` is within its facts."""
    if dialect.listed is None:
        raise AssertionError("this engine lists no rows")
    rows, span, bigint = group.contribution.rows, one.quantity.arguments[0].facts.span, dialect.bigint
    # more rows than a person can have would read as another bucket
    number = f"({bucket} * {1 << rows.bit_length()} + least(greatest(CAST({own} AS {bigint}), 1), {rows}))"
    short = span << rows.bit_length() < _INT32_LIMIT
    return dialect.listed(f"CAST({number} AS INTEGER)" if short else number)


def person_list_sql(bucket: str, person: str, span: int, dialect: Dialect) -> str:
    """Return the aggregate of a cell whose rows say whose they are. `bucket` is within its facts."""
    if dialect.listed is None:
        raise AssertionError("this engine lists no rows")
    return dialect.listed(f"(CAST({person} AS {dialect.bigint}) * {1 << span.bit_length()} + {bucket})")


def held_in_lists(
    cells: Integers, lists: "pa.ChunkedArray", group: Group, one: PlannedSelection, *, by_person: bool
) -> BucketWeights:
    """Return what is in the buckets of every cell; `cells` are the places of the lists, -1 of what is in none."""
    together, bits = lists.combine_chunks(), group.contribution.rows.bit_length()
    ends, numbers = together.offsets.to_numpy(), together.values.to_numpy()
    if by_person:
        numbers = _counted(numbers, one.quantity.arguments[0].facts.span.bit_length(), group.contribution.rows)
    order = np.argsort(cells, kind="stable")
    order = order[cells[order] >= 0]
    sizes = np.diff(ends)[order]
    weights = np.array([one.weight // max(own, 1) for own in range(1 << bits)], dtype=np.int64)
    found: list[tuple[Integers, Integers, Integers]] = []
    for start, end in _portions(cells[order], sizes):
        lists_here = [numbers[ends[at] : ends[at + 1]] for at in order[start:end].tolist()]
        places = np.repeat(cells[order[start:end]], sizes[start:end])
        found.append(_added_up(np.concatenate(lists_here), places, bits, weights))
    columns = zip(*found, strict=True) if found else [[np.zeros(0, dtype=np.int64)]] * 3
    return BucketWeights(*(np.concatenate(column) for column in columns))


def _counted(numbers: Integers, bits: int, rows: int) -> Integers:
    """Return buckets with the number of rows of their owner, from buckets with the number of the owner."""
    people = numbers >> bits
    own = with_counts(np.zeros(0, dtype=np.int64), people)
    buckets = numbers & ((1 << bits) - 1)
    return np.asarray(buckets << rows.bit_length() | np.minimum(own, rows)[people])


def _portions(cells: Integers, sizes: Integers) -> Iterator[tuple[int, int]]:
    """Give the lists, in the order of their cells, in portions of a few numbers; all lists of a cell are in one."""
    start, until = 0, np.cumsum(sizes)
    while start < len(cells):
        before = int(until[start - 1]) if start else 0
        last = max(int(np.searchsorted(until, before + _PORTION_NUMBERS)), start)
        end = int(np.searchsorted(cells, cells[min(last, len(cells) - 1)], side="right"))
        yield start, end
        start = end


def _added_up(numbers: Integers, cells: Integers, bits: int, weights: Integers) -> tuple[Integers, Integers, Integers]:
    """Return cells, buckets and the weights of their rows, in that order, each pair once."""
    owners, numbers = cells, numbers.astype(np.int64)
    for start, end in itertools.pairwise(_edges(owners)):
        numbers[start:end].sort()
    buckets = numbers >> bits
    new = np.flatnonzero(np.concatenate([[True], (buckets[1:] != buckets[:-1]) | (cells[1:] != cells[:-1])]))[
        : len(cells)
    ]
    return cells[new], buckets[new], np.add.reduceat(weights[numbers & ((1 << bits) - 1)], new)


def _edges(cells: Integers) -> list[int]:
    """Return where cells begin and end."""
    return [0, *(np.flatnonzero(cells[1:] != cells[:-1]) + 1).tolist(), len(cells)]
