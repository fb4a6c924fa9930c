"""PostgreSQL as a guest sees it: what is logged, what is written, what fails, and what nobody is told."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.engines import postgres_under_law as law
from tests.engines.postgres_under_law import fill, source_url, url
from tests.refusals import refusing

import sfumato
from sfumato.engines.postgres import connection as driver
from sfumato.engines.postgres import reader
from sfumato.errors import BadSource, EngineFailed, NoSnapshot
from sfumato.opening import refreshed
from sfumato.terminal.tuning import tune

DEPTS = ("er", "icu", "surgery")
SECRET = "geheim-4711"  # noqa: S105
COUNT = "SELECT COUNT(*) AS n FROM visits"
FIXED = str(EngineFailed())


@pytest.fixture(autouse=True)
def _server() -> None:
    url()


def _tables(rows: int = 60) -> dict[str, pa.Table]:
    visits = {
        "who": [at % 20 for at in range(rows)],
        "dept": [DEPTS[at % 3] for at in range(rows)],
        "city": ["Unverwechselbarheim"] * rows,
        "cost": [at % 7 + 0.5 for at in range(rows)],
    }
    return {"visits": pa.table(visits), "staff": pa.table({"dept": list(DEPTS), "boss": ["Ann", "Bob", "Eve"]})}


def _policy(folder: Path, source: str, **more: Any) -> dict[str, Any]:
    columns = {
        "who": {"type": "integer"},
        "dept": {"type": "text", "values": list(DEPTS)},
        "city": {"type": "text"},
        "cost": {"type": "decimal", "bounds": [0, 10], "step": "0.5"},
    }
    return {
        "name": "clinic",
        "source": source,
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 2, "columns": columns}, "staff": {"public": True}},
        "analysts": {"research": {"epsilon": 10}},
        **more,
    }


def _sql(statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url(), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def _log(settings: str = "ALTER SYSTEM SET log_statement = 'all'") -> Iterator[list[str]]:
    """Log every statement, and give the lines when the body has ended."""
    ((data,),) = _sql("SHOW data_directory")
    _sql(settings)
    _sql("SELECT pg_reload_conf()")
    time.sleep(0.5)
    file = Path(data).parent / "log"
    lines: list[str] = []
    begin = file.stat().st_size
    try:
        yield lines
    finally:
        lines += file.read_text(errors="replace")[begin:].splitlines()
        _sql("ALTER SYSTEM RESET log_statement")
        _sql("SELECT pg_reload_conf()")


def _objects() -> set[tuple[str, str]]:
    return set(_sql("SELECT nspname, relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace"))


def _connections() -> int:
    ((found,),) = _sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename <> ''")
    return int(found)


def test_caps_and_bounds_are_tuned_on_a_copy_that_is_dropped(tmp_path: Path) -> None:
    source = source_url(fill(_tables(600)))
    with sfumato.open(_policy(tmp_path, source)) as database:
        before, files = _objects(), sorted(path.name for path in tmp_path.iterdir())
        tuned = tune(database, ["SELECT COUNT(*) FROM visits"], "50")
        assert {schema for schema, _ in _objects() - before} <= {"pg_toast"}
        assert sorted(path.name for path in tmp_path.iterdir()) == files
    # everybody has 30 rows: caps of 1, 2, 5, … are tried, and 50 loses nothing
    assert tuned.lines == ("[tables.visits]", "rows_per_unit = 50  # now 2")


def test_the_log_holds_no_typed_text_alias_value_salt_or_password(tmp_path: Path) -> None:
    source = source_url(fill(_tables())).replace("sfumato@", f"sfumato:{SECRET}@")
    before, connections = _objects(), _connections()
    with _log() as lines:
        with sfumato.open(_policy(tmp_path, source)) as database:
            asked = "SELECT dept AS myalias, COUNT(*) AS mycount /* mycomment */ FROM visits GROUP BY dept"
            database.ask(asked, epsilon=1)
            database.ask("SELECT boss, SUM(cost) FROM visits JOIN staff USING (dept) GROUP BY boss", epsilon=1)
            for refused in ("SELECT mytypo FROM visits", "SELECT who, COUNT(*) FROM visits GROUP BY who"):
                with refusing():
                    database.ask(refused, epsilon=1)
            assert SECRET not in repr(database)
        made = {name for schema, name in _objects() - before if schema not in {"pg_toast"}}
        assert all(name.startswith("c_") for name in made)
        assert {schema for schema, _ in _objects() - before} <= {driver.SCHEMA, "pg_toast"}
        assert _connections() <= connections  # one of an earlier test may still be closing
    text = "\n".join(lines)
    salt = (tmp_path / "clinic.ledger.copy.salt").read_bytes().hex()
    for hidden in ("myalias", "mycount", "mycomment", "mytypo", "Unverwechselbarheim", salt, SECRET):
        assert hidden not in text
    reads = [line for line in lines if "LOG:  statement: SELECT" in line and "_t0" in line]
    assert len([line for line in reads if "FROM sfumato" in line and "count(*) FROM sfumato" not in line]) == 2
    assert all(SECRET not in path.read_bytes().decode("latin-1") for path in tmp_path.iterdir())


def test_explain_and_a_refusal_read_no_private_table(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path, source_url(fill(_tables())))) as database, _log() as lines:
        database.explain("SELECT dept, COUNT(*) FROM visits GROUP BY dept", epsilon=1)
        database.explain("SELECT boss, COUNT(*) FROM visits JOIN staff USING (dept) GROUP BY boss", epsilon=1)
        with refusing():
            database.ask("SELECT SUM(city) FROM visits", epsilon=1)
    assert not [line for line in lines if "_t0" in line or "_r0" in line]


def test_each_question_is_one_transaction_that_cannot_write(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path, source_url(fill(_tables())))) as database:
        database.ask(COUNT, epsilon=1)
        with _log() as lines:
            database.ask("SELECT dept, COUNT(*), SUM(cost) FROM visits GROUP BY dept", epsilon=1)
    ours = [line for line in lines if "statement:" in line and "pg_reload_conf" not in line and "SYSTEM" not in line]
    ours = [line for line in ours if "pg_class" not in line and "data_directory" not in line]
    assert [line.split("statement: ")[1][:15] for line in ours][:1] == ["BEGIN READ ONLY"]
    assert "statement_timeout" in ours[0]
    assert "lock_timeout" in ours[0]
    assert len([line for line in ours if "_t0" in line]) == 1
    assert [line for line in ours if line.endswith("COMMIT")]


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://nosuchuser:geheim-4711@127.0.0.1:{port}/postgres",
        "postgresql://sfumato:geheim-4711@127.0.0.1:{port}/nosuchdatabase",
        "postgresql://sfumato:geheim-4711@127.0.0.1:1/postgres",
        "postgresql://sfumato:geheim-4711@nosuchhost.invalid/postgres",
        "postgresql://sfumato:geheim-4711@127.0.0.1:notaport/postgres",
    ],
)
def test_what_cannot_be_reached_is_refused_without_a_name(tmp_path: Path, source: str) -> None:
    words = _policy(tmp_path, source.format(port=url().split(":")[-1].split("/")[0]))
    with pytest.raises(BadSource) as caught:
        sfumato.open(words)
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__} {caught.value.__context__}"
    assert not any(name in shown for name in ("nosuch", SECRET, "127.0.0.1", "notaport", "fe_sendauth"))
    with pytest.raises(NoSnapshot):
        sfumato.open(words, analyst="research")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def _guest(*grants: str) -> Iterator[str]:
    """Give the address of a role in a database of its own, with what it was granted and nothing else."""
    _sql("CREATE DATABASE guests")
    own = url().rsplit("/", 1)[0] + "/guests"
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("REVOKE TEMP ON DATABASE guests FROM PUBLIC")
        connection.execute("CREATE TABLE visits (who integer, dept text, city text, cost numeric)")
        connection.execute("INSERT INTO visits SELECT n, 'er', 'x', 1 FROM generate_series(1, 9) AS n")
        connection.execute("CREATE TABLE staff (dept text, boss text)")
        for grant in grants:
            connection.execute(grant)
    try:
        yield own.replace("sfumato@", "guest@")
    finally:
        _sql("DROP DATABASE guests WITH (FORCE)")
        _sql("DROP ROLE guest")


MADE = "CREATE SCHEMA sfumato AUTHORIZATION guest"
READ = ("GRANT SELECT ON public.visits TO guest", "GRANT SELECT ON public.staff TO guest")


def test_the_rights_that_the_documentation_lists_are_enough(tmp_path: Path) -> None:
    with _guest(MADE, *READ) as source, sfumato.open(_policy(tmp_path, source)) as database:
        assert abs(database.ask(COUNT, epsilon=100).rows()[0]["n"] - 9) <= 1


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        (READ, "CREATE SCHEMA sfumato AUTHORIZATION ROLE;"),
        (("CREATE SCHEMA sfumato", *READ), "GRANT USAGE, CREATE ON SCHEMA sfumato TO ROLE;"),
        ((MADE, READ[1]), 'GRANT SELECT ON "public"."visits" TO ROLE;'),
        ((MADE, *READ, "REVOKE USAGE ON SCHEMA public FROM PUBLIC"), "GRANT USAGE ON SCHEMA public TO ROLE;"),
    ],
)
def test_a_missing_right_is_refused_with_the_line_that_grants_it(
    tmp_path: Path, grants: tuple[str, ...], missing: str
) -> None:
    with _guest(*grants) as source:
        with pytest.raises(BadSource) as caught:
            sfumato.open(_policy(tmp_path, source))
        assert missing in str(caught.value)
        assert "guest" not in str(caught.value)
        with psycopg.connect(source.replace("guest@", "sfumato@"), autocommit=True) as connection:
            connection.execute(missing.replace("ROLE", "guest").encode())
        with sfumato.open(_policy(tmp_path, source)) as database:  # and that line is all that was missing
            assert database.ask(COUNT, epsilon=1).rows()


def test_a_table_may_lie_in_another_schema_and_have_another_name_there(tmp_path: Path) -> None:
    """`from` had no effect on a server."""
    moved = ("CREATE SCHEMA ward", "ALTER TABLE visits SET SCHEMA ward", 'ALTER TABLE ward.visits RENAME TO "All"')
    granted = ("GRANT USAGE ON SCHEMA ward TO guest", 'GRANT SELECT ON ward."All" TO guest')
    with _guest(MADE, *moved, *granted, READ[1]) as source:
        words = _policy(tmp_path, source)
        words["tables"]["visits"] = {**words["tables"]["visits"], "from": "Ward.all"}
        with sfumato.open(words) as database:
            assert abs(database.ask(COUNT, epsilon=100).rows()[0]["n"] - 9) <= 1
        words["tables"]["visits"]["from"] = "nowhere.all"
        words["ledger"] = f"sqlite:{tmp_path}/other.ledger"
        with pytest.raises(BadSource, match=r"lies in a schema that is not there"):
            sfumato.open(words)


def test_a_snapshot_that_somebody_else_takes_answers_from_the_next_question_on(tmp_path: Path) -> None:
    with _guest(MADE, *READ) as source, sfumato.open(_policy(tmp_path, source)) as database:
        before = database.ask(COUNT, epsilon=1).receipt.version
        with refreshed(_policy(tmp_path, source)) as newer:
            version = newer.version
        assert database.ask(COUNT, epsilon=1).receipt.version == version != before


def test_a_missing_driver_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(driver, "import_module", missing)
    with pytest.raises(BadSource, match=r"pip install 'sfumato\[postgres\]'"):
        sfumato.open(_policy(tmp_path, url()))


def _cut(waiting: bool) -> None:
    """End every other connection; or, as soon as there is one, those that wait for a lock."""
    chosen = "wait_event_type = 'Lock'" if waiting else "pid <> pg_backend_pid()"
    for _ in range(200):
        found = _sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {chosen}")  # noqa: S608
        if found or not waiting:
            return
        time.sleep(0.05)


def test_a_connection_that_was_cut_between_questions_costs_nothing(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path, source_url(fill(_tables())))) as database:
        database.ask(COUNT, epsilon=1)
        law.forget_connection()
        _cut(waiting=False)
        assert database.ask(COUNT, epsilon=2).rows()
        assert len(database.history()) == 2


@pytest.mark.parametrize("how", ["cut", "late"])
def test_a_question_that_is_stopped_says_one_sentence_and_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "late":
        monkeypatch.setattr(reader, "_BEGIN", reader._BEGIN.replace("'10s'", "'100ms'"))
    with sfumato.open(_policy(tmp_path, source_url(fill(_tables())))) as database:
        before = database.budget().spent.epsilon
        with psycopg.connect(url()) as other:
            other.execute(f'LOCK TABLE {_copy(tmp_path)}_t0"')
            cutting = threading.Thread(target=_cut, args=(True,))
            if how == "cut":
                cutting.start()
            with pytest.raises(EngineFailed) as caught:
                database.ask(COUNT, epsilon=1)
            if how == "cut":
                cutting.join()
        assert str(caught.value) == FIXED
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert database.budget().spent.epsilon > before
        assert database.ask(COUNT, epsilon=1).rows()


def _copy(folder: Path) -> str:
    (name,) = _copy_names(folder)
    return f'{driver.SCHEMA}."{name.removesuffix("_t0")}'


def test_a_copy_that_a_crash_emptied_fails_once_and_is_built_again(tmp_path: Path) -> None:
    words = _policy(tmp_path, source_url(fill(_tables())))
    with sfumato.open(words) as database:
        version = database.ask(COUNT, epsilon=1).receipt.version
        for table in ("t0", "r0", "m"):  # what recovery does to tables that are not logged
            _sql(f'TRUNCATE {_copy(tmp_path)}_{table}"')
        law.forget_connection()
        _cut(waiting=False)
        with pytest.raises(EngineFailed) as caught:
            database.ask(COUNT, epsilon=2)
        assert str(caught.value) == FIXED
        assert len(database.history()) == 2
    with sfumato.open(words) as database:
        release = database.ask(COUNT, epsilon=100)
        assert release.receipt.version != version
        assert abs(release.rows()[0]["n"] - 40) <= 1


CHILD = """
import sys, time
import sfumato
from pathlib import Path
from tests.engines.test_postgres import _policy

