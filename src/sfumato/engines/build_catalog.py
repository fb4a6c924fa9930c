"""The catalog that queries are analysed against: from the policy, the shape of the copy and its public tables.

Every value of a private column lies in the range of its `Facts` and, where the field has cells, is one of them or NULL:
the copy was written so.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from sfumato.analysis.catalog import REMOVED, Catalog, Field, PublicData, Table
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.analysis.private_query import Cell
from sfumato.engines.sql.column import keeps_outside
from sfumato.engines.sql.names import OWNERS, PATH_UNIT, PERSON, value_multiplicity_column
from sfumato.language.cost_limits import MAX_DECLARED_CELLS
from sfumato.language.facts import STORED_LIMIT, Facts, Kind, Outside
from sfumato.language.rel_nodes import ScanNode
from sfumato.language.scalar import column as column_scalar
from sfumato.planning.bounding.candidates import MIN_SELECTABLE_CONTRIBUTION
from sfumato.policy.policy import (
    Column,
    ColumnType,
    OwnerPair,
    Policy,
    Preview,
    Reference,
    RowUnit,
    UnitColumn,
    UnitPath,
    Value,
    fold_name,
    position,
)
from sfumato.policy.policy import Table as DeclaredTable
from sfumato.policy.tables import REMOVED_ROWS
from sfumato.query.types import Type

_CALENDAR_BOUNDS: dict[ColumnType, tuple[Value, Value]] = {
    ColumnType.DATE: (date(1, 1, 1), date(9999, 12, 31)),
    ColumnType.TIMESTAMP: (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
}
"""What a column without bounds can hold; every other integer fills the storage."""
MAX_RANKED_KEY_COLUMNS = 8
"""Maximum number of declared keys of a table that are numbered: each costs a hash for every kept row."""
MAX_RANKED_OTHER_COLUMNS = 3
"""Maximum number of columns without listed values that are numbered too."""
MAX_MULTIPLIED_COLUMNS = 3
"""Maximum number of columns without public values for which the copy stores in how many rows of a person a value is.

Each of them costs another grouping."""
_OTHERS = (ColumnType.TEXT, ColumnType.INTEGER, ColumnType.DATE)
"""The types of columns that people group by though their values are not listed, the likeliest first."""
_NUMBERS = (ColumnType.INTEGER, ColumnType.DECIMAL)
_MAX_CACHED_COLUMNS = 4096
"""Columns whose facts are remembered: twice as many as a table can have."""
MAX_COUNTED_COLUMNS = 8
"""Maximum number of columns of a table with the number of a person's rows beside them.

Each of them costs an integer for every kept row."""


class CopySchema(Protocol):
    """The public description of the tables of a bounded copy."""

    def unit(self, table: DeclaredTable) -> str | None:
        """Return the column of the owner's opaque id; None in a public table, and where each row is a person."""

    def row(self, table: DeclaredTable) -> str:
        """Return the column that tells rows apart where each of them is a person."""

    def columns(self, table: DeclaredTable) -> Sequence[tuple[Column, str]]:
        """Return the columns of a public table that a query may use, and their names in the copy."""

    def hidden_columns(self, table: DeclaredTable) -> Collection[str]:
        """Return the columns of a private table that no query can name, where the copy is this engine's own."""

    def keys(self, column: Column, reference: Reference, most: int) -> list[Cell]:
        """Return the keys that a private column takes from a public table, on the column's own grid: `most` of them."""


def build_catalog(policy: Policy, copies: CopySchema, public: PublicData) -> Catalog:
    """Return the catalog of a policy over its bounded copy."""
    tables = {}
    for table in policy.tables:
        name = fold_name(table.name)
        if table.public:
            tables[name] = _public_table(table, copies, public)
        elif isinstance(table.unit, OwnerPair):
            tables[name] = _paired_table(table, table.unit, copies)
        else:
            made, is_previewed = _private_table(table, copies), policy.preview is Preview.SYNTHETIC
            tables[name] = replace(made, keys_to_unit=_leads(table, policy), previewed=is_previewed)
            if copies.unit(table) is not None:
                tables[name + REMOVED] = _removed_table(table, tables[name])
    return Catalog(tables, policy.neighbours)


