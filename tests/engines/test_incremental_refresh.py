"""A refresh after files were only added builds, row for row, the copy that a registration of everything would build."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.engines.builds import policy_of

from sfumato.engines.duckdb.build import Build
from sfumato.engines.duckdb.connection import open_copy
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshots import Registered
from sfumato.engines.sql.names import PERSON, quoted
from sfumato.policy.policy import Policy

Row = tuple[int | None, int, float | None, str | None]
VISITS: dict[str, Any] = {
    "unit": "person",
    "rows_per_unit": 3,
    "groups_per_unit": 1,
    "columns": {
        "person": {"type": "integer"},
        "visit": {"type": "integer", "unique": True},
        "cost": {"type": "decimal", "bounds": {"within": [0, 5], "choose": "private"}, "step": "0.5"},
        "dept": {"type": "text", "values": "depts.dept"},
    },
}
NOTES: dict[str, Any] = {
    "unit": "visits.person via visit = visit",
    "rows_per_unit": 2,
    "columns": {"visit": {"type": "integer"}, "words": {"type": "integer", "bounds": [0, 9]}},
}
VOTES: dict[str, Any] = {"unit": "rows", "columns": {"choice": {"type": "integer", "bounds": [0, 9]}}}
TABLES = {"visits": VISITS, "notes": NOTES, "votes": VOTES, "depts": {"public": True}}
NAMES = ("person", "visit", "cost", "dept")


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    csv.write_csv(table, path) if path.suffix == ".csv" else pq.write_table(table, path)


class Place:
    """A folder of files, and its snapshots."""

    tables: ClassVar = TABLES

    def __init__(self, root: Path, kind: str, scheme: str | None = None) -> None:
        self._root, self._kind, self._scheme = root, kind, scheme or kind
        self.add("depts", 0, pa.table({"dept": ["er", "icu"]}))
        self.phases: list[tuple[str, str]] = []

    @property
    def policy(self) -> Policy:
        return policy_of(
            self.tables,
            f"{self._scheme}:{self._root}/data",
            ledger=f"sqlite:{self._root}/small.ledger",
            budget={"epsilon": 1, "delta": 0, "truncation": "0.1"},
        )

    def add(self, table: str, at: int, rows: pa.Table) -> Path:
        path = self._root / "data" / table / f"day={at}" / f"{at}.{self._kind}"
        _write(path, rows)
        return path

    def _told(self, phase: str, table: str) -> None:
        self.phases.append((phase, table))

    def visits(self, at: int, rows: Sequence[Row]) -> Path:
        types = (pa.int64(), pa.int64(), pa.float64(), pa.string())
        columns = [pa.array([row[place] for row in rows], type) for place, type in enumerate(types)]
        return self.add("visits", at, pa.table(dict(zip(NAMES, columns, strict=True))))

    def fill(self, rows: Sequence[Row]) -> None:
        self.visits(0, rows)
        self.add("notes", 0, pa.table({"visit": [row[1] for row in rows] * 2, "words": list(range(2 * len(rows)))}))
        self.add("votes", 0, pa.table({"choice": [1, 1, 2]}))

    def refreshed(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every table of a new snapshot, to the last hidden column; see `_tables` for their order."""
        self.phases.clear()
        return self.taken(self._told, again=True)

    def taken(self, progress: Progress, *, again: bool) -> dict[str, list[tuple[Any, ...]]]:
        """Take a snapshot, and return its tables."""
        return _tables(register(self.policy, progress, Limits(threads=1), again=again))

    def registered(self) -> Registered:
        """Take a snapshot."""
        return register(self.policy, lambda phase, table: None, Limits(threads=1), again=True)

    def read_again(self) -> set[str]:
        """Return the tables of which rows were read for the last snapshot."""
        return {table for phase, table in self.phases if phase == "read"}

    def anew(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what a registration of everything builds under the same salt."""
        other = self._root.with_name("other")
        other.mkdir()
        shutil.copytree(self._root / "data", other / "data")
        (other / "small.ledger.copy.salt").write_bytes((self._root / "small.ledger.copy.salt").read_bytes())
        (other / "small.ledger.copy.salt").chmod(0o600)
        root, self._root = self._root, other
        try:
            return self.taken(lambda phase, table: None, again=False)
        finally:
            self._root = root
            shutil.rmtree(other)


def _tables(registered: Registered) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows as they lie in the copy where each is a person, else sorted: those that arrived lie last."""
    registered.use.close()
    with open_copy(registered.path, Limits(threads=1)) as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()
        rows = {name: connection.execute(_all_but_numbers(name, connection)).fetchall() for (name,) in sorted(names)}
    return {name: found if name in {"votes", "depts"} else sorted(found, key=repr) for name, found in rows.items()}


def _all_but_numbers(table: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Return the query for a table without the numbers of people, each of whom has one: they depend on who came."""
    columns = [name for name, *_ in connection.execute(f"DESCRIBE {quoted(table)}").fetchall()]
    if PERSON not in columns:
        return f"FROM {quoted(table)}"
    unit, number = quoted(columns[0]), quoted(PERSON)
    pairs = f"SELECT DISTINCT {unit} AS id, {number} AS n FROM {quoted(table)}"  # noqa: S608
    counts = f"SELECT count(*), count(DISTINCT id), count(DISTINCT n), count(n), max(n) FROM ({pairs})"  # noqa: S608
    ((pairs_found, *found, most),) = connection.execute(counts).fetchall()
    assert found == [pairs_found] * 3
    assert (most or 0) <= 20
    return f"SELECT * EXCLUDE ({number}) FROM {quoted(table)}"  # noqa: S608


rows = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 3, 4]),
        st.integers(0, 6),
        st.sampled_from([None, -1.0, 0.0, 0.75, 9.0]),
        st.sampled_from([None, "er", "icu", "lab"]),
    ).map(lambda row: (row[0], 10 * (row[0] or 1) + row[1], row[2], row[3])),  # a visit is one person's
    max_size=8,
)


@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(data=st.data())
def test_bounding_those_again_to_whom_rows_arrived_is_bounding_everybody(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Place(tmp_path_factory.mktemp("arrivals") / "here", data.draw(st.sampled_from(["parquet", "csv"])))
    place.fill(data.draw(rows))
    place.refreshed()
    for at in range(1, data.draw(st.integers(2, 3))):
        place.visits(at, data.draw(rows))
        if data.draw(st.booleans()):
            place.add("votes", at, pa.table({"choice": [at, 11]}))
        arrived = place.refreshed()
    assert arrived == place.anew()


ROWS: list[Row] = [(1, 1, 1.0, "er"), (1, 1, 2.0, "er"), (2, 2, 3.0, "icu"), (3, 3, 9.0, None)]


def test_only_people_to_whom_rows_arrived_are_read_again(tmp_path: Path) -> None:
    """The files of before say something else under the same name, size and time: of everybody else it is not seen."""
    place = Place(tmp_path / "here", "csv")
    place.fill(ROWS)
    before = place.refreshed()
    path = tmp_path / "here" / "data" / "visits" / "day=0" / "0.csv"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"er"', b'"xx"'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    place.visits(1, [(3, 4, 1.0, "icu")])
    after = place.refreshed()
    units = {row[0] for row in after["visits"]} - {row[0] for row in before["visits"]}
    assert not units
    changed = {row[0] for row in after["visits"] if row not in before["visits"]}
    assert len(changed) == 1
    assert [row for row in before["visits"] if row[0] not in changed] == [
        row for row in after["visits"] if row[0] not in changed
    ]
    assert place.anew() != after
    assert place.read_again() == {"visits", "notes"}  # whose a note is may have changed


def test_where_nobody_had_rows_before_no_other_row_is_read_or_moved(tmp_path: Path) -> None:
    """The files of before say something else, of a person who could be concerned; the rows that were there stay."""
    place = Place(tmp_path / "here", "csv")
    place.fill(ROWS)
    place.refreshed()
    path = tmp_path / "here" / "data" / "visits" / "day=0" / "0.csv"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"3,3,", b"4,3,"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    before = _visits(place.registered())
    place.visits(1, [(4, 4, 1.0, "icu")])
    after = _visits(place.registered())
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1  # the row of somebody else who is called 4 now is not read


def _visits(registered: Registered) -> list[tuple[Any, ...]]:
    """Return the rows of visits in the order in which they lie in the copy."""
    registered.use.close()
    with open_copy(registered.path, Limits(threads=1)) as connection:
        return connection.execute("FROM visits ORDER BY rowid").fetchall()


def test_where_the_file_cannot_be_copied_the_same_copy_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "here", "csv")
    place.fill(ROWS)
    place.refreshed()
    place.visits(1, [(3, 4, 1.0, "icu"), (5, 5, 1.0, "er")])

    def full(_source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("sfumato.engines.duckdb.copy_build.shutil.copyfile", full)
        arrived = place.refreshed()
    assert place.read_again() == {"visits", "notes"}
    assert arrived == place.anew()


def test_files_that_differ_although_their_marks_do_not_are_seen_by_their_rows(tmp_path: Path) -> None:
    place = Place(tmp_path / "here", "csv")
    place.fill(ROWS)
    place.refreshed()
    path = tmp_path / "here" / "data" / "votes" / "day=0" / "0.csv"
    status = path.stat()
    path.write_bytes(b'"choice"\n11112\n'[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    place.add("votes", 1, pa.table({"choice": [3]}))
    assert place.refreshed() == place.anew()


def test_what_is_not_as_it_was_is_read_again(tmp_path: Path) -> None:
    place, folder = Place(tmp_path / "here", "parquet"), tmp_path / "here" / "data"
    place.fill(ROWS)
    place.visits(1, ROWS)
    before = place.refreshed()
    assert place.refreshed() == before
    assert place.read_again() == set()
    os.utime(folder / "visits" / "day=0" / "0.parquet", ns=(1, 1))
    assert place.refreshed() == before
    assert place.read_again() == {"visits", "notes"}
    (folder / "visits" / "day=1").rename(folder / "visits" / "day=9")
    assert place.refreshed() == before
    assert place.read_again() == {"visits", "notes"}
    place.add("depts", 0, pa.table({"dept": ["er", "lab", "x"]}))
    assert place.refreshed() != before
    assert place.read_again() == {"visits"}
    (folder / "visits" / "day=0" / "0.parquet").unlink()
    assert place.refreshed() == place.anew()
    assert place.read_again() == {"visits", "notes"}


def test_what_cannot_be_carried_over_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path / "here", "parquet")
    place.fill(ROWS)
    place.refreshed()
    place.visits(1, ROWS)
    monkeypatch.setattr(Build, "before", lambda self, table: "before.main.gone")
    assert place.refreshed() == place.anew()
