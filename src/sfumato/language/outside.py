"""Values outside their bounds: clipped where they are added up; outside as a key and in a condition.

Theorem: `as_key` is NULL in every row in which a column that it reads lies outside its bounds, and the scalar itself in
every other row; a comparison of a column with constants within its bounds is that of the source's value.
Proof: proofs/outside_bounds.md
"""

from collections.abc import Iterator
from dataclasses import replace

from sfumato.language.facts import Facts, Kind, Outside
from sfumato.language.scalar import ColumnRef, Operator, Scalar, Sides, address, column, literal
from sfumato.query.types import Type

_TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
_READS_THROUGH = frozenset({Operator.STORED, Operator.IS_NULL})
"""Operators that see a value outside its bounds as it is: one step beyond them, or present."""


def outside_mark(name: str) -> str:
    """Return the hidden column that says whether a computed column rests on a value outside its bounds."""
    return f'"outside" {name}'


def is_stored(scalar: Scalar) -> bool:
    """Whether a scalar is a column that the engine holds one step beyond its bounds where it lies outside."""
    return scalar.operator is Operator.COLUMN and scalar.facts.outside is Outside.STORED


def stored(leaf: Scalar) -> Scalar:
    """Return a column as the copy holds it: its order is that of the source, one step beyond the bounds."""
    facts = replace(leaf.facts, low=leaf.facts.low - 1, high=leaf.facts.high + 1, outside=Outside.NONE)
    return Scalar(Operator.STORED, (leaf,), facts)


def outside_test(scalar: Scalar) -> Scalar | None:
    """Return whether a column that a scalar reads lies outside its bounds; None where none can."""
    tests = tuple(test for leaf in dict.fromkeys(_columns(scalar)) for test in _tests(leaf))
    if len(tests) < 2:
        return tests[0] if tests else None
    return Scalar(Operator.OR, tests, _TRUTH)


def read_outside(key: Scalar) -> bool:
    """Whether a key reads a column whose value can lie outside its bounds."""
    return bare(key) is not key


def as_key(scalar: Scalar) -> Scalar:
    """Return a scalar as a key sees it: NULL where a column that it reads lies outside its bounds."""
    if is_stored(scalar):
        low, high = scalar.facts.low, scalar.facts.high
        return Scalar(Operator.WITHIN, (stored(scalar),), _without_outside(scalar), Sides(low, high))
    if scalar.operator is Operator.CLIPPED and is_stored(scalar.arguments[0]):
        return replace(scalar, arguments=(as_key(scalar.arguments[0]),), facts=_without_outside(scalar))
    test = outside_test(scalar)
    if test is None:
        return scalar
    facts = _without_outside(scalar)
    return Scalar(Operator.CASE, (test, literal(None, facts), scalar), facts)


def compared(arguments: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Return the sides of a comparison as a condition sees them.

    A column compared with constants within its bounds keeps its order: outside is beyond all of them. Anything else
    that reads a value outside its bounds is unknown, and so NULL.
    """
    read = [_column_of(argument) for argument in arguments]
    leaves = [leaf for leaf in read if leaf is not None]
    others = [argument for argument, leaf in zip(arguments, read, strict=True) if leaf is None]
    if len(leaves) == 1 and all(_is_within(other, leaves[0].facts) for other in others):
        return tuple(argument if leaf is None else stored(leaf) for argument, leaf in zip(arguments, read, strict=True))
    return tuple(map(as_key, arguments))


def bare(scalar: Scalar) -> Scalar:
    """Return the scalar that a key or one side of a comparison was made of."""
    match scalar.operator, scalar.arguments:
        case (Operator.STORED, (leaf,)):
            return leaf
        case (Operator.WITHIN, (Scalar(Operator.STORED, (leaf,)),)):
            return leaf
        case (Operator.CLIPPED, (inner,)) if bare(inner) is not inner:
            return replace(scalar, arguments=(bare(inner),))
        case (Operator.CASE, (test, _, inner)) if test == outside_test(inner):
            return inner
    return scalar


def passed_on(label: str, name: str, scalar: Scalar) -> tuple[Scalar, tuple[tuple[str, Scalar], ...]]:
    """Return a column of a subquery, and the hidden and shown columns that the subquery computes for it."""
    if is_stored(scalar):
        return column(label, name, scalar.facts), ((name, scalar),)
    if scalar.operator is Operator.CLIPPED and is_stored(leaf := scalar.arguments[0]):
        return replace(scalar, arguments=(column(label, name, leaf.facts),)), ((name, leaf),)
    test = outside_test(scalar)
    if test is None:
        return column(label, name, replace(scalar.facts, outside=Outside.NONE)), ((name, scalar),)
    marked = replace(scalar.facts, outside=Outside.MARKED)
    return column(label, name, marked), ((name, scalar), (outside_mark(name), test))


def _column_of(scalar: Scalar) -> Scalar | None:
    """Return the stored column that a scalar is, perhaps narrowed by a condition."""
    inner = scalar.arguments[0] if scalar.operator is Operator.CLIPPED else scalar
    return inner if is_stored(inner) else None


def _is_within(scalar: Scalar, facts: Facts) -> bool:
    """Whether a constant lies within the range of these facts; NULL does."""
    if scalar.operator is not Operator.CONSTANT:
        return False
    if scalar.constant is None:
        return True
    low, high = facts.low * facts.step, facts.high * facts.step
    return scalar.facts.kind is Kind.INTEGER and low <= scalar.facts.low * scalar.facts.step <= high


def _columns(scalar: Scalar) -> Iterator[Scalar]:
    """Give the columns whose numbers are used, and not only compared in an order that outside values keep."""
    waiting = [scalar]
    while waiting:
        part = waiting.pop()
        if part.operator is Operator.COLUMN:
            yield part
        elif part.operator not in _READS_THROUGH:
            waiting.extend(part.arguments)


def _tests(leaf: Scalar) -> Iterator[Scalar]:
    """Give the tests of which one is true where a column lies outside."""
    if leaf.facts.outside is Outside.STORED:
        value, facts = stored(leaf), leaf.facts
        for end, order in ((facts.low, (0, 1)), (facts.high, (1, 0))):
            point = replace(value.facts, nullable=False, low=end, high=end)
            sides = (value, literal(end, point))
            yield Scalar(Operator.LESS, tuple(sides[at] for at in order), _TRUTH)
    elif leaf.facts.outside is Outside.MARKED and isinstance(ref := address(leaf), ColumnRef):
        yield column(ref.label, outside_mark(ref.name), _TRUTH)


def _without_outside(scalar: Scalar) -> Facts:
    return replace(scalar.facts, nullable=True, outside=Outside.NONE)
