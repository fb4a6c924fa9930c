"""Describe tables and columns of a policy in words: bounds, keys and contribution bounds."""

from collections.abc import Iterable
from datetime import date

from sfumato.policy.policy import (
    Bounds,
    Column,
    ColumnType,
    HiddenUnit,
    OwnerPair,
    Reference,
    RowUnit,
    Table,
    UnitColumn,
    UnitPath,
    Value,
    fold_name,
)

_MAX_LISTED_VALUES = 8
_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)


def table_words(table: Table) -> str:
    """Describe the privacy unit of a table and its contribution bounds."""
    match table.unit:
        case None:
            return "public: no personal data, exact and free"
        case RowUnit():
            return "each row is a person"
        case UnitColumn(column):
            person = f"one person is one {column}"
        case UnitPath(other, column, here, there):
            person = f"one person is one {other}.{column}, by {here} = {there}"
        case OwnerPair() as pair:
            most = f"each question selects how many rows of a person count, at most {table.rows_per_unit or 1:,}"
            return f"each row belongs to two people, {' and '.join(owner_names(pair))}; {most}"
        case HiddenUnit():
            person = "each person is protected"
    rows = table.rows_per_unit or 1
    alone = isinstance(table.unit, UnitColumn) and (own := table.column(table.unit.column)) is not None and own.unique
    counted = "1 row each" if alone or rows == 1 else f"at most {rows:,} rows each"
    counted += ", of which each question selects how many count" * (table.rows_chosen and counted != "1 row each")
    groups = table.groups_per_unit
    within = f", in at most {groups:,} group{'s' * (groups != 1)} of an answer" if groups is not None else ""
    within += ", of which each question that counts people selects how many count" * table.groups_chosen
    return f"{person}; {counted}{within}"


def units_of(tables: Iterable[Table]) -> str:
    """Name whom each private table protects, as receipts do: a person, or each row (an event).

    >>> units_of([Table("visits", (), UnitColumn("who"), 3), Table("clicks", (), RowUnit(), 1)])
    'clicks: each row; visits: each who'
    """
    units = []
    for table in sorted(tables, key=lambda table: fold_name(table.name)):
        match table.unit:
            case RowUnit():
                units.append(f"{table.name}: each row")
            case UnitColumn(column):
                units.append(f"{table.name}: each {column}")
            case UnitPath(other, column, _, _):
                units.append(f"{table.name}: each {other}.{column}")
            case HiddenUnit():
                units.append(f"{table.name}: each person")
            case OwnerPair() as pair:
                units.append(f"{table.name}: each {' and each '.join(owner_names(pair))}, with all rows they share")
    return "; ".join(units)


def owner_names(pair: OwnerPair) -> list[str]:
    """Return how each owner of a row is named: by its kind, if it has one, and by the column.

    >>> owner_names(OwnerPair((UnitColumn("src"), UnitColumn("dst"))))
    ['src', 'dst']
    """
    columns = [
        owner.column if isinstance(owner, UnitColumn) else f"{owner.table}.{owner.column}" for owner in pair.owners
    ]
    if pair.kinds is None:
        return columns
    return [f"{kind} ({column})" for kind, column in zip(pair.kinds, columns, strict=True)]


def column_words(table: Table, column: Column) -> str:
    """Describe the values of a column and the aggregates it allows."""
    parts = []
    if isinstance(table.unit, OwnerPair) and table.names_people(column.name):
        parts.append("one of the two people of a row: not shown")
    elif table.names_people(column.name):
        parts.append("the person: can be counted and joined on, not shown")
    elif isinstance(column.values, Reference):
        parts.append(f"values of {column.values.table}.{column.values.column}")
    elif column.values == ():
        parts.append("public values")
    elif column.values is not None:
        more = ", …" if len(column.values) > _MAX_LISTED_VALUES else ""
        parts.append(f"{', '.join(map(_format_value, column.values[:_MAX_LISTED_VALUES]))}{more}")
    elif column.bounds is not None:
        parts.append(_bounds_words(column, column.bounds))
    elif column.type in _SUMMABLE_TYPES and not table.public:
        parts.append("no bounds: can be counted, not summed")
    elif column.type is ColumnType.TEXT and not table.public:
        parts.append("no declared values: groups are chosen privately")
    if column.unique:
        parts.append("unique")
    return "; ".join(parts)


def _bounds_words(column: Column, bounds: Bounds) -> str:
    step = f", in steps of {_format_value(column.step)}" if column.type is ColumnType.DECIMAL and column.step else ""
    chosen = ", within which each question selects" * column.bounds_chosen
    total = (
        "" if column.total_per_unit is None else f", at most {_format_value(column.total_per_unit)} per person in a sum"
    )
    return f"{_format_value(bounds.low)} to {_format_value(bounds.high)}{chosen}{step}{total}"


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, date):
        return str(value)
    exact = float(value)
    return str(int(value)) if exact.is_integer() else f"{exact:.12g}"
