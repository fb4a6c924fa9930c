"""A plan as statements, one per group, and what they return as aggregates: the same for every engine of SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.analysis.private_query import Absent, Group, KeyValue
from sfumato.engines.aggregates import Aggregates, BucketWeights, GroupAggregates, Held, KeyFrequencies
from sfumato.engines.engine import Histograms, Job, PlannedStatement, SelectedBounds
from sfumato.engines.sql.blocks import skip_levels, with_block_sums
from sfumato.engines.sql.bounding.candidates import without_idle_bounds
from sfumato.engines.sql.bounding.selection import totals_sql
from sfumato.engines.sql.cross_unit_counts import cross_unit_counts_sql
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, flow_sql
from sfumato.engines.sql.flow_pairs import PAIR_COLUMNS, pairs_by_cell, pairs_sql
from sfumato.engines.sql.group import buckets_sql, group_sql, histogram_sql, matched_sql
from sfumato.engines.sql.held_buckets import Columns, held_buckets, places_of_cells
from sfumato.engines.sql.public import PublicTables, map_materialized
from sfumato.engines.sql.row_weights import Batches, RowForm, held_in_rows, row_form
from sfumato.errors import QueryTooLarge
from sfumato.language.cost_limits import check_work
from sfumato.language.facts import STORED_LIMIT
from sfumato.language.rel_nodes import InputNode, MaterializedNode, ProjectNode, ScanNode
from sfumato.mechanisms.answers import Answers, integer_answers
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.bounding.selection import at_bounds
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement, PlannedSelection
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.matching import matched_values, renumber

if TYPE_CHECKING:
    import pyarrow as pa

MAX_STATEMENT_CHARS = 1_000_000
"""The most characters of one statement."""
MAX_PLAN_CHARS = 4_000_000
"""Maximum number of characters of all statements of one plan together."""
MAX_SELECTED_COLUMNS = 1_000
"""Number of cells assumed with key selection, where it is unknown: there is time for them and their pairs."""
MAX_JOINT_PARTS = 1 << 22
"""Maximum number of parts by places of rows, where one statement counts people: these parts fit into memory.

So there are at most a dozen choices, and no engine refuses that number of columns."""

_CHOSEN_COLUMNS = {Aggregation.MATCHED: 4, Aggregation.BOUNDED_FLOW: PAIR_COLUMNS}
"""How many columns beside the keys the statement of a choice has; others have two."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statements:
    """A plan and its statements, one per group; None where no integer is measured. `histograms` have their own."""

    plan: Plan
    statements: tuple[str | None, ...]
    histograms: tuple[Mapping[str, str], ...]
    """The statements of each group's histograms, and of what is chosen in it, by their names."""
    write: Callable[[GroupPlan], str | None] = field(repr=False)
    """Writes the statement of a group, for one whose levels have been chosen."""
    row_forms: tuple[Mapping[str, RowForm], ...] = ()
    """Of each group, the choices whose statements return rows, by their names."""
    added_up: frozenset[str] = frozenset()
    """The labels of the choices whose people were added up when the copy was written."""

    @property
    def nothing(self) -> bool:
        """Whether no private table is read."""
        return not any(self.statements) and not any(self.histograms)

    @property
    def selects_bounds(self) -> bool:
        """Whether contribution bounds are selected before anything else is measured."""
        return any(group.is_bound_selection for group in self.plan.groups)


def prepared(
    plan: Plan,
    tables: Tables,
    public: PublicTables,
    dialect: Dialect,
    brought: Callable[[MaterializedNode], MaterializedNode] | None = None,
) -> Statements:
    """Return the statements of a plan. No data is read: whatever can be refused is refused here.

    Where public rows are kept by another engine than the one that runs the statements, `brought` brings them there:
    the price and the statement know the same rows.
    """
    if plan.groups:
        check_outcome(plan)
    else:
        public.check(plan.private.outcome)  # a quote refuses what asking would
    flows = [public.with_local_tables(one.group.rows) for one in plan.groups]
    flows = flows if brought is None else [map_materialized(flow, brought) for flow in flows]
    groups = tuple(
        replace(one, group=replace(one.group, rows=flow)) for one, flow in zip(plan.groups, flows, strict=True)
    )
    plan = replace(plan, groups=groups)
    length = _PlanLength()
    histograms = tuple(
        {
            one.name: length.add(histogram_sql(group, one, tables, dialect))
            for one in group.measured
            if one.buckets is not None
        }
        | {one.name: length.add(_chosen_sql(group, one, tables, dialect)) for one in group.chosen}
        for group in groups
    )
    write = skip_levels(plan, partial(group_sql, tables=tables, dialect=dialect))
    statements = tuple(None if (sql := write(group)) is None else length.add(sql) for group in groups)
    forms = tuple(
        {one.name: form for one in group.chosen if (form := _row_form(group, one, dialect)) is not None}
        for group in groups
    )
    added_up = frozenset(one.group.label for one in groups if totals_sql(one, tables, dialect) is not None)
    return Statements(plan, statements, histograms, write, forms, added_up)


