"""Opening a source: one build for all who wait, nothing torn by a crash, nothing secret in a name or a message."""

import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.engines.builds import policy_of

from sfumato.engines.duckdb.connection import closed_connection, execute, open_copy
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.engines.snapshots import Registered
from sfumato.errors import BadSource, EngineFailed, Refusal
from sfumato.policy.policy import Policy

VISITS: dict[str, Any] = {
    "unit": "patient_id",
    "rows_per_unit": 2,
    "columns": {
        "patient_id": {"type": "integer"},
        "cost": {"type": "decimal", "bounds": [0, 50], "step": "0.01"},
        "dept": {"type": "text", "values": ["er", "icu"]},
    },
}
ROWS = (
    "SELECT (x % 40)::INTEGER AS patient_id, x::DOUBLE / 3 AS cost, 'er' AS dept, 'secret7351' AS other "
    "FROM range({}) t(x)"
)


def quiet(phase: str, table: str) -> None:
    pass


def _source(root: Path, rows: int = 200, name: str = "visits.parquet") -> Policy:
    path = root / "data" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS.format(rows)}) TO '{path}'")
    return policy_for(root)


def policy_for(root: Path, scheme: str = "parquet", **tables: Any) -> Policy:
    return policy_of(tables or {"visits": VISITS}, f"{scheme}:{root}/data", ledger=f"sqlite:{root}/small.ledger")


def rows_of(registered: Registered, table: str = "visits") -> list[tuple[Any, ...]]:
    """Return the rows of the copy without its hidden columns."""
    with open_copy(registered.path, Limits()) as connection:
        names = [name for name, *_ in connection.execute(f'DESCRIBE "{table}"').fetchall() if '"' not in name]
        shown = ", ".join(f'"{name}"' for name in names)
        return sorted(connection.execute(f'SELECT {shown} FROM "{table}"').fetchall(), key=repr)  # noqa: S608


def test_a_second_opening_finds_the_copy_and_only_taking_it_again_builds_another(tmp_path: Path) -> None:
    phases: list[tuple[str, str]] = []
    policy = _source(tmp_path)
    first = register(policy, lambda phase, table: phases.append((phase, table)))
    assert phases == [("read", "visits"), ("bound", "visits"), ("sort", "visits")]
    assert register(policy, quiet) == first
    assert register(_source(tmp_path, 100), quiet) == first
    assert len(phases) == 3
    second = register(policy, quiet, again=True)
    assert second.version != first.version
    assert first.path.exists()  # who still uses the old one keeps it
    first.use.close()
    third = register(policy, quiet, again=True)
    assert (first.path.exists(), second.path.exists(), third.path.exists()) == (False, True, True)


def test_another_policy_on_the_same_data_is_another_copy_of_the_same_version(tmp_path: Path) -> None:
    first = register(_source(tmp_path), quiet)
    second = register(policy_for(tmp_path, visits={**VISITS, "rows_per_unit": 1}), quiet)
    assert (second.version, len(rows_of(second))) == (first.version, 40)


def test_everything_that_is_written_is_readable_by_its_owner_only_and_beside_the_ledger(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        register(_source(tmp_path), quiet)
    finally:
        os.umask(before)
    written = [path for path in tmp_path.iterdir() if path.name != "data"]
    assert len(written) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["visits.parquet"]
    assert not any(b"secret7351" in path.read_bytes() for path in written)  # it is not declared


def test_two_openings_give_the_same_rows_because_the_salt_stays(tmp_path: Path) -> None:
    first = register(_source(tmp_path), quiet)
    rows = rows_of(first)
    first.path.unlink()
    second = register(policy_for(tmp_path), quiet)
    assert (second.version, rows_of(second)) == (first.version, rows)
    salt = next(tmp_path.glob("*.salt"))
    assert salt.stat().st_size == 32
    salt.unlink()
    assert rows_of(register(policy_for(tmp_path), quiet, again=True)) != rows


@pytest.mark.parametrize("damage", ["short", "readable"])
def test_a_damaged_salt_is_refused(tmp_path: Path, damage: str) -> None:
    register(_source(tmp_path), quiet)
    salt = next(tmp_path.glob("*.salt"))
    if damage == "short":
        salt.write_bytes(b"")
    else:
        salt.chmod(0o644)
    with pytest.raises(BadSource, match="salt"):
        register(policy_for(tmp_path), quiet)


def test_many_who_open_at_once_wait_for_one_build(tmp_path: Path) -> None:
    policy = _source(tmp_path, 20_000)
    phases: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: register(policy, lambda phase, _: phases.append(phase)), range(4)))
    assert phases == ["read", "bound", "sort"]
    assert len(set(found)) == 1


