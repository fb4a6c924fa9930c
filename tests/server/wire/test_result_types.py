"""Numbers have PostgreSQL's types: in what clients are told, and in whether a division keeps its fraction."""

# ruff: noqa: E501, S608  (a list of expressions)

from collections.abc import Iterator

import psycopg
import pytest
from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as native
from tests.query.clinic import CLINIC

from sfumato.query.describe import describe_query
from sfumato.server.wire import oids
from sfumato.server.wire.answers import columns_of

TABLES = """
CREATE TABLE visits (patient_id bigint, age bigint, dept text, cost double precision, day date, seen timestamp,
                     urgent boolean);
CREATE TABLE staff (id bigint, dept text, name text, salary double precision);
"""
GROUPED = [
    *("COUNT(*)", "COUNT(age)", "SUM(age)", "SUM(cost)", "AVG(age)", "AVG(cost)", "MIN(age)", "MAX(cost)"),
    *("VAR_POP(age)", "STDDEV(age)", "STDDEV(cost)", "CORR(age, cost)", "REGR_SLOPE(age, cost)"),
    *("SUM(age) / COUNT(*)", "COUNT(*) / 2", "COUNT(*) / SUM(age)", "SUM(age) / 2", "-SUM(age) / 2", "SUM(age) % 2"),
    *("SUM(age + 1)", "SUM(age * 2.5)", "SUM(age * cost)", "SUM(CASE WHEN urgent THEN 1 ELSE 0 END)"),
    *("SUM(CASE WHEN urgent THEN 1 ELSE 0.5 END)", "COALESCE(SUM(age), 0)", "COALESCE(SUM(age), 0) / 2"),
    *("ROUND(AVG(age), 2)", "ROUND(SUM(age))", "ROUND(COUNT(*))", "FLOOR(AVG(cost))", "CEIL(COUNT(*))", "ABS(SUM(age))"),
    *("SQRT(COUNT(*))", "SQRT(SUM(age))", "LN(AVG(cost))", "POWER(COUNT(*), 2)", "EXP(AVG(age))", "SIGN(SUM(age))"),
    *("NULLIF(COUNT(*), 0)", "NULLIF(SUM(age), 0)", "SUM(age) / NULLIF(COUNT(*), 0)", "LEAST(COUNT(*), SUM(age))"),
    *("COUNT(*) * 100.0", "100 * COUNT(*)", "1.0 * COUNT(*) / 3", "COUNT(*)::numeric", "COUNT(*)::float8", "SUM(age)::bigint"),
    *("SUM(age)::bigint / 2", "COUNT(*)::numeric / 3", "AVG(age)::double precision", "AVG(age)::integer / 2"),
    *("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) / 2"),
    *("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age)", "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) / 2"),
    *("MODE() WITHIN GROUP (ORDER BY age)", "AVG(EXTRACT(year FROM day))", "SUM(LENGTH(dept))::numeric"),
    *("SUM(LENGTH(dept))", "SUM(LENGTH(dept)) / 2", "SUM(CASE WHEN urgent THEN 1 ELSE 0 END) / COUNT(*)", "SUM(age::int)", "SUM(1)"),
    *("COUNT(*) FILTER (WHERE urgent)", "SUM(age) FILTER (WHERE urgent) / COUNT(*)", "CASE WHEN COUNT(*) > 1 THEN SUM(age) ELSE 0 END / 2"),
]  # fmt: skip
QUESTIONS = [
    *(f"SELECT {expression} AS x FROM visits" for expression in GROUPED),
    "SELECT dept, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY dept",
    "SELECT dept, n / SUM(n) OVER () AS share FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t",
    "SELECT dept, n, AVG(n) OVER () AS a, MAX(n) OVER () AS m, ROW_NUMBER() OVER (ORDER BY n) AS r, LAG(n) OVER "
    "(ORDER BY n) / 2 AS b, RANK() OVER (ORDER BY n) AS k FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY 1) t",
    "SELECT s / 2 AS half FROM (SELECT SUM(age) AS s FROM visits) t",
    "SELECT SUM(s) AS total, AVG(s) AS mean, SUM(s) / 2 AS half FROM (SELECT patient_id, SUM(age) AS s FROM visits "
    "GROUP BY patient_id) t",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM visits UNION ALL SELECT SUM(age) FROM visits) t",
    "SELECT id, id / 2, salary, salary / 2, id * 1.5, id + salary, 1, 1.5, -1, id % 2 FROM staff",
    "SELECT SUM(id) AS s, SUM(salary) AS p, COUNT(*) AS n, SUM(id) / COUNT(*) AS q FROM staff",
    "SELECT DISTINCT id, salary FROM staff",
    "WITH t AS (SELECT dept, SUM(id) AS s FROM staff GROUP BY dept) SELECT s, s / 3, SUM(s) OVER () FROM t",
    "SELECT x, x / 2 FROM (VALUES (1), (3)) AS v (x)",
    "SELECT LENGTH(name), POSITION('a' IN name), id::int, id::smallint, 1, -1, 2147483647, 2147483648, 1 + 1 FROM staff",
    "SELECT CASE WHEN id > 3 THEN 1 ELSE 0 END AS a, CASE WHEN id > 3 THEN 1 ELSE id END AS b, COALESCE(NULL, 2) FROM staff",
    "SELECT WIDTH_BUCKET(salary, 0, 10, 5), LENGTH(name) / 2, LENGTH(name) * 2.5, LENGTH(name) + id FROM staff",
    "SELECT COUNT(*)::int AS a, AVG(age)::int AS b, 1 AS c, COUNT(*)::int / 2 AS d, COUNT(*)::int + COUNT(*) AS e FROM visits",
    "SELECT MAX(LENGTH(dept)) AS a, MIN(day - DATE '2020-01-01') AS b FROM visits",
    "SELECT DIV(id, 2), DIV(7, 2), DIV(id, 2) / 2, DIV(id, 2)::int, SUM(DIV(id, 2)) OVER () FROM staff",
    "SELECT DATE_PART('year', day) AS y, COUNT(*) FROM visits GROUP BY 1",
    "SELECT EXTRACT(year FROM day) AS y, DATE_PART('year', day) / 10 AS z, COUNT(*) FROM visits GROUP BY 1, 2",
    "SELECT DIV(COUNT(*), 2) AS a, DIV(SUM(age), COUNT(*)) AS b, AVG(DATE_PART('month', day)) AS c FROM visits",
]
_SMALL = {oids.INT2: oids.INT4}
"""An integer stands here also where PostgreSQL has a shorter one."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[psycopg.Connection]:
    folder = binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    with native(folder) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLES)
        yield connection


@pytest.mark.parametrize("sql", QUESTIONS)
def test_columns_have_the_types_that_postgresql_gives_them(postgres: psycopg.Connection, sql: str) -> None:
    described = postgres.execute(sql).description or []
    theirs = [_SMALL.get(column.type_code, column.type_code) for column in described]
    ours = [column.oid for column in columns_of(describe_query(sql, CLINIC, {}), intervals=False)]
    assert ours == theirs
