"""dp_low(x), dp_high(x) and dp_margin(x): the error bars of a number that carries noise, as values of the query.

They stand above the noise. Of a number without noise the bar is the number itself; below the noise there is none.
"""

from typing import Any

from sfumato.errors import UnsupportedSql, position_prefix
from sfumato.query.catalog import Catalog
from sfumato.query.expression import Call, Expression, Literal, walk
from sfumato.query.functions import INTERVAL_FUNCTIONS, Function
from sfumato.query.private_rows import has_private_rows, reads_private_tables
from sfumato.query.rebuilding import rebuild_fields
from sfumato.query.relation import Project, Relation, expressions, inputs


def settle_interval_calls(project: Project, catalog: Catalog) -> Project:
    """Return a query whose calls stand above the noise; those of public numbers are written out, others refused."""
    settled = _settle(project, catalog)
    return settled if isinstance(settled, Project) else project


def has_interval_call(expression: Expression) -> bool:
    """Whether an expression asks for the end of an error bar."""
    return any(isinstance(node, Call) and node.function in INTERVAL_FUNCTIONS for node, _ in walk(expression))


def _settle(relation: Relation, catalog: Catalog) -> Relation:
    def below(_: str, part: Any) -> Any:
        if isinstance(part, Relation):
            return _settle(part, catalog)
        return part if isinstance(part, Expression) else rebuild_fields(part, below)

    calls = [part for part in expressions(relation) if has_interval_call(part)]
    if not calls:
        return rebuild_fields(relation, below)  # type: ignore[no-any-return]
    sources = inputs(relation)
    if any(has_private_rows(source, catalog) for source in sources):
        raise _below_the_noise(calls[0])
    public = not any(reads_private_tables(source, catalog) for source in sources)

    def plain(_: str, part: Any) -> Any:
        if isinstance(part, Relation):
            return _settle(part, catalog)
        if isinstance(part, Call) and part.function in INTERVAL_FUNCTIONS:
            if has_interval_call(part.arguments[0]):
                raise _nested_interval_call(part)
            if public:
                return Literal(0, part.type) if part.function is Function.DP_MARGIN else part.arguments[0]
        return rebuild_fields(part, plain)

    return rebuild_fields(relation, plain)  # type: ignore[no-any-return]


def _below_the_noise(expression: Expression) -> UnsupportedSql:
    call = next(part for part, _ in walk(expression) if isinstance(part, Call) and part.function in INTERVAL_FUNCTIONS)
    return UnsupportedSql(
        f"{position_prefix(call.at)}{call.function} is asked of people's rows.",
        "Only a number that carries noise has an error bar.",
        f"Ask for it of an aggregate: {call.function}(COUNT(*)), or of a column of a subquery that aggregates.",
    )


def _nested_interval_call(call: Call) -> UnsupportedSql:
    return UnsupportedSql(
        f"{position_prefix(call.at)}{call.function} is asked of the end of an error bar.",
        "An end of an error bar has no error bar of its own.",
        f"Ask for {call.function} of the number itself.",
    )
