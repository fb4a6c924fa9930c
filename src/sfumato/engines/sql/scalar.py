"""The SQL of a total scalar: one form per operator, from the dialect, written from our own algebra alone."""

from collections import Counter
from collections.abc import Mapping

from sfumato.engines.sql.dialect import Dialect
from sfumato.errors import QueryTooLarge
from sfumato.language.facts import Facts
from sfumato.language.outside import is_stored
from sfumato.language.scalar import Operator, Scalar, walk

MAX_EXPRESSION_CHARS = 200_000
"""Characters that one scalar may have as SQL."""
_MAX_REPEATS = 20
"""Maximum number of times an expression is repeated before it is named."""
_MIN_NAMING_CHARS = 10_000
"""A CASE of more characters names what it computes several times."""

Columns = Mapping[tuple[str, str], str]
"""The SQL of each column that a scalar may name, by label and name."""


def scalar_sql(scalar: Scalar, columns: Columns, dialect: Dialect) -> str:
    """Return the SQL of a scalar; an INTEGER kind has the type that the dialect gives to its facts."""
    return _written(scalar, columns, dialect, {})


def _written(scalar: Scalar, columns: Columns, dialect: Dialect, named: Mapping[Scalar, str]) -> str:
    if scalar.operator is Operator.COLUMN:
        value = _column(scalar, columns)
        return clipped(value, scalar.facts, dialect) if is_stored(scalar) else value
    if scalar.operator is Operator.STORED:
        return _column(scalar.arguments[0], columns)
    if named and scalar in named:
        return named[scalar]
    arguments = [_written(argument, columns, dialect, named) for argument in scalar.arguments]
    _check_length(sum(map(len, arguments)), MAX_EXPRESSION_CHARS * _MAX_REPEATS)
    sql = dialect.operator_sql[scalar.operator](scalar, arguments)
    shared = _shared(scalar, named) if scalar.operator is Operator.CASE and len(sql) > _MIN_NAMING_CHARS else None
    if shared is not None:
        value = _written(shared, columns, dialect, named)
        sql = dialect.let([value], lambda name: _written(scalar, columns, dialect, {**named, shared: name}))
    _check_length(len(sql), MAX_EXPRESSION_CHARS)
    return sql


def clipped(name: str, facts: Facts, dialect: Dialect) -> str:
    """Return a named integer inside the range of its facts, in the type that they have; NULL stays NULL."""
    type = dialect.integer_type(facts)
    low, high = dialect.integer(facts.low, type), dialect.integer(facts.high, type)
    # not least and greatest, which pass over NULL
    inside = f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {name} END"
    return f"CAST({inside} AS {type})"


def in_bounds(argument: Scalar, name: str, dialect: Dialect) -> str:
    """Return a named scalar inside the range of its facts: a column that was clipped where it was read already is."""
    return name if is_stored(argument) else clipped(name, argument.facts, dialect)


def _check_length(length: int, most: int) -> None:
    if length > most:
        raise QueryTooLarge(
            "An expression of the query becomes too long for the engine.",
            f"Written out, it would have more than {MAX_EXPRESSION_CHARS:,} characters.",
            "Use a shorter expression, or compute it in fewer nested steps.",
        )


def _shared(case: Scalar, named: Mapping[Scalar, str]) -> Scalar | None:
    """Return what a CASE computes in most of its parts, if it is more than a column: it is computed once then."""
    parts = Counter(part for argument in case.arguments for part in walk(argument) if part.arguments)
    for known in named:
        for part in walk(known):
            parts.pop(part, None)
    most, times = max(parts.items(), key=lambda found: found[1], default=(case, 1))
    return most if times > 1 else None


def _column(scalar: Scalar, columns: Columns) -> str:
    match scalar.constant:
        case (str(label), str(name)):
            return columns[label, name]
        case _:
            raise AssertionError("a column comes with its label and name")
