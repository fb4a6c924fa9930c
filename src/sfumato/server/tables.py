"""The tables that questions may name, as the policy promises them: columns, bounds and keys; no count of rows."""

from datetime import date, datetime
from fractions import Fraction

from sfumato.analysis.catalog import Catalog, Field, decode_literal
from sfumato.policy.canonical import owner_words
from sfumato.policy.policy import (
    Column,
    HiddenUnit,
    OwnerPair,
    Policy,
    PrivacyUnit,
    Reference,
    RowUnit,
    Table,
    UnitColumn,
    Value,
    fold_name,
)

Document = dict[str, object]


def tables_document(policy: Policy, catalog: Catalog) -> Document:
    """Return the public description of the tables for analysts."""
    return {
        "name": policy.name,
        "neighbours": str(policy.neighbours),
        "tables": [_table(table, catalog) for table in sorted(policy.tables, key=lambda table: fold_name(table.name))],
    }


def _table(table: Table, catalog: Catalog) -> Document:
    known = catalog.tables[fold_name(table.name)]
    fields = [known.field(name) for name in known.columns]
    document: Document = {"name": fold_name(table.name), "public": table.public}
    if table.unit is not None:
        document |= {"unit": _unit(table.unit), "rows_per_unit": table.rows_per_unit}
    if table.groups_per_unit is not None:
        document["groups_per_unit"] = table.groups_per_unit
    columns = [column_document(field, table.column(field.name)) for field in fields]
    return document | {"columns": columns}


def column_document(field: Field, declared: Column | None) -> Document:
    """Return one column: what the policy says of it, and its type where the policy is silent."""
    document: Document = {"name": field.name, "type": str(field.facts.type)}
    if declared is None:
        return document
    if declared.bounds is not None:
        document["bounds"] = [plain(declared.bounds.low), plain(declared.bounds.high)]
    if declared.step not in (None, Fraction(1)):
        document["step"] = plain(declared.step or Fraction(1))
    if isinstance(declared.values, Reference):
        document["values"] = f"{fold_name(declared.values.table)}.{fold_name(declared.values.column)}"
    elif declared.values == ():  # of a table that the account may not use
        document["values"] = [plain(decode_literal(cell, field.facts)) for cell in field.cells or ()]  # type: ignore[arg-type]
    elif declared.values is not None:
        document["values"] = [plain(value) for value in declared.values]
    if declared.unique:
        document["unique"] = True
    return document


def _unit(unit: PrivacyUnit) -> str | list[str]:
    match unit:
        case OwnerPair():
            return owner_words(unit)
        case RowUnit():
            return "rows"
        case UnitColumn(column):
            return fold_name(column)
        case HiddenUnit():
            return "person"
    return fold_name(f"{unit.table}.{unit.column} via {unit.here} = {unit.there}")


def plain(value: Value) -> object:
    """Return a declared value as JSON knows it; a decimal is its exact text."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else _decimal(value)
    return value.isoformat() if isinstance(value, date | datetime) else value


def _decimal(value: Fraction) -> str:
    """Return a fraction as decimal text where it has one.

    >>> _decimal(Fraction(1, 100)), _decimal(Fraction(1, 3))
    ('0.01', '1/3')
    """
    for digits in range(41):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            sign, number = "-" if scaled < 0 else "", str(abs(int(scaled))).rjust(digits + 1, "0")
            return f"{sign}{number[:-digits]}.{number[-digits:]}" if digits else f"{sign}{number}"
    return str(value)
