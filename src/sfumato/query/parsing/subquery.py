"""Subqueries in expressions: IN and EXISTS mark a row, a single value is joined to it; no row becomes two.

A subquery may look at the row around it, in conditions of its own WHERE: they become the condition of the mark, or
the equalities of the join.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.query.expression import (
    Call,
    Case,
    Column,
    Expression,
    Literal,
    children,
    conjunction,
    conjuncts,
    rebuild,
    sources,
)
from sfumato.query.filter_placement import filter_relation, visible_labels
from sfumato.query.functions import FUNCTION_NAMES, Aggregation, Function
from sfumato.query.parsing.block import Block, project_block
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.position import SourceSpan
from sfumato.query.private_rows import (
    UnitNames,
    group_within_units,
    has_private_rows,
    is_same_unit,
    is_unit_column,
    unit_columns,
)
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Limit,
    MarkJoin,
    Named,
    Project,
    Relation,
    Scan,
    Sort,
    Values,
    expressions,
    inputs,
)
from sfumato.query.resolve import call, compare
from sfumato.query.types import Type

CONJUNCT = "conjunct"
"""The note on a node of which only matters whether it is true, or (with False) whether it is false."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Columns that a subquery adds to each row: a mark, or without a label those of the single matching row."""

    right: Relation
    label: str | None
    condition: Expression | None
    node: exp.Expr
    single: bool = False
    """Whether it is known only from public rows that one row matches at most."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels that do not come from the rows around."""
        own = visible_labels(self.right)
        return own if self.label is None else own | {self.label}

    def over(self, left: Relation, reading: ParseContext) -> Relation:
        """Return the rows with what is added."""
        position = reading.at(self.node)
        if self.label is not None:
            return MarkJoin(left, self.right, self.label, self.condition, position)
        return Join(JoinKind.LEFT, left, self.right, self.condition, position, self.single)


class Lookups:
    """The subqueries of some clauses, in the order in which they are needed.

    `people` are the unit columns of the surrounding rows; None where these are public.
    """

    def __init__(self, people: UnitNames | None) -> None:
        self.people = people
        self.found: list[Lookup] = []

    @property
    def labels(self) -> frozenset[str]:
        """The labels that do not come from the rows around."""
        return frozenset(label for lookup in self.found for label in lookup.labels)

    def over(self, left: Relation, reading: ParseContext) -> Relation:
        """Return the rows with everything that subqueries add."""
        for lookup in self.found:
            left = lookup.over(left, reading)
        return left

    def mapped(self, change: Callable[[Expression, exp.Expr], Expression]) -> "Lookups":
        """Return the same of other rows: each condition is changed."""
        other = Lookups(self.people)
        other.found = [
            replace(lookup, condition=None if lookup.condition is None else change(lookup.condition, lookup.node))
            for lookup in self.found
        ]
        return other


def reads_people(block: Block, reading: ParseContext) -> bool:
    """Whether a subquery reads a private table, with noise or without."""
    waiting: list[Relation] = [block.relation]
    while waiting:
        relation = waiting.pop()
        if isinstance(relation, Scan) and not reading.catalog.tables[relation.table].public:
            return True
        waiting.extend(inputs(relation))
    return False


def shows_people(block: Block, reading: ParseContext) -> bool:
    """Whether a subquery's rows are people's."""
    return has_private_rows(block.relation, reading.catalog)


def stays_with_people(lookups: Lookups, block: Block, reading: ParseContext) -> bool:
    """Whether what was looked up last compares rows of the same person alone: both sides say so by an equality."""
    inner, condition = unit_columns(block.relation, reading.catalog), lookups.found[-1].condition
    return condition is not None and any(_same_person(part, lookups.people, inner) for part in conjuncts(condition))


def is_of_same_person(block: Block, lookups: Lookups, reading: ParseContext) -> bool:
    """Whether a subquery aggregates the rows of the person of the row around it, as an equality of its WHERE says."""
    group = block.relation
    if not isinstance(group, GroupBy) or group.keys or block.pending or not isinstance(group.source, Filter):
        return False
    inner = unit_columns(group.source, reading.catalog)
    return any(_same_person(part, lookups.people, inner) for part in conjuncts(group.source.condition))


def _same_person(part: Expression, outer: UnitNames | None, inner: UnitNames | None) -> bool:
    if not isinstance(part, Call) or part.function is not Function.EQUAL:
        return False
    first, second = part.arguments
    return is_same_unit(first, second, outer, inner) or is_same_unit(second, first, outer, inner)


def _names_the_person(part: Expression, outer: UnitNames | None, inner: UnitNames | None) -> bool:
    return _same_person(part, outer, inner) and all(
        is_unit_column(expression, outer) or is_unit_column(expression, inner) for expression in children(part)
    )


