"""DuckDB's SQL: its entry for everything in which engines differ."""

from sfumato.engines.duckdb import numbers, texts, times
from sfumato.engines.duckdb.numbers import NARROW, TYPES, WIDE, given, nullif
from sfumato.engines.sql.constant import constant_form, row_number
from sfumato.engines.sql.dialect import Dialect, Parted
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.names import literal, quoted
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator
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


_CHOICES = ChoiceForms(TYPES, lambda first, second, leaf: nullif(first, second, leaf=leaf))

DUCKDB = Dialect(
    name="duckdb",
    forms={
        Operator.CONSTANT: constant_form(TYPES, _TYPES, texts.text_sql),
        **numbers.FORMS,
        **_CHOICES.forms(),
        **times.FORMS,
        **texts.FORMS,
    },
    quoted=quoted,
    literal=literal,
    given=given,
    double="DOUBLE",
    integer_type=TYPES.of,
    integer=TYPES.integer,
    wide=WIDE,
    quotient=lambda a, b: f"({a} // {b})",
    remainder=lambda a, b: f"({a} % {b})",
    shared=lambda a, b: f"({a} // {b})",
    whole_double=lambda double: f"CAST({double} AS {WIDE})",
    truncated=lambda double: f"trunc({double})",
    narrowed=lambda wide: f"TRY_CAST({wide} AS {NARROW})",
    finite=lambda double: f"isfinite({double})",
    sortable=lambda sql, kind: sql,
    aggregate=_aggregate,
    row_number=row_number,
    bit=lambda power: f"(CAST(1 AS BIGINT) << CAST({power} AS BIGINT))",
    bits=lambda integer: f"CAST(bit_count({integer}) AS BIGINT)",  # it is a TINYINT, and so would be sums
    draw=lambda text: f"left(sha256({text}), 12)",
    scalar_text=_scalar_text,
    octets=lambda text: f"strlen({text})",
    id_type=ID,
    text_type="VARCHAR",
    rank_type="UINTEGER",
    hash128=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    id_text=lambda id: f"hex({id})",
    long_draw=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    long_draw_text=lambda draw: f"hex({draw})",
    place="rowid",
    sent=None,
    fence=None,
    share=None,
    by_person=False,
    in_order="ORDER BY",
    numbers_rows=False,
    parted=Parted(1_000_000, lambda id, parts: f"CAST(hash({id}) % {parts} AS UINTEGER)"),
)
