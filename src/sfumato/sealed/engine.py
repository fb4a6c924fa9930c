"""The sealed engine: one statement per table that shows no word of the asker, decrypted and added up at the gate."""

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
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.policy.policy import RowUnit, UnitColumn, fold_name
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.sealed.cells import CellSums, believed, cell_sums
from sfumato.sealed.free import FreeReader
from sfumato.sealed.joined import JoinedSide
from sfumato.sealed.layout import SQUARES, SUMS, Layout, SealedColumn
from sfumato.sealed.manifest import SealedManifest
from sfumato.sealed.questions import SealedRows, check_question, measure_of, rows_of
from sfumato.sealed.stores import sums_statement
from sfumato.sealed.vault import Vault

_FIELD, _SHOWN = "cell", "shown"
_NUMBER = '"number"'
"""No name of a query or policy holds a quotation mark."""
Value = int | float | str | bool | None
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
        """What is asked about joined rows: each side by itself."""
        if len(self.sides) == 1:
            return ()
        return tuple(
            JoinedSide(self.sides[at], self.sides[1 - at], columns)
            for at, columns in enumerate(self.columns)
            if columns
        )


@dataclass(frozen=True, slots=True)
class SealedJob:
    """What will be asked of the store: for each table, the columns whose sums are needed."""

    groups: tuple[SealedGroup, ...]

    def columns(self, table: str) -> tuple[SealedColumn, ...]:
        """Return what is needed of a table, each column once and in the table's order."""
        reading = [group for group in self.groups if group.rows.tables == (table,)]
        needed = {column.labels for group in reading for column in group.columns[0]}
        return tuple(column for column in reading[0].sides[0].columns if column.labels in needed)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read by themselves, each once."""
        alone = [group for group in self.groups if len(group.sides) == 1 and group.columns[0]]
        return tuple(dict.fromkeys(group.rows.tables[0] for group in alone))


class SealedEngine:
    """A vault that questions can be asked about."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._free = FreeReader()
        self.public = PublicTables({}, self._free.rows, DUCKDB, SHELF)
        tables = {name: _catalog_table(layout) for name, layout in vault.layouts.items()}
        self.catalog = Catalog(tables, vault.policy.neighbours)

    @property
    def version(self) -> str:
        """The manifest's random id, another one after each batch."""
        return self._manifest().version

    def check(self, private: PrivateQuery) -> None:
        """Refuse what a sealed store cannot answer, and everything once it was found to be changed."""
        check_question(private, self._vault.layouts)
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
        """Return what will be asked of the store. Nothing is read."""
        if plan.groups:
            check_outcome(plan)
        else:
            self.public.check(plan.private.outcome)  # a quote refuses what asking would
        groups = []
        for group in plan.groups:
            rows = rows_of(group.group.rows)
            sides = tuple(self._vault.layouts[table] for table in rows.tables)
            groups.append(SealedGroup(group, rows, sides, _needed(group, rows, sides)))
        return SealedJob(tuple(groups))

    def run_selection(self, job: Job) -> Histograms:
        """Return nothing: a sealed table has no bounds that a question selects."""
        return {}

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged, or `StoreTampered`; the charge stays."""
        job = _sealed(job)
        sums = {table: cell_sums(self._vault, table, job.columns(table)) for table in job.tables}
        return Aggregates(tuple(_aggregates(group, self._found(group, sums)) for group in job.groups))

    def _found(self, group: SealedGroup, sums: Mapping[str, CellSums]) -> SumOf | None:
        """Return the sums that a group needs, as a function of the table's side, the column and the cell or cells."""
        if len(group.sides) == 1:
            alone = sums.get(group.rows.tables[0])
            return None if alone is None else (lambda side, column, cells: alone.of(column, cells[0]))
        for layout in group.sides if group.joins else ():
            cell_sums(self._vault, layout.name, (layout.counting(0),))  # what lies there is what was sealed
        joined = {
            join.layout.name: believed(
                self._vault, partial(join.statement, self._vault), partial(join.decrypted, self._vault)
            )
            for join in group.joins
        }
        if not joined:
            return None
        return lambda side, column, cells: joined[group.sides[side].name].of(column, (cells[side], cells[1 - side]))

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return what the store is sent for a job."""
        job = _sealed(job)
        epoch = self._manifest().epoch
        sums = [
            sums_statement(
                self._vault.stored_name(epoch, table), [limb for one in job.columns(table) for limb in one.limbs]
            )
            for table in job.tables
        ]
        joined = [join.statement(self._vault, epoch) for group in job.groups for join in group.joins]
        return tuple(PlannedStatement("add up ciphertexts", sql) for sql in (*sums, *joined))

    def query_public(self, show: ProjectNode) -> list[list[Value]]:
        """Return the columns of a query that reads no table."""
        self.public.check(show)
        rows = self._free.free_rows(checked(flow_sql(show, {}, DUCKDB)))
        return [[row[at] for row in rows] for at in range(len(show.items))]

    @property
    def stores_truncation_losses(self) -> bool:
        """A sealed store holds no row that was cut."""
        return False

    def close(self) -> None:
        """Let go of the engine in memory."""
        self._free.close()

    def retire(self) -> None:
        """Let go of it when the last question is answered."""
        finalize(self, self._free.close)

    def _manifest(self) -> SealedManifest:
        return self._vault.ring.read(self._vault.policy.name)


def _sealed(job: Job) -> SealedJob:
    if not isinstance(job, SealedJob):
        raise AssertionError("a job is run by the engine that prepared it")
    return job


def _catalog_table(layout: Layout) -> CatalogTable:
    """Return what queries may know of a sealed table: unit, cells, splayed columns and measures, nothing else."""
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


def _needed(plan: GroupPlan, rows: SealedRows, sides: tuple[Layout, ...]) -> tuple[tuple[SealedColumn, ...], ...]:
    """Return the columns of each table whose sums are asked for: those of the measures, and one that counts rows."""
    found: list[dict[tuple[str, str, str], SealedColumn]] = [{} for _ in sides]
    for one in plan.measured:
        argument = None if one.quantity.argument is None else rows.inlined(one.quantity.argument)
        shape = None if argument is None else _shape(argument, rows, sides)
        side = 0 if shape is None else shape.side
        for slot in range(len(sides[side].slots)):
            for column in _columns_of(shape, sides[side], slot):
                found[side][column.labels] = column
    return tuple(tuple(columns.values()) for columns in found)


def _columns_of(shape: "Shape | None", layout: Layout, slot: int) -> list[SealedColumn]:
    if shape is None:
        return [layout.counting(slot)]
    kinds = [SUMS] if shape.power == 1 else [SUMS, SQUARES]
    return [column for kind in kinds if (column := layout.column(kind, shape.measure, slot)) is not None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A measure as it is summed: (x - offset)^power, in steps."""

    side: int
    """Of which table it is."""
    measure: str
    offset: int
    power: int


