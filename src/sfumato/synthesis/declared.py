"""Columns of a private table as its policy declares them: which cells they have, and how an engine tells the cell."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from sfumato.analysis.private_query import Key
from sfumato.database import Database
from sfumato.engines.sql.builder import select
from sfumato.errors import BadParameter, UnknownName, UnsupportedSql, quote_value
from sfumato.language.facts import Facts, Kind
from sfumato.language.numbers import constant, multiplied, quotient, shifted
from sfumato.language.scalar import Scalar
from sfumato.policy.policy import ColumnType, fold_name
from sfumato.query.types import Type
from sfumato.release.decode import decode
from sfumato.synthesis.domain import Choices, ColumnDomain, Continuum, Nullable, Stepped

MAX_TABLE_COLUMNS = 1000
_MAX_BINNED_STEPS = 2**62
_KINDS: dict[ColumnType, type[int] | type[Fraction] | type[date] | type[datetime]] = {
    ColumnType.INTEGER: int,
    ColumnType.DECIMAL: Fraction,
    ColumnType.DATE: date,
    ColumnType.TIMESTAMP: datetime,
}


def names_among(names: Sequence[str], said: object, what: str) -> frozenset[str]:
    """Return some of the columns that are measured, as the policy spells them."""
    if isinstance(said, str) or not isinstance(said, Sequence):
        raise BadParameter(f"{what} is not a list of names.", "It names columns.", f'Write {what}=["age", …].')
    known = {fold_name(name): name for name in names}
    for name in said:
        if not isinstance(name, str) or fold_name(name) not in known:
            raise UnknownName(
                f"{what} names {quote_value(name)}.",
                "It is none of the columns that are measured.",
                f"There are: {', '.join(names[:24])}.",
            )
    return frozenset(known[fold_name(name)] for name in said)


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
    listed = list(map(_quoted_name, sorted(names, key=fold_name)))
    return names, select(listed, _quoted_name(declared.name))


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def with_nulls(keys: Sequence[Key], columns: Sequence[ColumnDomain], table: str) -> str:
    """Return the query in which NULL of some columns is one value more, above all others, so that no row is left out.

    Values beyond their bounds are brought to the bound first.
    """
    shown = [
        _shown_null(key) if isinstance(column, Nullable) else _quoted_name(key.name)
        for key, column in zip(keys, columns, strict=True)
    ]
    listed = [f"{sql} AS {_quoted_name(key.name)}" for key, sql in zip(keys, shown, strict=True)]
    return select(listed, _quoted_name(table))


def _shown_null(key: Key) -> str:
    name, facts = _quoted_name(key.name), key.scalar.facts
    if facts.kind is Kind.BOOLEAN:
        return f"CASE WHEN {name} IS NULL THEN 2 WHEN {name} THEN 1 ELSE 0 END"
    if facts.kind is Kind.TEXT:
        return f"COALESCE({name}, '{_null_text(key)}')"
    low, high, above = (_literal(step, facts) for step in (facts.low, facts.high, facts.high + 1))
    if above == high:
        raise UnsupportedSql(
            f"`{key.name}` has no value left for NULL.",
            "Its upper bound is the last date that there is, and NULL is counted as the one after it.",
            "Leave it out of `nulls`, or ask the owner to declare an earlier bound.",
        )
    held = name if key.cells is not None and facts.span > len(key.cells) else f"LEAST(GREATEST({name}, {low}), {high})"
    return f"CASE WHEN {name} IS NULL THEN {above} ELSE {held} END"


def _null_text(key: Key) -> str:
    """Return a text that is none of the declared ones, to stand for NULL."""
    text = "NULL"
    while text in (key.cells or ()):
        text += "*"
    return text


def _literal(step: int, facts: Facts) -> str:
    value = decode(step, facts)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    exact = step * facts.step
    return str(exact) if exact.denominator == 1 else f"{Decimal(exact.numerator) / Decimal(exact.denominator):f}"


def column_of(database: Database, table: str, key: Key, bins: int) -> Choices | Stepped:
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


def cell_key(key: Key, column: ColumnDomain, plain: Key) -> Key:
    """Return the key by which the engine counts: the value itself, or the number of its cell.

    `key` is the column of the query that is measured, `plain` the same column as it is without a value for NULL.
    """
    if isinstance(column, Nullable):
        return _nullable_key(key, column.present, plain)
    if isinstance(column, Choices):
        return key
    steps = replace(key.scalar, facts=replace(key.scalar.facts, type=Type.INTEGER, step=Fraction(1)))
    if not isinstance(column, Stepped):
        raise AssertionError("policies have grids")
    return Key(key.name, _cell_number(steps, column), tuple(range(column.size)))


def _nullable_key(key: Key, column: Choices | Continuum | Stepped, plain: Key) -> Key:
    """Return the key whose last cell is NULL: the value after the greatest one is in the cell after the last one."""
    if isinstance(column, Stepped):
        steps = replace(key.scalar, facts=replace(key.scalar.facts, type=Type.INTEGER, step=Fraction(1)))
        return Key(key.name, _cell_number(steps, column), tuple(range(column.size + 1)))
    facts, cells = plain.scalar.facts, plain.cells or ()
    if facts.kind is Kind.BOOLEAN:
        return replace(key, cells=(0, 1, 2))
    return replace(key, cells=(*cells, _null_text(plain) if facts.kind is Kind.TEXT else facts.high + 1))


def _cell_number(steps: Scalar, column: Stepped) -> Scalar:
    offset = multiplied(shifted(steps, column.least), constant(column.size, Type.INTEGER), Type.INTEGER)
    return quotient(offset, constant(column.count, Type.INTEGER), Type.INTEGER)
