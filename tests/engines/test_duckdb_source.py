"""DuckDB files and partitioned folders as they are met: views, locks, other versions, types in the names of folders."""

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.engines.builds import policy_of
from tests.engines.test_registration import quiet, rows_of

import sfumato
from sfumato.engines.duckdb.duckdb_file import _not_duckdb
from sfumato.engines.duckdb.registration import register
from sfumato.errors import BadSource
from sfumato.policy_draft.schema import read_source_schema

COST = {"type": "integer", "bounds": [0, 100]}
VISITS = "CREATE TABLE visits AS SELECT (x % 5)::INTEGER AS who, x AS cost FROM range(10) t(x)"
HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("CREATE TABLE t (a INT)")
print(1, flush=True)
input()
"""


def _file(root: Path, *statements: str) -> Path:
    path = root / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def _costs(root: Path, source: str, table: str = "visits", **columns: Any) -> list[Any]:
    """Return the values of the last declared column that the copy keeps."""
    declared = {"who": {"type": "integer"}, **(columns or {"cost": COST})}
    tables = {table: {"unit": "who", "rows_per_unit": 9, "columns": declared}}
    registered = register(policy_of(tables, source, ledger=f"sqlite:{root}/small.ledger"), quiet, again=True)
    return sorted((row[-1] for row in rows_of(registered, table)), key=repr)


def test_views_over_tables_of_the_same_file_are_read(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        VISITS,
        "CREATE MACRO twice(a) AS 2 * a",
        "CREATE VIEW dear AS SELECT who, twice(cost) AS cost FROM visits WHERE cost >= 8",
    )
    assert _costs(tmp_path, f"duckdb:{path}", "dear") == [16, 18]


@pytest.mark.parametrize(("collation", "first"), [("NOCASE", "a"), ("NOCASE.NOACCENT", "A"), ("NOACCENT", "á")])
def test_texts_are_equal_by_their_code_points_whatever_collation_the_file_declares(
    tmp_path: Path, collation: str, first: str
) -> None:
    """The first row decides nothing about others, no row fulfils two conditions, and ids are told apart."""
    declared = f"VARCHAR COLLATE {collation}"
    path = _file(
        tmp_path,
        f"CREATE TABLE visits (who {declared}, dept {declared}, cost INTEGER)",
        f"INSERT INTO visits VALUES ('z', '{first}', 1), ('b', 'a', 1), ('B', 'A', 1), ('c', 'á', 1), ('C', 'a', 1)",  # noqa: S608
        f"CREATE TABLE depts (dept {declared}, floor INTEGER)",
        "INSERT INTO depts VALUES ('a', 1), ('A', 2), ('á', 3)",
    )
    dept = {"type": "text", "values": ["a", "A", "á"]}
    columns = {"who": {"type": "text"}, "dept": dept, "cost": COST}
    depts = {"public": True, "columns": {"dept": {"type": "text"}, "floor": {"type": "integer"}}}
    policy: dict[str, Any] = {
        "name": "clinic",
        "source": f"duckdb:{path}",
        "ledger": f"sqlite:{tmp_path}/clinic.ledger",
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 1, "columns": columns}, "depts": depts},
    }
    keys = ("a", "A", "á")
    expected = [2 + (first == "a"), 1 + (first == "A"), 1 + (first == "á")]
    conditions = ", ".join(f"COUNT(*) FILTER (WHERE dept = '{key}') AS c{at}" for at, key in enumerate(keys))
    with sfumato.open(policy) as database:
        groups = database.ask("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", epsilon=1000).rows()
        assert {row["dept"]: row["n"] for row in groups} == dict(zip(keys, expected, strict=True))
        (row,) = database.ask(f"SELECT {conditions}, COUNT(DISTINCT who) AS people FROM visits", epsilon=1000).rows()  # noqa: S608
        assert list(row.values()) == [*expected, 5]
        joined = "SELECT floor, COUNT(*) AS n FROM visits JOIN depts ON visits.dept = depts.dept GROUP BY floor"
        assert [row["n"] for row in database.ask(joined, epsilon=1000).rows()] == expected


def test_a_view_over_other_files_is_refused_and_left_out_of_a_draft(tmp_path: Path) -> None:
    """One such view made `sfumato init` fail for the whole file, without a reason."""
    (tmp_path / "other.csv").write_text("who,cost\n1,2\n")
    path = _file(tmp_path, VISITS, f"CREATE VIEW far AS SELECT * FROM read_csv('{tmp_path}/other.csv')")  # noqa: S608
    with pytest.raises(BadSource, match=r"tables.far is a view that cannot be read.*CREATE TABLE … AS"):
        _costs(tmp_path, f"duckdb:{path}", "far")
    seen = read_source_schema(path)
    assert (seen.names, seen.unreadable) == (("visits",), ("far",))


def test_a_file_that_another_program_writes_to_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = _file(tmp_path, VISITS)
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(BadSource, match=r"Another program has the DuckDB file open.*EXPORT DATABASE") as caught:
            _costs(tmp_path, f"duckdb:{path}")
        holder.kill()
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.__context__ is None
    assert len(_costs(tmp_path, f"duckdb:{path}")) == 10  # what it had not folded into the file is read from its log


def test_other_files_under_that_name_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "clinic.duckdb"
    path.write_bytes(b"SQLite format 3\0" + bytes(500))
    with pytest.raises(BadSource, match=r"Write sqlite: instead of duckdb:"):
        _costs(tmp_path, f"duckdb:{path}")
    path.write_bytes(b"")
    with pytest.raises(BadSource, match=r"is not a DuckDB database"):
        _costs(tmp_path, f"duckdb:{path}")
    newer = "io error: trying to read a database file with version number 999, but we can only read versions between"
    assert "another version of DuckDB" in str(_not_duckdb(path, newer))


def test_a_partition_is_of_the_type_that_the_policy_declares(tmp_path: Path) -> None:
    rows = "SELECT 1 AS who, x AS cost, printf('%02d', x % 2 + 1) AS month, DATE '2024-01-31' AS day FROM range(4) t(x)"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({rows}) TO '{tmp_path}/visits' (FORMAT parquet, PARTITION_BY (month, day))")
    source = f"parquet:{tmp_path}/visits"
    assert _costs(tmp_path, source, month={"type": "text", "values": ["01", "02"]}) == ["01", "01", "02", "02"]
    assert _costs(tmp_path, source, month={"type": "integer", "bounds": [1, 12]}) == [1, 1, 2, 2]
    days = [date(2024, 1, 1), date(2024, 12, 31)]
    assert _costs(tmp_path, source, day={"type": "date", "bounds": days}) == [19_753] * 4
    (tmp_path / "visits" / "month=02").rename(tmp_path / "visits" / "month=__HIVE_DEFAULT_PARTITION__")
    assert _costs(tmp_path, source, month={"type": "integer", "bounds": [1, 12]}) == [1, 1, None, None]
    with pytest.raises(BadSource, match=r"columns.week is not in the source"):
        _costs(tmp_path, source, week={"type": "integer"})