def _shape(scalar: Scalar, rows: SealedRows, sides: tuple[Layout, ...]) -> Shape | None:
    """Return the shape of what planning measures; None where no measure is in it."""
    measure = measure_of(scalar, rows, sides)
    if measure is not None:
        return Shape(*measure, 0, 1)
    if scalar.operator is Operator.SUBTRACT and scalar.arguments[1].operator is Operator.CONSTANT:
        inner, constant = _shape(scalar.arguments[0], rows, sides), scalar.arguments[1].constant
        if inner is not None and inner.power == 1 and isinstance(constant, int):
            return replace(inner, offset=inner.offset + constant)
    if scalar.operator is Operator.POWER and scalar.constant == 2:
        inner = _shape(scalar.arguments[0], rows, sides)
        return None if inner is None else replace(inner, power=2)
    return None


def _aggregates(group: SealedGroup, sums: SumOf | None) -> GroupAggregates:
    """Add the cells up, group by group. A cell that the conditions leave out adds nothing."""
    plan, sides = group.plan, group.sides
    keys = plan.group.all_cells()
    totals = {one.name: [0] * len(keys) for one in plan.measured}
    if sums is not None:
        places = {key: at for at, key in enumerate(keys)}
        wheres = [one.quantity.where for one in plan.measured if one.quantity.where is not None]
        arguments = {one.name: argument for one in plan.measured if (argument := one.quantity.argument) is not None}
        shapes = {name: _shape(group.rows.inlined(argument), group.rows, sides) for name, argument in arguments.items()}
        plain = [
            arguments[name] for name, shape in shapes.items() if shape is None and arguments[name] != plan.group.unit
        ]
        wanted = [*group.rows.conditions, *(key.scalar for key in plan.group.keys), *wheres, *plain]
        combinations = _combinations(sides)
        known = _per_cell(group, combinations, [group.rows.inlined(scalar) for scalar in wanted])
        width = len(group.rows.conditions)
        rows = zip(*known, strict=True) if known else repeat((), len(combinations))
        for place, row in zip(combinations, rows, strict=True):
            key: tuple[Any, ...] = row[width : width + len(plan.group.keys)]
            if not all(truth is True for truth in row[:width]) or key not in places:
                continue
            values = dict(zip(wanted[width + len(key) :], row[width + len(key) :], strict=True))
            for one in plan.measured:
                quantity = one.quantity
                if quantity.where is None or values[quantity.where] is True:
                    totals[one.name][places[key]] += _part(quantity, shapes.get(one.name), values, sums, place, sides)
    return GroupAggregates(keys, {name: integer_answers(column) for name, column in totals.items()}, None)


