"""SUM(x) / COUNT(x), written out, is AVG(x): it is measured as one, around the middle of the range."""

from dataclasses import replace

from sfumato.analysis.catalog import Catalog
from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Call, Cast, Column, Expression, Literal, children, rebuild, walk
from sfumato.query.functions import Aggregation, Function
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Limit,
    Measure,
    Named,
    Project,
    Relation,
    Scan,
    Sort,
    SortKey,
    inputs,
)
from sfumato.query.types import Type


def with_averages(project: Project, catalog: Catalog) -> Project:
    """Return the query with every such quotient over people's rows as an average, without columns that are not read."""
    above: list[Filter | Sort | Limit] = []
    group: Relation = project.source
    while isinstance(group, Filter | Sort | Limit):
        above.append(group)
        group = group.source
    if not isinstance(group, GroupBy) or not _reads_people(group, catalog):
        return project
    finder = _AverageFinder(group)
    items = tuple(Named(item.name, finder.replaced(item.expression)) for item in project.items)
    changed = [_rewrite_node(node, finder) for node in above]
    if not finder.averages:
        return project
    read = {name for item in items for name in _column_names(item.expression)}
    read |= {name for node in changed for expression in _expressions(node) for name in _column_names(expression)}
    measures = tuple(measure for measure in (*group.measures, *finder.averages.values()) if measure.name in read)
    below: Relation = replace(group, measures=measures)
    for node in reversed(changed):
        below = replace(node, source=below)
    return replace(project, source=below, items=items)


class _AverageFinder:
    """The quotients that were found, each as one measure of the group."""

    def __init__(self, group: GroupBy) -> None:
        self.group = group
        self.averages: dict[Aggregate[Expression], Measure] = {}

    def replaced(self, expression: Expression) -> Expression:
        """Return an expression in which each quotient is the column of an average."""
        average = self._average(expression)
        if average is None:
            return rebuild(expression, tuple(self.replaced(part) for part in children(expression)))
        if average not in self.averages:
            known = next((item for item in self.group.measures if item.aggregate == average), None)
            measure = Measure(f"m{len(self.group.measures) + len(self.averages) + 1}", average, Type.DECIMAL)
            self.averages[average] = known or replace(measure, at=expression.at)
        return Column(self.group.label, self.averages[average].name, Type.DECIMAL, expression.at)

    def _average(self, expression: Expression) -> Aggregate[Expression] | None:
        if not isinstance(expression, Call) or expression.function is not Function.DIVIDE:
            return None
        total, count = (self._measure(_without_identities(part)) for part in expression.arguments)
        if total is None or count is None or total.distinct:
            return None
        same = replace(total, function=Aggregation.COUNT) == count
        return replace(total, function=Aggregation.AVG) if total.function is Aggregation.SUM and same else None

    def _measure(self, expression: Expression) -> Aggregate[Expression] | None:
        if not isinstance(expression, Column) or expression.of != self.group.label:
            return None
        return next((measure.aggregate for measure in self.group.measures if measure.name == expression.name), None)


def _without_identities(expression: Expression) -> Expression:
    """Return a number without what does not change it: as a decimal, times 1, or NULL where it is 0 and divides."""
    match expression:
        case Cast(argument, Type.DECIMAL):
            return _without_identities(argument)
        case Call(Function.NULLIF, (argument, Literal(0))):
            return _without_identities(argument)
        case Call(Function.MULTIPLY, (Literal(1), argument)) | Call(Function.MULTIPLY, (argument, Literal(1))):
            return _without_identities(argument)
        case _:
            return expression


def _rewrite_node(node: Filter | Sort | Limit, finder: _AverageFinder) -> Filter | Sort | Limit:
    match node:
        case Filter():
            return replace(node, condition=finder.replaced(node.condition))
        case Sort():
            keys = tuple(SortKey(finder.replaced(key.expression), key.descending, key.nulls_first) for key in node.keys)
            return replace(node, keys=keys)
        case Limit():
            return node


def _expressions(node: Filter | Sort | Limit) -> tuple[Expression, ...]:
    match node:
        case Filter():
            return (node.condition,)
        case Sort():
            return tuple(key.expression for key in node.keys)
        case Limit():
            return ()


def _column_names(expression: Expression) -> set[str]:
    return {part.name for part, _ in walk(expression) if isinstance(part, Column)}


def _reads_people(relation: Relation, catalog: Catalog) -> bool:
    if isinstance(relation, Scan):
        return not catalog.tables[relation.table].public
    return any(_reads_people(below, catalog) for below in inputs(relation))
