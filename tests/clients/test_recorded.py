"""Statements in the manner of tools in their first minutes, replayed: each is answered as its tool needs it.

`recorded/` has one file per tool, written by hand after what the tool sends. A line above each statement says what
becomes of it: it is free, charged at the price that EXPLAIN says, or refused with a SQLSTATE. Whatever is not said
to be charged costs nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.wire.served import PRICE, Bare, errors, served

RECORDED = Path(__file__).with_name("recorded")
TOOLS = sorted(path.stem for path in RECORDED.glob("*.sql"))
COST = re.compile(r"\(cost=0\.\.([\d.]+)")
DEPTS = ("er", "icu", "surgery")


def statements(tool: str) -> Iterator[tuple[str, str]]:
    """Give each statement of a tool with what becomes of it."""
    for block in (RECORDED / f"{tool}.sql").read_text(encoding="utf-8").strip().split("\n\n"):
        verdict, _, sql = block.partition("\n")
        yield verdict.removeprefix("-- "), sql


def explained(client: Bare, sql: str) -> float:
    """Return what EXPLAIN says that a question costs, also that of a cursor."""
    declared = re.fullmatch(r"declare \S+ cursor with hold for (.*);fetch .*", sql, re.DOTALL)
    (line,) = client.rows(f"EXPLAIN {declared[1] if declared else sql}")[0]
    cost = COST.match(line or "")
    assert cost is not None
    return float(cost[1])


def test_every_tool_has_its_statements() -> None:
    assert set(TOOLS) == {
        "dbeaver", "dbt", "django", "grafana", "great_expectations", "jupysql", "metabase", "pgadmin", "power_bi",
        "superset", "tableau",
    }  # fmt: skip
    for tool in TOOLS:
        found = list(statements(tool))
        assert {verdict for verdict, _ in found} <= {"free", "charged", "42501"}
        assert any(verdict == "charged" for verdict, _ in found)


@pytest.mark.parametrize("tool", TOOLS)
def test_five_minutes_of_a_tool_cost_what_explain_said_and_nothing_again(tool: str, tmp_path: Path) -> None:
    total = 0.0
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        for verdict, sql in statements(tool):
            expected = explained(client, sql) if verdict == "charged" else 0.0
            before = server.spent()
            said = errors(client.query(sql))
            assert [one["C"] for one in said] == ([] if verdict in ("free", "charged") else [verdict]), sql
            assert server.spent() - before == pytest.approx(expected), sql
            assert (expected > 0) == (verdict == "charged"), sql
            total += expected
        with server.client(pairs=PRICE) as another:
            for _, sql in statements(tool):
                another.query(sql)
        assert server.spent() == pytest.approx(total)


def tiles() -> list[tuple[str, str]]:
    """Return twelve tiles of a dashboard: the columns and source of each, and the names that they can be sorted by."""
    by_dept = [
        (f"dept, {aggregate} AS x FROM visits WHERE age {condition} GROUP BY dept", "dept, x")
        for aggregate in ("COUNT(*)", "AVG(cost)")
        for condition in ("< 30", ">= 30", "BETWEEN 40 AND 60")
    ]
    by_day = [(f"day, {aggregate} AS x FROM visits GROUP BY day", "day, x") for aggregate in ("COUNT(*)", "SUM(cost)")]
    totals = [(f"COUNT(*) AS x FROM visits WHERE dept = '{dept}'", "x") for dept in DEPTS]
    ages = [("age / 10 AS decade, COUNT(*) AS x FROM visits GROUP BY age / 10", "decade, x")]
    return [*by_dept, *by_day, *totals, *ages]


def test_twelve_tiles_refreshed_sorted_and_limited_cost_once(tmp_path: Path) -> None:
    assert len(tiles()) == 12
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        expected = 0.0
        for tile, _ in tiles():
            expected += explained(client, f"SELECT {tile}")
            client.rows(f"SELECT {tile}")
        assert server.spent() == pytest.approx(expected)
        for refresh in range(10):
            with server.client(pairs=PRICE) as another:
                for tile, names in tiles():
                    order = ", ".join(f"{name} {'DESC' if refresh % 2 else 'ASC'}" for name in names.split(", "))
                    spelled = f"SELECT {tile} ORDER BY {order} LIMIT {10 + refresh}"
                    assert explained(another, spelled) == 0
                    another.rows(spelled.replace("SELECT", "select ", 1))
        assert server.spent() == pytest.approx(expected)
