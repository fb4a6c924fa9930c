"""A value outside its bounds is clipped where it is added up; as a key and in a condition it is outside.

At `EPSILON` the noise of a count is 0 but with a probability below 1e-80.
"""

# ruff: noqa: S608  (SQL is what is tested here)

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.engines.outside_rows import EPSILON, FIRST, LAST, VALUES, YEARS, conditions, groups, policy, table
from tests.engines.postgres_under_law import fill, source_url, url
from tests.refusals import refusing

import sfumato
from sfumato.cli import main
from sfumato.opening import refreshed
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.terminal.outside_bounds import count_outside

OUTSIDE = sum(year is not None and not FIRST <= year <= LAST for year in YEARS)
CLIPPED = [min(max(year, FIRST), LAST) for year in YEARS if year is not None]


def _files(root: Path, rows: pa.Table) -> str:
    (root / "data").mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, root / "data" / "visits.parquet")
    return f"parquet:{root}/data"


def _server(_root: Path, rows: pa.Table) -> str:
    return source_url(fill({"visits": rows}))


SOURCES: dict[str, Callable[[Path, pa.Table], str]] = {"duckdb": _files, "postgresql": _server}


@pytest.fixture(scope="module", params=SOURCES)
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    root = tmp_path_factory.mktemp(request.param)
    place = {"source": SOURCES[request.param](root, table()), "ledger": f"sqlite:{root}/outside.ledger"}
    with sfumato.open({**policy(), **place}) as database:
        yield database


def _rows(database: sfumato.Database, sql: str) -> list[dict[str, Any]]:
    return list(database.ask(sql, epsilon=EPSILON).rows())


