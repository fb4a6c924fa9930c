"""Arithmetic after the noise: in the given order, of integers of any length, and fast enough to simulate with."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.post_processing.values import Values
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    AggregateItem,
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    JoinNode,
    LimitNode,
    ProjectNode,
    RelNode,
    SortNode,
)
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type

NOISY = Facts(Type.INTEGER, Kind.INTEGER, low=-(1 << 62), high=1 << 62)
LONG = Facts(Type.INTEGER, Kind.INTEGER, low=-(1 << 126), high=1 << 126)
TEXT = Facts(Type.TEXT, Kind.TEXT)
REAL = Facts(Type.DECIMAL, Kind.REAL)
TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
LABEL = 'a "group"#2'
CELLS = InputNode(LABEL, (("k", TEXT), ('n "x"', NOISY), ("r", REAL)), None)
GIVEN: dict[str, dict[str, Values]] = {
    LABEL: {"k": ["b", "a", "c", "d"], 'n "x"': [5, 1, 5, None], "r": [0.5, float("inf"), None, -1.0]}
}


def _shown(source: RelNode, *columns: tuple[str, Facts], label: str = LABEL) -> ProjectNode:
    return ProjectNode(source, "out", tuple(Item(name, column(label, name, facts)) for name, facts in columns))


def test_rows_keep_the_order_that_was_given() -> None:
    assert evaluate(_shown(CELLS, *CELLS.columns), GIVEN) == [
        ["b", "a", "c", "d"],
        [5, 1, 5, None],
        [0.5, None, None, -1.0],
    ]


def test_an_order_leaves_equal_rows_as_they_were_and_a_take_comes_after_it() -> None:
    key = column(LABEL, 'n "x"', NOISY)
    ordered = SortNode(CELLS, ((key, True, True),))
    assert evaluate(_shown(ordered, ("k", TEXT)), GIVEN) == [["d", "b", "c", "a"]]
    assert evaluate(_shown(LimitNode(ordered, 2, 1), ("k", TEXT)), GIVEN) == [["b", "c"]]
    null = Scalar(Operator.IS_NULL, (key,), TRUTH)
    assert evaluate(_shown(FilterNode(LimitNode(ordered, 2, 0), null), ("k", TEXT)), GIVEN) == [["d"]]


@pytest.mark.parametrize("value", [2**63, -(2**64), 2**127, -(10**400)])
def test_an_integer_however_long_is_cut_to_the_range_of_its_facts(value: int) -> None:
    given = InputNode("g", (("short", NOISY), ("long", LONG)), None)
    shown = _shown(given, *given.columns, label="g")
    cut = [min(max(value, facts.low), facts.high) for _, facts in given.columns]
    assert evaluate(shown, {"g": {"short": [value], "long": [value]}}) == [[cut[0]], [cut[1]]]


def test_long_integers_are_added_exactly_and_a_sum_that_is_too_long_is_cut() -> None:
    given = InputNode("g", (("x", LONG),), None)
    total = AggregateItem("t", Aggregate(Aggregation.SUM, (column("g", "x", LONG),)), LONG)
    shown = _shown(AggregateNode(given, "f", (), (total,)), ("t", LONG), label="f")
    values = [2**100 + 1, -(2**99), 3, None, -(2**63)]
    assert evaluate(shown, {"g": {"x": values}}) == [[2**100 + 1 - 2**99 + 3 - 2**63]]
    assert evaluate(shown, {"g": {"x": [2**126] * 9}}) == [[2**126]]
    assert evaluate(shown, {"g": {"x": []}}) == [[None]]


def test_groups_come_in_the_order_of_their_first_rows_and_pairs_in_that_of_the_left() -> None:
    count = AggregateItem("c", Aggregate(Aggregation.COUNT), NOISY)
    fold = AggregateNode(CELLS, "f", (Item("n", column(LABEL, 'n "x"', NOISY)),), (count,))
    assert evaluate(fold, GIVEN) == [[5, 1, None], [2, 1, 1]]
    pair = JoinNode(JoinKind.INNER, CELLS, InputNode("w", (("v", NOISY),), ((1,), (2,))), None)
    assert evaluate(_shown(pair, ("k", TEXT)), GIVEN) == [["b", "b", "a", "a", "c", "c", "d", "d"]]


def test_a_million_rows_are_taken_as_arrays() -> None:
    values = np.arange(1_000_000, dtype=np.int64)[::-1].copy()
    given = InputNode("g", (("x", NOISY), ("r", REAL)), None)
    shown = _shown(given, *given.columns, label="g")
    integers, reals = evaluate(shown, {"g": {"x": values, "r": values / 2}})
    assert integers == values.tolist()
    assert reals == (values / 2).tolist()


def test_threads_and_forked_processes_have_an_evaluator_of_their_own() -> None:
    shown = _shown(CELLS, ("k", TEXT))
    expected = evaluate(shown, GIVEN)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: evaluate(shown, GIVEN), range(6))) == [expected] * 6
    child = os.fork()
    if child == 0:
        os._exit(0 if evaluate(shown, GIVEN) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
