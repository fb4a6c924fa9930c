"""The order of inner joins: whatever the order of FROM, the same tables are joined in the same order, the best one.

People's tables come first, in the order in which one person has the fewest rows. Then public tables are looked up one
by one, each by what the rows before it say, those that multiply least first. Public tables that hang on one public
table alone are joined with it before. Conditions on one public table choose its rows first.

Inner joins and filters commute, because conditions are total: every order has the same rows.
Proof: proofs/lineage.md §3
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from sfumato.analysis.lineage import Analysed, UnitLineage
from sfumato.errors import Refusal
from sfumato.query.catalog import Catalog
from sfumato.query.expression import Call, Expression, Position, conjunction, conjuncts, sources
from sfumato.query.filter_placement import visible_labels
from sfumato.query.functions import Function
from sfumato.query.private_rows import has_private_rows, reads_private_tables
from sfumato.query.relation import Filter, Join, JoinKind, Relation
from sfumato.query.unlabelled import number_labels

_MAX_PERMUTED_TABLES = 4
"""Maximum number of tables of people whose orders are all tried: 24 orders."""

Joiner = Callable[[Join, Analysed, Analysed], tuple[Analysed, str | None]]
"""Joins two analysed relations and returns a note where something was implied."""


@dataclass(frozen=True, slots=True)
class InnerJoins:
    """The tables of a tree of inner joins in their canonical order, and every condition on their rows."""

    people: tuple[Relation, ...]
    public: tuple[Relation, ...]
    conditions: tuple[Expression, ...]
    positions: tuple[tuple[frozenset[str], Position], ...]
    """Where the joins of the text stand, by the tables on their right: for messages."""

    def at(self, leaf: Relation) -> Position:
        """Return where a table is joined in the text, or where the first join stands."""
        labels = visible_labels(leaf)
        return next((at for tables, at in self.positions if labels <= tables), self.positions[0][1])


def inner_joins(relation: Relation, catalog: Catalog) -> InnerJoins | None:
    """Return the tables and conditions of a tree of inner joins that people's rows are in; None for any other."""
    leaves: list[Relation] = []
    joins: list[Join] = []
    conditions: list[Expression] = []
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        match node:
            case Join(JoinKind.INNER, left, right, condition):
                joins.append(node)
                conditions += () if condition is None else conjuncts(condition)
                waiting += (right, left)
            case Filter(source, condition):
                conditions += conjuncts(condition)
                waiting.append(source)
            case _:
                leaves.append(node)
    if not joins:
        return None
    ordered = sorted(leaves, key=lambda leaf: str(number_labels(leaf)))
    people = tuple(leaf for leaf in ordered if has_private_rows(leaf, catalog))
    public = tuple(leaf for leaf in ordered if not reads_private_tables(leaf, catalog))
    if not people or len(people) + len(public) < len(leaves):  # an answer, whose rows are few and known
        return None
    positions = tuple((visible_labels(join.right), join.at) for join in reversed(joins))
    return InnerJoins(people, public, tuple(dict.fromkeys(conditions)), positions)


@dataclass(slots=True)
class JoinedRows:
    """Rows that have been joined so far, and the conditions that they do not meet yet."""

    rows: Analysed
    relation: Relation
    left: tuple[Expression, ...]
    notes: tuple[str, ...]

    @property
    def rows_per_person(self) -> int:
        return self.rows.state.rows if isinstance(self.rows.state, UnitLineage) else 0


def join_in_order(joins: InnerJoins, analyse: Callable[[Relation], Analysed], join: Joiner) -> JoinedRows:
    """Return the joined rows in the order that leaves one person the fewest of them, with what is left to filter."""
    public, conditions = _filter_public_tables(joins)
    people = {id(leaf): analyse(leaf) for leaf in joins.people}
    best = _best(
        [
            lambda order=order: _chain([(leaf, people[id(leaf)]) for leaf in order], conditions, joins, join)  # type: ignore[misc]
            for order in _orders(joins.people)
        ]
    )
    waiting = [(leaf, analyse(leaf)) for leaf in public]
    while waiting:
        near = [index for index, (leaf, _) in enumerate(waiting) if _is_looked_up(leaf, best)]
        tried: list[tuple[int, JoinedRows]] = []
        refusal: Refusal | None = None
        for index in near or range(len(waiting)):
            try:
                tried.append((index, _join_next(best, *waiting[index], joins, join)))
            except Refusal as failure:
                refusal = refusal or failure
                continue
            if tried[-1][1].rows_per_person <= best.rows_per_person:
                break  # it multiplies nothing, so that no order is better
        if not tried and refusal is not None:
            raise refusal
        index, best = min(tried, key=lambda attempt: attempt[1].rows_per_person)
        del waiting[index]
    return best


