"""Counts and sums whose conditions exclude each other: a row moves one of them, so they are one vector.

Theorem: if `exclude_each_other` says so of two measurements, no row moves both.
Proof: proofs/disjoint_conditions.md
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sfumato.accounting.event import Neighbours
from sfumato.language.facts import Kind
from sfumato.language.scalar import LiteralValue, Operator, Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.query.functions import Aggregation

MAX_VECTOR_CANDIDATES = 64
"""Maximum number of measurements of a group whose conditions are compared."""
_COMPARED = frozenset({Kind.INTEGER, Kind.TEXT, Kind.BOOLEAN})
_ORDERING = frozenset({Operator.LESS, Operator.AT_MOST})


@dataclass(frozen=True, slots=True)
class _Values:
    """What an expression can be where a condition holds: listed values, or integers between two ends."""

    subject: Scalar
    listed: tuple[LiteralValue, ...] | None = None
    low: int | None = None
    high: int | None = None

    def has(self, value: LiteralValue) -> bool:
        """Whether it can be this value."""
        if self.listed is not None:
            return value in self.listed
        if not isinstance(value, int):
            return True  # not comparable here: nothing is excluded
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def excludes(self, other: "_Values") -> bool:
        """Whether no value is in both."""
        if self.listed is not None:
            return not any(other.has(value) for value in self.listed)
        if other.listed is not None:
            return other.excludes(self)
        return _above(self.low, other.high) or _above(other.low, self.high)

    def is_within(self, other: "_Values") -> bool:
        """Whether every value of it is one of the other's."""
        if self.listed is not None:
            whole = other.listed is not None or all(isinstance(value, int) for value in self.listed)
            return whole and all(other.has(value) for value in self.listed)
        if other.listed is not None:
            return False
        below = other.low is None or (self.low is not None and self.low >= other.low)
        return below and (other.high is None or (self.high is not None and self.high <= other.high))