@dataclass(frozen=True, slots=True)
class Combination:
    """A cell of each table, and the slot of the only one that can have several."""

    cells: tuple[int, ...]
    slot: int


def _combinations(sides: tuple[Layout, ...]) -> list[Combination]:
    cells = product(*(range(len(layout.cells)) for layout in sides))
    return [Combination(cell, slot) for cell in cells for slot in range(len(sides[0].slots))]


def _part(
    one: Quantity,
    shape: Shape | None,
    values: dict[Scalar, Any],
    sums: SumOf,
    place: Combination,
    sides: tuple[Layout, ...],
) -> int:
    """Return what one cell adds to a measurement."""
    if shape is None:
        count, _ = sums(0, sides[0].counting(place.slot), place.cells)
        if one.argument is None or one.argument not in values:
            return count
        value = values[one.argument]
        if value is None:
            return 0
        return count if one.function is Aggregation.COUNT else count * int(value)
    column = sides[shape.side].column(SUMS, shape.measure, place.slot)
    if column is None:
        raise AssertionError("a measure has its sums")
    count, above = sums(shape.side, column, place.cells)
    if one.function is Aggregation.COUNT:
        return count
    shift = column.low - shape.offset
    if shape.power == 1:
        return above + shift * count
    squares = sides[shape.side].column(SQUARES, shape.measure, place.slot)
    if squares is None:
        raise AssertionError("a variance was checked to have its squares")
    return sums(shape.side, squares, place.cells)[1] + 2 * shift * above + shift * shift * count


def _per_cell(group: SealedGroup, combinations: Sequence[Combination], scalars: Sequence[Scalar]) -> list[list[object]]:
    """Evaluate scalars on every combination of cells and slot. Only public values are in it."""
    if not scalars:
        return []
    number = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=len(combinations))
    named: list[tuple[str, Facts]] = [(_NUMBER, number)]
    given: dict[str, list[Value]] = {_NUMBER: list(range(len(combinations)))}
    columns: dict[tuple[str, str], Scalar] = {}
    for side, (read, layout) in enumerate(zip(group.rows.reads, group.sides, strict=True)):
        facts = {name: fact for name, _, fact in read.columns}
        rows = [(*layout.cells[place.cells[side]], *layout.slots[place.slot]) for place in combinations]
        for at, declared in enumerate((*layout.cell_columns, *layout.slot_columns)):
            if (name := fold_name(declared.name)) in facts:
                unambiguous = f"{_NUMBER}{side}{name}"
                named.append((unambiguous, facts[name]))
                given[unambiguous] = [row[at] for row in rows]
                columns[read.label, name] = Scalar(Operator.COLUMN, (), facts[name], ColumnRef(_FIELD, unambiguous))
    below = InputNode(_FIELD, tuple(named), None)
    one_table = SealedRows((), (), columns)
    items = tuple(Item(f"v{at}", one_table.inlined(scalar)) for at, scalar in enumerate(scalars))
    return evaluate(ProjectNode(below, _SHOWN, items), {_FIELD: given})
