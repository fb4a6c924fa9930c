"""People's rows joined with an aggregate of people's rows: the join moves above the GROUP BY where it means the same.

    SELECT dept, week, COUNT(*) FROM visits JOIN (SELECT dept AS d, … GROUP BY dept … LIMIT 2) AS top ON dept = d
    GROUP BY dept, week

Every row of a group has the same `dept`, so the join keeps either all rows of a group or none, and each of them once,
because `d` occurs once in `top`. So the groups can be counted first and joined afterwards: both sides are then noisy,
and no exact aggregate meets a person's row. Charting tools limit the number of series so.

Claim: with J = the equalities of the join, each between an expression that is a key of the GROUP BY and a column of the
aggregate, such that these columns include all keys of the aggregate, GROUP BY over (rows JOIN aggregate ON J) has the
same rows and measures as (GROUP BY over rows) JOIN aggregate ON J, read from the keys. A row whose side of an equality
is NULL meets no row, before and after.
"""

from dataclasses import replace
from typing import Any

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Call, Column, Expression, conjunction, conjuncts, sources
from sfumato.query.filter_placement import visible_labels
from sfumato.query.functions import Function
from sfumato.query.private_rows import has_private_rows, reads_private_tables
from sfumato.query.rebuilding import rebuild_fields
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Sort,
    column_of,
    expressions,
)
from sfumato.query.types import Type


def join_after_noise(project: Project, catalog: Catalog) -> Project:
    """Return a query whose joins of people's rows with an aggregate stand above their GROUP BY, where they can."""
    moved = _move_join(project, catalog)
    return moved if isinstance(moved, Project) else project


def _move_join(relation: Relation, catalog: Catalog) -> Relation:
    def below(_: str, part: Any) -> Any:
        if isinstance(part, Relation):
            return _move_join(part, catalog)
        return part if isinstance(part, Expression) else rebuild_fields(part, below)

    rebuilt: Relation = rebuild_fields(relation, below)
    return _join_after_grouping(rebuilt, catalog) or rebuilt if isinstance(rebuilt, GroupBy) else rebuilt


def _join_after_grouping(group: GroupBy, catalog: Catalog) -> Relation | None:
    """Return a GROUP BY whose join with an aggregate comes after it; None where it has none, or needs it before."""
    filters: tuple[Expression, ...] = ()
    source = group.source
    if isinstance(source, Filter):
        filters, source = conjuncts(source.condition), source.source
    if not isinstance(source, Join) or source.kind is not JoinKind.INNER or source.condition is None:
        return None
    rows, aggregate, condition = source.left, source.right, source.condition
    if _is_aggregate(rows, catalog):
        rows, aggregate = aggregate, rows
    if not _is_aggregate(aggregate, catalog) or not has_private_rows(rows, catalog):
        return None
    labels = visible_labels(aggregate)
    equal = [_by_key(part, group, labels) for part in conjuncts(condition)]
    pairs = [pair for pair in equal if pair is not None]
    if len(pairs) < len(equal) or not _is_unique(aggregate, [column for _, column in pairs]):
        return None
    if any(sources(part) & labels for part in (*filters, *expressions(group))):
        return None
    own = replace(group, source=Filter(rows, conjunction(filters)) if filters else rows)
    on = conjunction(tuple(Call(Function.EQUAL, pair, Type.BOOLEAN, condition.at) for pair in pairs))
    return Join(JoinKind.INNER, own, aggregate, on, source.at)


def _is_aggregate(relation: Relation, catalog: Catalog) -> bool:
    """Whether a relation reads people's rows, and gives none of them."""
    return reads_private_tables(relation, catalog) and not has_private_rows(relation, catalog)


def _by_key(part: Expression, group: GroupBy, labels: frozenset[str]) -> tuple[Column, Column] | None:
    """Return the key and the column of the aggregate that an equality compares."""
    if not isinstance(part, Call) or part.function is not Function.EQUAL:
        return None
    for mine, theirs in (part.arguments, part.arguments[::-1]):
        if isinstance(theirs, Column) and theirs.of in labels:
            for key in group.keys:
                if key.expression == mine:
                    return column_of(group.label, key.name, key.expression), theirs
    return None


def _is_unique(aggregate: Relation, columns: list[Column]) -> bool:
    """Whether at most one row of an aggregate has given values in these columns."""
    while isinstance(aggregate, Filter | Sort | Limit):
        aggregate = aggregate.source
    if not isinstance(aggregate, GroupBy):
        return False
    return {(aggregate.label, key.name) for key in aggregate.keys} <= {(column.of, column.name) for column in columns}
