"""Which cohorts pay for a question: those whose people the conditions of its text let through.

Privacy does not rest on it: a statement reads people of the cohorts that pay, whatever the text means. This module
decides whether others could matter to the answer.  Proof: proofs/cohorts.md
"""

from dataclasses import dataclass

from sfumato.analysis.private_query import PrivateQuery
from sfumato.language.monotone import column_restriction
from sfumato.language.narrowing import Restriction, limits_if_true
from sfumato.language.outside import bare
from sfumato.language.rel_nodes import (
    AggregateNode,
    FilterNode,
    InputNode,
    JoinNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    UnionAllNode,
    nodes,
)
from sfumato.language.scalar import Operator, Scalar
from sfumato.policy.cohorts import OTHER, cohort_column, cohort_name, cohort_windows, declared_values
from sfumato.policy.policy import ColumnType, Policy, fold_name
from sfumato.query.functions import Aggregation
from sfumato.query.relation import JoinKind


def paying_cohorts(private: PrivateQuery, policy: Policy, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the cohorts that pay, of those that are open; None where all of them do."""
    found: set[str] = set()
    for group in private.groups:
        if any(asked.aggregate.function is Aggregation.CROSS_UNIT_COUNT for asked in group.asked):
            return None  # people of other cohorts count with them
        found |= _Conditions(policy, names).implied(group.rows)
    return all_or_some(tuple(name for name in names if name in found), names)


def all_or_some(some: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the cohorts that pay; None where all do, or none could."""
    return some if 0 < len(some) < len(names) else None


@dataclass(frozen=True, slots=True)
class _Conditions:
    policy: Policy
    names: tuple[str, ...]

    def implied(self, flow: RelNode) -> frozenset[str]:
        """Return the cohorts of people who can have rows in a flow, as conditions on the cohort's column tell."""
        everyone = frozenset(self.names)
        match flow:
            case ScanNode() | InputNode() | MaterializedNode():
                return everyone
            case FilterNode(source, condition):
                return self.implied(source) & self._where(condition, source)
            case JoinNode(JoinKind.INNER, left, right, condition):
                on = everyone if condition is None else self._where(condition, flow)
                return self.implied(left) & self.implied(right) & on
            case JoinNode(JoinKind.LEFT, left, _, _) | MarkJoinNode(left):
                return self.implied(left)
            case JoinNode():
                return everyone
            case UnionAllNode(left, right):
                return self.implied(left) | self.implied(right)
            case _:
                return self.implied(flow.source)

    def _where(self, condition: Scalar, flow: RelNode) -> frozenset[str]:
        everyone = frozenset(self.names)
        in_time = self.policy.cohort is not None and self.policy.cohort.every is not None
        match condition.operator, condition.arguments:
            case (Operator.AND, parts):
                return everyone.intersection(*(self._where(part, flow) for part in parts))
            case (Operator.OR, parts):
                return frozenset[str]().union(*(self._where(part, flow) for part in parts))
            case _ if in_time:
                return self._in_time(condition, flow)
            case (Operator.EQUAL | Operator.IN, (first, *others)):
                sides = (first, *others)
                if len(sides) == 2 and first.operator is Operator.CONSTANT:
                    first, others = sides[1], [sides[0]]
                if self._is_column(first, flow) and all(other.operator is Operator.CONSTANT for other in others):
                    return frozenset(name for other in others for name in self._cohorts_of_constant(other))
            case (Operator.COLUMN, ()) if self._is_column(condition, flow):
                return frozenset({"true"}) & everyone
        return everyone

    def _cohorts_of_constant(self, constant: Scalar) -> list[str]:
        """Return the cohort of a constant; none has a value that is not declared."""
        _, column = cohort_column(self.policy)
        if column.type is ColumnType.TEXT:
            stands_for = {str(value): cohort_name(value) for value in declared_values(column)}
            return [stands_for[text] for text in (str(constant.constant),) if text in stands_for]
        if column.type is ColumnType.BOOLEAN:
            return [str(constant.constant).lower()]
        places = {column.steps(value): cohort_name(value) for value in declared_values(column)}
        return [places[constant.facts.low]] if constant.facts.low in places else []

    def _in_time(self, condition: Scalar, flow: RelNode) -> frozenset[str]:
        """Return the windows in which people can have come first: before the last time that a condition allows."""
        found = frozenset(self.names)
        windows = cohort_windows(self.policy, self.names)
        closed = found - {name for name, _, _ in windows} - {OTHER}  # before the bounds of now: people stay in them
        for shape, limit in limits_if_true(condition).items():
            read = None if limit.low is limit.high is None else column_restriction(shape, limit)
            traced = None if read is None else self._trace_column(read[0], flow)
            if read is not None and traced is not None:
                known = read[1] if traced else Restriction(high=read[1].high)
                found &= closed | {name for name, low, high in windows if _meets(known, low, high)}
        return found

    def _is_column(self, scalar: Scalar, flow: RelNode) -> bool:
        plain = bare(scalar)
        plain = plain.arguments[0] if plain.operator is Operator.CLIPPED else plain
        return plain.operator is Operator.COLUMN and self._trace_column(plain.constant, flow) is False

    def _trace_column(self, address: object, flow: RelNode) -> bool | None:
        """Tell whether a column is the cohort's (False) or a person's least value of it (True); None: neither."""
        if not isinstance(address, tuple):
            return None
        label, name = address
        table, column = cohort_column(self.policy)
        for node in nodes(flow):
            match node:
                case ScanNode(scanned, own, columns) if own == label:
                    stored = next((stored for known, stored, _ in columns if known == name), None)
                    named = stored is not None and fold_name(stored) == fold_name(column.name)
                    return False if named and fold_name(scanned) == fold_name(table.name) else None
                case ProjectNode(source, own, items) if own == label:
                    return self._traced_item({item.name: item.scalar for item in items}, name, source)
                case AggregateNode(source, own, keys, measures) if own == label:
                    least = {
                        measure.name: measure.aggregate.arguments[0]
                        for measure in measures
                        if measure.aggregate.function is Aggregation.MIN
                        and measure.aggregate.where is None
                        and isinstance(source, ScanNode)
                    }
                    if name in least:
                        return True if self._traced_item(least, name, source) is False else None
                    return self._traced_item({key.name: key.scalar for key in keys}, name, source)
        return None

    def _traced_item(self, items: dict[str, Scalar], name: object, source: RelNode) -> bool | None:
        scalar = items.get(str(name))
        plain = None if scalar is None else bare(scalar)
        if plain is not None and plain.operator is Operator.CLIPPED:
            plain = plain.arguments[0]
        return (
            None
            if plain is None or plain.operator is not Operator.COLUMN
            else self._trace_column(plain.constant, source)
        )


def _meets(limit: Restriction, low: int, high: int) -> bool:
    return (limit.low is None or limit.low <= high) and (limit.high is None or limit.high >= low)
