"""What a snapshot needs does not grow with the table: rows are written part by part, and failures name their cause."""

import errno
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines.build_catalog import facts_of
from sfumato.engines.duckdb import build as building
from sfumato.engines.duckdb import connection, copy_build
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.limits import limits_of
from sfumato.engines.machine import machine_memory, machine_threads
from sfumato.engines.resource_failures import DISK, MEMORY, failure_of
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.dialect import ByWindow, bounding_of
from sfumato.engines.sql.names import PERSON
from sfumato.errors import BadPolicy, BadSource, EngineFailed, NoSnapshot, Refusal
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.terminal.screen import RemainingTime, phase_text

PEOPLE, ROWS = 40, 300
QUESTION = "SELECT dept, COUNT(*) AS n, SUM(cost) AS c, MEDIAN(age) AS a FROM visits GROUP BY dept"


def clinic(folder: Path, **engine: object) -> dict[str, Any]:
    """Return a policy over Parquet in this folder; some people have more rows than are kept."""
    data = folder / "data"
    if not data.exists():
        data.mkdir(parents=True)
        numbers = range(ROWS)
        table = {
            "who": [number * number % PEOPLE for number in numbers],
            "dept": [("er", "icu")[number % 2] for number in numbers],
            "cost": [number * 7 % 50 for number in numbers],
            "age": [number % 90 for number in numbers],
        }
        pq.write_table(pa.table(table), data / "visits.parquet")
    return {
        "source": f"parquet:{data}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": 1000, "delta": "1e-6", "truncation": 1},
        "analysts": {"anna": {"epsilon": 1}},
        "engine": engine,
        "tables": {
            "visits": {
                "unit": "who",
                "rows_per_unit": 6,
                "columns": {
                    "who": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "cost": {"type": "integer", "bounds": [0, 40]},
                    "age": {"type": "integer", "bounds": [0, 99]},
                },
            }
        },
    }


