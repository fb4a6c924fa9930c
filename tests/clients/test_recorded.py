"""Statements of tools in their first minutes, replayed: each is answered as its tool needs it.

`recorded/` has one file per tool. Those of tools that run here were recorded (`tests.clients.recording`). Of the
others, the first lines of each file say which part of the tool's public source they were taken from, and what was
rebuilt by hand; `tests.clients.matrix` also sends them through pgjdbc and psqlODBC. Whatever is not said to be charged
costs nothing.
"""

from pathlib import Path

import pytest
from tests.clients.replaying import RECORDED, Statement, explained, read, send
from tests.server.wire.served import PRICE, Bare, errors, served

TOOLS = sorted(path.stem for path in RECORDED.glob("*.sql"))
CAPTURED = {"dbt", "django", "great_expectations", "jupysql", "pgadmin", "superset"}
REBUILT = {"dbeaver", "grafana", "metabase", "power_bi", "tableau"}
REFUSED = {"42501", "42601"}
"""People's rows, and functions of the wrong type, which PostgreSQL refuses as well."""
DEPTS = ("er", "icu", "surgery")


def test_every_tool_has_its_statements_and_says_where_they_are_from() -> None:
    assert set(TOOLS) == CAPTURED | REBUILT
    for tool in TOOLS:
        recording = read(tool)
        assert recording.header[0].startswith("tool: ")
        source = recording.header[1].removeprefix("source: ")
        assert source.startswith("recorded; " if tool in CAPTURED else ("rebuilt by hand", "taken from ")), tool
        verdicts = {one.verdict for one in recording.statements}
        assert {"charged"} <= verdicts <= {"free", "charged"} | REFUSED


@pytest.mark.parametrize("tool", TOOLS)
def test_five_minutes_of_a_tool_cost_what_explain_said_and_nothing_again(tool: str, tmp_path: Path) -> None:
    total, statements = 0.0, read(tool).statements
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        for one in statements:
            expected = explained(client, one) if one.verdict == "charged" else 0.0
            before = server.spent()
            said = errors(send(client, one.sql, one.values))
            assert [error["C"] for error in said] == ([one.verdict] if one.verdict in REFUSED else []), one.sql
            assert server.spent() - before == pytest.approx(expected), one.sql
            assert (expected > 0) == (one.verdict == "charged"), one.sql
            total += expected
        with server.client(pairs=PRICE) as another:
            for one in statements:
                send(another, one.sql, one.values)
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


def asked(client: Bare, sql: str) -> float:
    return explained(client, Statement(sql))


def test_twelve_tiles_refreshed_sorted_and_limited_cost_once(tmp_path: Path) -> None:
    assert len(tiles()) == 12
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        expected = 0.0
        for tile, _ in tiles():
            expected += asked(client, f"SELECT {tile}")
            client.rows(f"SELECT {tile}")
        assert server.spent() == pytest.approx(expected)
        for refresh in range(10):
            with server.client(pairs=PRICE) as another:
                for tile, names in tiles():
                    order = ", ".join(f"{name} {'DESC' if refresh % 2 else 'ASC'}" for name in names.split(", "))
                    spelled = f"SELECT {tile} ORDER BY {order} LIMIT {10 + refresh}"
                    assert asked(another, spelled) == 0
                    another.rows(spelled.replace("SELECT", "select ", 1))
        assert server.spent() == pytest.approx(expected)
