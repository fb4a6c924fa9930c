"""Spark's SQL: its entry for everything in which engines differ."""

from collections.abc import Sequence

from sfumato.engines.spark import numbers, texts, times
from sfumato.engines.spark.numbers import DOUBLE, NARROW, TYPES, WIDE
from sfumato.engines.sql.constant import constant_form, filtered, row_number
from sfumato.engines.sql.dialect import ByShuffle, Dialect
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.intervals import max_magnitude
from sfumato.language.scalar import Operator
from sfumato.query.functions import Aggregation

ID = "BINARY"
"""Of 16 bytes, compared as unsigned bytes."""
_TYPES = {Kind.REAL: DOUBLE, Kind.TEXT: "STRING", Kind.BOOLEAN: "BOOLEAN", Kind.UNIT: ID}
_LONG_DIGITS = 19
"""Digits that hold every integer of 64 bits."""
_MAX_BIGINT_SUMMAND = 1 << 22
"""Values up to here can be added in 64 bits: no table has 2^40 rows."""


def quoted(name: str) -> str:
    """Return a name as an identifier: between quotation marks it would be a text.

    >>> print(quoted("a`b"))
    `a``b`
    """
    return f"`{name.replace('`', '``')}`"


def _aggregate(aggregation: Aggregation, value: str, facts: Facts, distinct: bool) -> str:
    """Sums of 64-bit integers raise beyond 64 bits; those of decimals have ten digits more than what is added.

    Spark casts before it looks at FILTER, and facts hold only for the rows that count: the digits hold every integer of
    64 bits, or ten more than the facts, so that no row that does not count makes a statement fail.
    """
    if aggregation is Aggregation.SUM and facts.kind is Kind.INTEGER and max_magnitude(facts) > _MAX_BIGINT_SUMMAND:
        digits = _LONG_DIGITS if max_magnitude(facts) < STORED_LIMIT else min(len(str(max_magnitude(facts))) + 10, 38)
        value = f"CAST({value} AS DECIMAL({digits},0))"
    return f"{aggregation}({'DISTINCT ' * distinct}{value})"


def _row_number(partition: Sequence[str], order: Sequence[str]) -> str:
    """Spark numbers within an order only; numbers over a whole table, which would be one task, are merely distinct."""
    return row_number(partition, order or ["NULL"]) if partition else "monotonically_increasing_id()"


def _sha256(text: str) -> str:
    return f"sha2(CAST({text} AS BINARY), 256)"


def _value_text(value: str, type: str) -> str:
    if type != DOUBLE:
        return f"CAST({value} AS STRING)"
    bits = f"CAST(java_method('java.lang.Double', 'doubleToLongBits', {value}) AS {NARROW})"
    return f"CASE WHEN {value} IS NOT NULL THEN lpad(hex({bits}), 16, '0') END"


def _id_text(id: str) -> str:
    return f"trim(LEADING '0' FROM hex({id}))"


def _scalar_text(value: str, kind: Kind) -> str:
    return _id_text(value) if kind is Kind.UNIT else _value_text(value, _TYPES.get(kind, NARROW))


SPARK = Dialect(
    name="spark",
    operator_sql={
        Operator.CONSTANT: constant_form(TYPES, _TYPES, texts.text_sql),
        **numbers.FORMS,
        **ChoiceForms(TYPES, numbers.nullif).forms(),
        **times.FORMS,
        **texts.FORMS,
    },
    quote_identifier=quoted,
    text_literal=texts.text_sql,
    let=numbers.given,
    double=DOUBLE,
    integer_type=TYPES.of,
    integer=TYPES.integer,
    wide=WIDE,
    quotient=numbers.quotient,
    remainder=lambda a, b: f"({a} % {b})",
    floor_divide=lambda a, b: f"({a} div {b})",
    whole_double=numbers.whole_double,
    truncated=numbers.truncated,
    bigint=NARROW,
    to_bigint_or_null=lambda wide: f"try_cast({wide} AS {NARROW})",
    is_finite=numbers.is_finite,
    sortable=lambda sql, kind: sql,
    aggregate=_aggregate,
    filtered=filtered,
    bit_or=lambda integers: f"bit_or({integers})",
    listed=None,
    row_number=_row_number,
    power_of_two=lambda power: f"shiftleft(CAST(1 AS BIGINT), CAST({power} AS INT))",
    popcount=lambda integer: f"CAST(bit_count({integer}) AS BIGINT)",  # it is an INT
    hash48=lambda text: f"substring({_sha256(text)}, 1, 12)",
    scalar_text=_scalar_text,
    utf8_length=lambda text: f"octet_length({text})",
    id_type=ID,
    text_type="STRING",
    rank_type="INT",
    hash128=lambda text: f"unhex(substring({_sha256(text)}, 1, 32))",
    id_text=_id_text,
    hash128_sortable=lambda text: f"unhex(substring({_sha256(text)}, 1, 32))",
    long_draw_text=_id_text,
    bounding=ByShuffle(lambda query, name: f"{query} DISTRIBUTE BY {name}"),
    stored_by_unit=False,
    order_by_clause="SORT BY",
    numbers_rows=True,
)
