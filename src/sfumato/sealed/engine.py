"""The sealed engine: one statement per table that shows no word of the asker, decrypted and added up at the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

from sfumato.analysis.catalog import Catalog, Field
from sfumato.analysis.catalog import Table as CatalogTable
from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Given, Item, Show
from sfumato.analysis.private_query import PrivateQuery
from sfumato.analysis.scalar import Operator, Scalar
from sfumato.engines.after_noise import evaluate
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.catalog_of import declared_cells, facts_of
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.engine import SHELF
from sfumato.engines.engine import Job
from sfumato.engines.sql.flow import flow_sql
from sfumato.engines.sql.job import check_outcome, checked
from sfumato.engines.sql.names import PATH_UNIT
from sfumato.engines.sql.public import PublicTables
from sfumato.errors import BadSource, shown
from sfumato.mechanisms.answers import integer_answers
from sfumato.planning.plan import GroupPlan, Measured, Plan
from sfumato.policy.policy import EachRow, UnitColumn, fold
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.sealed.cells import CellSums, cell_sums
from sfumato.sealed.free import FreeReader
from sfumato.sealed.layout import SQUARES, SUMS, Layout, SealedColumn
from sfumato.sealed.manifest import SealedManifest
from sfumato.sealed.questions import SealedRows, check_question, measure_of, rows_of
from sfumato.sealed.stores import sums_statement
from sfumato.sealed.vault import Vault

_FIELD = "cell"
_NUMBER = '"number"'
"""No name of a query or policy holds a quotation mark."""
Value = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class SealedGroup:
    """One group of a plan: its rows in terms of cells, and the columns of the store that it needs."""

    plan: GroupPlan
    rows: SealedRows
    layout: Layout
    columns: tuple[SealedColumn, ...]


@dataclass(frozen=True, slots=True)
class SealedJob:
    """What will be asked of the store: for each table, the columns whose sums are needed."""

    groups: tuple[SealedGroup, ...]

    def columns(self, table: str) -> tuple[SealedColumn, ...]:
        """Return what is needed of a table, each column once and in the table's order."""
        needed = {column.labels for group in self.groups if group.rows.read.table == table for column in group.columns}
        layout = next(group.layout for group in self.groups if group.rows.read.table == table)
        return tuple(column for column in layout.columns if column.labels in needed)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read, each once."""
        return tuple(dict.fromkeys(group.rows.read.table for group in self.groups if group.columns))


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
        for group in private.groups:
            layout = self._vault.layouts[rows_of(group.rows).read.table]
            epoch = self._vault.epoch_of(manifest, layout)
            if epoch is None or not epoch.committed:
                raise BadSource(
                    f"Nothing was sealed into {shown(layout.table.name)} yet.",
                    "A question is answered from what lies in the store.",
                    "Its owner seals rows first: sfumato.sealed.database.seal.",
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
            layout = self._vault.layouts[rows.read.table]
            groups.append(SealedGroup(group, rows, layout, _needed(group, rows, layout)))
        return SealedJob(tuple(groups))

    def run(self, job: Job) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged, or `StoreTampered`; the charge stays."""
        job = _sealed(job)
        sums = {table: cell_sums(self._vault, table, job.columns(table)) for table in job.tables}
        return Aggregates(tuple(_aggregates(group, sums.get(group.rows.read.table)) for group in job.groups))

    def statements(self, job: Job) -> tuple[str, ...]:
        """Return what the store is sent for a job."""
        job = _sealed(job)
        epoch = self._manifest().epoch
        return tuple(
            sums_statement(
                self._vault.stored_name(epoch, table), [limb for one in job.columns(table) for limb in one.limbs]
            )
            for table in job.tables
        )

    def exact(self, show: Show) -> list[list[Value]]:
        """Return the columns of a query that reads no table."""
        self.public.check(show)
        rows = self._free.free_rows(checked(flow_sql(show, {}, DUCKDB)) or "")
        return [[row[at] for row in rows] for at in range(len(show.items))]

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
    sealed = {fold(column.name) for column in (*layout.cell_columns, *layout.slot_columns)}
    sealed |= {column.measure for column in layout.columns}
    fields = []
    owner = Field(PATH_UNIT, PATH_UNIT, Facts(Type.INTEGER, Kind.UNIT, nullable=False))
    for column in table.columns:
        if column is unit:
            facts = Facts(Type(column.type), Kind.UNIT, nullable=False)
            owner = Field(fold(column.name), fold(column.name), facts, column.unique)
            fields.append(owner)
        elif fold(column.name) in sealed:
            cells = declared_cells(column)
            fields.append(Field(fold(column.name), fold(column.name), facts_of(column), False, cells))
    return CatalogTable(
        fold(table.name),
        tuple(fields),
        public=False,
        unit=None if unit is None else fold(unit.name),
        owner=owner,
        identity=not isinstance(table.unit, EachRow),
        rows_per_unit=1 if unit is not None and unit.unique else table.rows_per_unit or 1,
    )


def _needed(plan: GroupPlan, rows: SealedRows, layout: Layout) -> tuple[SealedColumn, ...]:
    """Return the columns whose sums are asked for: those of the measures, and one that counts rows."""
    found: dict[tuple[str, str, str], SealedColumn] = {}
    for slot in range(len(layout.slots)):
        for one in plan.measured:
            for column in _columns_of(one, rows, layout, slot):
                found[column.labels] = column
    return tuple(found.values())


