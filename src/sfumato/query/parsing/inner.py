"""The query inside an expression: read where it stands, and refused where it would use people's rows without noise."""

from sqlglot import exp

from sfumato.query.expression import Expression
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.frame import ExpressionContext, refuse_subquery
from sfumato.query.parsing.subquery import Lookups, reads_people, shows_people, stays_with_people


def read_subquery(
    node: exp.Expr, query: exp.Expr, frame: ExpressionContext, *, own: bool = False
) -> tuple[Block, Lookups]:
    """Return a subquery that has been read, and where it is gathered; what would need people's rows is refused.

    Where a person's rows are marked (`own`), it may read that person's other rows.
    """
    if frame.lookups is None or frame.read_inner is None:
        refuse_subquery(node, frame)
    block = frame.read_inner(query)
    around, people = frame.lookups.people is not None, shows_people(block, frame.reading)
    if people and own and around:
        return block, frame.lookups
    if people or (around and reads_people(block, frame.reading)):
        refuse_subquery(node, frame)
    return block, frame.lookups


def refuse_other_people(expression: Expression, node: exp.Expr, block: Block, frame: ExpressionContext) -> Expression:
    """Refuse a look at people's rows that does not stay with the person of the row around it."""
    if shows_people(block, frame.reading) and not (
        frame.lookups is not None and stays_with_people(frame.lookups, block, frame.reading)
    ):
        refuse_subquery(node, frame)
    return expression
