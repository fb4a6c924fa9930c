"""How refusals name what was asked."""

from sfumato.analysis.private_query import Asked, Group
from sfumato.errors import at
from sfumato.language.flow import Flow, Read, below
from sfumato.language.scalar import Operator, Scalar


def as_written(asked: Asked) -> str:
    """Return an aggregate as the text has it, with its place there."""
    line, column, written = asked.at
    aggregate = asked.aggregate
    named = ", ".join(map(column_name, aggregate.arguments)) or column_name(None)
    text = f"{aggregate.function.upper()}({'DISTINCT ' * aggregate.distinct}{named})"
    return f"{at((line, column))}{' '.join(written.split()) or text}"


def own_name(argument: Scalar | None, group: Group) -> str:
    """Return the name of a column of a table, or an ellipsis: no name that the text does not have."""
    return column_name(argument) if argument is not None and table_of(argument, group.rows) is not None else "…"


def column_name(argument: Scalar | None) -> str:
    """Return the name of a plain column, or an ellipsis."""
    if argument is not None and argument.operator is Operator.COLUMN and isinstance(argument.constant, tuple):
        return str(argument.constant[1])
    return "…"


def table_of(argument: Scalar, rows: Flow) -> str | None:
    """Return the table of a plain column; None where the argument is computed."""
    if argument.operator is not Operator.COLUMN or not isinstance(argument.constant, tuple):
        return None
    waiting = [rows]
    while waiting:
        flow = waiting.pop()
        if isinstance(flow, Read) and flow.label == argument.constant[0]:
            return flow.table
        waiting.extend(below(flow))
    return None