def planned_statements(job: Job) -> tuple[PlannedStatement, ...]:
    """Return the statements of a plan, in the order in which they would run.

    Where bounds are selected, the statement that runs measures only the selected bound: it is known after the noise.
    """
    if not isinstance(job, Statements):
        raise AssertionError("a job is listed by the engine that prepared it")
    counted = ((some, _people_statement(job, some)) for some in _counted_together(job))
    found = [(f"count people by what they have, to select {_labels(some)}", sql) for some, sql in counted]
    for group, statement, histograms in zip(job.plan.groups, job.statements, job.histograms, strict=True):
        if not group.is_bound_selection:
            where = "at every candidate bound" if job.selects_bounds else "exactly"
            found.append((f"measure {_labels([group])} {where}", statement or ""))
        found += [(f"measure {name} of {_labels([group])}", sql) for name, sql in histograms.items()]
    return tuple(PlannedStatement(purpose, sql) for purpose, sql in found if sql)


def _labels(groups: Sequence[GroupPlan]) -> str:
    return ", ".join(group.group.label for group in groups)


def _row_form(group: GroupPlan, one: PlannedSelection, dialect: Dialect) -> RowForm | None:
    by_buckets = isinstance(one.mechanism, Quantiles | PermuteAndFlip)
    return row_form(group.group, one, dialect) if by_buckets else None


def _chosen_sql(group: GroupPlan, one: PlannedSelection, tables: Tables, dialect: Dialect) -> str:
    if one.quantity.function is Aggregation.CROSS_UNIT_COUNT:
        return cross_unit_counts_sql(group, one, tables, dialect)
    if one.quantity.function is Aggregation.BOUNDED_FLOW:
        return pairs_sql(group, one, tables, dialect)
    if isinstance(one.mechanism, MatchedCount):
        return matched_sql(group, one, tables, dialect)
    return buckets_sql(group, one, tables, dialect)


def aggregated(
    job: Job,
    run: Callable[[str], Rows],
    columns_of: Callable[[str], Columns] | None = None,
    selected: SelectedBounds | None = None,
    histograms: Histograms | None = None,
    batches_of: Callable[[str], Batches] | None = None,
) -> Aggregates:
    """Return the exact aggregates of a plan that has been charged, as `Engine.run` does.

    `columns_of` runs a statement that may return very many rows, where an engine has them in columns, and `batches_of`
    one that may return all rows of a table.
    """
    if not isinstance(job, Statements):
        raise AssertionError("a job is run by the engine that prepared it")
    groups, statements, known = _at_selected(job, selected, histograms or {})
    found = []
    for group, statement, texts, forms in zip(groups, statements, job.histograms, job.row_forms, strict=True):
        if (counted := known.get(group.group.label)) is not None:
            found.append(counted)
            continue
        numbers = _aggregates(group, [] if statement is None else run(statement))
        rows = {one: run(texts[one.name]) for one in group.measured if one.name in texts}
        vectors = {one.name: _histogram(one, numbers.keys, buckets) for one, buckets in rows.items()}
        columns = {one.name: {**numbers.columns, **vectors}[one.name] for one in group.measured}
        held: dict[str, Held] = {}
        for one in group.chosen:
            asked = texts[one.name]
            if one.quantity.function is Aggregation.CROSS_UNIT_COUNT:
                held[one.name] = _held_keys(len(group.group.keys), numbers.keys, run(asked))
                continue
            form = forms.get(one.name)
            if form is not None and not form.listed and batches_of is not None:
                held[one.name] = held_in_rows(partial(batches_of, asked), form, one.weight)
                continue
            keys = len(group.group.keys)
            width = keys + _CHOSEN_COLUMNS.get(one.quantity.function, 2)
            many = _in_columns(run(asked), width) if columns_of is None else columns_of(asked)
            if isinstance(one.mechanism, MatchedCount):
                held[one.name] = _matched(one.mechanism.limits, numbers.keys, many)
            elif one.quantity.function is Aggregation.BOUNDED_FLOW:
                places = places_of_cells(many[:keys], numbers.keys, len(many[-1]))
                held[one.name] = pairs_by_cell(one, places, _numbers(many[keys:]))
            else:
                held[one.name] = held_buckets(group, one, numbers.keys, many, form)
        found.append(GroupAggregates(numbers.keys, columns, numbers.units, held))
    return with_block_sums(job.plan, Aggregates(tuple(found)))


