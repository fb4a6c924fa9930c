"""SQLite files as a source: each value read alone, all of one moment, and nothing written to them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.builds import SALT, policy_of
from tests.engines.reference import keyed
from tests.engines.test_registration import quiet, rows_of

import sfumato
from sfumato.engines.duckdb import sqlite_file
from sfumato.engines.duckdb.registration import register
from sfumato.errors import BadSource
from sfumato.policy.policy import ColumnType
from sfumato.policy_draft.schema import read_source_schema

WHO = {"who": {"type": "integer"}}


def _write(path: Path, statement: str, rows: Sequence[Sequence[object]] = (), insert: str = "") -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(statement)
        if rows:
            connection.executemany(insert, rows)


def _copy(root: Path, source: str, tables: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    (root / "small.ledger.copy.salt").touch(mode=0o600)
    (root / "small.ledger.copy.salt").write_bytes(SALT)
    registered = register(policy_of(tables, source, ledger=f"sqlite:{root}/small.ledger"), quiet)
    try:
        return {name: rows_of(registered, name) for name in tables}
    finally:
        registered.use.close()


def _values(root: Path, values: Sequence[object], kind: str, **more: Any) -> list[Any]:
    """Return what becomes of the values of one column, each with a person of its own, in their order."""
    path = root / "clinic.db"
    path.unlink(missing_ok=True)
    _write(path, "CREATE TABLE visits (who, v)", list(enumerate(values)), "INSERT INTO visits VALUES (?, ?)")
    for left in root.glob("small.*"):
        left.unlink()
    tables = {"visits": {"unit": "who", "rows_per_unit": 1, "columns": {**WHO, "v": {"type": kind, **more}}}}
    people = {keyed(SALT, "unit", str(who)): who for who in range(len(values))}
    found = {people[person]: value for person, value in _copy(root, f"sqlite:{path}", tables)["visits"]}
    return [found[who] for who in range(len(values))]


def test_the_same_rows_in_a_parquet_file_give_the_same_copy(tmp_path: Path) -> None:
    rows = [
        (
            2**53 + at // 3,
            [0.005, 2.675, 1 / 3, None, 1e300][at % 5],
            [2**63 - 1, -(2**63), None][at % 3],
            ["ß\0İΣ", "", None, "er"][at % 4],
            [0, 1, None][at % 3],
        )
        for at in range(60)
    ]
    names = ("who", "cost", "big", "note", "ill")
    _write(
        tmp_path / "clinic.db",
        "CREATE TABLE visits (who INTEGER, cost REAL, big INT, note TEXT, ill BOOLEAN)",
        rows,
        "INSERT INTO visits VALUES (?, ?, ?, ?, ?)",
    )
    pq.write_table(
        pa.table({name: list(part) for name, part in zip(names, zip(*rows, strict=True), strict=True)}),
        tmp_path / "visits.parquet",
    )
    columns = {
        **WHO,
        "cost": {"type": "decimal", "bounds": [0, 100], "step": "0.01"},
        "big": {"type": "integer", "bounds": [-(2**62), 2**62]},
        "note": {"type": "text", "length": 3},
        "ill": {"type": "boolean"},
    }
    tables = {"visits": {"unit": "who", "rows_per_unit": 2, "columns": columns}}
    found = _copy(tmp_path, f"sqlite:{tmp_path}/clinic.db", tables)
    for left in tmp_path.glob("small.*"):
        left.unlink()
    assert len(found["visits"]) == 40
    assert found == _copy(tmp_path, f"parquet:{tmp_path}/visits.parquet", tables)


def test_each_value_is_read_alone_whatever_its_column_was_declared_to_be(tmp_path: Path) -> None:
    values = [2**62 + 1, "7", " 7.0", 7.5, "x", None, b"8", b"\xff", "1e2", float("inf"), ""]
    found = _values(tmp_path, values, "integer", bounds=[-(2**62) - 5, 2**62 + 5])
    assert found == [2**62 + 1, 7, 7, 8, None, None, 8, None, 100, None, None]
    assert _values(tmp_path, values[1:5], "integer", bounds=[-(2**62) - 5, 2**62 + 5]) == found[1:5]
    assert _values(tmp_path, [1, "a", 2.5, b"b", b"\xff", None], "text") == ["1", "a", "2.5", "b", None, None]
    assert _values(tmp_path, ["2024-01-05", "30 February", 19_727, None], "date") == [19_727, None, None, None]
    assert _values(tmp_path, [1, 0, 2, "true", None], "boolean") == [1, 0, None, 1, None]


def test_text_that_is_not_utf8_is_null_and_changes_nobody(tmp_path: Path) -> None:
    _write(
        tmp_path / "clinic.db",
        "CREATE TABLE visits (who INTEGER, v TEXT); INSERT INTO visits VALUES (1, CAST(x'ff' AS TEXT)), (2, 'b')",
    )
    tables = {"visits": {"unit": "who", "rows_per_unit": 1, "columns": {**WHO, "v": {"type": "text"}}}}
    found = {v for _, v in _copy(tmp_path, f"sqlite:{tmp_path}/clinic.db", tables)["visits"]}
    assert found == {None, "b"}


def test_long_texts_are_cut_where_they_are_read_and_long_numbers_are_none(tmp_path: Path) -> None:
    long = "é" * 3_000_000
    values = [long, "ab", long.encode(), b"abc", 12345]
    assert _values(tmp_path, values, "text", length=3) == ["ééé", "ab", "ééé", "abc", "123"]
    assert _values(tmp_path, ["0" * 3000 + "7", 7], "integer") == [None, 7]


def test_views_generated_columns_odd_names_and_public_tables_can_be_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c%20d"
    folder.mkdir()
    _write(
        folder / "clinic.db",
        """
        CREATE TABLE [all "visits] (who INTEGER PRIMARY KEY, cost INT, twice AS (cost * 2)) WITHOUT ROWID;
        INSERT INTO [all "visits] VALUES (1, 3), (2, 4);
        CREATE VIEW costly AS SELECT who, twice FROM [all "visits] WHERE cost > 3;
        CREATE TABLE Staff (name VARCHAR(9), born DATE, floor INTEGER, pay, height DOUBLE PRECISION);
        INSERT INTO Staff VALUES ('a', '2000-01-05', 'upper', 7, 1.5), ('b', 'x', 2, 'much', '2.5');
        """,
    )
    columns = {**WHO, "twice": {"type": "integer", "bounds": [0, 99]}}
    tables: dict[str, Any] = {
        "visits": {"from": 'all "visits', "unit": "who", "rows_per_unit": 1, "columns": columns},
        "costly": {"unit": "who", "rows_per_unit": 1, "columns": columns},
        "staff": {"public": True},
    }
    found = _copy(tmp_path, f"sqlite:{folder}/clinic.db", tables)
    assert sorted(value for _, value in found["visits"]) == [6, 8]
    assert [value for _, value in found["costly"]] == [8]
    names = [tuple(map(str, row)) for row in found["staff"]]
    assert names == [("a", "2000-01-05", "None", "7", "1.5"), ("b", "None", "2", "much", "2.5")]
    assert sorted(path.name for path in folder.iterdir()) == ["clinic.db"]  # nothing is written beside it


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_all_tables_are_of_one_moment_whatever_is_written_meanwhile(tmp_path: Path, mode: str) -> None:
    """With epsilon 100 the noise is 0 but for a probability of 2 exp(-100)."""
    path = tmp_path / "clinic.db"
    _write(path, f"PRAGMA journal_mode = {mode}")
    _write(path, "CREATE TABLE a (who); CREATE TABLE b (who); INSERT INTO a VALUES (1)")
    written: list[bool] = []

    def write(phase: str, table: str) -> None:
        if (phase, table) == ("load", "b"):
            try:
                with closing(sqlite3.connect(path, timeout=0)) as connection, connection:
                    connection.execute("INSERT INTO b VALUES (1)")
                written.append(True)
            except sqlite3.OperationalError:  # a file without a log of its own cannot be written to meanwhile
                written.append(False)

    policy: dict[str, Any] = {
        "source": f"sqlite:{path}",
        "refresh": "on-change",
        "budget": {"epsilon": 900, "delta": 0},
        "tables": {name: {"unit": "who", "rows_per_unit": 1, "columns": WHO} for name in "ab"},
    }
    question = "SELECT COUNT(*) AS n FROM b"
    with sfumato.open(policy, progress=write) as database:
        assert written == [mode == "wal"]
        assert database.ask(question, epsilon=100).rows() == [{"n": 0}]
        assert database.source_changed() is (mode == "wal")
        if mode == "delete":
            _write(path, "INSERT INTO b VALUES (1)")
            assert database.source_changed()
    with sfumato.open(policy) as database:
        assert database.ask(question, epsilon=100).rows() == [{"n": 1}]
        assert not database.source_changed()


def test_a_locked_file_is_refused_with_what_to_do_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_LOCK_TIMEOUT_SECONDS", 0.05)
    path = tmp_path / "clinic.db"
    _write(path, "CREATE TABLE a (who)")
    tables = {"a": {"unit": "who", "rows_per_unit": 1, "columns": WHO}}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BadSource, match=r"Another program is writing.*Try again when that program has finished"):
            _copy(tmp_path, f"sqlite:{path}", tables)
    assert _copy(tmp_path, f"sqlite:{path}", tables) == {"a": []}


BROKEN = [
    (b"SQLite format 3\0 and nothing more", r"not a SQLite database, or is damaged"),
    (b"who,cost\n1,2\n", r"not a SQLite database, or is damaged"),
    ("CREATE TABLE other (who)", r"tables.a is not in the source.*from ="),
    ("CREATE TABLE a (whom)", r"tables.a.columns.who is not in the source"),
    ("CREATE TABLE b (who); CREATE VIEW a AS SELECT who FROM b; DROP TABLE b", r"tables.a cannot be read by SQLite"),
]


@pytest.mark.parametrize(("content", "words"), BROKEN)
def test_what_cannot_be_read_is_refused_without_the_words_of_the_driver(
    tmp_path: Path, content: bytes | str, words: str
) -> None:
    path = tmp_path / "clinic.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        _write(path, content)
    with pytest.raises(BadSource, match=words) as caught:
        _copy(tmp_path, f"sqlite:{path}", {"a": {"unit": "who", "rows_per_unit": 1, "columns": WHO}})
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_draft_takes_types_and_keys_from_what_the_file_declares(tmp_path: Path) -> None:
    path = tmp_path / "clinic.db"
    _write(path, "CREATE TABLE v (id INTEGER PRIMARY KEY, cost REAL, day DATE, at DATETIME, ill BOOL, note TEXT, x)")
    seen = read_source_schema(path)
    assert seen.scheme == "sqlite"
    [table] = seen.tables
    assert table.key == "id"
    kinds = [ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE, ColumnType.TIMESTAMP, ColumnType.BOOLEAN]
    assert [column.type for column in table.columns] == [*kinds, ColumnType.TEXT, ColumnType.TEXT]
    assert table.columns[-1].stored == "unread text"
