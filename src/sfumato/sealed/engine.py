"""The sealed engine: one statement per table without text of the query; sums are decrypted and combined here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, repeat
from typing import Any
from weakref import finalize

from sfumato.analysis.catalog import Catalog, Field
from sfumato.analysis.catalog import Table as CatalogTable
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.build_catalog import declared_cells, facts_of
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.engine import SHELF
from sfumato.engines.engine import Histograms, Job, PlannedStatement, SelectedBounds
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.sql.flow import flow_sql
from sfumato.engines.sql.names import PATH_UNIT
from sfumato.engines.sql.public import PublicTables
from sfumato.engines.sql.statements import check_outcome, checked
from sfumato.errors import BadSource, quote_value
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode, Item, ProjectNode
from sfumato.language.scalar import ColumnRef, Operator, Scalar
from sfumato.mechanisms.answers import integer_answers
from sfumato.planning.aggregates.others import all_of, conjuncts_of
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.policy.policy import RowUnit, UnitColumn, fold_name
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.sealed.cells import CellSums, ask_store, cell_sums
from sfumato.sealed.free import FreeReader
from sfumato.sealed.joined import JoinedSide
from sfumato.sealed.layout import SQUARES, SUMS, Layout, SealedColumn
from sfumato.sealed.manifest import SealedManifest
from sfumato.sealed.questions import SealedRows, check_sealed_query, measure_of, rows_of
from sfumato.sealed.stores import sums_statement
from sfumato.sealed.vault import Vault

_CELL_LABEL, _OUTPUT_LABEL = "cell", "shown"
_NUMBER = '"number"'
"""Quotation marks are not allowed in names of queries and policies."""
PublicValue = int | float | str | bool | None
SumOf = Callable[[int, SealedColumn, tuple[int, ...]], tuple[int, int]]
"""The count and the sum of a column of one side, over a cell or a pair of cells."""


@dataclass(frozen=True, slots=True)
class SealedGroup:
    """One group of a plan: its rows in terms of cells, and the columns of the store that it needs."""

    plan: GroupPlan
    rows: SealedRows
    sides: tuple[Layout, ...]
    """The layouts of its tables: one, or two that are joined."""
    columns: tuple[tuple[SealedColumn, ...], ...]
    """Of each of them."""

    @property
    def joins(self) -> tuple[JoinedSide, ...]:
        """The sides of a join, each summed on its own."""
        if len(self.sides) == 1:
            return ()
        return tuple(
            JoinedSide(self.sides[side], self.sides[1 - side], columns)
            for side, columns in enumerate(self.columns)
            if columns
        )


@dataclass(frozen=True, slots=True)
class SealedJob:
    """The columns of each table whose sums a plan needs from the store."""

    groups: tuple[SealedGroup, ...]

    def columns(self, table: str) -> tuple[SealedColumn, ...]:
        """Return the needed columns of a table, each once, in the table's order."""
        reading = [group for group in self.groups if group.rows.tables == (table,)]
        needed = {column.labels for group in reading for column in group.columns[0]}
        return tuple(column for column in reading[0].sides[0].columns if column.labels in needed)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read without a join, each once."""
        alone = [group for group in self.groups if len(group.sides) == 1 and group.columns[0]]
        return tuple(dict.fromkeys(group.rows.tables[0] for group in alone))


class SealedEngine:
    """Executor of plans over the sealed tables of a vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._free = FreeReader()
        self.public = PublicTables({}, self._free.rows, DUCKDB, SHELF)
        tables = {name: _catalog_table(layout) for name, layout in vault.layouts.items()}
        self.catalog = Catalog(tables, vault.policy.neighbours)

    @property
    def version(self) -> str:
        """The manifest's random id, which changes with each batch."""
        return self._manifest().version

    def check(self, private: PrivateQuery) -> None:
        """Refuse queries that a sealed store cannot answer, and all queries once it was found to be changed."""
        check_sealed_query(private, self._vault.layouts)
        manifest = self._manifest()
        self._vault.ring.require_untampered(manifest.epoch)
        for layout in (self._vault.layouts[table] for group in private.groups for table in rows_of(group.rows).tables):
            epoch = self._vault.epoch_of(manifest, layout)
            if epoch is None or not epoch.committed:
                raise BadSource(
                    f"Nothing was sealed into {quote_value(layout.table.name)} yet.",
                    "Questions are answered from the rows in the store.",
                    "The owner must seal rows first: sfumato.sealed.database.seal.",
                )

    def prepare(self, plan: Plan) -> SealedJob:
        """Return the sums that a plan needs from the store, without reading them."""
        if plan.groups:
            check_outcome(plan)
        else:
            self.public.check(plan.private.outcome)  # a quote refuses what asking would
        groups = []
        for group in plan.groups:
            rows = rows_of(group.group.rows)
            sides = tuple(self._vault.layouts[table] for table in rows.tables)
            groups.append(SealedGroup(group, rows, sides, _needed_columns(group, rows, sides)))
        return SealedJob(tuple(groups))

    def run_selection(self, job: Job) -> Histograms:
        """Return nothing: a sealed table has no bounds that a question selects."""
        return {}

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged, or `StoreTampered`; the charge stays."""
        job = _require_sealed_job(job)
        sums = {table: cell_sums(self._vault, table, job.columns(table)) for table in job.tables}
        return Aggregates(tuple(_aggregates(group, self._group_sums(group, sums)) for group in job.groups))

    def _group_sums(self, group: SealedGroup, sums: Mapping[str, CellSums]) -> SumOf | None:
        """Return the sums that a group needs, as a function of the table's side, the column and the cell or cells."""
        if len(group.sides) == 1:
            alone = sums.get(group.rows.tables[0])
            return None if alone is None else (lambda side, column, cells: alone.of(column, cells[0]))
        for layout in group.sides if group.joins else ():
            cell_sums(self._vault, layout.name, (layout.counting_column(0),))  # it must hold what was sealed
        joined = {
            join.layout.name: ask_store(
                self._vault, partial(join.statement, self._vault), partial(join.decrypt_pair_sums, self._vault)
            )
            for join in group.joins
        }
        if not joined:
            return None
        return lambda side, column, cells: joined[group.sides[side].name].of(column, (cells[side], cells[1 - side]))

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return the statements that a job sends to the store."""
        job = _require_sealed_job(job)
        epoch = self._manifest().epoch
        sums = [
            sums_statement(
                self._vault.stored_name(epoch, table), [limb for column in job.columns(table) for limb in column.limbs]
            )
            for table in job.tables
        ]
        joined = [join.statement(self._vault, epoch) for group in job.groups for join in group.joins]
        return tuple(PlannedStatement("add up ciphertexts", sql) for sql in (*sums, *joined))

    def query_public(self, show: ProjectNode) -> list[list[PublicValue]]:
        """Return the columns of a query that reads no table."""
        self.public.check(show)
        rows = self._free.free_rows(checked(flow_sql(show, {}, DUCKDB)))
        return [[row[index] for row in rows] for index in range(len(show.items))]

    @property
    def stores_truncation_losses(self) -> bool:
        """False: a sealed store holds no dropped rows."""
        return False

    def close(self) -> None:
        """Close the engine in memory."""
        self._free.close()

    def retire(self) -> None:
        """Close it when the last query is answered."""
        finalize(self, self._free.close)

    def _manifest(self) -> SealedManifest:
        return self._vault.ring.read(self._vault.policy.name)


def _require_sealed_job(job: Job) -> SealedJob:
    if not isinstance(job, SealedJob):
        raise AssertionError("a job is run by the engine that prepared it")
    return job


def _catalog_table(layout: Layout) -> CatalogTable:
    """Return the catalog entry of a sealed table: unit, cells, splayed columns and measures only."""
    table = layout.table
    unit = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    sealed = {fold_name(column.name) for column in (*layout.cell_columns, *layout.slot_columns)}
    sealed |= {column.measure for column in layout.columns}
    fields = []
    owner = Field(PATH_UNIT, PATH_UNIT, Facts(Type.INTEGER, Kind.UNIT, nullable=False))
    for column in table.columns:
        if column is unit:
            facts = Facts(Type(column.type), Kind.UNIT, nullable=False)
            owner = Field(fold_name(column.name), fold_name(column.name), facts, column.unique)
            fields.append(owner)
        elif fold_name(column.name) in sealed:
            cells = declared_cells(column)
            fields.append(Field(fold_name(column.name), fold_name(column.name), facts_of(column), False, cells))
    return CatalogTable(
        fold_name(table.name),
        tuple(fields),
        public=False,
        unit=None if unit is None else fold_name(unit.name),
        owner=owner,
        identity=not isinstance(table.unit, RowUnit),
        rows_per_unit=1 if unit is not None and unit.unique else table.rows_per_unit or 1,
    )


def _needed_columns(
    plan: GroupPlan, rows: SealedRows, sides: tuple[Layout, ...]
) -> tuple[tuple[SealedColumn, ...], ...]:
    """Return the columns of each table whose sums are needed: those of the measures, and one that counts rows."""
    columns_by_side: list[dict[tuple[str, str, str], SealedColumn]] = [{} for _ in sides]
    for measurement in plan.measured:
        argument = None if measurement.quantity.argument is None else rows.inline_names(measurement.quantity.argument)
        shape = None if argument is None else _measure_shape(argument, rows, sides)
        _, absent = _without_absence(measurement.quantity, rows, sides)
        for needed in (shape,) if absent is None else (shape, absent):
            side = 0 if needed is None else needed.side
            for slot in range(len(sides[side].slots)):
                for column in _shape_columns(needed, sides[side], slot):
                    columns_by_side[side][column.labels] = column
    return tuple(tuple(columns.values()) for columns in columns_by_side)


def _shape_columns(shape: "Shape | None", layout: Layout, slot: int) -> list[SealedColumn]:
    if shape is None:
        return [layout.counting_column(slot)]
    kinds = [SUMS] if shape.power == 1 else [SUMS, SQUARES]
    return [column for kind in kinds if (column := layout.column(kind, shape.measure, slot)) is not None]


@dataclass(frozen=True, slots=True)
class Shape:
    """The summed expression of a measure: (x - offset)^power, in grid steps."""

    side: int
    """Index of its table."""
    measure: str
    offset: int
    power: int


def _measure_shape(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...]) -> Shape | None:
    """Return the shape of a planned measurement; None if it contains no measure."""
    measure = measure_of(scalar, rows, sides)
    if measure is not None:
        return Shape(*measure, 0, 1)
    if scalar.operator is Operator.SUBTRACT and scalar.arguments[1].operator is Operator.CONSTANT:
        inner, constant = _measure_shape(scalar.arguments[0], rows, sides), scalar.arguments[1].constant
        if inner is not None and inner.power == 1 and isinstance(constant, int):
            return replace(inner, offset=inner.offset + constant)
    if scalar.operator is Operator.POWER and scalar.constant == 2:
        inner = _measure_shape(scalar.arguments[0], rows, sides)
        return None if inner is None else replace(inner, power=2)
    return None


def _without_absence(
    quantity: Quantity, rows: SealedRows, sides: tuple[Layout, ...]
) -> tuple[Scalar | None, Shape | None]:
    """Return the condition of a count of rows without the one that a measure is NULL, and this measure.

    A null count is the count of all rows less that of the rows with a value: no cell tells which rows those are.
    """
    *others, last = conjuncts_of(quantity.where) or (None,)
    if quantity.argument is None and last is not None and last.operator is Operator.IS_NULL:
        shape = _measure_shape(rows.inline_names(last.arguments[0]), rows, sides)
        if shape is not None:
            return all_of(tuple(part for part in others if part is not None)), shape
    return quantity.where, None


def _aggregates(group: SealedGroup, sums: SumOf | None) -> GroupAggregates:
    """Add up the cells of each group that fulfil the conditions."""
    plan, sides = group.plan, group.sides
    keys = plan.group.all_cells()
    totals = {measurement.name: [0] * len(keys) for measurement in plan.measured}
    if sums is not None:
        positions = {key: position for position, key in enumerate(keys)}
        split = {
            measurement.name: _without_absence(measurement.quantity, group.rows, sides) for measurement in plan.measured
        }
        wheres = [where for where, _ in split.values() if where is not None]
        arguments = {
            measurement.name: argument
            for measurement in plan.measured
            if (argument := measurement.quantity.argument) is not None
        }
        shapes = {
            name: _measure_shape(group.rows.inline_names(argument), group.rows, sides)
            for name, argument in arguments.items()
        }
        public_arguments = [
            arguments[name] for name, shape in shapes.items() if shape is None and arguments[name] != plan.group.unit
        ]
        scalars = [*group.rows.conditions, *(key.scalar for key in plan.group.keys), *wheres, *public_arguments]
        combinations = _combinations(sides)
        evaluated = _evaluate_per_cell(group, combinations, [group.rows.inline_names(scalar) for scalar in scalars])
        width = len(group.rows.conditions)
        rows = zip(*evaluated, strict=True) if evaluated else repeat((), len(combinations))
        for combination, row in zip(combinations, rows, strict=True):
            key: tuple[Any, ...] = row[width : width + len(plan.group.keys)]
            if not all(truth is True for truth in row[:width]) or key not in positions:
                continue
            values = dict(zip(scalars[width + len(key) :], row[width + len(key) :], strict=True))
            for measurement in plan.measured:
                quantity = measurement.quantity
                where, absent = split[measurement.name]
                if where is None or values[where] is True:
                    part = _cell_part(quantity, shapes.get(measurement.name), values, sums, combination, sides)
                    if absent is not None:
                        part -= _cell_part(quantity, absent, values, sums, combination, sides)
                    totals[measurement.name][positions[key]] += part
    return GroupAggregates(keys, {name: integer_answers(column) for name, column in totals.items()}, None)


@dataclass(frozen=True, slots=True)
class Combination:
    """A cell of each table, and the slot of the only one that can have several."""

    cells: tuple[int, ...]
    slot: int


def _combinations(sides: tuple[Layout, ...]) -> list[Combination]:
    cells = product(*(range(len(layout.cells)) for layout in sides))
    return [Combination(cell, slot) for cell in cells for slot in range(len(sides[0].slots))]


def _cell_part(
    quantity: Quantity,
    shape: Shape | None,
    values: dict[Scalar, Any],
    sums: SumOf,
    combination: Combination,
    sides: tuple[Layout, ...],
) -> int:
    """Return the contribution of one cell to a measurement."""
    if shape is None:
        count, _ = sums(0, sides[0].counting_column(combination.slot), combination.cells)
        if quantity.argument is None or quantity.argument not in values:
            return count
        value = values[quantity.argument]
        if value is None:
            return 0
        return count if quantity.function is Aggregation.COUNT else count * int(value)
    column = sides[shape.side].column(SUMS, shape.measure, combination.slot)
    if column is None:
        raise AssertionError("a measure has its sums")
    count, above = sums(shape.side, column, combination.cells)
    if quantity.function is Aggregation.COUNT:
        return count
    shift = column.low - shape.offset
    if shape.power == 1:
        return above + shift * count
    squares = sides[shape.side].column(SQUARES, shape.measure, combination.slot)
    if squares is None:
        raise AssertionError("a variance was checked to have its squares")
    return sums(shape.side, squares, combination.cells)[1] + 2 * shift * above + shift * shift * count


def _evaluate_per_cell(
    group: SealedGroup, combinations: Sequence[Combination], scalars: Sequence[Scalar]
) -> list[list[object]]:
    """Evaluate scalars on every combination of cells and slot, which holds public values only."""
    if not scalars:
        return []
    number = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=len(combinations))
    named: list[tuple[str, Facts]] = [(_NUMBER, number)]
    values: dict[str, list[PublicValue]] = {_NUMBER: list(range(len(combinations)))}
    columns: dict[tuple[str, str], Scalar] = {}
    for side, (scan, layout) in enumerate(zip(group.rows.reads, group.sides, strict=True)):
        facts = {name: fact for name, _, fact in scan.columns}
        rows = [
            (*layout.cells[combination.cells[side]], *layout.slots[combination.slot]) for combination in combinations
        ]
        for at, declared in enumerate((*layout.cell_columns, *layout.slot_columns)):
            if (name := fold_name(declared.name)) in facts:
                unambiguous = f"{_NUMBER}{side}{name}"
                named.append((unambiguous, facts[name]))
                values[unambiguous] = [row[at] for row in rows]
                columns[scan.label, name] = Scalar(
                    Operator.COLUMN, (), facts[name], ColumnRef(_CELL_LABEL, unambiguous)
                )
    source = InputNode(_CELL_LABEL, tuple(named), None)
    one_table = SealedRows((), (), columns)
    items = tuple(Item(f"v{at}", one_table.inline_names(scalar)) for at, scalar in enumerate(scalars))
    return evaluate(ProjectNode(source, _OUTPUT_LABEL, items), {_CELL_LABEL: values})