def _at_selected(
    job: Statements, selected: SelectedBounds | None, histograms: Histograms
) -> tuple[Sequence[GroupPlan], Sequence[str | None], Histograms]:
    """Return groups and statements at the selected bounds, and the groups that the histograms contain already."""
    if not selected:
        return job.plan.groups, job.statements, {}
    chosen = at_bounds(job.plan, selected).groups
    known = {**histograms}
    known |= {one.group.label: found for one in chosen if (found := _of_people(one, histograms)) is not None}
    # none is longer than the one that measures all levels, which was not refused
    return chosen, [None if one.group.label in known else job.write(without_idle_bounds(one)) for one in chosen], known


def count_histograms(job: Job, run: Callable[[str], Rows]) -> Histograms:
    """Return what all people add at every candidate bound; one statement counts what is of the same rows."""
    if not isinstance(job, Statements):
        raise AssertionError("a job is run by the engine that prepared it")
    found: dict[str, GroupAggregates] = {}
    for some in _counted_together(job):
        together = _together(some)
        counted = _aggregates(together, run(_people_statement(job, some)))
        for group in some:
            (one,) = group.measured
            columns = {one.name: counted.columns[group.group.label]}
            found[group.group.label] = replace(counted, columns=columns)
    return found


def _together(some: Sequence[GroupPlan]) -> GroupPlan:
    named = {group.group.label: replace(group.measured[0], name=group.group.label) for group in some}
    return replace(some[0], measured=tuple(named.values()))


def _people_statement(job: Statements, some: Sequence[GroupPlan]) -> str:
    return job.write(_together(some)) or ""


def _counted_together(job: Statements) -> list[list[GroupPlan]]:
    """Return the choices, those together that one statement counts: neither too long a one, nor one of too many parts.

    A choice of which that is true by itself was refused, or has few parts; together they are no longer than apart.
    """
    alike: list[list[GroupPlan]] = []
    sizes: list[tuple[int, int]] = []
    for group, statement in zip(job.plan.groups, job.statements, strict=True):
        if not group.is_bound_selection:
            continue
        known, length = group.group.label in job.added_up, len(statement or "")
        parts = 1 if known else _parts(group)
        for at, some in enumerate(alike):
            more = sizes[at][0] * parts, sizes[at][1] + length
            same = some[0].group.rows == group.group.rows and (some[0].group.label in job.added_up) == known
            if same and more[0] <= MAX_JOINT_PARTS and more[1] <= MAX_STATEMENT_CHARS:
                some.append(group)
                sizes[at] = more
                break
        else:
            alike.append([group])
            sizes.append((parts, length))
    return alike


def _parts(group: GroupPlan) -> int:
    """Return into how many parts the rows fall by their places among the levels of a choice, or by having none."""
    (one,) = group.measured
    places = 1 if one.candidates is None else len(one.candidates.thresholds) + 1
    return places + 1 if one.candidates is None or one.candidates.bounds_rows else places**2 + 1


def _of_people(group: GroupPlan, people: Histograms) -> GroupAggregates | None:
    """Return what is measured of all rows together, where that is what people add up to; None where it is not."""
    if group.is_bound_selection or group.group.keys or group.chosen:
        return None
    columns: dict[str, Answers] = {}
    for one in group.measured:
        if one.candidates is None or one.selected is None or one.quantity != one.candidates.weight:
            return None
        if (histogram := people.get(one.selection_label)) is None:
            return None
        (totals,) = histogram.columns.values()
        columns[one.name] = totals[:, one.selected]
    return GroupAggregates(group.group.all_cells(), columns, None)


