"""The contents of the buckets of all cells, from the columns that a statement returned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.analysis.private_query import KeyValue
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.sql.bucket_lists import held_in_lists
from sfumato.engines.sql.row_weights import RowForm
from sfumato.planning.plan import GroupPlan, PlannedSelection

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Sequence["pa.ChunkedArray"]


def held_buckets(
    plan: GroupPlan,
    one: PlannedSelection,
    keys: Sequence[tuple[KeyValue, ...]],
    columns: Columns,
    form: RowForm | None,
) -> BucketWeights:
    """Return what is in the buckets of every cell: what is chosen there, see `buckets_sql`."""
    import pyarrow as pa

    width, shared = len(plan.group.keys), plan.group.contribution.rows > 1
    cells = places_of_cells(columns[:width], keys, len(columns[-1]))
    if len(columns) == width + 1:
        return held_in_lists(cells, columns[width], plan.group, one, by_person=form is not None)
    buckets, weights = (column.cast(pa.int64()).to_numpy() for column in columns[width:])
    buckets, weights, cells = buckets[cells >= 0], weights[cells >= 0], cells[cells >= 0]  # the others are nowhere
    weights = weights if shared else weights * one.weight
    span = one.quantity.arguments[0].facts.span
    entries = cells * span + np.clip(buckets, 0, span - 1)  # the range that was priced, whatever is stored
    order = np.argsort(entries, kind="stable")
    held, starts = np.unique(entries[order], return_index=True)
    together = np.add.reduceat(weights[order], starts) if len(starts) else weights
    return BucketWeights(held // span, held % span, together)


def places_of_cells(columns: Columns, keys: Sequence[tuple[KeyValue, ...]], rows: int) -> npt.NDArray[np.int64]:
    """Return the place of each row's cell among these, -1 for what is in none."""
    places = {key: place for place, key in enumerate(keys)}
    codes = np.zeros(rows, dtype=np.int64)  # of each row, the place of what it has so far: no product gets large
    cells: list[tuple[KeyValue, ...]] = [()]
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        values = [None, *encoded.dictionary.to_pylist()]
        found, codes = np.unique(
            codes * len(values) + encoded.indices.fill_null(-1).to_numpy() + 1, return_inverse=True
        )
        pairs = (divmod(code, len(values)) for code in found.tolist())
        cells = [(*cells[before], values[at]) for before, at in pairs]
    return np.array([places.get(cell, -1) for cell in cells], dtype=np.int64)[codes]
