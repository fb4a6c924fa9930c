"""Columns of a private table as its policy declares them: which cells they have, and how an engine tells the cell."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

from sfumato.analysis.private_query import Key
from sfumato.database import Database
from sfumato.errors import BadParameter, UnknownName, UnsupportedSql, quote_value
from sfumato.language.facts import Kind
from sfumato.language.numbers import constant, multiplied, quotient, shifted
from sfumato.policy.policy import ColumnType, fold_name
from sfumato.query.types import Type
from sfumato.release.decode import decode
from sfumato.synthesis.domain import Choices, Column, Stepped

MAX_TABLE_COLUMNS = 1000
_MAX_BINNED_STEPS = 2**62
_KINDS: dict[ColumnType, type[int] | type[Fraction] | type[date] | type[datetime]] = {
    ColumnType.INTEGER: int,
    ColumnType.DECIMAL: Fraction,
    ColumnType.DATE: date,
    ColumnType.TIMESTAMP: datetime,
}


def select_declared_columns(database: object, table: object, columns: object) -> tuple[list[str], str]:
    """Return the names as in the policy, in the requested order, and a query that shows them in a canonical order."""
    if not isinstance(database, Database):
        raise BadParameter(
            f"{type(database).__name__} cannot be measured.",
            "A table is measured through an open database, under its policy.",
            "Give what sfumato.open returned, or use synthesize_table for arrays.",
        )
    declared = database.visible_policy.table(table) if isinstance(table, str) else None
    if declared is None:
        raise UnknownName(
            f"There is no table {quote_value(table)} here.",
            "Only tables of the policy can be measured.",
            f"There are: {', '.join(sorted(other.name for other in database.visible_policy.tables)[:12])}.",
        )
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns or len(columns) > MAX_TABLE_COLUMNS:
        raise BadParameter(
            "columns is not a list of names.", "A synthetic table has one or more columns.", 'Write columns=["age", …].'
        )
    names = []
    for name in columns:
        column = declared.column(name) if isinstance(name, str) else None
        if column is None:
            raise UnknownName(
                f"There is no column {quote_value(name)} in {declared.name}.",
                "Only columns that the policy declares can be measured.",
                f"There are: {', '.join(column.name for column in declared.columns[:24])}.",
            )
        names.append(column.name)
    if len(set(names)) < len(names):
        raise BadParameter("A column is named twice.", "A table has each column once.", "Name it once.")
    listed = ", ".join(map(_quoted_name, sorted(names, key=fold_name)))
    return names, f"SELECT {listed} FROM {_quoted_name(declared.name)}"  # noqa: S608


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def column_of(database: Database, table: str, key: Key, bins: int) -> Column:
    """Return what a column can hold: its declared values, or its range, cut into cells unless it has fewer values."""
    owner = database.visible_policy.table(table)
    declared = owner.column(key.name) if owner is not None else None
    if declared is None:
        raise AssertionError("shown_columns found it")
    facts = key.scalar.facts
    if key.cells is not None and (declared.values is not None or facts.kind is not Kind.INTEGER):
        values = tuple(decode(cell, facts) for cell in key.cells)
        if not values:
            raise UnsupportedSql(
                f"`{key.name}` has no values.",
                "Its public table is empty.",
                "Fill that table, or leave the column out.",
            )
        return Choices(declared.name, values)  # type: ignore[arg-type]
    if (facts.span + 1) * bins >= _MAX_BINNED_STEPS:
        raise UnsupportedSql(
            f"The bounds of `{key.name}` are too far apart.", "Cells are computed in 64 bits.", "Declare nearer bounds."
        )
    return Stepped(declared.name, facts.low, facts.high, bins, facts.step, _KINDS[declared.type])


def cell_key(key: Key, column: Column) -> Key:
    """Return the key by which the engine counts: the value itself, or the number of its cell."""
    if isinstance(column, Choices):
        return key
    steps = replace(key.scalar, facts=replace(key.scalar.facts, type=Type.INTEGER, step=Fraction(1)))
    if not isinstance(column, Stepped):
        raise AssertionError("policies have grids")
    offset = multiplied(shifted(steps, -column.least), constant(column.size, Type.INTEGER), Type.INTEGER)
    cell = quotient(offset, constant(column.count, Type.INTEGER), Type.INTEGER)
    return Key(key.name, cell, tuple(range(column.size)))