def query_columns(show: ProjectNode, tables: Tables, dialect: Dialect, run: Callable[[str], Rows]) -> list[list[Any]]:
    """Return the columns of a query that reads public tables alone."""
    rows = run(checked(flow_sql(show, tables, dialect)))
    return [[row[at] for row in rows] for at in range(len(show.items))]


def check_outcome(plan: Plan) -> None:
    """Refuse what would compute for ever with the noisy groups: that is free, too."""
    cells = {one.group.label: one.group.cells if one.group.public_keys else MAX_SELECTED_COLUMNS for one in plan.groups}

    def size(node: ScanNode | InputNode | MaterializedNode) -> int:
        if isinstance(node, InputNode):
            return cells.get(node.table, 0) if node.rows is None else len(node.rows)
        return 0

    check_work(plan.private.outcome, size)


def checked(statement: str) -> str:
    """Refuse a statement that is too long."""
    if len(statement) > MAX_STATEMENT_CHARS:
        raise QueryTooLarge(
            "The query becomes a statement that is too long.",
            f"A statement has at most {MAX_STATEMENT_CHARS:,} characters.",
            "Ask for fewer columns at once, or write shorter expressions.",
        )
    return statement


class _PlanLength:
    """The length of the statements of a plan so far: the next one is not written when they are too long."""

    def __init__(self) -> None:
        self._chars = 0

    def add(self, statement: str) -> str:
        self._chars += len(checked(statement))
        if self._chars > MAX_PLAN_CHARS:
            raise QueryTooLarge(
                "The query becomes statements that are too long together.",
                f"All statements of a query have at most {MAX_PLAN_CHARS:,} characters.",
                "Ask for fewer columns at once, or write shorter expressions.",
            )
        return statement


def _aggregates(plan: GroupPlan, rows: Rows) -> GroupAggregates:
    width, numbers = len(plan.group.keys), [one for one in plan.measured if one.buckets is None]
    if plan.group.public_keys:
        keys = plan.group.all_cells()
        return GroupAggregates(keys, _columns(numbers, _spread(rows, plan.group, keys), width), None)
    rows = [row for row in rows if None not in row[:width]]
    found = tuple(row[:width] for row in rows)
    units = integer_answers([row[-1] for row in rows])
    return GroupAggregates(found, _columns(numbers, rows, width), units)


def _spread(rows: Rows, group: Group, keys: Sequence[tuple[KeyValue, ...]]) -> Rows:
    """Give every public cell its row, in their order; absent cells are empty.

    Undeclared cells are dropped, or added to the rest where a key has one.
    """
    width = len(group.keys)
    if not any(key.has_remainder for key in group.keys):
        found = {row[:width]: row for row in rows}
        return [found.get(key, key) for key in keys]
    known, declared = [frozenset(key.cells or ()) for key in group.keys], frozenset(keys)
    totals: dict[tuple[KeyValue, ...], Sequence[int]] = {}
    for row in rows:
        cell = row[:width]
        if cell not in declared or None in cell:
            cell = tuple(
                value if value in cells else Absent.NULL if value is None and key.null_is_apart else None
                for value, cells, key in zip(row, known, group.keys, strict=False)
            )
        elif cell not in totals:
            totals[cell] = row[width:]
            continue
        kept = totals.setdefault(cell, [0] * (len(row) - width))
        totals[cell] = [(one or 0) + (more or 0) for one, more in zip(kept, row[width:], strict=True)]
    return [(*key, *totals.get(key, ())) for key in keys]


def _histogram(one: PlannedMeasurement, keys: Sequence[tuple[KeyValue, ...]], rows: Rows) -> Answers:
    """Return a row of integers per cell. Rows without a cell or a bucket are dropped."""
    places, buckets = {key: place for place, key in enumerate(keys)}, one.buckets or range(0)
    found = [[0] * len(buckets) for _ in keys]
    for *key, bucket, value in rows:
        if bucket is not None and (place := places.get(tuple(key))) is not None:
            found[place][int(bucket) - buckets.start] = int(value or 0)
    return integer_answers(found) if found else integer_answers(np.zeros((0, len(buckets)), dtype=np.int64))


