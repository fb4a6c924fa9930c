"""The query inside an expression: read where it stands, and refused where it would use people's rows without noise."""

from dataclasses import replace

from sqlglot import exp

from sfumato.query.expression import Expression
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.frame import ExpressionContext, refuse_subquery
from sfumato.query.parsing.subquery import (
    Lookups,
    is_of_same_person,
    looks_around,
    reads_people,
    shows_people,
    single,
    stays_with_people,
)
from sfumato.query.private_rows import group_within_units


def read_subquery(node: exp.Expr, query: exp.Expr, frame: ExpressionContext) -> tuple[Block, Lookups]:
    """Return the subquery of IN or EXISTS, and where it is gathered: a person's rows may be marked by others of theirs.

    Subqueries that would need other people's rows are refused.
    """
    if frame.lookups is None or frame.read_inner is None:
        refuse_subquery(node, frame)
    block = frame.read_inner(query)
    if frame.lookups.people is not None:
        block = replace(block, relation=group_within_units(block.relation, frame.reading.catalog))
    around, people = frame.lookups.people is not None, shows_people(block, frame.reading)
    if people and around:
        return block, frame.lookups
    if people or (around and reads_people(block, frame.reading)):
        refuse_subquery(node, frame)
    return block, frame.lookups


def read_value(node: exp.Expr, frame: ExpressionContext) -> Expression:
    """Return the single value of a subquery.

    Beside people's rows it may read other rows of the same person. What reads other people's rows and does not depend
    on the row around it is a noisy value, measured first.
    """
    if frame.lookups is None or frame.read_inner is None:
        refuse_subquery(node, frame)
    block, lookups = frame.read_inner(node), frame.lookups
    around, people = lookups.people is not None, shows_people(block, frame.reading)
    is_own = around and is_of_same_person(block, lookups, frame.reading)
    noisy = around and reads_people(block, frame.reading)
    if not is_own and (people or (noisy and looks_around(block))):
        refuse_subquery(node, frame)
    return single(node, block, lookups, frame.reading)


def refuse_other_people(expression: Expression, node: exp.Expr, block: Block, frame: ExpressionContext) -> Expression:
    """Refuse a look at people's rows that does not stay with the person of the row around it."""
    if shows_people(block, frame.reading) and not (
        frame.lookups is not None and stays_with_people(frame.lookups, block, frame.reading)
    ):
        refuse_subquery(node, frame)
    return expression
