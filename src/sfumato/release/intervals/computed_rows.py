"""The rows of computed tables as the engine found them, and which of all possible rows each of them is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.engines.post_processing.values import Values
from sfumato.language.rel_nodes import AggregateNode, InputNode, Item, ProjectNode, outputs
from sfumato.language.scalar import column
from sfumato.release.intervals.measured_cells import Indices
from sfumato.release.intervals.row_forms import Evaluate, FormTable
from sfumato.release.intervals.tracing import Computed, Extended, follow, place_name


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """The columns of a computed table; where rows are kept one by one, the row of each table below, -1 for none."""

    columns: Mapping[str, Values]
    size: int
    places: tuple[tuple[str, Indices], ...] = ()
    below: Mapping[str, Computed] | None = None


def compute(
    nodes: tuple[Computed, ...],
    known: Mapping[str, Mapping[str, Values]],
    sizes: Mapping[str, int],
    evaluate: Evaluate,
) -> dict[str, ComputedRows]:
    """Compute tables from the noisy ones, and before them the tables that they are computed from."""
    found: dict[str, ComputedRows] = {}
    for node in nodes:
        if isinstance(node, AggregateNode):
            names = [name for _, name, _ in outputs(node)]
            items = tuple(Item(name, column(node.label, name, facts)) for _, name, facts in outputs(node))
            columns = evaluate(ProjectNode(node, node.label, items), known)
            size = len(columns[0]) if columns else 1
            found[node.label] = ComputedRows(dict(zip(names, columns, strict=True)), size)
        else:
            found |= _followed(node, known, sizes, evaluate)
    return found


def _followed(
    node: Extended, known: Mapping[str, Mapping[str, Values]], sizes: Mapping[str, int], evaluate: Evaluate
) -> dict[str, ComputedRows]:
    followed = follow(node)
    found = compute(followed.computed, known, sizes, evaluate)
    everything = {**known, **{label: one.columns for label, one in found.items()}}
    counted = {**sizes, **{label: one.size for label, one in found.items()}}
    columns = evaluate(followed.flow, {**known, **numbered(followed.tables, everything, counted)})
    names = [name for _, name, _ in outputs(node)]
    values, marks = columns[: len(names)], columns[len(names) :]
    places = tuple((given.label, as_places(at)) for given, at in zip(followed.tables, marks, strict=True))
    size = len(marks[0]) if marks else 0
    below = {one.label: one for one in followed.computed}
    found[node.label] = ComputedRows(dict(zip(names, values, strict=True)), size, places, below)
    return found


def numbered(
    tables: Sequence[InputNode], known: Mapping[str, Mapping[str, Values]], sizes: Mapping[str, int]
) -> dict[str, dict[str, Values]]:
    """Return the given tables of a flow with a column of numbers."""
    return {
        given.label: {**known[given.label], place_name(given): range(sizes[given.label])}
        for given in tables
        if given.rows is None
    }


def as_places(column_of: list[object]) -> Indices:
    """Return the numbers of rows; -1 where there is none."""
    return np.array([-1 if place is None else int(str(place)) for place in column_of], dtype=np.int64)


def rows_of(node: Computed, table: FormTable, known: Mapping[str, ComputedRows]) -> Indices | None:
    """Return which row of the table each row that was computed is; None where that cannot be said."""
    if table.open:
        return None
    computed = known[node.label]
    if isinstance(node, AggregateNode):
        listed = list(zip(*(computed.columns[key.name] for key in node.keys), strict=True)) if node.keys else [()]
    else:
        sides = [_places_below(label, at, table, computed, known) for label, at in computed.places]
        present = [side for side in sides if side is not None]
        if len(present) < len(sides):
            return None
        listed = list(zip(*(side.tolist() for side in present), strict=True))
    found = [table.keys.get(row, -1) for row in listed]
    return None if -1 in found else np.array(found, dtype=np.int64)


def _places_below(
    label: str, at: Indices, table: FormTable, computed: ComputedRows, known: Mapping[str, ComputedRows]
) -> Indices | None:
    """Return the rows of a table below, as all its possible rows are numbered."""
    node = (computed.below or {}).get(label)
    if node is None:
        return at
    through = rows_of(node, table.below[label], known)
    if through is None:
        return None
    return np.where(at < 0, -1, through[np.maximum(at, 0)] if len(through) else -1)
