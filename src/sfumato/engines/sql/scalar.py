"""The SQL of a total scalar: one form per operator, from the dialect, written from our own algebra alone."""

from collections.abc import Mapping

from sfumato.engines.sql.dialect import Dialect
from sfumato.errors import QueryTooLarge
from sfumato.language.scalar import Operator, Scalar

LONGEST = 200_000
"""Characters that one scalar may have as SQL."""

Columns = Mapping[tuple[str, str], str]
"""The SQL of each column that a scalar may name, by label and name."""


def scalar_sql(scalar: Scalar, columns: Columns, dialect: Dialect) -> str:
    """Return the SQL of a scalar; an INTEGER kind has the type that the dialect gives to its facts."""
    if scalar.operator is Operator.COLUMN:
        return _column(scalar, columns)
    arguments = [scalar_sql(argument, columns, dialect) for argument in scalar.arguments]
    sql = dialect.forms[scalar.operator](scalar, arguments)
    if len(sql) > LONGEST:
        raise QueryTooLarge(
            "An expression of the query becomes too long for the engine.",
            f"Written out, it would have more than {LONGEST:,} characters.",
            "Use a shorter expression, or compute it in fewer nested steps.",
        )
    return sql


def _column(scalar: Scalar, columns: Columns) -> str:
    match scalar.constant:
        case (str(label), str(name)):
            return columns[label, name]
        case _:
            raise AssertionError("a column comes with its label and name")