def exists(node: exp.Expr, block: Block, lookups: Lookups, reading: ParseContext) -> Expression:
    """Return whether the subquery has a row."""
    where = reading.place(node)
    rest, outside = _split_conditions(block, where)
    return _add_mark(rest, outside, node, lookups, reading).mark_column


def among(
    node: exp.Expr, tested: list[Expression], block: Block, lookups: Lookups, reading: ParseContext
) -> Expression:
    """Return `x IN (SELECT y …)`: NULL where no row is equal and one may be, as SQL has it."""
    where = reading.place(node)
    if len(tested) != len(block.outputs):
        raise where.bad(
            f"{len(tested)} value{'s' * (len(tested) != 1)} on the left, {len(block.outputs)} columns in the subquery.",
            "They are compared one by one.",
            "Select as many as there are on the left.",
        )
    rest, outside = _split_conditions(block, where)
    pairs = zip(tested, (output.expression for output in block.outputs), strict=True)
    equal = conjunction(tuple(compare(Function.EQUAL, first, second, where) for first, second in pairs))
    no = Literal(False, Type.BOOLEAN, where.at)
    possible: Expression = Call(Function.DISTINCT_FROM, (equal, no), Type.BOOLEAN, where.at)
    wanted = node.meta.get(CONJUNCT)
    inner = unit_columns(block.relation, reading.catalog)
    if _names_the_person(equal, lookups.people, inner):
        possible = equal  # no person's name is NULL
    elif wanted is False and _same_person(equal, lookups.people, inner):
        # a key that leads to a person is not NULL; one that is NULL in the row around is compared with a person's
        found = _add_mark(rest, (*outside, equal), node, lookups, reading).mark_column
        absent = Call(Function.IS_NULL, (tested[0],), Type.BOOLEAN, where.at)
        return Call(Function.OR, (found, absent), Type.BOOLEAN, where.at)
    if wanted is True:
        return _add_mark(rest, (*outside, equal), node, lookups, reading).mark_column
    if wanted is False:
        return _add_mark(rest, (*outside, possible), node, lookups, reading).mark_column
    sure = _add_mark(rest, (*outside, equal), node, lookups, reading).mark_column
    maybe = _add_mark(rest, (*outside, possible), node, lookups, reading).mark_column
    yes, unknown = Literal(True, Type.BOOLEAN, where.at), Literal(None, Type.BOOLEAN, where.at)
    return Case(((sure, yes), (maybe, unknown)), no, Type.BOOLEAN, where.at)


def _add_mark(
    right: Relation, conditions: tuple[Expression, ...], node: exp.Expr, lookups: Lookups, reading: ParseContext
) -> MarkJoin:
    """Add a mark; the same subquery with the same condition is looked at once."""
    condition = conjunction(conditions) if conditions else None
    reading.count_join(node)
    lookup = Lookup(right, reading.label("mark"), condition, node)
    lookups.found.append(lookup)
    mark = lookup.over(right, reading)
    if not isinstance(mark, MarkJoin):
        raise AssertionError("a lookup with a label is a mark")
    return mark


def single(node: exp.Expr, block: Block, lookups: Lookups, reading: ParseContext) -> Expression:
    """Return the value of a subquery that has one row at most, NULL where it has none."""
    where = reading.place(node)
    if len(block.outputs) != 1:
        raise where.bad(
            f"the subquery has {len(block.outputs)} columns.", "A single value is needed here.", "Select one column."
        )
    reading.count_join(node)
    value = block.outputs[0].expression
    group = block.relation
    if isinstance(group, GroupBy) and not group.keys and not block.pending:
        return _aggregate_subquery(node, group, value, lookups, reading)
    if not _at_most_one(group) and not reads_people(block, reading):
        rest, outside = _split_conditions(block, where)
        lookups.found.append(Lookup(rest, None, conjunction(outside) if outside else None, node, single=True))
        return value
    if not _at_most_one(group):
        raise where.unsupported(
            "this subquery may have several rows.",
            "A single value is needed here, and the text does not choose one.",
            "Aggregate it, for example with MAX or MIN, or write LIMIT 1.",
        )
    _check_inside(block.rows, (value,), where)
    project, (column,) = project_block(block, (value,), reading)
    lookups.found.append(Lookup(project, None, None, node))
    return replace(column, at=where.at)


