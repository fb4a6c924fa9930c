"""Every node of a flow against a tiny evaluator in plain Python, on small random tables with hostile names."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from statistics import pstdev, stdev, variance
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law
from tests.engines.windows_reference import windowed_rows

from sfumato.engines.sql.flow import flow_sql
from sfumato.engines.sql.names import PLACE
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    FOUND,
    FOUND_FACTS,
    AggregateItem,
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    SortNode,
    UnionAllNode,
    WindowAggregate,
    WindowNode,
    WindowSpec,
    WindowValue,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, column, literal
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type
from sfumato.query.windows import SHIFTS, UP_TO_CURRENT_ROW, WHOLE_PARTITION, WindowCall, WindowFrame, WindowFunction

pytestmark = pytest.mark.usefixtures("every_engine")

INTEGER = Facts(Type.INTEGER, Kind.INTEGER, low=-9, high=9)
TOTAL = replace(INTEGER, low=-1000, high=1000)
FINE = replace(INTEGER, type=Type.DECIMAL, step=Fraction(1, 1000), low=-9000, high=9000)
COARSE = replace(INTEGER, type=Type.DECIMAL, step=Fraction(3), low=-3, high=3)
TEXT = Facts(Type.TEXT, Kind.TEXT)
TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
REAL = Facts(Type.DECIMAL, Kind.REAL)
A, B, X = 'a"#2', "b c", "x; --'"
LEFT = ScanNode("left table", A, ((X, "c1", INTEGER), ("t", "c2", TEXT), ("f", "c3", TRUTH)))
RIGHT = InputNode(B, ((X, INTEGER), ("w", INTEGER)), ((1, 5), (2, None), (1, 6), (None, 7), (3, 3)))
EMPTY = InputNode("none", ((X, INTEGER),), ())

Row = dict[tuple[str, str], Any]


def _x(label: str = A) -> Scalar:
    return column(label, X, INTEGER)


def _is(operator: Operator, *arguments: Scalar) -> Scalar:
    return Scalar(operator, arguments, TRUTH)


def _number(value: int) -> Scalar:
    return literal(value, INTEGER)


def _value(scalar: Scalar, row: Row) -> Any:
    parts = [_value(argument, row) for argument in scalar.arguments]
    if scalar.operator is Operator.COLUMN:
        assert isinstance(scalar.constant, tuple)
        return row[str(scalar.constant[0]), str(scalar.constant[1])]
    if scalar.operator is Operator.CONSTANT:
        return scalar.constant
    if scalar.operator is Operator.IS_NULL:
        return parts[0] is None
    if scalar.operator is Operator.AND:
        return False if False in parts else None if None in parts else True
    if scalar.operator is Operator.OR:
        return True if True in parts else None if None in parts else False
    if None in parts:
        return None
    if scalar.operator is Operator.NOT:
        return not parts[0]
    return {Operator.EQUAL: lambda a, b: a == b, Operator.LESS: lambda a, b: a < b}[scalar.operator](*parts)


def _rows(flow: RelNode, table: list[tuple[Any, ...]]) -> list[Row]:
    match flow:
        case ScanNode(_, label, columns):
            return [{(label, name): value for (name, _, _), value in zip(columns, row, strict=True)} for row in table]
        case InputNode(label, columns, rows):
            return [{(label, name): v for (name, _), v in zip(columns, row, strict=True)} for row in rows or ()]
        case MaterializedNode():
            raise AssertionError("public rows are kept by an engine: see test_enforcement.py")
        case FilterNode(source, condition):
            return [row for row in _rows(source, table) if _value(condition, row) is True]
        case JoinNode():
            return _pairs(flow, table)
        case AggregateNode():
            return _groups(flow, table)
        case ProjectNode(source, label, items):
            return [{(label, item.name): _value(item.scalar, row) for item in items} for row in _rows(source, table)]
        case SortNode(source, keys):
            found = _rows(source, table)
            for scalar, descending, first in reversed(keys):
                present = [row for row in found if _value(scalar, row) is not None]
                present.sort(key=lambda row, scalar=scalar: _value(scalar, row), reverse=descending)  # type: ignore[misc]
                absent = [row for row in found if _value(scalar, row) is None]
                found = absent + present if first else present + absent
            return found
        case LimitNode(source, count, offset):
            return _rows(source, table)[offset:][:count]
        case WindowNode(source):
            return windowed_rows(flow, _rows(source, table), _value, _aggregate)
        case UnionAllNode(left, right):
            return _rows(left, table) + _rows(right, table)
        case MarkJoinNode(left, right, label, condition):
            others = _rows(right, table)
            return [
                row | {(label, FOUND): any(condition is None or _value(condition, row | one) is True for one in others)}
                for row in _rows(left, table)
            ]


def _pairs(pair: JoinNode, table: list[tuple[Any, ...]]) -> list[Row]:
    found, right = [], _rows(pair.right, table)
    for row in _rows(pair.left, table):
        met = [row | other for other in right if pair.condition is None or _value(pair.condition, row | other) is True]
        if not met and pair.kind is not JoinKind.INNER:
            met = [row | {(label, name): None for label, name, _ in outputs(pair.right)}]
        found += met
    if pair.kind is JoinKind.FULL:
        nothing = {(label, name): None for label, name, _ in outputs(pair.left)}
        left = _rows(pair.left, table)
        alone = [one for one in right if not any(_value(pair.condition, row | one) is True for row in left)]  # type: ignore[arg-type]
        found += [nothing | one for one in alone]
    return found


def _groups(fold: AggregateNode, table: list[tuple[Any, ...]]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if fold.keys else {(): []}
    for row in _rows(fold.source, table):
        groups.setdefault(tuple(_value(key.scalar, row) for key in fold.keys), []).append(row)
    return [
        {(fold.label, key.name): value for key, value in zip(fold.keys, keys, strict=True)}
        | {(fold.label, measure.name): _aggregate(measure, rows) for measure in fold.measures}
        for keys, rows in groups.items()
    ]


def _aggregate(folded: AggregateItem, rows: list[Row]) -> Any:
    aggregate = folded.aggregate
    rows = [row for row in rows if aggregate.where is None or _value(aggregate.where, row) is True]
    if aggregate.argument is None:
        return len(rows)
    values = [value for row in rows if (value := _value(aggregate.argument, row)) is not None]
    values = list(dict.fromkeys(values)) if aggregate.distinct else values
    return (
        None
        if not values and aggregate.function is not Aggregation.COUNT
        else _PLAIN[aggregate.function](values, folded)
    )


def _average(values: list[int], folded: AggregateItem) -> Any:
    exact = Fraction(sum(values), len(values))
    if folded.facts.kind is Kind.REAL:
        return float(exact)
    steps = exact / folded.facts.step
    size = int(abs(steps) + Fraction(1, 2))
    return -size if steps < 0 else size


_PLAIN: dict[Aggregation, Callable[[list[Any], AggregateItem], Any]] = {
    Aggregation.COUNT: lambda values, _: len(values),
    Aggregation.SUM: lambda values, _: sum(values),
    Aggregation.MIN: lambda values, _: min(values),
    Aggregation.MAX: lambda values, _: max(values),
    Aggregation.AVG: _average,
    Aggregation.VAR_SAMP: lambda values, _: None if len(values) < 2 else variance(values),
    Aggregation.STDDEV_SAMP: lambda values, _: None if len(values) < 2 else stdev(values),
    Aggregation.STDDEV_POP: lambda values, _: pstdev(values),
}

_MEASURES = tuple(
    AggregateItem(f"m{at} {distinct}", Aggregate(aggregation, (_x(),), distinct, where), facts)
    for at, (aggregation, facts) in enumerate(
        [
            (Aggregation.COUNT, TOTAL),
            (Aggregation.SUM, TOTAL),
            (Aggregation.MIN, INTEGER),
            (Aggregation.MAX, INTEGER),
            (Aggregation.AVG, FINE),
            (Aggregation.AVG, COARSE),
            (Aggregation.AVG, REAL),
            (Aggregation.VAR_SAMP, REAL),
            (Aggregation.STDDEV_SAMP, REAL),
            (Aggregation.STDDEV_POP, REAL),
        ]
    )
    for distinct, where in [(False, None), (True, None), (True, column(A, "f", TRUTH))]
)
_UNIQUE = tuple(replace(measure, name=f"m{at}") for at, measure in enumerate(_MEASURES))
_COUNT = AggregateItem("n", Aggregate(Aggregation.COUNT), TOTAL)
_SAME = _is(Operator.EQUAL, _x(), _x(B))
_FEW = _is(Operator.LESS, column(B, "w", INTEGER), _number(7))
_M, _O = column("m", FOUND, FOUND_FACTS), column("o", FOUND, FOUND_FACTS)
_O_WAS = Scalar(Operator.CONSTANT, (), FOUND_FACTS, True)
_INNER = JoinNode(JoinKind.INNER, LEFT, RIGHT, _SAME)
_BY_X = SortNode(LEFT, ((_x(), True, False), (column(A, "t", TEXT), False, True)))
_TAKEN = LimitNode(SortNode(_INNER, ((column(B, "w", INTEGER), False, False),)), 4, 1)
_OWN = AggregateNode(LEFT, "own #", (Item("k1", _x()), Item('k "2"', column(A, "t", TEXT))), (_COUNT,))

_X_FIRST = ((_x(), False, True),)
_X_LAST = ((_x(), True, False), (column(A, "t", TEXT), False, False))


def _frame(rows: bool, start: int | None, end: int | None) -> WindowFrame:
    return WindowFrame(rows, *(None if one is None else Fraction(one) for one in (start, end)))


def _sums(*arounds: WindowSpec) -> WindowNode:
    measures = [one for one in _UNIQUE if not one.aggregate.distinct]
    total = measures[1]
    filtered = replace(total, name="f", aggregate=replace(total.aggregate, where=column(A, "f", TRUTH)))
    return WindowNode(
        LEFT,
        "w",
        tuple(
            WindowAggregate(replace(one, name=f"{one.name} {at}"), around)
            for at, around in enumerate(arounds)
            for one in (*measures[:7], filtered)
        ),
    )


def _positions(*arounds: WindowSpec) -> WindowNode:
    values = []
    for at, around in enumerate(arounds):
        for function in WindowFunction:
            share = function in {WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST}
            facts = REAL if share else TOTAL if "N" in function.name and "VALUE" not in function.name else INTEGER
            arguments: tuple[Scalar, ...] = (_x(),) if "VALUE" in function.name or function in SHIFTS else ()
            arguments += (_number(7),) if function is WindowFunction.LEAD else ()
            values.append(WindowValue(f"{function} {at}", WindowCall(function, arguments, 2), facts, around))
    return WindowNode(LEFT, "w", tuple(values))


_PARTS = (column(A, "t", TEXT),)
_STACKED = UnionAllNode(
    ProjectNode(LimitNode(_BY_X, 3, 0), "s", (Item("a", _x()), Item("b", column(A, "t", TEXT)))),
    ProjectNode(RIGHT, "s", (Item("a", _x(B)), Item("b", Scalar(Operator.CONSTANT, (), TEXT, None)))),
    "s",
)

FLOWS: dict[str, RelNode] = {
    "full pair": JoinNode(JoinKind.FULL, FilterNode(LEFT, column(A, "f", TRUTH)), FilterNode(RIGHT, _FEW), _SAME),
    "sums over windows": _sums(
        WindowSpec((), (), WHOLE_PARTITION),
        WindowSpec(_PARTS, _X_FIRST, UP_TO_CURRENT_ROW),
        WindowSpec((), _X_LAST, _frame(True, -1, 1)),
        WindowSpec(_PARTS, _X_LAST, _frame(True, None, 0)),
    ),
    "sums over ranges": _sums(
        WindowSpec((), _X_FIRST, _frame(False, -1, 2)),
        WindowSpec(_PARTS, ((_x(), True, False),), _frame(False, 0, 1)),
        WindowSpec((), ((_x(), True, False),), _frame(False, -2, None)),
        WindowSpec((), _X_LAST, _frame(True, 1, 2)),
    ),
    "positions": _positions(
        WindowSpec((), (), WHOLE_PARTITION),
        WindowSpec(_PARTS, _X_LAST, UP_TO_CURRENT_ROW),
        WindowSpec((), _X_FIRST, _frame(True, -1, 3)),
    ),
    "keep of positions": FilterNode(
        _positions(WindowSpec(_PARTS, _X_LAST, WHOLE_PARTITION)),
        _is(Operator.LESS, column("w", "row_number 0", TOTAL), _number(3)),
    ),
    "order of positions": SortNode(_positions(WindowSpec(_PARTS, _X_LAST, WHOLE_PARTITION)), _X_LAST),
    "stack": _STACKED,
    "fold of a stack": AggregateNode(_STACKED, "g", (Item("k", column("s", "a", INTEGER)),), (_COUNT,)),
    "stack of orders": UnionAllNode(
        ProjectNode(_BY_X, "s", (Item("a", _x()),)), ProjectNode(LimitNode(RIGHT, 2, 1), "s", (Item("a", _x(B)),)), "s"
    ),
    "mark": MarkJoinNode(LEFT, RIGHT, "m", _SAME),
    "mark of what was kept": MarkJoinNode(FilterNode(LEFT, column(A, "f", TRUTH)), FilterNode(RIGHT, _FEW), "m", _SAME),
    "mark by anything": MarkJoinNode(_BY_X, LimitNode(RIGHT, 2, 0), "m", _is(Operator.LESS, _x(), _x(B))),
    "mark by nothing": MarkJoinNode(LEFT, EMPTY, "m", None),
    "keep of marks": FilterNode(MarkJoinNode(LEFT, RIGHT, "m", _SAME), _M),
    "keep of what is not marked": FilterNode(MarkJoinNode(LEFT, RIGHT, "m", _SAME), _is(Operator.NOT, _M)),
    "keep of two marks": FilterNode(
        MarkJoinNode(
            MarkJoinNode(LEFT, FilterNode(RIGHT, _FEW), "m", _SAME), RIGHT, "o", _is(Operator.LESS, _x(), _x(B))
        ),
        _is(Operator.AND, column(A, "f", TRUTH), _is(Operator.NOT, _O), _M),
    ),
    "keep of a mark and of what has a value": FilterNode(
        MarkJoinNode(LEFT, RIGHT, "m", _SAME),
        _is(Operator.NOT, _is(Operator.OR, _M, _is(Operator.IS_NULL, _x()))),
    ),
    "keep of a mark or of something else": FilterNode(
        MarkJoinNode(LEFT, RIGHT, "m", _SAME), _is(Operator.OR, _M, column(A, "f", TRUTH))
    ),
    "mark of what was marked": MarkJoinNode(
        FilterNode(MarkJoinNode(LEFT, RIGHT, "m", _SAME), _M), EMPTY, "o", _is(Operator.EQUAL, _M, _O_WAS)
    ),
    "read": LEFT,
    "given": RIGHT,
    "given nothing": EMPTY,
    "keep": FilterNode(FilterNode(LEFT, column(A, "f", TRUTH)), _is(Operator.LESS, _x(), _number(2))),
    "inner pair": _INNER,
    "all pairs": JoinNode(JoinKind.INNER, LEFT, RIGHT, None),
    "left pair": JoinNode(JoinKind.LEFT, LEFT, RIGHT, _SAME),
    "left pair with nothing": JoinNode(JoinKind.LEFT, LEFT, EMPTY, None),
    "left pair with what was kept": JoinNode(
        JoinKind.LEFT, FilterNode(LEFT, column(A, "f", TRUTH)), FilterNode(RIGHT, _FEW), _SAME
    ),
    "left pair with a kept pair": JoinNode(
        JoinKind.LEFT,
        InputNode("l", ((X, INTEGER),), ((1,), (8,))),
        FilterNode(_INNER, _FEW),
        _is(Operator.EQUAL, _x("l"), _x()),
    ),
    "fold": AggregateNode(LEFT, "g", (Item("k", column(A, "t", TEXT)),), _UNIQUE),
    "fold of everything": AggregateNode(LEFT, "g", (), _UNIQUE),
    "fold of nothing": AggregateNode(FilterNode(LEFT, _is(Operator.LESS, _x(), _number(-9))), "g", (), _UNIQUE),
    "fold without measures": AggregateNode(LEFT, "g", (Item("k1", column(A, "f", TRUTH)),), ()),
    "fold of a fold": AggregateNode(_OWN, "g", (Item("k1", column("own #", "n", TOTAL)),), (_COUNT,)),
    "fold of what was taken": AggregateNode(_TAKEN, "g", (), (_COUNT,)),
    "order": _BY_X,
    "order of an order": SortNode(_BY_X, ((column(A, "f", TRUTH), False, True),)),
    "take": LimitNode(_BY_X, 3, 2),
    "take without order": LimitNode(LEFT, None, 4),
    "take of a take": LimitNode(LimitNode(_BY_X, 5, 0), 3, 1),
    "keep of taken pairs": FilterNode(_TAKEN, _FEW),
    "order of taken pairs": SortNode(_TAKEN, ((_x(), False, False),)),
    "pair with what was taken": JoinNode(JoinKind.LEFT, LimitNode(_BY_X, 4, 0), LimitNode(RIGHT, 2, 0), _SAME),
    "show": ProjectNode(LimitNode(_BY_X, 3, 0), "out", (Item("a", _x()), Item("a b", _is(Operator.IS_NULL, _x())))),
    "show of a show": ProjectNode(
        ProjectNode(LimitNode(_BY_X, 3, 0), "in", (Item("a", _x()),)), "out", (Item("b", column("in", "a", INTEGER)),)
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_is_what_plain_python_makes_of_it(name: str) -> None:
    flow, random = FLOWS[name], Random(name)
    engine = engine_under_law()
    for size in (0, 1, 12):
        table = [
            (
                random.choice([None, *range(-3, 4)]),
                random.choice([None, "a", "é", "'"]),
                random.choice([None, True, False]),
            )
            for _ in range(size)
        ]
        truths = [None if row[2] is None else int(row[2]) for row in table]
        stored = {
            "c1": pa.array([row[0] for row in table], pa.int64()),
            "c2": pa.array([row[1] for row in table], pa.string()),
            "c3": pa.array(truths, pa.int64()),
            PLACE: pa.array(range(size), pa.int64()),
        }
        statement = flow_sql(flow, {"left table": engine.dialect.quote_identifier("stored")}, engine.dialect)
        found = engine.rows(statement, {"stored": pa.table(stored)})
        columns = outputs(flow)
        expected = [[row[label, name] for label, name, _ in columns] for row in _rows(flow, table)]
        if isinstance(flow, JoinNode):  # a full join has no order of its own
            found, expected = sorted(found, key=repr), sorted(expected, key=lambda row: repr(tuple(row)))
        assert [list(row) for row in found] == [pytest.approx(row) if _real(flow) else row for row in expected]


def test_a_mark_that_rows_are_kept_by_is_a_join_that_makes_no_row() -> None:
    """Where EXISTS is a column, PostgreSQL looks for each row again; as a condition it is a join."""
    engine = engine_under_law()
    for name in ("keep of marks", "keep of what is not marked", "keep of two marks"):
        statement = flow_sql(FLOWS[name], {"left table": engine.dialect.quote_identifier("stored")}, engine.dialect)
        columns, _, conditions = statement.partition("WHERE")
        assert "EXISTS" in conditions, statement
        assert "EXISTS" not in columns, statement


def _real(flow: RelNode) -> bool:
    return any(facts.kind is Kind.REAL for _, _, facts in outputs(flow))
