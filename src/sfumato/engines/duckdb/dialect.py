"""DuckDB's SQL: its entry for everything in which engines differ."""

from collections.abc import Sequence

from sfumato.engines.duckdb import numbers, texts, times
from sfumato.engines.duckdb.numbers import NARROW, WIDE, double_sql, integer_sql, integer_type, nullif, typed
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.names import literal, quoted
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import Aggregation

ID = "UHUGEINT"
"""128 bits. Its text is taken by hex(): the engine's cast to VARCHAR takes 60 microseconds a value."""
_TYPES = {Kind.REAL: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.UNIT: ID}


def _constant(scalar: Scalar, arguments: list[str]) -> str:
    facts = scalar.facts
    type = integer_type(facts) if facts.kind is Kind.INTEGER else _TYPES[facts.kind]
    match scalar.constant:
        case None:
            return f"NULL::{type}"
        case bool(truth):
            return "true" if truth else "false"
        case int(integer):
            return integer_sql(integer, type)
        case float(double):
            return double_sql(double)
        case str(text):
            return f"{literal(text)}::VARCHAR"
        case _:
            raise AssertionError("a constant is one value")


def _aggregate(aggregation: Aggregation, value: str, facts: Facts, distinct: bool) -> str:
    return f"{aggregation}({'DISTINCT ' * distinct}{value})"  # sums of integers are HUGEINT


def _row_number(partition: Sequence[str], order: Sequence[str]) -> str:
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    clauses += [f"ORDER BY {', '.join(order)}"] if order else []
    return f"row_number() OVER ({' '.join(clauses)})"


def _bits(double: str) -> str:
    """Return the 64 bits of a double in hexadecimal: engines print doubles in different ways."""
    return f"hex(CAST(CAST({double} AS BIT) AS BLOB))"


def _value_text(value: str, type: str) -> str:
    return _bits(value) if type == "DOUBLE" else f"CAST({value} AS VARCHAR)"


def _scalar_text(value: str, kind: Kind) -> str:
    if kind is Kind.UNIT:
        return f"hex({value})"
    return _value_text(value, _TYPES.get(kind, NARROW))


_CHOICES = ChoiceForms(WIDE, integer_type, typed, lambda first, second, leaf: nullif(first, second, leaf=leaf))

DUCKDB = Dialect(
    name="duckdb",
    forms={Operator.CONSTANT: _constant, **numbers.FORMS, **_CHOICES.forms(), **times.FORMS, **texts.FORMS},
    quoted=quoted,
    literal=literal,
    double="DOUBLE",
    integer_type=integer_type,
    integer=integer_sql,
    wide=WIDE,
    quotient=lambda a, b: f"({a} // {b})",
    remainder=lambda a, b: f"({a} % {b})",
    whole_double=lambda double: f"CAST({double} AS {WIDE})",
    narrowed=lambda wide: f"TRY_CAST({wide} AS {NARROW})",
    finite=lambda double: f"isfinite({double})",
    sortable=lambda sql, kind: sql,
    aggregate=_aggregate,
    row_number=_row_number,
    draw=lambda text: f"left(sha256({text}), 12)",
    scalar_text=_scalar_text,
    octets=lambda text: f"strlen({text})",
    id_type=ID,
    text_type="VARCHAR",
    rank_type="UINTEGER",
    hash128=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    id_text=lambda id: f"hex({id})",
    value_text=_value_text,
    place="rowid",
    numbered=None,
    numbers_rows=False,
    part=lambda id, parts: f"CAST(hash({id}) % {parts} AS UINTEGER)",
    ranks_in_parts=True,
)
