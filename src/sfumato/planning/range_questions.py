"""Counts and sums under ranges of one ordered expression, written as one group by the pieces between all their ends.

No piece is cut by a range, so each range is a sum of pieces, and overlapping ranges share their measurements.
Proof: proofs/hierarchies.md, (8)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import numpy as np

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Group, Key, PrivateQuery, RequestedAggregate
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import all_true
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, FilterNode, InputNode, RelNode
from sfumato.language.scalar import Operator, Scalar, column, columns_read, literal
from sfumato.planning.disjoint_conditions import conjuncts, integer_range, same_expression
from sfumato.planning.noise import fraction_of_fresh_budget, variance_of
from sfumato.planning.plan import Plan
from sfumato.planning.range_strategies import MAX_DEVIATION_RATIO, projected_variance
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.rebuilding import rebuild_fields
from sfumato.query.types import Type

MIN_RANGES = 4
"""Fewer ranges are measured each by itself."""
MAX_PIECES = 400
"""Maximum number of pieces between the ends of all ranges: each is a branch of an expression in the statement."""
_MAX_ERROR_RATIO = 0.7
"""Pieces are measured where the mean variance becomes smaller by at least this factor."""
_TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
_PIECE = "piece"


@dataclass(frozen=True, slots=True)
class _Range:
    """An aggregate without its range: the rows and conditions that are left, and the ends, both inside."""

    rows: RelNode
    asked: RequestedAggregate
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class RangeQuestions:
    """Questions whose ranges are sums of pieces, and the first and the last piece of each range."""

    questions: tuple[PrivateQuery, ...]
    ranges: tuple[tuple[int, int], ...]
    pieces: int


def range_questions(questions: Sequence[PrivateQuery]) -> RangeQuestions | None:
    """Return questions that ask for counts and sums under ranges of one expression as sums of pieces; else None."""
    groups = [group for question in questions for group in question.groups]
    subject = next((found for group in groups for found in _subjects(group)), None)
    if subject is None or any(question.first for question in questions):
        return None
    listed: dict[int, list[_Range]] = {}
    for group in groups:
        own = _ranges(group, subject)
        if own is None or _rest(group, own) != _rest(groups[0], listed.get(id(groups[0]), own)):
            return None
        listed[id(group)] = own
    found = [one for own in listed.values() for one in own]
    ends = {(one.low, one.high) for one in found}
    starts = sorted({low for low, _ in ends} | {high + 1 for _, high in ends})
    if len(ends) < MIN_RANGES or len(starts) - 1 > MAX_PIECES:
        return None
    key = Key(_PIECE, _piece(subject, starts), tuple(range(len(starts) - 1)))
    places = {start: place for place, start in enumerate(starts)}
    written = tuple(_written(question, listed, key, places) for question in questions)
    ranges = tuple((places[one.low], places[one.high + 1] - 1) for one in found)
    return RangeQuestions(written, ranges, len(starts) - 1)


def _subjects(group: Group) -> Iterator[Scalar]:
    """Give the expressions that conditions of a group compare with constants, those of all its rows first."""
    conditions = [*([group.rows.condition] if isinstance(group.rows, FilterNode) else [])]
    conditions += [one.aggregate.where for one in group.asked if one.aggregate.where is not None]
    for condition in conditions:
        for part in conjuncts(condition):
            if (found := integer_range(part)) is not None:
                yield found[0]


def _ranges(group: Group, subject: Scalar) -> list[_Range] | None:
    """Return the range of each aggregate of a group without keys; None where one of them has none."""
    bounded = group.contribution.bound_rows or group.contribution.bound_groups
    if group.keys or group.combinations is not None or bounded or subject.facts.kind is not Kind.INTEGER:
        return None
    rows, outer = group.rows, list[Scalar]()
    if isinstance(rows, FilterNode):
        outer, rows = list(conjuncts(rows.condition)), rows.source
    found = []
    for one in group.asked:
        aggregate = one.aggregate
        plain = aggregate.function is Aggregation.SUM or not aggregate.arguments
        if aggregate.function not in {Aggregation.COUNT, Aggregation.SUM} or aggregate.distinct or not plain:
            return None
        low, high, outside = subject.facts.low, subject.facts.high, list[Scalar]()
        inside = list(conjuncts(aggregate.where))
        rest: tuple[list[Scalar], list[Scalar]] = ([], [])
        for place, parts in enumerate((outer, inside)):
            for part in parts:
                known = integer_range(part)
                if known is None or not same_expression(known[0], subject):
                    rest[place].append(part)
                    continue
                low = max(low, low if known[1] is None else known[1])
                high = min(high, high if known[2] is None else known[2])
                outside.append(part)
        read = {name for part in (*rest[0], *rest[1], *aggregate.arguments) for name in columns_read(part)}
        if not outside or low > high or read & columns_read(subject):
            return None
        whole = replace(aggregate, where=_all(rest[1]))
        kept = FilterNode(rows, filtered) if (filtered := _all(rest[0])) is not None else rows
        found.append(_Range(kept, replace(one, aggregate=whole), low, high))
    return found or None


def _all(conditions: Sequence[Scalar]) -> Scalar | None:
    return all_true(conditions) if len(conditions) > 1 else next(iter(conditions), None)


def _rest(group: Group, ranges: Sequence[_Range]) -> object:
    """Return what groups have to share so that their ranges are sums of the same pieces."""
    return ranges[0].rows, group.unit, group.identity, group.contribution


def _piece(subject: Scalar, starts: Sequence[int]) -> Scalar:
    """Return the number of the piece that a value is in: NULL outside all of them, and for NULL."""
    facts = Facts(Type.INTEGER, Kind.INTEGER, low=0, high=len(starts) - 2)
    parts: list[Scalar] = []
    for place, start in enumerate(starts, -1):
        end = literal(start, replace(subject.facts, nullable=False, low=start, high=start))
        number = literal(None, facts) if place < 0 else _number(place)
        parts += [Scalar(Operator.LESS, (subject, end), _TRUTH), number]
    return Scalar(Operator.CASE, (*parts, literal(None, facts)), facts)


def _number(value: int) -> Scalar:
    return literal(value, Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=value, high=value))


def _written(question: PrivateQuery, listed: dict[int, list[_Range]], key: Key, places: dict[int, int]) -> PrivateQuery:
    groups: list[Group] = []
    outcome: Any = question.outcome
    for group in question.groups:
        asked: dict[Aggregate[Scalar], str] = {}
        sums: dict[str, tuple[str, int, int]] = {}
        for one in listed[id(group)]:
            name = asked.setdefault(one.asked.aggregate, f"pieces {len(asked) + 1}")
            sums[one.asked.name] = name, places[one.low], places[one.high + 1] - 1
        label = f"{group.label} in pieces"
        measured = tuple(RequestedAggregate(name, aggregate) for aggregate, name in asked.items())
        groups.append(replace(group, label=label, rows=listed[id(group)][0].rows, keys=(key,), asked=measured))
        outcome = _reading(outcome, group.label, label, key, sums)
    return replace(question, groups=tuple(groups), outcome=outcome)


def _reading(flow: Any, group: str, label: str, key: Key, sums: dict[str, tuple[str, int, int]]) -> Any:
    """Return an outcome that adds up pieces in the place of what a group has."""
    if isinstance(flow, InputNode) and flow.rows is None and flow.table == group:
        known = dict(flow.columns)
        facts = {sums[name][0]: known[name] for name in sums if name in known}
        pieces = replace(key.scalar.facts, nullable=False)
        given = InputNode(label, ((key.name, pieces), *facts.items()), None)
        place = column(label, key.name, pieces)
        measures = tuple(
            AggregateItem(
                name,
                Aggregate(
                    Aggregation.SUM,
                    (column(label, sums[name][0], known[name]),),
                    where=_between(place, sums[name][1], sums[name][2]),
                ),
                known[name],
            )
            for name, _ in flow.columns
        )
        return AggregateNode(given, flow.label, (), measures)
    return rebuild_fields(flow, lambda _, part: _reading(part, group, label, key, sums))


def _between(place: Scalar, first: int, last: int) -> Scalar:
    ends = ((_number(first), place), (place, _number(last)))
    return all_true([Scalar(Operator.AT_MOST, pair, replace(_TRUTH, nullable=False)) for pair in ends])


def prefers_pieces(plan: Plan, known: RangeQuestions, apart: Plan, cap: PrivacyLoss) -> bool:
    """Whether ranges err clearly less as sums of pieces, and none of them has a clearly larger deviation.

    The planned variance of each range is compared with the least of what is measured apart.
    """
    if any(group.selection is not None or group.chosen for group in (*plan.groups, *apart.groups)):
        return False
    least: dict[tuple[Aggregation, int], float] = {}
    for group in apart.groups:
        for one in group.measured:
            kind = one.quantity.function, one.sensitivity.linf
            least[kind] = min(float(variance_of(one.mechanism)), least.get(kind, np.inf))
    laws = {(group.group.label, one.name): one for group in plan.groups for one in group.measured}
    finest, *others = plan.groups
    levels = {name: one for one in plan.hierarchies for name in one.names}
    if {group.group.label for group in others} != {label for one in plan.hierarchies for label in one.labels[1:]}:
        return False  # groups that are not the same rows for the planner
    found: list[float] = []
    for one in finest.measured:
        before = least.get((one.quantity.function, one.sensitivity.linf))
        if before is None:
            return False
        tree = levels.get(one.name)
        labels, sizes = ((finest.group.label,), (1,)) if tree is None else (tree.labels, tree.sizes)
        precisions = [1 / float(variance_of(laws[label, one.name].mechanism)) for label in labels]
        found += [projected_variance(known.pieces, sizes, own, precisions) / before for own in known.ranges]
    if max(found) > float(MAX_DEVIATION_RATIO) ** 2:
        return False
    used, before_used = (fraction_of_fresh_budget((each.groups, each.loss), cap) for each in (plan, apart))
    mean = exp(sum(map(log, found)) / len(found))
    return mean * float(used) < _MAX_ERROR_RATIO * float(before_used)