CHILD = """
import sys
from pathlib import Path
from sfumato.engines.duckdb.registration import register
from tests.engines.test_registration import policy_for
print("ready", flush=True)
again = len(sys.argv) > 2
registered = register(policy_for(Path(sys.argv[1])), lambda phase, table: print(phase, flush=True), again=again)
print(registered.version)
"""


def _child(root: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(root), *more], stdout=subprocess.PIPE, text=True)


def test_two_processes_that_open_at_once_build_once(tmp_path: Path) -> None:
    _source(tmp_path, 20_000)
    children = [_child(tmp_path) for _ in range(2)]
    said = [child.communicate(timeout=60)[0].split() for child in children]
    assert sorted(len(words) for words in said) == [2, 5]  # one was told of three phases
    assert len({words[-1] for words in said}) == 1


def test_a_killed_build_leaves_the_old_copy_or_none_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    old = register(_source(tmp_path, 50), quiet)
    kept = rows_of(old)
    _source(tmp_path, 60_000)
    for delay in (0.0, 0.01, 0.03, 0.06, 0.12):
        child = _child(tmp_path, "again")
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert rows_of(old) == kept
    old.use.close()
    new = register(policy_for(tmp_path), quiet, again=True)
    assert len(rows_of(new)) == 80
    assert sorted(path.name.rpartition(".")[2].partition("-")[0] for path in tmp_path.iterdir()) == sorted(
        ["copy", "data", "lock", "manifest", "salt"]
    )


def test_a_source_that_changes_while_it_is_read_is_never_half_copied(tmp_path: Path) -> None:
    policy = _source(tmp_path)

    def change(phase: str, table: str) -> None:
        if phase == "sort":
            _source(tmp_path, 100)

    with pytest.raises(BadSource, match="changed while it was being read"):
        register(policy, change)
    assert not list(tmp_path.glob("*.copy-*")) + list(tmp_path.glob("*.build-*"))


def _message(policy: Policy) -> Refusal:
    with pytest.raises(Refusal) as caught:
        register(policy, quiet)
    assert caught.value.__context__ is None or isinstance(caught.value.__context__, Refusal | KeyError)
    assert not any(word in str(caught.value) for word in ("secret7351", "parquet:", "Error", "/tmp"))  # noqa: S108
    return caught.value


def test_what_the_source_lacks_is_named_by_the_key_of_the_policy(tmp_path: Path) -> None:
    _source(tmp_path)
    assert "tables.visitors is not in the source." in str(_message(policy_for(tmp_path, visitors=VISITS)))
    columns = {**VISITS["columns"], "cots": {"type": "text"}}
    assert "tables.visits.columns.cots" in str(_message(policy_for(tmp_path, visits={**VISITS, "columns": columns})))
    columns = {**VISITS["columns"], "dept": {"type": "date"}}
    assert "the source stores text there" in str(_message(policy_for(tmp_path, visits={**VISITS, "columns": columns})))


def test_a_file_that_is_not_parquet_is_named_to_its_owner(tmp_path: Path) -> None:
    policy = _source(tmp_path)
    (tmp_path / "data" / "visits.parquet").write_bytes(b"secret7351")
    refusal = _message(policy)
    assert str(refusal).startswith("tables.visits: the file 'visits.parquet' is not a Parquet file.")
    assert not list(tmp_path.glob("*.build-*"))


def test_a_ledger_inside_the_source_is_refused(tmp_path: Path) -> None:
    _source(tmp_path)
    policy = policy_of({"visits": VISITS}, f"parquet:{tmp_path}/data", ledger=f"sqlite:{tmp_path}/data/small.ledger")
    assert "ledger lies inside source." in str(_message(policy))
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_a_ledger_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    _source(tmp_path)
    policy = policy_of({"visits": VISITS}, f"parquet:{tmp_path}/data", ledger=f"sqlite:{tmp_path}/no/small.ledger")
    assert "folder that does not exist" in str(_message(policy))


