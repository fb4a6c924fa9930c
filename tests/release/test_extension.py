"""Laws of interval extensions: whatever values lie inside the ends of the arguments, the result lies inside its own.

Boxes and points are random with a fixed seed; what an operator or an aggregate makes of points is computed by the
engine that computes answers.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, InputNode, Item, ProjectNode
from sfumato.language.scalar import (
    Constant,
    Factor,
    ListedResults,
    LogarithmCurve,
    Operator,
    PowerCurve,
    Scalar,
    Sides,
    column,
)
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import AGGREGATES, LEVELLED, PAIRS, Aggregation
from sfumato.query.types import Type
from sfumato.release.intervals.extension import _CHOICES, _COMPARISONS, _LOGIC, _RULES, boxed
from sfumato.release.intervals.folding import FoldedRows, folded
from sfumato.release.intervals.forms import EnclosedNumbers, NoiseForm, Nulls, Opaque, States, Truth
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats

FAR = 1 << 40
TAIL = Fraction(1, 20)
WHOLE = Facts(Type.INTEGER, Kind.INTEGER, True, Fraction(1), -FAR, FAR, False, False)
REAL = Facts(Type.DECIMAL, Kind.REAL)
TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
BOXES, POINTS = 60, 40
EMPTY = np.zeros(0)
NONE = np.zeros(0, dtype=np.int64)
NOTHING = MeasuredCells((), (), {}, NONE, EMPTY, EMPTY, EMPTY, EMPTY, NONE, (), ())

CONSTANTS: dict[Operator, list[Constant]] = {
    Operator.REAL: [Factor(3, 7)],
    Operator.POWER: [1, 2, 3, 4],
    Operator.DIVIDE: [Factor(10, 3)],
    Operator.FLOORED: [Factor(1, 3)],
    Operator.CEILED: [Factor(1, 3)],
    Operator.ROUNDED: [Factor(1, 3), Factor(2, 4)],
    Operator.TRUNCATED: [Factor(1, 3)],
    Operator.SQRT: [Factor(5, 2)],
    Operator.LOG: [
        *(0, 2, 10),
        LogarithmCurve(None, Fraction(1, 2), Fraction(1, 100)),
        LogarithmCurve(Fraction(3), Fraction(1, 2), Fraction(1, 100), -1000),
    ],
    Operator.EXP: [None, PowerCurve(None, Fraction(1, 1 << 38), Fraction(1, 10**12))],
    Operator.LOOKUP: [ListedResults(-10, tuple(range(5, 100, 3))), ListedResults(-20, tuple(range(100, 5, -2)))],
    Operator.CLIPPED: [Sides(-3, 4), Sides(None, 2), Sides(0, None)],
    Operator.WITHIN: [Sides(-3, 4)],
}
ON_DOUBLES: dict[Operator, list[Constant]] = {
    Operator.ADD: [None],
    Operator.SUBTRACT: [None],
    Operator.MULTIPLY: [None],
    Operator.NEGATE: [None],
    Operator.ABS: [None],
    Operator.DIVIDE: [None],
    Operator.SQRT: [None],
    Operator.EXP: [None],
    Operator.LOG: [0, 10],
    Operator.POWER: [2, 3],
    Operator.ROUNDED: [0, 1],
    Operator.TRUNCATED: [0, 1],
    Operator.FLOORED: [0],
    Operator.CEILED: [0],
    Operator.WHOLE: [None],
    Operator.GREATEST: [None],
    Operator.LEAST: [None],
}
TWO = {Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.QUOTIENT, Operator.DIVIDE, Operator.MODULO}
TWO |= {*_COMPARISONS, *_CHOICES} - {Operator.IS_NULL, Operator.CASE}


class Box:
    """Random ends of one column, with values that may be NULL, and points inside them."""

    def __init__(self, random: np.random.Generator, whole: bool) -> None:
        middle, width = random.integers(-9, 10, BOXES), random.integers(0, 8, BOXES) * random.integers(0, 2, BOXES)
        self.low, self.high = (middle - width).astype(float), (middle + width).astype(float)
        self.maybe = random.random(BOXES) < 0.3
        self.surely = self.maybe & (random.random(BOXES) < 0.3)
        inside = self.low + random.random((POINTS, BOXES)) * (self.high - self.low)
        self.points = np.rint(inside) if whole else inside
        self.null = self.surely | (self.maybe & (random.random((POINTS, BOXES)) < 0.5))

    def form(self) -> EnclosedNumbers:
        return EnclosedNumbers({}, {}, lambda _: (self.low, self.high), self._nulls)

    def _nulls(self, tail: Fraction) -> Nulls:
        return self.maybe, self.surely

    def values(self, whole: bool) -> list[int | float | None]:
        flat = zip(self.points.ravel().tolist(), self.null.ravel().tolist(), strict=True)
        return [None if null else int(value) if whole else value for value, null in flat]


class Chance:
    """A column of truth values of which each may be possible."""

    def __init__(self, random: np.random.Generator) -> None:
        self.possible = random.random((3, BOXES)) < 0.6
        self.possible[0] |= ~self.possible.any(axis=0)
        weights = np.where(self.possible[:, None, :], random.random((3, POINTS, BOXES)), -1)
        self.points = weights.argmax(axis=0)

    def form(self) -> Truth:
        return Truth({}, lambda _: States(*self.possible))

    def values(self) -> list[bool | None]:
        return [(True, False, None)[point] for point in self.points.ravel().tolist()]


def computed(scalar: Scalar, columns: dict[str, list[int | float | None] | list[bool | None]]) -> list[list[object]]:
    """Return the scalar at all points, a list for each box."""
    facts = {"a": scalar.arguments[0].facts}
    for part in scalar.arguments:
        facts[str(part.constant[1] if isinstance(part.constant, tuple) else "")] = part.facts
    place = Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 0, BOXES * POINTS)
    given = InputNode("g", (*((name, facts[name]) for name in columns), ("at", place)), None)
    flow = ProjectNode(given, "s", (Item("x", scalar), Item("at", column("g", "at", place))))
    found, at = evaluate(flow, {"g": {**columns, "at": list(range(BOXES * POINTS))}})
    ordered = [value for _, value in sorted(zip(at, found, strict=True), key=lambda pair: int(str(pair[0])))]
    return [ordered[box::BOXES] for box in range(BOXES)]


def check(form: NoiseForm, found: list[list[object]]) -> None:
    assert not isinstance(form, Opaque)
    if isinstance(form, Truth):
        states = form.states(TAIL)
        for box, values in enumerate(found):
            for value in values:
                assert (states.null if value is None else states.true if value else states.false)[box]
        return
    (low, high), (maybe, surely) = form.ends(TAIL), form.nulls(TAIL)
    for box, values in enumerate(found):
        for value in values:
            if value is None:
                assert maybe[box]
            else:
                assert not surely[box]
                assert low[box] - 1e-9 <= float(str(value)) <= high[box] + 1e-9


def cases() -> list[tuple[Operator, Constant, bool]]:
    whole = [
        (one, constant, True) for one in (*_RULES, *_CHOICES, *_COMPARISONS) for constant in CONSTANTS.get(one, [None])
    ]
    doubles = [(one, constant, False) for one, constants in ON_DOUBLES.items() for constant in constants]
    return [case for case in whole if case[0] not in {Operator.WHOLE, Operator.CASE}] + doubles


@pytest.mark.parametrize(("operator", "constant", "whole"), cases(), ids=str)
def test_every_operator_stays_inside_its_ends(operator: Operator, constant: Constant, whole: bool) -> None:
    random = np.random.default_rng(len(operator))
    facts = WHOLE if whole else REAL
    names = ("a", "b") if operator in TWO else ("a",)
    boxes = {name: Box(random, whole) for name in names}
    result = TRUTH if operator in _COMPARISONS else WHOLE if operator in {Operator.SIGN, Operator.WHOLE} else facts
    result = REAL if operator is Operator.REAL else result
    scalar = Scalar(operator, tuple(column("g", name, facts) for name in names), result, constant)
    form = boxed(scalar, [box.form() for box in boxes.values()], BOXES)
    assert not form.has_no_interval
    check(form, computed(scalar, {name: box.values(whole) for name, box in boxes.items()}))


@pytest.mark.parametrize("operator", [*_LOGIC, Operator.FLAG], ids=str)
def test_logic_stays_inside_its_states(operator: Operator) -> None:
    random = np.random.default_rng(7)
    names = ("a",) if operator in {Operator.NOT, Operator.FLAG} else ("a", "b")
    chances = {name: Chance(random) for name in names}
    result = WHOLE if operator is Operator.FLAG else TRUTH
    scalar = Scalar(operator, tuple(column("g", name, TRUTH) for name in names), result)
    form = boxed(scalar, [chance.form() for chance in chances.values()], BOXES)
    check(form, computed(scalar, {name: chance.values() for name, chance in chances.items()}))


def test_a_choice_stays_inside_the_hull_of_what_can_be_chosen() -> None:
    random = np.random.default_rng(8)
    first, second = Box(random, True), Box(random, True)
    chance = Chance(random)
    arguments = (column("g", "c", TRUTH), column("g", "a", WHOLE), column("g", "b", WHOLE))
    scalar = Scalar(Operator.CASE, arguments, WHOLE)
    form = boxed(scalar, [chance.form(), first.form(), second.form()], BOXES)
    check(form, computed(scalar, {"c": chance.values(), "a": first.values(True), "b": second.values(True)}))


ONE_ARGUMENT = [
    form.aggregation for form in AGGREGATES if form.aggregation not in PAIRS and form.plain_row_refusal is None
]


@pytest.mark.parametrize(
    ("aggregation", "distinct"), [*product(ONE_ARGUMENT, [False]), (Aggregation.COUNT, True), (Aggregation.AVG, True)]
)
def test_every_aggregate_of_rows_that_may_be_missing_stays_inside_its_ends(
    aggregation: Aggregation, distinct: bool
) -> None:
    """Twelve groups of five rows each, one box per row: at every point the aggregate lies inside its ends."""
    random = np.random.default_rng(9)
    box, chance = Box(random, False), Chance(random)
    box.maybe[:10] = box.surely[:10] = False
    box.null[:, :10] = False
    chance.possible[:, :10], chance.points[:, :10] = np.array([True, False, False])[:, None], 0
    groups = np.repeat(np.arange(BOXES // 5), 5)
    facts = WHOLE if aggregation is Aggregation.COUNT else REAL
    argument = column("g", "a", REAL)
    level = (Fraction(9, 10),) if aggregation in LEVELLED else ()
    measure = AggregateItem("x", Aggregate(aggregation, (argument,), distinct, column("g", "c", TRUTH), level), facts)
    form = folded(measure, FoldedRows("f", groups, BOXES // 5, (chance.form(),)), [box.form()], NOTHING)
    key = Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 0, FAR)
    given = InputNode("g", (("k", key), ("a", REAL), ("c", TRUTH)), None)
    fold = AggregateNode(given, "f", (Item("k", column("g", "k", key)),), (measure,))
    keys = (np.arange(POINTS)[:, None] * BOXES + groups[None, :]).ravel().tolist()
    names, found = evaluate(
        ProjectNode(fold, "s", (Item("k", column("f", "k", key)), Item("x", column("f", "x", facts)))),
        {"g": {"k": keys, "a": box.values(False), "c": chance.values()}},
    )
    points: list[list[object]] = [[] for _ in range(BOXES // 5)]
    for name, value in zip(names, found, strict=True):
        points[int(str(name)) % BOXES].append(value)
    check(form, points)
    ends: tuple[Floats, Floats] = form.ends(TAIL) if isinstance(form, EnclosedNumbers) else (np.zeros(0), np.zeros(0))
    assert np.isfinite(ends[0]).all() or (aggregation is Aggregation.SUM and distinct)
