"""PostgreSQL's SQL: its entry for everything in which engines differ."""

from hashlib import sha256

from sfumato.engines.postgres import numbers, texts, times
from sfumato.engines.postgres.numbers import DOUBLE, NARROW, TYPES, WIDE
from sfumato.engines.sql.constant import constant_form, filtered, row_number
from sfumato.engines.sql.dialect import ByTwoScans, Dialect
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.names import quoted
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator
from sfumato.query.functions import Aggregation

ID = "uuid"
"""128 bits, compared as unsigned bytes."""
_TYPES = {Kind.REAL: DOUBLE, Kind.TEXT: "text", Kind.BOOLEAN: "boolean", Kind.UNIT: ID}

_OF_TRUTHS = {Aggregation.MIN: "bool_and", Aggregation.MAX: "bool_or"}
"""It has no smallest truth value."""

_MAX_NAME_BYTES = 63
"""Maximum number of significant bytes of a name."""


def _sortable(sql: str, kind: Kind) -> str:
    return f'{sql} COLLATE "C"' if kind is Kind.TEXT else sql


def _aggregate(aggregation: Aggregation, value: str, facts: Facts, distinct: bool) -> str:
    if facts.kind is Kind.BOOLEAN and aggregation in _OF_TRUTHS:
        return f"{_OF_TRUTHS[aggregation]}({value})"
    return f"{aggregation}({'DISTINCT ' * distinct}{_sortable(value, facts.kind)})"  # sums of integers are numeric


def _sha256(text: str) -> str:
    return f"sha256(convert_to({text}, 'UTF8'))"


def _value_text(value: str, type: str) -> str:
    return f"upper(encode(float8send({value}), 'hex'))" if type == DOUBLE else f"CAST({value} AS text)"


def _id_text(id: str) -> str:
    return f"upper(ltrim(encode(uuid_send({id}), 'hex'), '0'))"


def _scalar_text(value: str, kind: Kind) -> str:
    return _id_text(value) if kind is Kind.UNIT else _value_text(value, _TYPES.get(kind, NARROW))


def _quote(name: str) -> str:
    """Return a name as an identifier. The server cuts names: longer ones, which are our own, are hashes instead."""
    octets = name.encode()
    return quoted(name if len(octets) <= _MAX_NAME_BYTES else f'"{sha256(octets).hexdigest()[:48]}')


def _share(some: int, all: str) -> str:
    """Return 48 bits before which a draw lies with the probability some / all; they are compared as bytes are."""
    bits = f"CAST(div({some} * {WIDE} '{1 << 48}', {all}) AS {NARROW})"
    return f"decode(CASE WHEN {all} <= {some} THEN repeat('ff', 17) ELSE lpad(to_hex({bits}), 12, '0') END, 'hex')"


_CHOICES = ChoiceForms(TYPES, lambda first, second, leaf: f"nullif({first}, {second})")
"""Its nullif evaluates each argument once, however it is nested."""

POSTGRES = Dialect(
    name="postgres",
    operator_sql={
        Operator.CONSTANT: constant_form(TYPES, _TYPES, texts.text_sql),
        **numbers.FORMS,
        **_CHOICES.forms(),
        **times.FORMS,
        **texts.FORMS,
    },
    quote_identifier=_quote,
    text_literal=texts.text_sql,
    let=numbers.given,
    double=DOUBLE,
    integer_type=TYPES.of,
    integer=TYPES.integer,
    wide=WIDE,
    quotient=lambda a, b: f"div({a}, {b})",
    remainder=lambda a, b: f"mod({a}, {b})",
    floor_divide=lambda a, b: f"({a} / {b})",
    whole_double=numbers.whole_double,
    truncated=lambda double: f"trunc({double})",
    bigint="BIGINT",
    to_bigint_or_null=texts.narrowed,
    is_finite=numbers.is_finite,
    sortable=_sortable,
    aggregate=_aggregate,
    filtered=filtered,
    bit_or=lambda integers: f"bit_or({integers})",
    listed=None,
    row_number=row_number,
    power_of_two=lambda power: f"(CAST(1 AS bigint) << CAST({power} AS integer))",
    popcount=lambda integer: f"bit_count(CAST({integer} AS bit(64)))",  # it is a bigint
    hash48=lambda text: f"substring({_sha256(text)} FROM 1 FOR 6)",
    scalar_text=_scalar_text,
    utf8_length=lambda text: f"octet_length({text})",
    id_type=ID,
    text_type="text",
    rank_type="integer",
    hash128=lambda text: f"CAST(encode(substring({_sha256(text)} FROM 1 FOR 16), 'hex') AS {ID})",
    id_text=_id_text,
    # a uuid would have to be read from a text
    hash128_sortable=lambda text: f"substring({_sha256(text)} FROM 1 FOR 16)",
    long_draw_text=lambda draw: f"upper(ltrim(encode({draw}, 'hex'), '0'))",
    bounding=ByTwoScans(
        row_locator="ctid",
        # A nested query that selects what could differ from row to row is kept apart; this is always NULL, and known to
        # be when it is planned. `OFFSET 0` would keep it apart too, and from the parallel workers of all above it.
        optimizer_fence="CASE WHEN false THEN clock_timestamp() END AS fence",
        hash_cutoff=_share,
        repeat_row=lambda times: f"generate_series(1, {times})",
    ),
    stored_by_unit=True,
    order_by_clause="ORDER BY",
    numbers_rows=True,
)
