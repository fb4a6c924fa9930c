"""PostgreSQL's SQL: its entry for everything in which engines differ."""

from collections.abc import Sequence

from sfumato.engines.postgres import numbers, texts, times
from sfumato.engines.postgres.numbers import DOUBLE, NARROW, WIDE, double_sql, integer_sql, integer_type, typed
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.names import quoted
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import Aggregation

ID = "uuid"
"""128 bits, compared as unsigned bytes."""
_TYPES = {Kind.REAL: DOUBLE, Kind.TEXT: "text", Kind.BOOLEAN: "boolean", Kind.UNIT: ID}


def _constant(scalar: Scalar, arguments: list[str]) -> str:
    facts = scalar.facts
    type = integer_type(facts) if facts.kind is Kind.INTEGER else _TYPES[facts.kind]
    match scalar.constant:
        case None:
            return f"CAST(NULL AS {type})"
        case bool(truth):
            return "true" if truth else "false"
        case int(integer):
            return integer_sql(integer, type)
        case float(double):
            return double_sql(double)
        case str(text):
            return texts.text_sql(text)
        case _:
            raise AssertionError("a constant is one value")


def _sortable(sql: str, kind: Kind) -> str:
    return f'{sql} COLLATE "C"' if kind is Kind.TEXT else sql


def _aggregate(aggregation: Aggregation, value: str, facts: Facts, distinct: bool) -> str:
    return f"{aggregation}({'DISTINCT ' * distinct}{_sortable(value, facts.kind)})"  # sums of integers are numeric


def _row_number(partition: Sequence[str], order: Sequence[str]) -> str:
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    clauses += [f"ORDER BY {', '.join(order)}"] if order else []
    return f"row_number() OVER ({' '.join(clauses)})"


def _sha256(text: str) -> str:
    return f"sha256(convert_to({text}, 'UTF8'))"


def _value_text(value: str, type: str) -> str:
    return f"upper(encode(float8send({value}), 'hex'))" if type == DOUBLE else f"CAST({value} AS text)"


def _id_text(id: str) -> str:
    return f"upper(ltrim(encode(uuid_send({id}), 'hex'), '0'))"


def _scalar_text(value: str, kind: Kind) -> str:
    return _id_text(value) if kind is Kind.UNIT else _value_text(value, _TYPES.get(kind, NARROW))


_CHOICES = ChoiceForms(WIDE, integer_type, typed, lambda first, second, leaf: f"nullif({first}, {second})")
"""Its nullif evaluates each argument once, however it is nested."""

POSTGRES = Dialect(
    name="postgres",
    forms={Operator.CONSTANT: _constant, **numbers.FORMS, **_CHOICES.forms(), **times.FORMS, **texts.FORMS},
    quoted=quoted,
    literal=texts.text_sql,
    double=DOUBLE,
    integer_type=integer_type,
    integer=integer_sql,
    wide=WIDE,
    quotient=lambda a, b: f"div({a}, {b})",
    remainder=lambda a, b: f"mod({a}, {b})",
    whole_double=numbers.whole_double,
    narrowed=texts.narrowed,
    finite=numbers.is_finite,
    sortable=_sortable,
    aggregate=_aggregate,
    row_number=_row_number,
    draw=lambda text: f"substring({_sha256(text)} FROM 1 FOR 6)",
    scalar_text=_scalar_text,
    octets=lambda text: f"octet_length({text})",
    id_type=ID,
    text_type="text",
    rank_type="integer",
    hash128=lambda text: f"CAST(encode(substring({_sha256(text)} FROM 1 FOR 16), 'hex') AS {ID})",
    id_text=_id_text,
    value_text=_value_text,
    place="ctid",
    numbered=None,
    numbers_rows=True,
    part=lambda id, parts: (
        f"CAST(CAST(CAST('x' || left(CAST({id} AS text), 8) AS bit(32)) AS bigint) % {parts} AS integer)"
    ),
)
