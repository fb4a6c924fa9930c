"""Outcomes that need no engine: what the engine computes, of every shape of question and of made-up flows."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world, policy, write

from sfumato import database, opening
from sfumato.engines.post_processing.by_engine import evaluate_by_engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.post_processing.python import MAX_PYTHON_ROWS, plain_outcome
from sfumato.engines.post_processing.values import Values
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.rel_nodes import FilterNode, InputNode, Item, LimitNode, ProjectNode, RelNode, SortNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.types import Type

WHOLE = Facts(Type.INTEGER, Kind.INTEGER, low=-5, high=5)
LONG = Facts(Type.INTEGER, Kind.INTEGER, low=-MAX_INTERMEDIATE_STEPS, high=MAX_INTERMEDIATE_STEPS)
REAL = Facts(Type.DECIMAL, Kind.REAL)
TEXT = Facts(Type.TEXT, Kind.TEXT)
TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)
COLUMNS = (("i", WHOLE), ("l", LONG), ("r", REAL), ("t", TEXT), ("b", TRUTH))
CELLS = InputNode("g", COLUMNS, None)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "i": st.integers(-9, 9),
    "l": st.integers(-(2**130), 2**130),
    "r": st.sampled_from([0.0, -0.0, 0.5, -1.0, 1e300, float("nan"), float("inf")]),
    "t": st.sampled_from(["", "a", "B", "ä", "\U0001f600", "\uffff", "a\0b"]),
    "b": st.booleans(),
}


def _scalars(kind: Kind) -> st.SearchStrategy[Scalar]:
    facts = next(facts for _, facts in COLUMNS if facts.kind is kind)
    constants = {
        Kind.INTEGER: st.sampled_from([-2, 0, 3, None]),
        Kind.REAL: st.sampled_from([0.0, -1.0, None]),
        Kind.TEXT: st.sampled_from(["a", "ä", None]),
        Kind.BOOLEAN: st.sampled_from([True, False, None]),
    }
    columns = [column("g", name, facts) for name, facts in COLUMNS if facts.kind is kind]
    return st.sampled_from(columns) | constants[kind].map(lambda value: Scalar(Operator.CONSTANT, (), facts, value))


def _compared(kind: Kind) -> st.SearchStrategy[Scalar]:
    operators = st.sampled_from([Operator.EQUAL, Operator.DIFFERENT, Operator.LESS, Operator.AT_MOST])
    return st.builds(
        lambda operator, one, other: Scalar(operator, (one, other), TRUTH), operators, _scalars(kind), _scalars(kind)
    )


ANY = st.one_of(*(_scalars(kind) for kind in (Kind.INTEGER, Kind.REAL, Kind.TEXT, Kind.BOOLEAN)))
CONDITIONS = st.recursive(
    st.one_of(
        *(_compared(kind) for kind in (Kind.INTEGER, Kind.REAL, Kind.TEXT)),
        ANY.map(lambda scalar: Scalar(Operator.IS_NULL, (scalar,), TRUTH)),
        _scalars(Kind.BOOLEAN),
    ),
    lambda parts: st.one_of(
        parts.map(lambda part: Scalar(Operator.NOT, (part,), TRUTH)),
        st.builds(
            lambda operator, sides: Scalar(operator, tuple(sides), TRUTH),
            st.sampled_from([Operator.AND, Operator.OR]),
            st.lists(parts, min_size=2, max_size=3),
        ),
    ),
    max_leaves=4,
)
SORTED = st.sampled_from([column("g", name, facts) for name, facts in COLUMNS])  # lowering leaves constants out
KEYS = st.lists(st.tuples(SORTED, st.booleans(), st.booleans()), min_size=1, max_size=3).map(tuple)


def _above(flow: st.SearchStrategy[RelNode]) -> st.SearchStrategy[RelNode]:
    counts = st.none() | st.integers(0, 4)
    return st.one_of(
        st.builds(FilterNode, flow, CONDITIONS),
        st.builds(SortNode, flow, KEYS),
        st.builds(LimitNode, flow, counts, st.integers(0, 3)),
        flow.map(
            lambda source: ProjectNode(
                source, "g", tuple(Item(name, column("g", name, facts)) for name, facts in COLUMNS)
            )
        ),
    )


FLOWS = st.builds(
    lambda source, scalars: ProjectNode(source, "out", tuple(Item(f"x{at}", one) for at, one in enumerate(scalars))),
    st.recursive(st.just(CELLS), _above, max_leaves=5),
    st.lists(ANY | CONDITIONS, min_size=1, max_size=4),
)
TABLES = st.integers(0, 6).flatmap(
    lambda size: st.fixed_dictionaries(
        {name: st.lists(st.none() | values, min_size=size, max_size=size) for name, values in VALUES.items()}
    )
)


@settings(max_examples=60)
@examples(FLOWS, TABLES)
def test_a_plain_outcome_is_what_the_engine_computes_value_for_value(
    flow: ProjectNode, table: Mapping[str, Values]
) -> None:
    assert repr(plain_outcome(flow, {"g": table})) == repr(evaluate_by_engine(flow, {"g": table}))


PLAIN = {Operator.IS_NULL, Operator.NOT, Operator.AND, Operator.OR}
PLAIN |= {Operator.EQUAL, Operator.DIFFERENT, Operator.LESS, Operator.AT_MOST}
OTHERS = {
    Operator.ADD,
    Operator.NEGATE,
    Operator.LEAST,
    Operator.COALESCE,
    Operator.IN,
    Operator.LOWER,
    Operator.CONCAT,
}


@pytest.mark.parametrize("operator", sorted(PLAIN | OTHERS))
def test_what_is_not_plain_is_left_to_the_engine(operator: Operator) -> None:
    arguments = (column("g", "i", WHOLE), column("g", "i", WHOLE))
    shown = ProjectNode(CELLS, "out", (Item("x", Scalar(operator, arguments, TRUTH)),))
    table: dict[str, Values] = {name: [None] for name, _ in COLUMNS}
    assert (plain_outcome(shown, {"g": table}) is not None) == (operator in PLAIN)


def test_many_rows_are_left_to_the_engine() -> None:
    given = InputNode("g", (("i", WHOLE),), None)
    shown = ProjectNode(given, "out", (Item("i", column("g", "i", WHOLE)),))
    many: dict[str, dict[str, Values]] = {"g": {"i": range(MAX_PYTHON_ROWS + 1)}}
    assert plain_outcome(shown, many) is None
    assert evaluate(shown, many)[0][:7] == [0, 1, 2, 3, 4, 5, 5]


def test_every_shape_of_question_has_the_same_outcome_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = []

    def both(flow: RelNode, given: Mapping[str, Mapping[str, Values]]) -> list[list[object]]:
        found = evaluate_by_engine(flow, given)
        plain.append(plain_outcome(flow, given) is not None)
        assert repr(evaluate(flow, given)) == repr(found)
        return found

    monkeypatch.setattr(database, "evaluate", both)
    write(tmp_path / "written", a_world(3, people=12))
    with opening.open(policy(tmp_path / "written")) as opened:
        for sql in SHAPES:
            opened.ask(sql, epsilon=1)
    assert plain.count(True) > len(SHAPES) / 2