def _leads(table: DeclaredTable, policy: Policy) -> dict[str, str]:
    """Return the columns that a path goes by: where it leaves this table, and where paths of other tables arrive."""
    found = {}
    for other in policy.tables:
        if isinstance(path := other.unit, UnitPath):
            key = fold_name(f"{path.table}.{path.there}")
            if other is table:
                found[fold_name(path.here)] = key
            elif fold_name(path.table) == fold_name(table.name):
                found[fold_name(path.there)] = key
    return found


def most_rows(table: DeclaredTable) -> int:
    """Return the most rows that one person keeps."""
    if table.has_two_owners:
        raise AssertionError("rows with two owners are not bounded owner by owner")
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    return 1 if own is not None and own.unique else table.rows_per_unit or 1


def most_removed(table: DeclaredTable) -> int:
    """Return the most removed rows that count for one person: ten times what they keep."""
    return 10 * most_rows(table)


def numbered_keys(table: DeclaredTable) -> list[Column]:
    """Return the columns whose values the copy numbers within each person: keys that groups_per_unit cuts.

    Those with listed values come first, then what else may be a key: texts, then integers and days, of these the ones
    whose range makes public keys first.
    """
    most = table.groups_per_unit
    if most is None or most >= most_rows(table) or isinstance(table.unit, RowUnit):
        return []
    own = table.unit.column if isinstance(table.unit, UnitColumn) else None
    keys = [column for column in table.columns if column.type is not ColumnType.BOOLEAN and column.name != own]
    keys = sorted(keys, key=lambda column: fold_name(column.name))
    listed = [column for column in keys if column.values is not None]
    cut = [column for column in listed if isinstance(column.values, Reference) or len(column.values or ()) > most]
    return (
        cut[:MAX_RANKED_KEY_COLUMNS]
        + _other_keys([column for column in keys if column.values is None], most)[:MAX_RANKED_OTHER_COLUMNS]
    )


def multiplied_keys(table: DeclaredTable) -> list[Column]:
    """Return the columns without public values of which a copy may say in how many rows a person has each value.

    They are texts without listed values, then integers and days without bounds. Where there are `numbered_keys`, none.
    """
    if numbered_keys(table) or most_rows(table) == 1 or isinstance(table.unit, RowUnit):
        return []
    own = table.unit.column if isinstance(table.unit, UnitColumn) else None
    keys = [column for column in table.columns if column.type in _OTHERS and column.name != own]
    free = [column for column in keys if column.values is None and column.bounds is None and not column.unique]
    free = sorted(free, key=lambda column: (_OTHERS.index(column.type) > 0, fold_name(column.name)))
    return free[:MAX_MULTIPLIED_COLUMNS]


def _other_keys(columns: Sequence[Column], most: int) -> list[Column]:
    """Return the columns without listed values that may be keys of more than `most` values, the likeliest first."""
    found = []
    for column in columns:
        cells = declared_cells(column)
        if column.type in _OTHERS and not (
            column.unique or column.bounds_chosen or len(cells or range(most + 1)) <= most
        ):
            found.append((_OTHERS.index(column.type) > 0, cells is None, column))
    return [column for *_, column in sorted(found, key=lambda entry: entry[:2])]


def counted_columns(table: DeclaredTable) -> list[Column]:
    """Return the columns of which the copy says in how many rows of a person they have a value."""
    if most_rows(table) == 1 or isinstance(table.unit, RowUnit):
        return []
    own = table.unit.column if isinstance(table.unit, UnitColumn) else None
    ordered = [column for column in table.columns if column.name != own and facts_of(column).bounded]
    return sorted(ordered, key=lambda column: fold_name(column.name))[:MAX_COUNTED_COLUMNS]


def levelled_columns(table: DeclaredTable) -> list[Column]:
    """Return the columns of which the copy says at which levels a row counts, by how many of its person have a value.

    Where how many rows of a person count is left to each question, and a choice is worth it.
    """
    return counted_columns(table) if stores_bound_index(table) else []


def stores_bound_index(table: DeclaredTable) -> bool:
    """Whether the copy says at which levels of how many rows of a person count each of them does."""
    return table.rows_chosen and most_rows(table) >= MIN_SELECTABLE_CONTRIBUTION and not isinstance(table.unit, RowUnit)


def summed_columns(table: DeclaredTable) -> list[Column]:
    """Return the columns of which the copy says how much of them a person has before each row, in the drawn order.

    They are those whose sums cut off what one person adds: at a level that a question chooses, or at a total.
    """
    if most_rows(table) == 1 or isinstance(table.unit, RowUnit):
        return []
    own = table.unit.column if isinstance(table.unit, UnitColumn) else None
    cut = [column for column in table.columns if column.name != own and _is_cut(column, table)]
    return sorted(cut, key=lambda column: fold_name(column.name))[:MAX_COUNTED_COLUMNS]


