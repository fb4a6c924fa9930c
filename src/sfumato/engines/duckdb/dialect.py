"""DuckDB's SQL: its entry for everything in which engines differ."""

from collections.abc import Sequence

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.scalar import Operator, Scalar
from sfumato.engines.duckdb import logic, numbers, texts, times
from sfumato.engines.duckdb.numbers import NARROW, WIDE, double_sql, integer_sql, integer_type
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import literal, quoted
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


def _drawn(owner: str | None, columns: Sequence[tuple[str, Kind]]) -> list[str]:
    """Mix one value after the other into what was mixed before.

    `hash` of one integer is one to one and all its bits depend on all; `hash` of several values only combines theirs,
    and would prefer some cells to others.
    """
    mixed = "0::UBIGINT" if owner is None else f"hash({owner})"
    for column, _ in columns:
        mixed = f"hash(xor({mixed}, hash({column})))"
    return [mixed]


DUCKDB = Dialect(
    name="duckdb",
    forms={Operator.CONSTANT: _constant, **numbers.FORMS, **logic.FORMS, **times.FORMS, **texts.FORMS},
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
    drawn=_drawn,
    octets=lambda text: f"strlen({text})",
    id_type=ID,
    text_type="VARCHAR",
    rank_type="UINTEGER",
    hash128=lambda text: f"CAST('0x' || left(sha256({text}), 32) AS {ID})",
    id_text=lambda id: f"hex({id})",
    value_text=lambda value, type: f"CAST({value} AS VARCHAR)",
    place="rowid",
    numbered=None,
    numbers_rows=False,
    part=lambda id, parts: f"CAST(hash({id}) % {parts} AS UINTEGER)",
)
