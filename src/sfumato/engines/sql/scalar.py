"""The DuckDB SQL of a total scalar: one form per operator, written from our own algebra alone."""

from collections.abc import Callable

from sfumato.analysis.facts import Kind
from sfumato.analysis.scalar import Operator, Scalar
from sfumato.engines.duckdb import logic, numbers, texts, times
from sfumato.engines.duckdb.connection import literal, quoted
from sfumato.engines.duckdb.numbers import double_sql, integer_sql, integer_type
from sfumato.errors import QueryTooLarge

LONGEST = 200_000
"""Characters that one scalar may have as SQL."""

_TYPES = {Kind.REAL: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.UNIT: "UHUGEINT"}


def scalar_sql(scalar: Scalar) -> str:
    """Return the SQL of a scalar; an INTEGER kind is BIGINT where its facts fit 64 bits, else HUGEINT."""
    sql = FORMS[scalar.operator](scalar, [scalar_sql(argument) for argument in scalar.arguments])
    if len(sql) > LONGEST:
        raise QueryTooLarge(
            "An expression of the query becomes too long for the engine.",
            f"Written out, it would have more than {LONGEST:,} characters.",
            "Use a shorter expression, or compute it in fewer nested steps.",
        )
    return sql


def _column(scalar: Scalar, texts: list[str]) -> str:
    match scalar.constant:
        case (str(label), str(name)):
            return f"{quoted(label)}.{quoted(name)}"
        case _:
            raise AssertionError("a column comes with its label and name")


def _constant(scalar: Scalar, texts: list[str]) -> str:
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


FORMS: dict[Operator, Callable[[Scalar, list[str]], str]] = {
    Operator.COLUMN: _column,
    Operator.CONSTANT: _constant,
    **numbers.FORMS,
    **logic.FORMS,
    **times.FORMS,
    **texts.FORMS,
}
