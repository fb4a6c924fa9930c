"""Windows, sets, subqueries and functions: over public rows as in DuckDB, over answers with the noise that is there."""

# ruff: noqa: S608  (questions to a made-up clinic)

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from tests.refusals import refusing

import sfumato

WINDOW = "OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, i)"
PUBLIC = (
    f"SELECT i, ROW_NUMBER() {WINDOW} AS a, LAG(x) {WINDOW} AS b, LEAD(x, 2, 0) {WINDOW} AS c FROM t",
    "SELECT i, RANK() OVER w AS a, DENSE_RANK() OVER w AS b, PERCENT_RANK() OVER w AS c, CUME_DIST() OVER w AS "
    "d, COUNT(*) OVER w AS e, SUM(x) OVER w AS f, MAX(k) OVER w AS g FROM t WINDOW w AS (PARTITION BY k ORDER "
    "BY x)",
    "SELECT i, NTILE(3) OVER (ORDER BY i) AS a, AVG(x) OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND 1 "
    "FOLLOWING) AS b, SUM(x) FILTER (WHERE x > 2) OVER (ORDER BY i ROWS 3 PRECEDING) AS c FROM t",
    "SELECT i, FIRST_VALUE(x) OVER (ORDER BY i) AS a, LAST_VALUE(x) OVER (PARTITION BY k ORDER BY i) AS b, "
    "NTH_VALUE(x, 2) OVER (PARTITION BY k ORDER BY i) AS c, LAST_VALUE(i) OVER (ORDER BY i ROWS BETWEEN 1 "
    "FOLLOWING AND 2 FOLLOWING) AS d FROM t",
    "SELECT i, COUNT(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '9 days' PRECEDING AND CURRENT ROW) AS a, "
    "SUM(i) OVER (ORDER BY i RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING) AS b FROM t WHERE d IS NOT NULL",
    "SELECT k, SUM(x) AS s, SUM(SUM(x)) OVER (ORDER BY k) AS r FROM t GROUP BY k QUALIFY RANK() OVER (ORDER BY "
    "SUM(x)) < 3",
    "SELECT x, k FROM t UNION SELECT y, k FROM u",
    "SELECT x FROM t UNION ALL SELECT y FROM u",
    "SELECT x, k FROM t INTERSECT SELECT y, k FROM u",
    "SELECT x FROM t INTERSECT ALL SELECT y FROM u",
    "SELECT x, k FROM t EXCEPT SELECT y, k FROM u",
    "SELECT x FROM t EXCEPT ALL SELECT y FROM u",
    "SELECT t.i, u.y FROM t FULL JOIN u ON t.x = u.y AND t.k = u.k",
    "SELECT k, COUNT(t.x) AS a, COUNT(u.y) AS b FROM t FULL JOIN u USING (k) GROUP BY k",
    "SELECT i FROM t WHERE x IN (SELECT y FROM u)",
    "SELECT i FROM t WHERE x NOT IN (SELECT y FROM u)",
    "SELECT CASE WHEN (SELECT 3) IN (SELECT y FROM u) THEN 1 END AS a, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT CASE WHEN (SELECT 3) IN (SELECT y FROM u) THEN 1 END AS a, (SELECT 3) IN (SELECT y FROM u) AS b FROM t "
    "GROUP BY 1",
    "SELECT i FROM t WHERE x NOT IN (SELECT y FROM u WHERE y IS NOT NULL)",
    "SELECT i FROM t WHERE NOT (x IN (SELECT y FROM u WHERE y > 99))",
    "SELECT i, x IN (SELECT y FROM u) AS a, x NOT IN (SELECT y FROM u WHERE y > 3) AS b, (x, k) IN (SELECT y, k "
    "FROM u) AS c FROM t",
    "SELECT i FROM t WHERE k = 'a' OR x IN (SELECT y FROM u WHERE u.k = t.k)",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y < t.x)",
    "SELECT i FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.y > t.x)",
    "SELECT i, x - (SELECT AVG(y) FROM u) AS a, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS b, (SELECT MAX(y) + "
    "1 FROM u WHERE u.k = t.k AND y < 5) AS c, (SELECT MIN(y) FROM u WHERE y > 99) AS d FROM t",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT k IN (SELECT k FROM u) AS a, COUNT(*) AS n FROM t GROUP BY 1",
    "WITH w AS (SELECT k, MAX(x) AS m FROM t GROUP BY k) SELECT i FROM t WHERE x = (SELECT m FROM w ORDER BY m "
    "LIMIT 1)",
    "SELECT t.i, u.y FROM t, u WHERE (t.k = u.k AND t.x < 3) OR (t.k = u.k AND u.y > 4) OR (u.k = t.k AND FALSE)",
    "SELECT i, date_diff('month', d, DATE '2021-03-09') AS a, date_diff('week', d, DATE '2021-03-09') AS b, "
    "date_sub('day', d, TIMESTAMP '2021-03-09 05:00:00') AS c, strftime(d, '%Y/%-m/%d %j %b %A %p') AS e, "
    "monthname(d) AS f FROM t",
    "SELECT i, ln(i) AS a, log(i) AS b, log2(i) AS c, exp(x) AS e, log(3, i) AS f FROM t WHERE i > 0",
)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sfumato.Database, duckdb.DuckDBPyConnection]]:
    folder: Path = tmp_path_factory.mktemp("results")
    (folder / "data").mkdir()
    random = Random(15)
    days = [date(2020, 12, 20) + timedelta(days=4 * step) for step in range(24)]
    t = [(i, random.choice("abc"), random.choice([None, *range(6)]), random.choice([None, *days])) for i in range(24)]
    u = [(random.choice("abd"), random.choice([None, *range(8)])) for _ in range(9)]
    v = [(person, "ab"[person % 2], person % 7) for person in range(40)]
    for name, head, rows in (("t", "i,k,x,d", t), ("u", "k,y", u), ("v", "person,k,z", v)):
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        (folder / "data" / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    columns = {"i": "integer", "k": "text", "x": "integer", "d": "date", "y": "integer"}
    people = {
        "person": {"type": "integer"},
        "k": {"type": "text", "values": ["a", "b"]},
        "z": {"type": "integer", "bounds": [0, 6]},
    }
    public = {
        name: {"public": True, "columns": {one: {"type": columns[one]} for one in head}}
        for name, head in (("t", "ikxd"), ("u", "ky"))
    }
    policy: dict[str, object] = {
        "name": "results",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/results.ledger",
        "budget": {"epsilon": 1000, "delta": "1e-6"},
        "tables": {**public, "v": {"unit": "person", "rows_per_unit": 1, "columns": people}},
    }
    plain = duckdb.connect()
    for name in ("t", "u"):
        plain.sql(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{folder}/data/{name}.csv')")
    with sfumato.open(policy) as database:
        yield database, plain
    plain.close()


def _rows(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(round(value, 8) if isinstance(value, float) else value for value in row) for row in rows)


@pytest.mark.parametrize("sql", PUBLIC)
def test_public_rows_are_answered_as_duckdb_answers_them(
    clinic: tuple[sfumato.Database, duckdb.DuckDBPyConnection], sql: str
) -> None:
    database, plain = clinic
    found = [tuple(row.values()) for row in database.ask(sql, epsilon="1").rows()]
    expected = plain.sql(sql).fetchall()
    assert _rows(found) == _rows(expected)
    assert expected or "IN (SELECT y FROM u)" in sql


def test_the_same_groups_are_measured_once(clinic: tuple[sfumato.Database, duckdb.DuckDBPyConnection]) -> None:
    database, _ = clinic
    once = "SELECT k, COUNT(*) AS n FROM v GROUP BY k"
    release = database.ask(
        f"SELECT a.k, a.n - b.n AS nothing, a.n AS n FROM ({once}) a JOIN ({once}) b ON a.k = b.k", epsilon="1"
    )
    assert {row["nothing"] for row in release.rows()} == {0}
    assert {row["nothing"] for row in release.intervals()} == {(0, 0)}
    margin = database.explain(once, epsilon="1").margins["n"]
    assert margin is not None
    assert all(row["n"][1] - row["n"][0] == 2 * margin for row in release.intervals())


def test_bars_of_windows_count_shared_noise_once(clinic: tuple[sfumato.Database, duckdb.DuckDBPyConnection]) -> None:
    database, _ = clinic
    release = database.ask(
        "SELECT z, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY z) AS total, SUM(COUNT(*)) OVER (ORDER BY z) - "
        "SUM(COUNT(*)) OVER (ORDER BY z ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS again, ROW_NUMBER() OVER "
        "(ORDER BY z) AS place FROM v GROUP BY z ORDER BY z",
        epsilon="2",
    )
    rows, bars = release.rows(), release.intervals()
    assert [row["total"] for row in rows] == [sum(row["n"] for row in rows[: at + 1]) for at in range(len(rows))]
    assert [bar["place"] for bar in bars] == [(at, at) for at in range(1, len(rows) + 1)]
    assert rows[0]["again"] is None
    assert all(bar["again"] == bar["n"] for bar in bars[1:])
    widths = [bar["total"][1] - bar["total"][0] for bar in bars]
    assert widths == sorted(widths)
    assert widths[-1] < 7 * widths[0]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT z, RANK() OVER (ORDER BY z) FROM v",
        "SELECT z FROM v UNION ALL SELECT x FROM t",
        "SELECT x FROM t WHERE x IN (SELECT z FROM v)",
        "SELECT COUNT(*) FROM v WHERE z IN (SELECT n FROM (SELECT k, COUNT(*) AS n FROM v GROUP BY k) g)",
        "SELECT COUNT(*) FROM v WHERE z > (SELECT AVG(z) FROM v w WHERE w.k = v.k)",
        "SELECT * FROM v FULL JOIN u ON v.k = u.k",
        "SELECT COUNT(*) FROM v JOIN (SELECT k, STDDEV(y) OVER () AS m FROM u) w ON v.k = w.k WHERE w.m > 0",
        "SELECT COUNT(*) FROM t WHERE x > (SELECT y FROM u)",
        "SELECT COUNT(*) FROM t WHERE x > (SELECT COUNT(*) FROM u WHERE u.y < t.x)",
    ],
)
def test_what_would_use_people_without_noise_is_refused(
    clinic: tuple[sfumato.Database, duckdb.DuckDBPyConnection], sql: str
) -> None:
    with refusing():
        clinic[0].ask(sql, epsilon="1")
