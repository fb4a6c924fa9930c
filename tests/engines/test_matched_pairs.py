"""Values of many rows are served whatever serves the rest: the statement counts them, and the sizes stay the same."""

from collections.abc import Sequence
from random import Random

import duckdb
import pyarrow as pa
import pytest
from tests.laws.matched import served

from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.sql.matched_pairs import matched_pairs_sql
from sfumato.engines.sql.statements import matched_sizes

Row = tuple[str | None, int, str | None]
"""A key, a person and a value."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LIMITS = (1, 2, 4, 8)


def _sizes(rows: Sequence[Row], max_rows: int, *, by_key: bool, once: bool) -> tuple[dict[str | None, list[int]], int]:
    """Return how many values of each cell are served within each limit, and how many pairs left the engine."""
    keys = ["k"] if by_key else []
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("k", "u", "val"))})
    with duckdb.connect() as connection:
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        connection.register("found", table)
        present = " AND ".join(f"{name} IS NOT NULL" for name in (*keys, "val"))
        source = f"SELECT {', '.join([*keys, 'u', 'val'])} FROM found WHERE {present}"  # noqa: S608
        statement = matched_pairs_sql(source, keys, "u", max_rows, DUCKDB, once=once)
        columns = connection.sql(statement).to_arrow_table().columns
    cells = _cells(rows, by_key=by_key)
    found = matched_sizes(LIMITS, [(cell,) if by_key else () for cell in cells], columns)
    pairs = sum(person is not None for person in columns[len(keys)].to_pylist())
    return dict(zip(cells, found.tolist(), strict=True)), pairs


def _cells(rows: Sequence[Row], *, by_key: bool) -> list[str | None]:
    return [*sorted({row[0] for row in rows if row[0] is not None})] if by_key else [None]


def _expected(rows: Sequence[Row], *, by_key: bool) -> dict[str | None, list[int]]:
    found = {}
    for cell in _cells(rows, by_key=by_key):
        people: dict[int, set[str]] = {}
        for key, who, value in rows:
            if value is not None and (not by_key or key == cell):
                people.setdefault(who, set()).add(value)
        everybody = ["".join(sorted(own)) for own in people.values()]
        found[cell] = [served(everybody, limit) for limit in LIMITS]
    return found


def _table(random: Random) -> tuple[list[Row], int]:
    """Return random rows and the most that a person has: some have many of one value, or values nobody else has."""
    letters, people, rows = LETTERS[: random.randint(1, 26)], random.randint(1, 12), []
    for who in range(people):
        common = letters[: random.randint(1, len(letters))]
        for _ in range(random.choice([0, 1, 2, 3, 3, 8])):
            value = random.choice([*common, None])
            rows += [(random.choice(["x", "x", "y", None]), who, value)] * random.choice([1, 1, 1, 4])
    own = [sum(row[1] == who for row in rows) for who in range(people)]
    return rows, max([*own, 1])


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("by_key", [False, True])
def test_the_sizes_are_those_of_all_pairs(by_key: bool, once: bool) -> None:
    random, fewer = Random(29), 0
    for _ in range(25):
        rows, max_rows = _table(random)
        found, pairs = _sizes(rows, max_rows, by_key=by_key, once=once)
        assert found == _expected(rows, by_key=by_key)
        fewer += pairs < len({row for row in rows if row[2] is not None})
    assert fewer > 5  # what is left out makes the difference


@pytest.mark.parametrize("rare", [0, 1, 5])
def test_a_value_is_left_out_only_where_the_rare_ones_leave_it_an_owner(rare: int) -> None:
    """Five people own the common value; each has one that nobody else has, or none."""
    people = 5
    rows: list[Row] = [("x", who, "a") for who in range(people) for _ in range(3)]
    rows += [("x", who, LETTERS[1 + who]) for who in range(min(rare, people))]
    found, _ = _sizes(rows, 4, by_key=False, once=False)
    assert found == _expected(rows, by_key=False)
    assert found[None][0] == (people if rare == people else rare + 1)


def test_no_pair_leaves_the_engine_where_every_value_has_many_rows() -> None:
    rows: list[Row] = [("x", (who * 7 + at) % 50, LETTERS[at % 10]) for who in range(50) for at in range(10)]
    found, pairs = _sizes(rows, 10, by_key=False, once=False)
    assert (found, pairs) == ({None: [10] * len(LIMITS)}, 0)
