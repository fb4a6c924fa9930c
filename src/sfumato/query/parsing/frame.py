"""Context of an expression while it is read, and refusals of subqueries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from sfumato.query.names import Scope
from sfumato.query.parsing.aggregate import Measures
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.parsing.rewriting import first_rows_by_key_query, first_rows_query, join_query, list_query
from sfumato.query.parsing.subquery import Lookups
from sfumato.query.parsing.window import GatheredWindows


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """Context of an expression: the columns in scope, and where aggregates are gathered (None: not allowed)."""

    reading: ParseContext
    scope: Scope
    measures: Measures | None
    clause: str
    private_tables: Callable[[exp.Expr], bool]
    windows: GatheredWindows | None = None
    """Where window functions are gathered (None: not allowed)."""
    lookups: Lookups | None = None
    """Where subqueries are gathered (None: not allowed)."""
    read_inner: Callable[[exp.Expr], Block] | None = None
    """Reader of the query of a subquery."""


def refuse_subquery(node: exp.Expr, frame: ExpressionContext) -> NoReturn:
    """Refuse a subquery in an expression, with the question that can be asked instead."""
    where, reading = frame.reading.place(node), frame.reading
    tested = isinstance(node, exp.In | exp.Exists)
    join = join_query(node, reading.catalog) if tested else None
    if join is not None and reading.accepts(join):
        raise where.unsupported(
            "a subquery over people's rows is not supported in a condition.",
            "There it may read public tables, and answers where the rows are answers.",
            reading.with_example("Join it instead.", join),
        )
    keyed = None if tested else first_rows_by_key_query(node, reading.catalog)
    if keyed is not None and reading.accepts(keyed):
        raise where.unsupported(
            "a value that is itself read from people's rows cannot be used here.",
            "It would be used without noise.",
            reading.with_example("Ask for it first by its key, and join the answer, (VALUES (key, number), …).", keyed),
        )
    if frame.private_tables(node):
        raise where.unsupported(
            f"{'a list' if tested else 'a value'} that is itself read from people's rows cannot be used here.",
            "It would be used without noise.",
            reading.with_example("Ask for it first, and write its values into a list.", list_query(node))
            if tested
            else reading.with_example("Ask for it first, and write the answer as a number.", first_rows_query(node)),
        )
    raise where.unsupported(
        f"a subquery cannot stand in {frame.clause}.",
        "It would be evaluated before there are rows.",
        reading.with_example(
            "Write the condition into WHERE, or ask for it first and write the answer here.", first_rows_query(node)
        ),
    )