def _aggregate_subquery(
    node: exp.Expr, group: GroupBy, value: Expression, lookups: Lookups, reading: ParseContext
) -> Expression:
    """Return an aggregate of the rows of a subquery: of all, or of those that agree with the row around it."""
    where = reading.place(node)
    inside = _all_labels(group)
    filter = group.source if isinstance(group.source, Filter) else None
    source = group.source if filter is None else filter.source
    conditions = () if filter is None else conjuncts(filter.condition)
    leading = [part for part in conditions if not sources(part) <= inside]
    if not leading:
        _check_inside(group, (value,), where)
        lookups.found.append(Lookup(group, None, None, node))
        return value
    pairs = [_equality(part, inside, where) for part in leading]
    own = filter_relation(source, tuple(part for part in conditions if part not in leading))
    keys = tuple(Named(f"k{i}", inner) for i, (inner, _) in enumerate(pairs, 1))
    keyed: Relation = GroupBy(own, group.label, keys, group.measures, group.at)
    if lookups.people is not None:
        keyed = group_within_units(keyed, reading.catalog)
    _check_inside(keyed, (value,), where)
    columns = keyed.columns[: len(keys)]
    equal = tuple(
        compare(Function.EQUAL, outer, column, where) for (_, outer), column in zip(pairs, columns, strict=True)
    )
    lookups.found.append(Lookup(keyed, None, conjunction(equal), node))
    counts = {measure.name for measure in group.measures if measure.aggregate.function is Aggregation.COUNT}
    return _zero_where_empty(value, group.label, counts, where)


def _zero_where_empty(value: Expression, label: str, counts: set[str], where: SourceSpan) -> Expression:
    """Return an expression in which a count that found no group is 0."""
    if isinstance(value, Column):
        zero = Literal(0, Type.INTEGER, where.at)
        empty = value.of == label and value.name in counts
        return call(FUNCTION_NAMES["coalesce"], [value, zero], "coalesce", where) if empty else value
    parts = children(value)
    return rebuild(value, tuple(_zero_where_empty(part, label, counts, where) for part in parts)) if parts else value


def _equality(part: Expression, inside: frozenset[str], where: SourceSpan) -> tuple[Expression, Expression]:
    """Return the inner and the outer side of an equality."""
    if isinstance(part, Call) and part.function is Function.EQUAL:
        first, second = part.arguments
        for inner, outer in ((first, second), (second, first)):
            if sources(inner) and sources(inner) <= inside and not sources(outer) & inside:
                return inner, outer
    raise where.unsupported(
        "this subquery refers to the outer row by something other than an equality.",
        "It would be run for each row.",
        "Compare a column of the subquery with one of the row by =, and the rest outside.",
    )


def _at_most_one(relation: Relation) -> bool:
    match relation:
        case GroupBy(keys=keys):
            return not keys
        case Limit(source, count):
            return (count is not None and count <= 1) or _at_most_one(source)
        case Values(rows=rows):
            return len(rows) <= 1
        case Filter(source) | Sort(source) | Project(source):
            return _at_most_one(source)
        case _:
            return False


def _split_conditions(block: Block, where: SourceSpan) -> tuple[Relation, tuple[Expression, ...]]:
    """Return the rows of a subquery, and its conditions that look at the row around it."""
    inside = _all_labels(block.relation)
    parts = [part for condition in block.pending for part in conjuncts(condition)]
    outside = tuple(part for part in parts if not sources(part) <= inside)
    rest = filter_relation(block.relation, tuple(part for part in parts if part not in outside))
    _check_inside(rest, tuple(output.expression for output in block.outputs), where)
    return rest, outside


def _check_inside(relation: Relation, values: tuple[Expression, ...], where: SourceSpan) -> None:
    """Refuse a subquery that looks at the row around it anywhere else than in its own WHERE."""
    if _uses_other_labels(relation, values):
        raise where.unsupported(
            "this subquery refers to the outer row too deep inside.",
            "That is supported in the conditions of its own WHERE.",
            "Move the condition there, or write a JOIN with the grouped subquery.",
        )


def looks_around(block: Block) -> bool:
    """Whether a subquery depends on the row around it."""
    return _uses_other_labels(block.rows, tuple(output.expression for output in block.outputs))


def _uses_other_labels(relation: Relation, values: tuple[Expression, ...]) -> bool:
    inside, waiting = _all_labels(relation), [relation]
    used = {label for value in values for label in sources(value)}
    while waiting:
        node = waiting.pop()
        used |= {label for part in expressions(node) for label in sources(part)}
        waiting.extend(inputs(node))
    return not used <= inside


def _all_labels(relation: Relation) -> frozenset[str]:
    labels, waiting = set[str](), [relation]
    while waiting:
        node = waiting.pop()
        labels |= visible_labels(node)
        waiting.extend(inputs(node))
    return frozenset(labels)


def note_conjuncts(condition: exp.Expr) -> None:
    """Note on the parts of a condition that all have to be true how they are needed."""
    waiting = [(condition, True)]
    while waiting:
        node, wanted = waiting.pop()
        if isinstance(node, exp.Paren):
            waiting.append((node.this, wanted))
        elif isinstance(node, exp.And) and wanted:
            waiting += [(node.this, True), (node.expression, True)]
        elif isinstance(node, exp.Or) and not wanted:
            waiting += [(node.this, False), (node.expression, False)]
        elif isinstance(node, exp.Not):
            waiting.append((node.this, not wanted))
        elif isinstance(node, exp.In):
            node.meta[CONJUNCT] = wanted