def _above(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and low > high


def with_vector(need: MeasurementSet, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs with the names of measurements of which a row moves one at most; () where there are no two.

    Under replace a row takes the place of another, and may move two of them.
    """
    if neighbours is not Neighbours.ADD_REMOVE:
        return need
    found = [(one, conditions_of(one.quantity)) for one in need.measurements if one.side is not None]
    known = [(one, conditions) for one, conditions in found if conditions][:MAX_VECTOR_CANDIDATES]
    best: list[Measurement] = []
    for start in range(len(known)):
        some: list[tuple[Measurement, Sequence[Scalar]]] = []
        for one, conditions in known[start:]:
            if all(exclude_each_other(conditions, other) for _, other in some):
                some.append((one, conditions))
        if len(some) > max(len(best), 1):
            best = [one for one, _ in some]
    return replace(need, vector=tuple(one.name for one in best))


def conditions_of(quantity: Quantity) -> tuple[Scalar, ...]:
    """Return conditions of which all are true of every row that moves a count or a sum."""
    if quantity.distinct or quantity.function not in (Aggregation.COUNT, Aggregation.SUM):
        return ()
    found = [] if quantity.where is None else [quantity.where]
    for argument in quantity.arguments:
        if argument.operator is Operator.CASE and len(argument.arguments) == 3:
            condition, _, otherwise = argument.arguments
            absent = otherwise.operator is Operator.CONSTANT and otherwise.constant is None
            nothing = otherwise.operator is Operator.CONSTANT and otherwise.constant == 0
            if absent or (nothing and quantity.function is Aggregation.SUM):
                found.append(condition)
    return tuple(part for condition in found for part in conjuncts(condition))


def exclude_each_other(one: Sequence[Scalar], other: Sequence[Scalar]) -> bool:
    """Whether all conditions of one list and all of the other cannot be true of the same row."""
    for first, second in product(one, other):
        if _denies(first, second) or _denies(second, first):
            return True
        if any(
            same_expression(left.subject, right.subject) and left.excludes(right)
            for left, right in product(_values(first), _values(second))
        ):
            return True
    return False


def implies(one: Sequence[Scalar], other: Sequence[Scalar]) -> bool:
    """Whether all conditions of the other list are true wherever all of one are."""
    return all(any(same_expression(part, known) or _narrows(known, part) for known in one) for part in other)


def _narrows(one: Scalar, other: Scalar) -> bool:
    """Whether a condition is true wherever another is, by the values of the same expression.

    What `_values` gives of a condition is just where it is true.
    """
    return any(
        same_expression(inner.subject, outer.subject) and inner.is_within(outer)
        for inner, outer in product(_values(one), _values(other))
    )


def conjuncts(condition: Scalar | None) -> Iterator[Scalar]:
    """Give the conditions that a condition consists of."""
    if condition is None or (condition.operator is Operator.CONSTANT and condition.constant is True):
        return
    if condition.operator is Operator.AND:
        for part in condition.arguments:
            yield from conjuncts(part)
    else:
        yield condition


def _denies(one: Scalar, other: Scalar) -> bool:
    return one.operator is Operator.NOT and same_expression(one.arguments[0], other)


def _values(condition: Scalar) -> Iterator[_Values]:
    """Give what a condition says of an expression where it is true."""
    negated = condition.operator is Operator.NOT
    inner = condition.arguments[0] if negated else condition
    if inner.facts.kind is Kind.BOOLEAN and inner.operator is Operator.COLUMN:
        yield _Values(inner, (not negated,))
    elif inner.operator in _ORDERING:
        yield from _ordered(inner, negated)
    elif not negated and inner.operator in (Operator.EQUAL, Operator.IN):
        yield from _listed(inner)


def integer_range(condition: Scalar) -> tuple[Scalar, int | None, int | None] | None:
    """Return the expression and the ends, both inside, of a condition that is true just between them; else None."""
    found = [one for one in _values(condition) if one.subject.facts.kind is Kind.INTEGER]
    if len(found) != 1:
        return None
    (one,) = found
    if one.listed is None:
        return one.subject, one.low, one.high
    if len(one.listed) != 1 or not isinstance(value := one.listed[0], int):
        return None
    return one.subject, value, value


def _listed(condition: Scalar) -> Iterator[_Values]:
    pairs = [condition.arguments]
    if condition.operator is Operator.EQUAL:
        pairs.append((condition.arguments[1], condition.arguments[0]))
    for subject, *others in pairs:
        constants = all(other.operator is Operator.CONSTANT for other in others)
        if constants and subject.operator is not Operator.CONSTANT and subject.facts.kind in _COMPARED:
            kinds = {other.facts.kind for other in others if other.constant is not None}
            if kinds <= {subject.facts.kind}:
                yield _Values(subject, tuple(other.constant for other in others if other.constant is not None))  # type: ignore[misc]


def _ordered(condition: Scalar, negated: bool) -> Iterator[_Values]:
    left, right = condition.arguments
    strict = condition.operator is Operator.LESS
    if left.facts.kind is not Kind.INTEGER or right.facts.kind is not Kind.INTEGER:
        return
    if (
        right.operator is Operator.CONSTANT
        and isinstance(right.constant, int)
        and left.operator is not Operator.CONSTANT
    ):
        high = right.constant - strict
        yield _Values(left, low=high + 1) if negated else _Values(left, high=high)
    elif left.operator is Operator.CONSTANT and isinstance(left.constant, int):
        low = left.constant + strict
        yield _Values(right, high=low - 1) if negated else _Values(right, low=low)


def same_expression(one: Scalar, other: Scalar) -> bool:
    """Whether two expressions are equal, whatever is known of them where they stand."""
    return (
        one.operator is other.operator
        and type(one.constant) is type(other.constant)
        and one.constant == other.constant
        and len(one.arguments) == len(other.arguments)
        and all(same_expression(*pair) for pair in zip(one.arguments, other.arguments, strict=True))
    )