def _is_cut(column: Column, table: DeclaredTable) -> bool:
    facts = facts_of(column)
    cut = table.rows_chosen or column.bounds_chosen or column.total_per_unit is not None
    return (
        cut
        and column.type in _NUMBERS
        and facts.bounded
        and facts.low >= 0
        and sum_of(column, table) < STORED_LIMIT // 2
    )


def sum_of(column: Column, table: DeclaredTable) -> int:
    """Return the most that one person can have of a column, in steps."""
    return most_rows(table) * facts_of(column).high


def rows_in_sampling_order(table: DeclaredTable) -> bool:
    """Whether all people's rows are ranked by draws, not only those of units over their bound.

    Questions take the first of them.
    """
    return table.rows_chosen or bool(summed_columns(table))


@lru_cache(maxsize=_MAX_CACHED_COLUMNS)
def facts_of(column: Column) -> Facts:
    """Return what the copy promises of a declared column that is not the unit; it is asked many times for each."""
    kind = Type(column.type)
    if column.type is ColumnType.TEXT:
        listed = [len(value) for value in _listed_values(column) if isinstance(value, str)]
        return Facts(kind, Kind.TEXT, max_chars=max(listed, default=column.length))
    if column.type is ColumnType.BOOLEAN:
        return Facts(kind, Kind.BOOLEAN)
    if column.type is ColumnType.DECIMAL and column.step is None:
        return Facts(kind, Kind.REAL)
    step = Fraction(1) if column.step is None else column.step
    grid, keys = column.grid, [cell for cell in declared_cells(column) or () if isinstance(cell, int)]
    if keys:  # whatever is no key is absent from the copy
        return Facts(kind, Kind.INTEGER, step=step, low=min(keys), high=max(keys))
    if grid is not None:
        return Facts(kind, Kind.INTEGER, step=step, low=grid.least, high=grid.greatest)
    low, high = -STORED_LIMIT, STORED_LIMIT - 1
    if column.type in _CALENDAR_BOUNDS:
        low, high = (int(position(end)) for end in _CALENDAR_BOUNDS[column.type])
    return Facts(kind, Kind.INTEGER, step=step, low=low, high=high, declared_low=False, declared_high=False)


def _listed_values(column: Column) -> tuple[Value, ...]:
    return column.values if isinstance(column.values, tuple) else ()


def declared_cells(column: Column) -> tuple[Cell, ...] | None:
    """Return the public values that the policy itself names."""
    if isinstance(column.values, tuple):
        return tuple(_cell(column, value) for value in column.values)
    if column.values is not None:
        return None
    if column.type is ColumnType.BOOLEAN:
        return (False, True)
    grid = column.grid
    if grid is not None and grid.greatest - grid.least < MAX_GROUP_CELLS:
        return tuple(range(grid.least, grid.greatest + 1))
    return None


def _cell(column: Column, value: Value) -> Cell:
    if isinstance(value, str | bool):
        return value
    return int(Fraction(position(value)) / (column.step or 1))


def _private_table(table: DeclaredTable, copies: CopySchema) -> Table:
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    fields = []
    numbered, counted = numbered_keys(table), counted_columns(table)
    levelled, summed = levelled_columns(table), summed_columns(table)
    multiplied = multiplied_keys(table)
    hidden = copies.hidden_columns(table) if multiplied or counted else ()
    for column in table.columns:
        if column is own:
            facts = Facts(Type(own.type), Kind.UNIT, nullable=False)
            fields.append(Field(fold_name(own.name), _stored_unit(table, copies), facts, own.unique))
        else:
            cells = (
                _referenced_cells(column, copies) if isinstance(column.values, Reference) else declared_cells(column)
            )
            free = column.bounds_chosen
            facts = replace(facts_of(column), outside=Outside.STORED if keeps_outside(column) else Outside.NONE)
            field = Field(
                fold_name(column.name),
                column.name,
                facts,
                column.unique,
                cells,
                has_too_many_cells=cells is None and isinstance(column.values, Reference),
                has_value_ranks=column in numbered,
                has_value_counts=column in counted,
                has_value_multiplicities=column in multiplied and value_multiplicity_column(column.name) in hidden,
                has_bound_index=column in levelled,
                has_running_total=column in summed,
                bounds_chosen=free,
                total=None if column.total_per_unit is None else column.steps(column.total_per_unit),
            )
            fields.append(field)
    return Table(
        fold_name(table.name),
        tuple(fields),
        public=False,
        unit=None if own is None else fold_name(own.name),
        owner=_owner(table, copies, next((field for field in fields if field.facts.kind is Kind.UNIT), None)),
        identity=not isinstance(table.unit, RowUnit),
        rows_per_unit=most_rows(table),
        groups_per_unit=table.groups_per_unit,
        rows_chosen=table.rows_chosen and most_rows(table) > 1,
        groups_chosen=table.groups_chosen and most_rows(table) > 1,
        in_sampling_order=rows_in_sampling_order(table) and most_rows(table) > 1,
        people_numbered=PERSON in hidden,
    )