def _numbers(columns: Columns) -> list[npt.NDArray[np.int64]]:
    import pyarrow as pa

    return [column.cast(pa.int64()).to_numpy() for column in columns]


def _in_columns(rows: Rows, width: int) -> Columns:
    """Return rows in columns."""
    import pyarrow as pa

    return [pa.chunked_array([_array([row[at] for row in rows])]) for at in range(width)]


def _array(values: list[Any]) -> "pa.Array":
    """Return values of one column; integers that may be beyond 64 bits, as keys are, in decimals equal to them."""
    import pyarrow as pa

    if any(isinstance(value, int) and not -STORED_LIMIT <= value < STORED_LIMIT for value in values):
        return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(38, 0))
    return pa.array(values)


def _held_keys(width: int, keys: Sequence[tuple[KeyValue, ...]], rows: Rows) -> KeyFrequencies:
    """Return the keys by which rows meet; those of no cell are nowhere."""
    places = {key: place for place, key in enumerate(keys)}
    found: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for row in rows:
        if (place := places.get(tuple(row[:width]))) is not None:
            *powers, times = (int(number) for number in row[width:])
            found.setdefault(place, []).append((tuple(powers), times))
    return KeyFrequencies({place: tuple(listed) for place, listed in found.items()})


def _matched(limits: tuple[int, ...], keys: Sequence[tuple[KeyValue, ...]], columns: Columns) -> BucketWeights:
    """Return for every cell how many values are served within each limit: its buckets are the limits."""
    sizes = matched_sizes(limits, keys, columns)
    cells, buckets = (part.ravel() for part in np.indices(sizes.shape))
    return BucketWeights(cells, buckets, sizes.ravel())


def matched_sizes(
    limits: tuple[int, ...], keys: Sequence[tuple[KeyValue, ...]], columns: Columns
) -> npt.NDArray[np.int64]:
    """Return a row for each cell: how many values are served within each limit.

    See `matched_pairs_sql` for the columns.
    """
    import pyarrow as pa

    *found, people, values, own, times = columns
    cells = places_of_cells(found, keys, len(times))
    person, value, beside, often = (
        column.cast(pa.int64()).fill_null(-1).to_numpy() for column in (people, values, own, times)
    )
    sizes = np.zeros((len(keys), len(limits)), dtype=np.int64)
    here = cells >= 0  # rows in no cell are dropped
    alone = here & (person < 0) & (often > 0)
    for place, limit in enumerate(limits):
        each = np.where(beside[alone] > 0, np.minimum(beside[alone], limit), 1)
        np.add.at(sizes[:, place], cells[alone], often[alone] * each)
    pairs = np.flatnonzero(here & (person >= 0))
    pairs = pairs[np.argsort(cells[pairs], kind="stable")]
    _, starts = np.unique(cells[pairs], return_index=True)
    for some in np.split(pairs, starts[1:]) if len(pairs) else []:
        owners, count = renumber(person[some])
        own_values = np.zeros(count, dtype=np.int64)
        own_values[owners] = beside[some]
        sizes[cells[some[0]]] += matched_values(owners, renumber(value[some])[0], own_values, limits)
    return sizes


def _columns(numbers: Sequence[PlannedMeasurement], rows: Sequence[tuple[Any, ...]], width: int) -> dict[str, Answers]:
    """Return an integer per cell of each measurement; of one with levels, a row of integers per cell."""
    found, at = {}, width
    for one in numbers:
        size = _size(one)
        # the sum of no values is NULL in SQL; here it means that no person added anything
        if one.candidates is None or one.selected is not None:
            found[one.name] = integer_answers([(row[at] or 0) if at < len(row) else 0 for row in rows])
        else:
            places = range(at, at + size)
            cells = [[(row[place] or 0) if place < len(row) else 0 for place in places] for row in rows]
            found[one.name] = _levels(cells, size)
        at += size
    return found


def _size(one: PlannedMeasurement) -> int:
    """Return how many integers of each cell a measurement has."""
    return 1 if one.candidates is None or one.selected is not None else len(one.candidates.thresholds)


def _levels(cells: list[list[int]], size: int) -> Answers:
    return integer_answers(cells) if cells else integer_answers(np.zeros((0, size), dtype=np.int64))