def test_a_path_that_the_engine_would_misread_is_refused(tmp_path: Path) -> None:
    assert "question mark" in str(_message(_source(tmp_path / "why?")))


def test_a_file_a_folder_partitions_and_a_database_give_the_same_copy(tmp_path: Path) -> None:
    expected = rows_of(register(_source(tmp_path), quiet))
    salt = next(tmp_path.glob("*.salt")).read_bytes()
    layouts = {
        "folder": "COPY ({}) TO '{}/data/visits' (FORMAT parquet, PER_THREAD_OUTPUT, FILE_SIZE_BYTES 100)",
        "hive": "COPY ({}) TO '{}/data/Visits' (FORMAT parquet, PARTITION_BY (patient_id))",
        "csv": "COPY ({}) TO '{}/data/visits.csv' (HEADER)",
        "csv.gz": "COPY ({}) TO '{}/data/visits.csv.gz' (HEADER)",
        "csv hive": "COPY ({}) TO '{}/data/visits' (FORMAT csv, HEADER, PARTITION_BY (patient_id))",
        "duckdb": "ATTACH '{1}/data' AS d; CREATE TABLE d.\"VISITS\" AS {0}",
        "we*[i]rd's": "COPY ({}) TO '{}/data/visits.parquet'",
    }
    for name, statement in layouts.items():
        root = tmp_path / name
        (root if name == "duckdb" else root / "data").mkdir(parents=True)
        (root / "small.ledger.copy.salt").write_bytes(salt)
        (root / "small.ledger.copy.salt").chmod(0o600)
        with duckdb.connect() as connection:
            connection.execute(statement.format(ROWS.format(200), str(root).replace("'", "''")))
        scheme = {"csv.gz": "csv", "csv": "csv", "csv hive": "csv", "duckdb": "duckdb"}.get(name, "parquet")
        found = rows_of(register(policy_for(root, scheme), quiet))
        if scheme == "csv":  # decimal text and binary floats differ in the last step at most
            assert {row[0] for row in found} == {row[0] for row in expected}
            assert len(found) == len(expected)
        else:
            assert found == expected, name


def test_csv_text_that_is_not_of_its_type_is_absent_and_never_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "visits.csv").write_text(
        "patient_id,cost,dept\n1,12.345,er\n2,abc,icu\n3,1e400,er\n4,nan,zz\nfive,1,er\n6,,\n7,1,2\n9,0.015,icu\n",
        encoding="utf-8",
    )
    rows = sorted(row[1:3] for row in rows_of(register(policy_for(tmp_path, "csv"), quiet)) if row[1] is not None)
    # exact decimal text: 12.345 and 0.015 are ties and go to the even step
    assert rows == [(2, "icu"), (100, None), (1234, "er")]


def test_a_public_table_is_copied_as_it_is(tmp_path: Path) -> None:
    _source(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1.5 AS x, DATE '2020-02-29' AS d) TO '{tmp_path}/data/staff.parquet'")
    registered = register(policy_for(tmp_path, visits=VISITS, staff={"public": True}), quiet)
    assert len(rows_of(registered, "staff")) == 1
    assert [(table.name, table.unit) for table in registered.tables] == [("visits", "patient_id"), ("staff", None)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "ATTACH '/tmp/elsewhere.duckdb'",
        "COPY (SELECT 1) TO '/tmp/elsewhere.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "CREATE TABLE copy.main.x (y INTEGER)",
        "DELETE FROM copy.main.visits",
    ],
)
def test_a_connection_to_the_copy_reaches_nothing_else(tmp_path: Path, statement: str) -> None:
    with open_copy(register(_source(tmp_path), quiet).path, Limits()) as connection:
        with pytest.raises(EngineFailed) as caught:
            execute(connection, statement)
        assert caught.value.__context__ is None


def test_a_connection_keeps_to_its_memory(tmp_path: Path) -> None:
    with closed_connection([], Limits(memory="50MB", threads=1)) as connection, pytest.raises(EngineFailed):
        execute(connection, "SELECT count(*) FROM (SELECT x FROM range(20000000) t(x) ORDER BY hash(x) LIMIT 19999999)")
