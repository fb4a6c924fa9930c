"""How refusals name what was asked."""

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.errors import position_prefix
from sfumato.language.rel_nodes import RelNode, ScanNode, children
from sfumato.language.scalar import Scalar, address


def as_written(asked: RequestedAggregate) -> str:
    """Return an aggregate as the text has it, with its place there."""
    line, column, written = asked.at
    aggregate = asked.aggregate
    named = ", ".join(map(column_name, aggregate.arguments)) or column_name(None)
    text = f"{aggregate.function.upper()}({'DISTINCT ' * aggregate.distinct}{named})"
    return f"{position_prefix((line, column))}{' '.join(written.split()) or text}"


def own_name(argument: Scalar | None, group: Group) -> str:
    """Return the name of a column of a table, or an ellipsis: no name that the text does not have."""
    return column_name(argument) if argument is not None and table_of(argument, group.rows) is not None else "…"


def column_name(argument: Scalar | None) -> str:
    """Return the name of a plain column, or an ellipsis."""
    found = None if argument is None else address(argument)
    return "…" if found is None else found.name


def table_of(argument: Scalar, rows: RelNode) -> str | None:
    """Return the table of a plain column; None where the argument is computed."""
    found, waiting = address(argument), [rows]
    while waiting and found is not None:
        flow = waiting.pop()
        if isinstance(flow, ScanNode) and flow.label == found.label:
            return flow.table
        waiting.extend(children(flow))
    return None