def _orders(people: Sequence[Relation]) -> list[Sequence[Relation]]:
    return [people] if len(people) > _MAX_PERMUTED_TABLES else list(permutations(people))


def _best(candidates: Sequence[Callable[[], JoinedRows]]) -> JoinedRows:
    """Return the first of the joins with the fewest rows of one person; where all are refused, the first refusal."""
    found: list[JoinedRows] = []
    refusal: Refusal | None = None
    for candidate in candidates:
        try:
            found.append(candidate())
        except Refusal as failure:
            refusal = refusal or failure
    if not found and refusal is not None:
        raise refusal
    return min(found, key=lambda rows: rows.rows_per_person)


def _chain(
    order: Sequence[tuple[Relation, Analysed]], conditions: tuple[Expression, ...], joins: InnerJoins, join: Joiner
) -> JoinedRows:
    (first, rows), *others = order
    joined = JoinedRows(rows, first, conditions, ())
    for leaf, analysed in others:
        joined = _join_next(joined, leaf, analysed, joins, join)
    return joined


def _join_next(before: JoinedRows, leaf: Relation, rows: Analysed, joins: InnerJoins, join: Joiner) -> JoinedRows:
    known, new = visible_labels(before.relation), visible_labels(leaf)
    met = tuple(part for part in before.left if _joins(part, known, new))
    condition = conjunction(met) if met else None
    pair = Join(JoinKind.INNER, before.relation, leaf, condition, joins.at(leaf))
    analysed, note = join(pair, before.rows, rows)
    left = tuple(part for part in before.left if part not in met)
    return JoinedRows(analysed, pair, left, before.notes if note is None else (*before.notes, note))


def _joins(condition: Expression, known: frozenset[str], new: frozenset[str]) -> bool:
    """Whether a condition is about the rows before and the new ones, and about nothing else."""
    used = sources(condition)
    return bool(used & known) and bool(used & new) and used <= known | new


def _is_looked_up(leaf: Relation, before: JoinedRows) -> bool:
    """Whether an equality compares a table with rows that are there already."""
    known, new = visible_labels(before.relation), visible_labels(leaf)
    return any(_is_equality(part) and _joins(part, known, new) for part in before.left)


def _is_equality(condition: Expression) -> bool:
    return isinstance(condition, Call) and condition.function is Function.EQUAL


def _filter_public_tables(joins: InnerJoins) -> tuple[list[Relation], tuple[Expression, ...]]:
    """Return public tables with what is known of their rows alone, and the conditions that are left.

    A table that only one other public table is compared with is joined with it: its conditions choose that one's rows.
    """
    tables, left = list(joins.public), list(joins.conditions)
    for index, table in enumerate(tables):
        own = [part for part in left if sources(part) and sources(part) <= visible_labels(table)]
        tables[index] = Filter(table, conjunction(tuple(own))) if own else table
        left = [part for part in left if part not in own]
    merged = True
    while merged:
        merged = False
        for table in tables:
            own_labels = visible_labels(table)
            met = [part for part in left if sources(part) & own_labels]
            others = frozenset(label for part in met for label in sources(part)) - own_labels
            near = [other for other in tables if other is not table and others & visible_labels(other)]
            if len(near) == 1 and others <= visible_labels(near[0]) and any(map(_is_equality, met)):
                at = tables.index(near[0])
                tables[at] = Join(JoinKind.INNER, near[0], table, conjunction(tuple(met)), joins.at(table))
                tables.remove(table)
                left = [part for part in left if part not in met]
                merged = True
                break
    return tables, tuple(left)


def remaining(joined: JoinedRows) -> Filter | None:
    """Return the filter that is left above the joins; None where every condition is met."""
    return Filter(joined.relation, conjunction(joined.left)) if joined.left else None
