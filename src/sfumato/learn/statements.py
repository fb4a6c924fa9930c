"""The same exact sums as engine statements: the engine adds up the rows, and no row leaves it."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.analysis.private_query import Key
from sfumato.language import intervals
from sfumato.language.lower_logic import case_scalar, compare_scalars
from sfumato.language.numbers import (
    add_scalars,
    clip_scalar,
    constant,
    multiplied,
    on_integers,
    round_to_places,
    shifted,
)
from sfumato.language.rel_nodes import Item, ProjectNode, RelNode
from sfumato.language.scalar import Factor, Operator, Scalar, column
from sfumato.learn.rows import UNIT_STEPS, Ball, Integers
from sfumato.measure import Measurable, Measurer, SumStatement
from sfumato.query.types import Type

_UNIT_COLUMN = "owner"


class EngineSums:
    """Sums over the rows of a query: columns are numbers, `target` is a key whose cells are the classes."""

    def __init__(
        self, measurable: Measurable, columns: Sequence[Key], target: Key | None, reading: Measurer | None
    ) -> None:
        self._asked = measurable
        self._target = target
        self._reading = reading
        """None in a trial: then nothing is read, and every sum is 0."""
        keep = {} if target is None else {"target": target.scalar}
        unit_columns = {f"x{index}": to_unit_box(key.scalar) for index, key in enumerate(columns)}
        self._width = len(unit_columns)
        self._rows, self._scope = _project(
            measurable.rows.rows, "boxed", {**unit_columns, **keep}, measurable.rows.unit
        )

    def clipped_sums(self, *, squares: bool) -> Integers:
        columns = self._columns(self._scope)
        more = [_whole_part(multiplied(column, column, Type.INTEGER)) for column in columns] if squares else []
        return self._class_sums(self._rows, self._scope, (None, *columns, *more))

    def radii(self, centre: Sequence[int], radii: Sequence[int]) -> Integers:
        flow, scope = self._centred_rows(centre)
        branches = [
            (
                compare_scalars(Operator.AT_MOST, scope["n"], _integer_constant(radii[index] ** 2)),
                _integer_constant(index),
            )
            for index in range(len(radii) - 1, 0, -1)
        ]
        place = case_scalar(branches, _integer_constant(0), Type.INTEGER)
        key = Key("radius", place, tuple(range(len(radii))))
        return self._read(SumStatement((key,), (None,), flow, scope[_UNIT_COLUMN]))[:, 0]

    def products(self, ball: Ball, constant: int) -> Integers:
        flow, scope = self._shrunk_rows(ball)
        columns = [*self._columns(scope), _integer_constant(constant)]
        pairs = [(i, j) for i in range(len(columns)) for j in range(i + 1)]
        sums = [_multiply(columns[i], columns[j]) for i, j in pairs[:-1]]
        found = self._read(SumStatement((), (*sums, None), flow, scope[_UNIT_COLUMN]))[0]
        total = np.zeros((len(columns), len(columns)), dtype=np.int64)
        for (i, j), value in zip(pairs[:-1], found, strict=False):
            total[i, j] = total[j, i] = value
        total[-1, -1] = found[-1] * constant * constant
        return total

    def shrunk(self, ball: Ball) -> Integers:
        flow, scope = self._shrunk_rows(ball)
        return self._class_sums(flow, scope, (None, *self._columns(scope)))

    def _columns(self, scope: dict[str, Scalar]) -> list[Scalar]:
        return [scope[f"x{index}"] for index in range(self._width)]

    def _class_sums(self, flow: RelNode, scope: dict[str, Scalar], sums: tuple[Scalar | None, ...]) -> Integers:
        keys = () if self._target is None else (Key("class", scope["target"], self._target.cells),)
        return self._read(SumStatement(keys, sums, flow, scope[_UNIT_COLUMN]))

    def _read(self, statement: SumStatement) -> Integers:
        if self._reading is not None:
            return np.asarray(self._reading.totals(statement)).astype(np.int64)
        self._asked.check(statement)
        cells = int(np.prod([len(key.cells or ()) for key in statement.keys]))
        return np.zeros((cells, len(statement.sums)), dtype=np.int64)

    def _centred_rows(self, centre: Sequence[int]) -> tuple[RelNode, dict[str, Scalar]]:
        """Return the rows moved to a centre, with their squared length."""
        named = {
            f"x{index}": shifted(column, int(c))
            for index, (column, c) in enumerate(zip(self._columns(self._scope), centre, strict=True))
        }
        flow, scope = self._next_label(self._rows, self._scope, "moved", named)
        squares = [multiplied(column, column, Type.INTEGER) for column in self._columns(scope)]
        total = reduce(lambda a, b: add_scalars(a, b, Type.INTEGER), squares)
        return self._next_label(
            flow,
            scope,
            "measured",
            {f"x{index}": column for index, column in enumerate(self._columns(scope))} | {"n": total},
        )

    def _shrunk_rows(self, ball: Ball) -> tuple[RelNode, dict[str, Scalar]]:
        """Return the rows as `rows.shrink` has them."""
        flow, scope = self._centred_rows(ball.centre)
        root = on_integers(
            Operator.SQRT, (scope["n"],), Type.INTEGER, intervals.root(1, 1), Fraction(1), extra=Factor(1, 1)
        )
        if root is None:
            raise AssertionError("a squared length fits into 128 bits")
        named = {f"x{index}": column for index, column in enumerate(self._columns(scope))}
        flow, scope = self._next_label(flow, scope, "rooted", {**named, "n": scope["n"], "s": shifted(root, -1)})
        longer = compare_scalars(Operator.LESS, _integer_constant(ball.radius), scope["s"])
        divisor = case_scalar([(longer, scope["s"])], _integer_constant(ball.radius), Type.INTEGER)
        enough = compare_scalars(Operator.AT_MOST, scope["n"], multiplied(scope["s"], scope["s"], Type.INTEGER))
        cut = {
            f"x{index}": case_scalar([(enough, _clip_scalar(column, divisor))], _integer_constant(0), Type.INTEGER)
            for index, column in enumerate(self._columns(scope))
        }
        return self._next_label(flow, scope, "shrunk", cut)

    def _next_label(
        self, flow: RelNode, scope: dict[str, Scalar], label: str, named: dict[str, Scalar]
    ) -> tuple[RelNode, dict[str, Scalar]]:
        keep = {"target": scope["target"]} if "target" in scope else {}
        return _project(flow, label, {**named, **keep}, scope[_UNIT_COLUMN])


def to_unit_box(scalar: Scalar) -> Scalar:
    """Return a column in steps brought from its bounds to [-UNIT, UNIT], as `box` does."""
    if scalar.facts.type is Type.BOOLEAN:
        scalar = Scalar(Operator.FLAG, (scalar,), replace(_integer_constant(0).facts, nullable=False, low=0, high=1))
    facts = replace(scalar.facts, type=Type.INTEGER, step=Fraction(1), nullable=False)
    low, span = facts.low, facts.high - facts.low
    if not span:
        return _integer_constant(0)
    above = shifted(replace(scalar, facts=facts), low)
    times = Fraction(2 * UNIT_STEPS, span)
    if times.denominator == 1:
        share = _multiply(above, _integer_constant(times.numerator))
    else:
        wider = replace(above, facts=replace(above.facts, step=times))
        share = round_to_places(Operator.ROUNDED, wider, 0, Type.INTEGER)
    return clip_scalar(shifted(share, UNIT_STEPS), -UNIT_STEPS, UNIT_STEPS)


def box(steps: Integers, low: int, high: int) -> Integers:
    """Return steps brought from their bounds to [-UNIT, UNIT], rounded half up, as `to_unit_box` does."""
    span = high - low
    if not span:
        return np.zeros(len(steps), dtype=np.int64)
    wide = (steps - low).astype(object) if span >= 1 << 44 else steps - low
    return np.asarray((wide * (4 * UNIT_STEPS) + span) // (2 * span) - UNIT_STEPS).astype(np.int64)


def _integer_constant(value: int) -> Scalar:
    return constant(value, Type.INTEGER)


def _whole_part(scalar: Scalar) -> Scalar:
    """Return ⌊x / UNIT⌋ for x >= 0."""
    share = replace(scalar, facts=replace(scalar.facts, step=Fraction(1, UNIT_STEPS)))
    return round_to_places(Operator.TRUNCATED, share, 0, Type.INTEGER)


def _multiply(first: Scalar, second: Scalar) -> Scalar:
    exact = on_integers(Operator.MULTIPLY, (first, second), Type.INTEGER, intervals.multiply, Fraction(1))
    if exact is None:
        raise AssertionError("a product of columns fits into 128 bits")
    return exact


def _clip_scalar(scalar: Scalar, divisor: Scalar) -> Scalar:
    law = intervals.division_law(intervals.truncate)
    exact = on_integers(
        Operator.QUOTIENT, (_multiply(scalar, _integer_constant(UNIT_STEPS)), divisor), Type.INTEGER, law, Fraction(1)
    )
    if exact is None:
        raise AssertionError("a quotient is not longer than its dividend")
    return clip_scalar(exact, -UNIT_STEPS, UNIT_STEPS)


def _project(flow: RelNode, label: str, named: dict[str, Scalar], unit: Scalar) -> tuple[RelNode, dict[str, Scalar]]:
    items = tuple(Item(name, scalar) for name, scalar in {**named, _UNIT_COLUMN: unit}.items())
    scope = {item.name: column(label, item.name, item.scalar.facts) for item in items}
    return ProjectNode(flow, label, items), scope