def _paired_table(table: DeclaredTable, pair: OwnerPair, copies: CopySchema) -> Table:
    """Return a table whose rows have two owners; its owners are opaque, named or not."""
    unit = Facts(Type.INTEGER, Kind.UNIT, nullable=False)
    owners = {
        fold_name(owner.column): stored
        for owner, stored in zip(pair.owners, OWNERS, strict=True)
        if isinstance(owner, UnitColumn)
    }
    fields = []
    for column in table.columns:
        name = fold_name(column.name)
        if name in owners:
            fields.append(Field(name, owners[name], replace(unit, type=Type(column.type))))
            continue
        cells = _referenced_cells(column, copies) if isinstance(column.values, Reference) else declared_cells(column)
        facts = replace(facts_of(column), outside=Outside.STORED if keeps_outside(column) else Outside.NONE)
        fields.append(Field(name, column.name, facts, cells=cells))
    first, second = (Field(stored, stored, unit) for stored in OWNERS)
    return Table(
        fold_name(table.name),
        tuple(fields),
        public=False,
        unit=None,
        owner=first,
        rows_per_unit=table.rows_per_unit or 1,
        pair=(first, second),
        pair_same_kind=not pair.distinguishes_kinds,
    )


def _removed_table(table: DeclaredTable, kept: Table) -> Table:
    """Return the table of those who lost rows to `rows_per_unit`: one row each, how many they lost."""
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=most_removed(table))
    fields = [field for field in kept.fields if field.facts.kind is Kind.UNIT]
    return replace(
        kept,
        name=kept.name + REMOVED,
        fields=(*fields, Field(REMOVED_ROWS, REMOVED_ROWS, facts)),
        rows_per_unit=1,
        groups_per_unit=None,
        rows_chosen=False,
        groups_chosen=False,
        in_sampling_order=False,
        people_numbered=False,
    )


def _owner(table: DeclaredTable, copies: CopySchema, named: Field | None) -> Field:
    if named is not None:
        return named
    # no declared name holds a quotation mark: queries cannot name this column
    return Field(PATH_UNIT, _stored_unit(table, copies), Facts(Type.INTEGER, Kind.UNIT, nullable=False))


def _stored_unit(table: DeclaredTable, copies: CopySchema) -> str:
    return copies.unit(table) or copies.row(table)


def _referenced_cells(column: Column, copies: CopySchema) -> tuple[Cell, ...] | None:
    """Return the keys of a public table's column as the private column keeps them; None if they are too many."""
    if not isinstance(column.values, Reference):
        return None
    keys = sorted(copies.keys(column, column.values, MAX_DECLARED_CELLS + 1))
    if len(keys) > MAX_DECLARED_CELLS:
        return None
    return tuple(bool(key) for key in keys) if column.type is ColumnType.BOOLEAN else tuple(keys)


def _public_table(table: DeclaredTable, copies: CopySchema, public: PublicData) -> Table:
    fields = []
    for column, stored in copies.columns(table):
        name, facts = fold_name(column.name), facts_of(column)
        if facts.kind is Kind.INTEGER:
            read = ScanNode(fold_name(table.name), fold_name(table.name), ((name, stored, facts),))
            low, high = public.value_range(read, column_scalar(fold_name(table.name), name, facts)) or (0, 0)
            facts = Facts(facts.type, Kind.INTEGER, step=facts.step, low=low, high=high)
        fields.append(Field(name, stored, facts))
    return Table(fold_name(table.name), tuple(fields), public=True, unit=None)
