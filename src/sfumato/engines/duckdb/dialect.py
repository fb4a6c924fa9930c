"""DuckDB's SQL: its entry for everything in which engines differ."""

from sfumato.engines.duckdb import numbers, texts, times
from sfumato.engines.duckdb.numbers import NARROW, TYPES, WIDE, given, named, nullif
from sfumato.engines.sql.constant import constant_form, filtered, row_number
from sfumato.engines.sql.dialect import ByWindow, Dialect, RankPartitions
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.names import literal, quoted
from sfumato.engines.sql.numbers import is_leaf
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import Aggregation

ID = "UHUGEINT"
"""128 bits. Its text is taken by hex(): the engine's cast to VARCHAR takes 60 microseconds a value."""
_TYPES = {Kind.REAL: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.UNIT: ID}


def _aggregate(aggregation: Aggregation, value: str, facts: Facts, distinct: bool) -> str:
    return f"{aggregation}({'DISTINCT ' * distinct}{value})"  # sums of integers are HUGEINT


def _bits(double: str) -> str:
    """Return the 64 bits of a double in hexadecimal: engines print doubles in different ways."""
    return f"hex(CAST(CAST({double} AS BIT) AS BLOB))"


def _value_text(value: str, type: str) -> str:
    return _bits(value) if type == "DOUBLE" else f"CAST({value} AS VARCHAR)"


def _scalar_text(value: str, kind: Kind) -> str:
    if kind is Kind.UNIT:
        return f"hex({value})"
    return _value_text(value, _TYPES.get(kind, NARROW))


_LIST = " IN ("


def _in(scalar: Scalar, texts: list[str]) -> str:
    """Return whether a value is in a list.

    The engine compares it with one item after another and writes it as often. A value that holds a list itself, however
    short, is therefore computed once: else what is nested would burst.
    """
    wide = any(part.facts.kind is Kind.INTEGER and TYPES.of(part.facts) == WIDE for part in scalar.arguments)
    first, *items = [
        TYPES.typed(sql, part.facts, WIDE) if wide and part.facts.kind is Kind.INTEGER else sql
        for sql, part in zip(texts, scalar.arguments, strict=True)
    ]
    once = named if any(_LIST in sql for sql in texts) else given
    if all(is_leaf(item) for item in scalar.arguments[1:]):
        return once([first], lambda value: f"({value}{_LIST}{', '.join(items)}))")
    return once([first, *items], lambda value, *others: f"({value}{_LIST}{', '.join(others)}))")


_CHOICES = ChoiceForms(TYPES, lambda first, second, leaf: nullif(first, second, leaf=leaf))

DUCKDB = Dialect(
    name="duckdb",
    operator_sql={
        Operator.CONSTANT: constant_form(TYPES, _TYPES, texts.text_sql),
        **numbers.FORMS,
        **_CHOICES.forms(),
        Operator.IN: _in,
        **times.FORMS,
        **texts.FORMS,
    },
    quote_identifier=quoted,
    text_literal=literal,
    let=given,
    double="DOUBLE",
    integer_type=TYPES.of,
    integer=TYPES.integer,
    wide=WIDE,
    quotient=lambda a, b: f"({a} // {b})",
    remainder=lambda a, b: f"({a} % {b})",
    floor_divide=lambda a, b: f"({a} // {b})",
    whole_double=lambda double: f"CAST({double} AS {WIDE})",
    truncated=lambda double: f"trunc({double})",
    bigint=NARROW,
    to_bigint_or_null=lambda wide: f"TRY_CAST({wide} AS {NARROW})",
    is_finite=lambda double: f"isfinite({double})",
    sortable=lambda sql, kind: sql,
    aggregate=_aggregate,
    filtered=filtered,
    bit_or=lambda integers: f"bit_or({integers})",
    listed=lambda values: f"list({values})",
    row_number=row_number,
    power_of_two=lambda power: f"(CAST(1 AS BIGINT) << CAST({power} AS BIGINT))",
    popcount=lambda integer: f"CAST(bit_count({integer}) AS BIGINT)",  # it is a TINYINT, and so would be sums
    hash48=lambda text: f"left(sha256({text}), 12)",
    scalar_text=_scalar_text,
    utf8_length=lambda text: f"strlen({text})",
    id_type=ID,
    text_type="VARCHAR",
    rank_type="UINTEGER",
    hash128=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    id_text=lambda id: f"hex({id})",
    hash128_sortable=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    long_draw_text=lambda draw: f"hex({draw})",
    bounding=ByWindow(
        row_locator="rowid",
        rank_partitions=RankPartitions(1_000_000, lambda id, parts: f"CAST(hash({id}) % {parts} AS UINTEGER)"),
        pair_hash=lambda first, other: f"hash({first}, {other})",
        numbers_people=True,
    ),
    stored_by_unit=False,
    order_by_clause="ORDER BY",
    numbers_rows=False,
)