@pytest.mark.parametrize("name", VALUES)
def test_a_condition_sees_the_value_of_the_source(clinic: sfumato.Database, name: str) -> None:
    asked = list(conditions(name))
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {test}) AS n{at}" for at, (test, _) in enumerate(asked))
    [row] = clinic.ask(f"SELECT {counts} FROM visits", epsilon=20_000).rows()
    assert {test: row[f"n{at}"] for at, (test, _) in enumerate(asked)} == dict(asked)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_outside_is_in_no_group_and_its_number_is_told(clinic: sfumato.Database, name: str) -> None:
    release = clinic.ask(f"SELECT {name} AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=EPSILON)
    found = {float(row["k"]) if name == "cost" else row["k"]: row["n"] for row in release.rows()}
    assert found == {float(key) if name == "cost" else key: count for key, count in groups(name).items()}
    [note] = [note for note in release.notes if note.startswith("In no group:")]
    assert f"about {OUTSIDE} rows" in note
    assert f"`{name}`" in note
    assert "NULL" not in note


COMPUTED = (
    "SELECT year - 2000 AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM (SELECT year - 2000 AS k FROM visits) AS t GROUP BY k",
    "WITH t AS (SELECT year AS y FROM visits WHERE year >= 2007) SELECT y - 2000 AS k, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT y - 2000 AS k, COUNT(*) / 2 AS n "
    "FROM (SELECT year AS y FROM visits UNION ALL SELECT year FROM visits) AS u "
    "GROUP BY y",
    "SELECT y AS k, COUNT(*) AS n FROM (SELECT id, year - 2000 AS y FROM visits GROUP BY id, y) AS t GROUP BY y",
    "SELECT EXTRACT(day FROM day) + 6 AS k, COUNT(*) AS n FROM visits GROUP BY k",
)


@pytest.mark.parametrize("sql", COMPUTED)
def test_a_key_computed_from_a_value_outside_is_no_group(clinic: sfumato.Database, sql: str) -> None:
    found = {int(row["k"]): row["n"] for row in _rows(clinic, sql)}
    assert found == {year - 2000: count for year, count in groups("year").items()}


def test_what_is_added_up_is_clipped(clinic: sfumato.Database) -> None:
    sql = "SELECT SUM(year) AS s, MIN(year) AS low, MAX(year) AS high, COUNT(year) AS n FROM visits"
    [row] = clinic.ask(sql, epsilon=20_000).rows()
    assert row["s"] == pytest.approx(sum(CLIPPED), abs=5)
    assert (row["low"], row["high"], row["n"]) == (FIRST, LAST, len(CLIPPED))
    [row] = clinic.ask("SELECT SUM(year) AS s FROM visits WHERE year > 2015", epsilon=20_000).rows()
    assert row["s"] == pytest.approx(LAST * sum(year is not None and year > 2015 for year in YEARS), abs=5)


def test_distinct_values_and_joins_leave_out_what_is_outside(clinic: sfumato.Database) -> None:
    [row] = clinic.ask("SELECT COUNT(DISTINCT year) AS n FROM visits", epsilon=20_000).rows()
    assert row["n"] == LAST - FIRST + 1
    joined = "SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b ON a.id = b.id AND a.year = b.year"
    inside = sum(groups("year").values())
    assert _rows(clinic, joined) == [{"n": inside}]
    listed = "SELECT COUNT(*) AS n FROM visits JOIN (VALUES (2015), (2016)) AS v(y) ON year = y"
    assert _rows(clinic, listed) == [{"n": YEARS.count(2015) + YEARS.count(2016)}]


def test_the_owner_is_told_how_many_values_lie_outside(clinic: sfumato.Database) -> None:
    below, above = (sum(year is not None and test(year) for year in YEARS) for test in (_is_below, _is_above))
    found = {one.column.name: (one.below, one.above) for one in count_outside(clinic)}
    assert found == dict.fromkeys(VALUES, (below, above))


def _is_below(year: int) -> bool:
    return year < FIRST


def _is_above(year: int) -> bool:
    return year > LAST


@pytest.mark.parametrize("engine", SOURCES)
def test_new_years_arrive_and_wider_bounds_include_them(engine: str, tmp_path: Path) -> None:
    inside = [year for year in YEARS if year is not None and FIRST <= year <= LAST]
    words = {**policy(), "ledger": f"sqlite:{tmp_path}/outside.ledger"}
    sql = "SELECT year, COUNT(*) AS n FROM visits GROUP BY year"
    source = SOURCES[engine](tmp_path, table([*inside]))
    with sfumato.open({**words, "source": source}) as database:
        before = _rows(database, sql)
        assert not count_outside(database)
    if engine == "duckdb":
        source = SOURCES[engine](tmp_path, table([*inside, 2018, 2018, 2018]))
    else:
        _insert(source, [2018, 2018, 2018], len(inside))
    with refreshed({**words, "source": source}) as database:
        assert _rows(database, sql) == before  # the last year holds no other years
        assert [(one.column.name, one.above) for one in count_outside(database)] == [(name, 3) for name in VALUES]
    words["tables"]["visits"]["columns"]["year"]["bounds"] = [FIRST, 2018]
    wider = {**words, "source": source}
    with refusing() as refused:
        refreshed(wider).close()
    confirm = policy_hash(read_policy(wider))
    assert refused.value.code == "policy_weakened"
    assert confirm in str(refused.value)
    with refreshed(wider, confirm=confirm) as database:
        assert _rows(database, sql) == [*before, {"year": 2017, "n": 0}, {"year": 2018, "n": 3}]


def _insert(source: str, years: list[int | None], first: int) -> None:
    schema = unquote(source).split("search_path=")[-1]
    rows = table([*years]).to_pylist()
    with psycopg.connect(url()) as connection:
        for at, row in enumerate(rows):
            values = (first + at, row["year"], row["cost"], row["day"], row["seen"])
            connection.execute(f'INSERT INTO "{schema}".visits VALUES (%s, %s, %s, %s, %s)', values)


def test_refresh_and_check_say_what_to_write(tmp_path: Path) -> None:
    _files(tmp_path, table())
    (tmp_path / "outside.toml").write_text(
        'name = "outside"\nsource = "parquet:data"\n[budget]\nepsilon = 1\ndelta = 1e-6\n'
        '[tables.visits]\nunit = "id"\nrows_per_unit = 1\n[tables.visits.columns]\nid = { type = "integer" }\n'
        'year = { type = "integer", bounds = [2007, 2016] }\n'
    )
    for command in ("refresh", "check"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "outside.toml")])
        assert done.exit_code == 0, done.output
        assert "visits.year: 2 below 2007 and 3 above 2016. Write bounds = [LOW, HIGH]" in done.output