def progress(phase, table):
    print(phase, flush=True)
    if len(sys.argv) > 3 and phase == "bound":
        time.sleep(60)

with sfumato.open(_policy(Path(sys.argv[1]), sys.argv[2]), progress=progress) as database:
    print("open", flush=True)
"""


def _child(folder: Path, source: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder), source, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_build_that_was_killed_leaves_nothing_and_two_processes_build_once(tmp_path: Path) -> None:
    source, before = source_url(fill(_tables())), {one for one in _objects() if one[0] == driver.SCHEMA}
    killed = _child(tmp_path, source, "wait")
    assert killed.stdout is not None
    while killed.stdout.readline().strip() != "bound":
        pass
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    children = [_child(tmp_path, source) for _ in range(2)]
    said = [child.communicate(timeout=60)[0].split() for child in children]
    assert sorted(said, key=len) == [["open"], ["read", "bound", "sort", "copy", "open"]]
    after = {one for one in _objects() if one[0] == driver.SCHEMA} - before
    assert {name.rpartition("_")[2] for _, name in after} == {"t0", "r0", "m"}
    assert len(after) == 3
    assert not list(tmp_path.glob("*.build-*"))


def test_a_new_snapshot_has_the_new_rows_and_the_old_one_is_swept(tmp_path: Path) -> None:
    schema = fill(_tables())
    words = _policy(tmp_path, source_url(schema))
    with sfumato.open(words) as database:
        first = database.ask(COUNT, epsilon=100).rows()[0]["n"]
        _sql(f"INSERT INTO {schema}.visits SELECT n, 'er', 'x', 1 FROM generate_series(100, 199) AS n")  # noqa: S608
        assert abs(database.ask(COUNT, epsilon=101).rows()[0]["n"] - first) <= 2
        database.refresh()
        assert abs(database.ask(COUNT, epsilon=100).rows()[0]["n"] - first - 100) <= 2
        old = _copy_names(tmp_path)
        database.refresh()
        database.refresh()
        assert len(_copy_names(tmp_path)) <= 2
        assert old[0] not in {name for _, name in _objects()}


FULL = """CREATE FUNCTION public.full_disk() RETURNS {} LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'no space left for Unverwechselbarheim' USING ERRCODE = 'disk_full'; END$$"""


def test_a_full_disk_leaves_the_old_snapshot_and_says_one_sentence(tmp_path: Path) -> None:
    """The server fails in the middle of a build, then in the middle of a question."""
    failing = (
        FULL.format("event_trigger"),
        "CREATE EVENT TRIGGER fail ON ddl_command_end EXECUTE FUNCTION full_disk()",
    )
    with _guest(MADE, *READ) as source, sfumato.open(_policy(tmp_path, source)) as database:
        version = database.ask(COUNT, epsilon=1).receipt.version
        with psycopg.connect(source.replace("guest@", "sfumato@"), autocommit=True) as owner:
            tables = "SELECT relname FROM pg_class WHERE relnamespace = 'sfumato'::regnamespace ORDER BY 1"
            before = owner.execute(tables).fetchall()
            for statement in failing:
                owner.execute(statement)
            with pytest.raises(EngineFailed) as caught:
                database.refresh()
            owner.execute("DROP FUNCTION public.full_disk CASCADE")
            assert str(caught.value) == FIXED
            assert (caught.value.__cause__, caught.value.__context__) == (None, None)
            assert owner.execute(tables).fetchall() == before
            assert database.ask(COUNT, epsilon=2).receipt.version == version
            owner.execute(FULL.format("boolean"))
            for statement in ("FORCE ROW LEVEL SECURITY", "ENABLE ROW LEVEL SECURITY"):
                owner.execute(f'ALTER TABLE {_copy(tmp_path)}_t0" {statement}')
            owner.execute(f'CREATE POLICY fail ON {_copy(tmp_path)}_t0" USING (public.full_disk())')
        with pytest.raises(EngineFailed) as caught:
            database.ask(COUNT, epsilon=3)
        assert str(caught.value) == FIXED
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert len(database.history()) == 3


def test_two_who_refresh_at_once_leave_one_snapshot_that_everybody_asks(tmp_path: Path) -> None:
    schema = fill(_tables())
    words, versions = _policy(tmp_path, source_url(schema)), []

    def refresh() -> None:
        with refreshed(words) as newer:
            versions.append(newer.version)

    with sfumato.open(words) as database:
        version = database.version
        _sql(f"INSERT INTO {schema}.visits SELECT n, 'er', 'x', 1 FROM generate_series(100, 199) AS n")  # noqa: S608
        both = [threading.Thread(target=refresh) for _ in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        release = database.ask(COUNT, epsilon=100)
        assert release.receipt.version in versions
        assert version not in versions
        assert len(versions) == 2
        assert abs(release.rows()[0]["n"] - 140) <= 1
    refreshed(words).close()
    assert len(_copy_names(tmp_path)) == 1
    assert not list(tmp_path.glob("*.build-*"))


def test_a_wrong_password_is_refused_without_a_name(tmp_path: Path) -> None:
    ((file,),) = _sql("SHOW hba_file")
    trusting = Path(file).read_text()
    _sql("CREATE ROLE nosuchguest LOGIN PASSWORD 'another'")
    Path(file).write_text(f"host all nosuchguest 127.0.0.1/32 scram-sha-256\n{trusting}")
    try:
        _sql("SELECT pg_reload_conf()")
        time.sleep(0.5)
        place = url().split("@")[1]
        test_what_cannot_be_reached_is_refused_without_a_name(tmp_path, f"postgresql://nosuchguest:{SECRET}@{place}")
    finally:
        Path(file).write_text(trusting)
        _sql("SELECT pg_reload_conf()")
        _sql("DROP ROLE nosuchguest")


def _copy_names(folder: Path) -> list[str]:
    files = [file for file in sorted(folder.glob("clinic.ledger.copy-*")) if file.is_file()]
    return [f"c_{file.name.rpartition('-')[2]}_t0" for file in files]


def test_a_process_that_was_forked_asks_by_itself(tmp_path: Path) -> None:
    with sfumato.open(_policy(tmp_path, source_url(fill(_tables())))) as database:
        database.ask(COUNT, epsilon=1)
        child = os.fork()
        if child == 0:
            try:
                database.ask(COUNT, epsilon=2)
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert database.ask(COUNT, epsilon=3).rows()