def _columns_of(one: Measured, rows: SealedRows, layout: Layout, slot: int) -> list[SealedColumn]:
    argument = None if one.argument is None else rows.inlined(one.argument)
    shape = None if argument is None else _shape(argument, layout)
    if shape is None:
        return [layout.counting(slot)]
    kinds = [SUMS] if shape.power == 1 else [SUMS, SQUARES]
    return [column for kind in kinds if (column := layout.column(kind, shape.measure, slot)) is not None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A measure as it is summed: (x - offset)^power, in steps."""

    measure: str
    offset: int
    power: int


def _shape(scalar: Scalar, layout: Layout) -> Shape | None:
    """Return the shape of what planning measures; None where no measure is in it."""
    measure = measure_of(scalar, layout)
    if measure is not None:
        return Shape(measure, 0, 1)
    if scalar.operator is Operator.SUBTRACT and scalar.arguments[1].operator is Operator.CONSTANT:
        inner, constant = _shape(scalar.arguments[0], layout), scalar.arguments[1].constant
        if inner is not None and inner.power == 1 and isinstance(constant, int):
            return Shape(inner.measure, inner.offset + constant, 1)
    if scalar.operator is Operator.POWER and scalar.constant == 2:
        inner = _shape(scalar.arguments[0], layout)
        return None if inner is None else Shape(inner.measure, inner.offset, 2)
    return None


def _aggregates(group: SealedGroup, sums: CellSums | None) -> GroupAggregates:
    """Add the cells up, group by group. A cell that the conditions leave out adds nothing."""
    plan, layout = group.plan, group.layout
    keys = plan.group.all_cells()
    totals = {one.name: [0] * len(keys) for one in plan.measured}
    if sums is not None:
        places = {key: at for at, key in enumerate(keys)}
        wheres = [one.where for one in plan.measured if one.where is not None]
        arguments = {one.name: one.argument for one in plan.measured if one.argument is not None}
        shapes = {name: _shape(group.rows.inlined(argument), layout) for name, argument in arguments.items()}
        plain = [
            arguments[name] for name, shape in shapes.items() if shape is None and arguments[name] != plan.group.unit
        ]
        wanted = [*group.rows.conditions, *(key.scalar for key in plan.group.keys), *wheres, *plain]
        known = _per_cell(group, [group.rows.inlined(scalar) for scalar in wanted])
        width = len(group.rows.conditions)
        for at, row in enumerate(zip(*known, strict=True) if known else [()] * (len(layout.cells) * len(layout.slots))):
            key: tuple[Any, ...] = row[width : width + len(plan.group.keys)]
            if not all(truth is True for truth in row[:width]) or key not in places:
                continue
            values = dict(zip(wanted[width + len(key) :], row[width + len(key) :], strict=True))
            for one in plan.measured:
                if one.where is None or values[one.where] is True:
                    shape = shapes.get(one.name)
                    totals[one.name][places[key]] += _part(
                        one, shape, values, sums, divmod(at, len(layout.slots)), layout
                    )
    return GroupAggregates(keys, {name: integer_answers(column) for name, column in totals.items()}, None)


def _part(
    one: Measured,
    shape: Shape | None,
    values: dict[Scalar, Any],
    sums: CellSums,
    place: tuple[int, int],
    layout: Layout,
) -> int:
    """Return what one cell adds to a measurement."""
    cell, slot = place
    if shape is None:
        count, _ = sums.of(layout.counting(slot), cell)
        if one.argument is None or one.argument not in values:
            return count
        value = values[one.argument]
        if value is None:
            return 0
        return count if one.aggregation is Aggregation.COUNT else count * int(value)
    column = layout.column(SUMS, shape.measure, slot)
    if column is None:
        raise AssertionError("a measure has its sums")
    count, above = sums.of(column, cell)
    if one.aggregation is Aggregation.COUNT:
        return count
    shift = column.low - shape.offset
    if shape.power == 1:
        return above + shift * count
    squares = layout.column(SQUARES, shape.measure, slot)
    if squares is None:
        raise AssertionError("a variance was checked to have its squares")
    return sums.of(squares, cell)[1] + 2 * shift * above + shift * shift * count


def _per_cell(group: SealedGroup, scalars: Sequence[Scalar]) -> list[list[object]]:
    """Evaluate scalars on every combination of cell and slot. Only public values are in it."""
    if not scalars:
        return []
    layout, label = group.layout, group.rows.read.label
    columns = (*layout.cell_columns, *layout.slot_columns)
    facts = {name: fact for name, _, fact in group.rows.read.columns}
    used = [(at, column) for at, column in enumerate(columns) if fold(column.name) in facts]
    combinations = [(*cell, *slot) for cell in layout.cells for slot in layout.slots]
    given: dict[str, list[Value]] = {fold(column.name): [row[at] for row in combinations] for at, column in used}
    number = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=len(combinations))
    named = tuple((fold(column.name), facts[fold(column.name)]) for _, column in used)
    below = Given(label, (*named, (_NUMBER, number)), None)
    given[_NUMBER] = list(range(len(combinations)))
    items = tuple(Item(f"v{at}", scalar) for at, scalar in enumerate(scalars))
    return evaluate(Show(below, _FIELD, items), {label: given})