def kept(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the copy in this folder holds of people, without their numbers: those depend on the build."""
    (copy,) = (path for path in folder.iterdir() if path.is_file() and path.name.startswith("clinic.ledger.copy-"))
    with duckdb.connect(copy, read_only=True) as opened:
        names = [
            name
            for (name,) in opened.execute(
                "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
            ).fetchall()
        ]
        shown = [f"COLUMNS(lambda name: name <> '{PERSON}')"]
        return {name: sorted(opened.execute(select(shown, f'"{name}"')).fetchall(), key=repr) for name in names}


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the statements of builds, as they come."""
    seen: list[str] = []
    execute = connection.execute

    def noting(opened: Any, statement: str, *rest: Any) -> Any:
        seen.append(statement)
        return execute(opened, statement, *rest)

    monkeypatch.setattr(building, "execute", noting)
    return seen


def in_parts_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds rank about so many rows at once."""
    window = bounding_of(DUCKDB, ByWindow)
    assert window.rank_partitions is not None
    smaller = replace(window, rank_partitions=replace(window.rank_partitions, rows=rows))
    monkeypatch.setattr(copy_build, "Build", partial(building.Build, dialect=replace(DUCKDB, bounding=smaller)))


def test_a_copy_in_many_parts_holds_the_same_and_no_statement_sorts_more_than_one(
    tmp_path: Path, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sfumato.open(clinic(tmp_path)):
        whole = kept(tmp_path)
    salt = (tmp_path / "clinic.ledger.copy.salt").read_bytes()
    for path in tmp_path.iterdir():
        if path.name.startswith("clinic.ledger") and not path.name.endswith(".salt"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    statements.clear()
    told: list[str] = []
    in_parts_of(50, monkeypatch)
    with sfumato.open(clinic(tmp_path), progress=lambda phase, _table: told.append(phase)):
        assert (tmp_path / "clinic.ledger.copy.salt").read_bytes() == salt
        assert kept(tmp_path) == whole
    parts = -(-ROWS // 50)
    written = [statement for statement in statements if 'copy.main."visits" ' in statement[:60]]
    assert len(written) == parts
    assert all(" ORDER BY " in statement and ".bounded" not in statement for statement in written)
    shares = [f"sort {100 * part // parts} %" for part in range(parts)]
    assert [phase for phase in told if phase.startswith("sort")] == shares


def test_intermediate_rows_are_written_to_a_file_where_memory_is_short_and_the_copy_is_the_same(
    tmp_path: Path, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, salt = {}, b""
    for share, place in ((Fraction(1, 4), "scratch"), (Fraction(0), "stage")):
        monkeypatch.setattr(copy_build, "_SCRATCH_SHARE", share)
        statements.clear()
        (folder := tmp_path / place).mkdir()
        policy, secret = clinic(folder), folder / "clinic.ledger.copy.salt"
        if salt:
            secret.touch(mode=0o600)
            secret.write_bytes(salt)
        with sfumato.open(policy):
            found[place], salt = kept(folder), secret.read_bytes()
        written = [statement for statement in statements if statement.startswith("CREATE TABLE ")]
        assert any(statement.startswith(f"CREATE TABLE {place}.rows ") for statement in written)
        assert {statement.split()[2].split(".")[0] for statement in written} <= {place, "copy"}
    assert found["scratch"] == found["stage"]


def test_rows_are_sorted_by_declared_keys_people_and_ranks_alone(tmp_path: Path, statements: list[str]) -> None:
    with sfumato.open(clinic(tmp_path)):
        pass
    (written,) = (statement for statement in statements if statement.startswith('CREATE TABLE copy.main."visits" '))
    assert written.endswith('ORDER BY "dept" NULLS LAST, "who", """rank"""')


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (duckdb.OutOfMemoryException("could not allocate block of 'anna'"), MEMORY, "needs more memory"),
        (MemoryError(), MEMORY, "needs more memory"),
        (duckdb.IOException("Could not write: No space left on device"), DISK, "no space left"),
        (duckdb.OutOfMemoryException("failed to offload: max_temp_directory_size"), DISK, "no space left"),
        (OSError(errno.ENOSPC, "'anna'"), DISK, "no space left"),
    ],
    ids=["memory", "python", "disk", "spill", "system"],
)
def test_a_lack_of_memory_or_disk_is_told_to_the_owner_alone_and_mends_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str, words: str
) -> None:
    def failing(self: object, relation: str, query: str, *, salted: bool = False) -> None:
        raise failure_of(error, isinstance(error, duckdb.OutOfMemoryException | MemoryError))

    def mending(*_: object) -> None:
        raise AssertionError("the files can be read")

    monkeypatch.setattr(building.Build, "create_table_as", failing)
    monkeypatch.setattr(copy_build, "mended", mending)
    assert str(failure_of(error, cause == MEMORY)) == str(EngineFailed())
    with pytest.raises(EngineFailed) as refused:
        sfumato.open(clinic(tmp_path, memory="123MB"))
    assert words in refused.value.what
    assert "anna" not in str(refused.value)
    assert "[engine]" in str(refused.value)
    with pytest.raises(NoSnapshot):
        sfumato.open(clinic(tmp_path, memory="123MB"), analyst="anna")


def test_a_file_that_the_engine_cannot_read_is_still_mended(tmp_path: Path) -> None:
    words = clinic(tmp_path)
    path = tmp_path / "data" / "visits.parquet"
    table = pq.read_table(path)
    damaged = pa.array([b"\xff\xfe", *(b"er" for _ in range(ROWS - 1))], pa.binary()).view(pa.string())
    pq.write_table(table.set_column(1, "dept", damaged), path)
    with sfumato.open(words) as database:
        assert len(database.ask(QUESTION, epsilon=1)) == 2


@pytest.mark.parametrize(
    ("files", "memory", "threads"),
    [
        ({}, None, None),
        ({"memory.max": "max\n", "cpu.max": "max 100000\n"}, None, None),
        ({"memory.max": "300000000\n", "cpu.max": "50000 100000\n"}, 300_000_000, 1),
        ({"memory/memory.limit_in_bytes": "400000000\n", "cpu/cpu.cfs_quota_us": "-1\n"}, 400_000_000, None),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None, None),
    ],
    ids=["none", "unlimited", "v2", "v1", "v1 unlimited"],
)
def test_a_container_limits_what_the_machine_has(
    tmp_path: Path, files: dict[str, str], memory: int | None, threads: int | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    everything = tmp_path / "nothing here"
    assert machine_memory(tmp_path) == (memory or machine_memory(everything))
    assert machine_threads(tmp_path) == (threads or machine_threads(everything))


def test_the_engine_gets_what_the_policy_says_within_its_memory(tmp_path: Path) -> None:
    limits = limits_of(read_policy(clinic(tmp_path, memory="1GiB", threads=3)))
    assert (limits.memory, limits.threads, limits.temp) == ("960MiB", 3, None)
    assert limits_of(read_policy(clinic(tmp_path, memory="200MB"))).threads == 1
    hashes = {policy_hash(read_policy(clinic(tmp_path, **one))) for one in ({}, {"memory": "2.5GB"}, {"threads": 9})}
    assert len(hashes) == 1


@pytest.mark.parametrize("memory", ["4", "4 kB", "99MB", "-1GB", "1e3GB", "4GBs", "9999999TB", 4, None, True, ""])
def test_a_memory_that_is_none_is_refused(tmp_path: Path, memory: object) -> None:
    with pytest.raises(BadPolicy, match=r"engine\.memory"):
        read_policy(clinic(tmp_path, memory=memory))


def test_what_spills_goes_into_a_private_folder_of_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = clinic(tmp_path, temp=str(tmp_path / "spill"))
    with pytest.raises(BadSource, match=r"engine\.temp"):
        sfumato.open(words)
    (tmp_path / "spill").mkdir()
    seen: list[Path] = []
    closed = connection.closed_connection

    def noting(allowed: list[Path], limits: object, temporary: Path) -> Any:
        seen.append(temporary)
        assert temporary.parent.stat().st_mode & 0o077 == 0
        return closed(allowed, limits, temporary)  # type: ignore[arg-type]

    monkeypatch.setattr(copy_build, "closed_connection", noting)
    with sfumato.open(words) as database:
        assert len(database.ask(QUESTION, epsilon=1)) == 2
    assert [path.parent.parent for path in seen] == [tmp_path / "spill"]
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_table_of_many_columns_is_registered_and_each_column_is_looked_at_once(tmp_path: Path) -> None:
    """Expressions of engines have a limited depth (1,000 in DuckDB): 600 columns were beyond it."""
    names = [f"c{at}" for at in range(600)]
    frame = pa.table({"who": [1, 1, 1, 2], **{name: [0, 1, 2, at % 7] for at, name in enumerate(names)}})
    columns = {name: {"type": "integer", "bounds": [0, 6 + at]} for at, name in enumerate(names)}
    before = facts_of.cache_info().misses
    with sfumato.open(
        {
            "source": {"wide": frame},
            "ledger": f"sqlite:{tmp_path / 'wide.ledger'}",
            "budget": {"epsilon": 10, "delta": 0},
            "tables": {"wide": {"unit": "who", "rows_per_unit": 2, "columns": {"who": {"type": "integer"}, **columns}}},
        }
    ) as database:
        assert len(database.ask("SELECT SUM(c599) AS s FROM wide", epsilon=1)) == 1
    assert facts_of.cache_info().misses - before <= len(names) + 10


def test_the_time_that_is_left_follows_from_the_share_that_is_done() -> None:
    now = [0.0]
    left = RemainingTime(lambda: now[0])
    lines = []
    for percent, seconds in ((0, 10.0), (25, 20.0), (50, 400.0), (99, 401.0)):
        now[0] = seconds
        lines.append(phase_text(f"sort {percent} %", "visits", left))
    assert lines == [
        "writing the bounded copy of visits … 0 %",
        "writing the bounded copy of visits … 25 %, about 30 s left",
        "writing the bounded copy of visits … 50 %, about 7 min left",
        "writing the bounded copy of visits … 99 %, about 4 s left",
    ]
    assert phase_text("read", "visits", left) == "reading visits …"
    assert phase_text("of others", "visits", left) == "of others visits …"


def test_a_refusal_of_resources_is_one_code() -> None:
    assert {failure_of(MemoryError(), True).code, failure_of(OSError(), False).code} == {EngineFailed.code}
    assert isinstance(failure_of(ValueError(), False), Refusal)
