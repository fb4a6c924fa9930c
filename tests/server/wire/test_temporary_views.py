"""Temporary views are named texts of one session: free, bounded, and never a way around a right, a limit or a price."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.server.test_serving import said_by
from tests.server.wire.served import (
    PRICE,
    SYNC,
    Bare,
    Served,
    bind,
    columns,
    describe,
    errors,
    eventually,
    execute,
    parse,
    raised,
    served,
    tags,
)

from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.query.parsing.tree import MAX_SQL_CHARS
from sfumato.server.datasets import ServedDataset
from sfumato.server.quota import Holding
from sfumato.server.reloading import Reload
from sfumato.server.watch import PolicyWatch
from sfumato.server.wire import oids
from sfumato.server.wire.memory import MemoryLimits, SessionMemory
from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.view_references import ViewReferences
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.temporary_views import CATALOGUE_BYTES, MAX_VIEW_CHARS, MAX_VIEWS, TemporaryView
from sfumato.server.wire.view_expansion import MAX_VIEW_DEPTH

IN_CATALOGUE = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), n.nspname, c.relkind, c.relpersistence
FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid JOIN pg_namespace n ON c.relnamespace = n.oid
WHERE c.relname = 'by_dept' ORDER BY a.attnum"""
ROLES = """
[roles.visits]
tables = ["visits"]
columns = ["visits.dept", "visits.age"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("views"))) as made:
        yield made


@pytest.fixture
def client(server: Served) -> Iterator[Bare]:
    with server.client(pairs=PRICE) as made:
        yield made


def done(client: Bare, *statements: str) -> None:
    """Run statements, and raise what the server said."""
    for statement in statements:
        raised(client.query(statement))


def test_a_view_costs_nothing_and_its_answer_costs_what_explain_said(server: Served, client: Bare) -> None:
    before = server.spent()
    done(client, "CREATE TEMP VIEW young AS SELECT * FROM visits WHERE age < 31 -- rows of people")
    done(client, "CREATE OR REPLACE TEMPORARY VIEW by_dept AS SELECT dept, COUNT(*) AS n FROM young GROUP BY dept")
    cost = client.rows("EXPLAIN SELECT * FROM by_dept")[0][0]
    assert cost == "(cost=0..1 delta=0)"
    assert server.spent() == before
    told = client.send(parse("SELECT * FROM by_dept"), describe(b"S"), SYNC).until(b"Z")  # described, never charged
    assert [column[0] for kind, body in told if kind == b"T" for column in columns(body)] == ["dept", "n"]
    assert server.spent() == before
    answer = client.rows("SELECT * FROM by_dept ORDER BY dept")
    assert server.spent() == pytest.approx(before + 1)
    written = "SELECT dept, COUNT(*) AS n FROM visits WHERE age < 31 GROUP BY dept ORDER BY dept"
    assert client.rows(written) == answer
    assert server.spent() == pytest.approx(before + 1)


def test_it_is_in_the_catalogue_of_its_session_alone(server: Served, client: Bare) -> None:
    assert client.rows("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()") == []
    done(client, "CREATE TEMP VIEW by_dept (d) AS SELECT dept, SUM(age), AVG(cost), MAX(day) FROM visits GROUP BY dept")
    expected = [("d", "text"), ("sum", "numeric"), ("avg", "double precision"), ("max", "date")]
    assert client.rows(IN_CATALOGUE) == [(*column, "pg_temp_1", "v", "t") for column in expected]
    listed = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'by_dept'"
    assert client.rows(listed) == expected
    tables = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'pg_temp_1'"
    assert client.rows(tables) == [("by_dept", "LOCAL TEMPORARY")]
    assert client.rows("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()") == [("pg_temp_1",)]
    assert client.rows("SELECT 'by_dept'::regclass, pg_table_is_visible('pg_temp.by_dept'::regclass)") == [
        ("by_dept", "t")
    ]
    assert "SUM(age)" in str(client.rows("SELECT pg_get_viewdef('by_dept'::regclass)"))
    with server.client(pairs=PRICE) as another:
        assert another.rows(IN_CATALOGUE) == another.rows(listed) == another.rows(tables) == []
        assert another.state("SELECT * FROM by_dept") == "42P01"
        assert another.state("SELECT * FROM pg_temp.by_dept") != ""
    done(client, "DROP VIEW by_dept")
    assert client.rows(IN_CATALOGUE) == []
    assert client.state("SELECT * FROM by_dept") == "42P01"


@pytest.mark.parametrize(
    "question",
    [
        "SELECT v.dept, COUNT(*) AS n FROM v GROUP BY v.dept",
        "SELECT v.dept, COUNT(*) AS n FROM pg_temp.v GROUP BY v.dept",
        'SELECT "V".dept, COUNT(*) AS n FROM clinic.pg_temp_1."V" GROUP BY dept',
        "/* v */ WITH v AS (SELECT dept FROM v) SELECT dept, COUNT(*) AS n FROM v AS x GROUP BY dept",
        "WITH visits AS (SELECT 'no' AS dept) SELECT dept, COUNT(*) AS n FROM v GROUP BY dept",
        "SELECT dept, n FROM (WITH v AS (SELECT dept, COUNT(*) AS n FROM V GROUP BY dept) SELECT * FROM v) AS t",
        "SELECT dept, COUNT(*) AS n FROM over_v GROUP BY dept",
        "WITH v AS (SELECT 1 AS one) SELECT dept, COUNT(*) AS n FROM over_v GROUP BY dept",
        "(SELECT dept, COUNT(*) AS n FROM v GROUP BY dept)",
    ],
)
def test_names_mean_what_they_mean_in_postgresql(server: Served, client: Bare, question: str) -> None:
    done(client, "CREATE TEMP VIEW v AS SELECT dept FROM visits", "CREATE TEMP VIEW over_v AS SELECT dept FROM v")
    expected = sorted(client.rows("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"))
    assert len(expected) == 3
    assert sorted(client.rows(question)) == expected  # the same measurement, spelled otherwise


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("CREATE TEMP VIEW Visits AS SELECT 1 AS x", "42P07"),
        ('CREATE TEMP VIEW "STAFF" AS SELECT 1 AS x', "42P07"),
        ("CREATE TEMP VIEW pg_class AS SELECT 1 AS x", "42P07"),
        ("CREATE TEMP VIEW there AS SELECT 1 AS x", "42P07"),
        ("CREATE OR REPLACE TEMP VIEW there AS SELECT 1 AS y", "42P16"),
        ("CREATE OR REPLACE TEMP VIEW there AS SELECT 'a' AS x", "42P16"),
        ("CREATE OR REPLACE TEMP VIEW there AS SELECT x FROM there", "54001"),
        ("CREATE VIEW z AS SELECT 1 AS x", "0A000"),
        ("CREATE TEMP VIEW public.z AS SELECT 1 AS x", "0A000"),
        ("CREATE TEMP TABLE z AS SELECT 1 AS x", "0A000"),
        ("CREATE TEMP RECURSIVE VIEW z (x) AS SELECT 1", "0A000"),
        ("CREATE TEMP VIEW z AS SELECT 1 AS x WITH CHECK OPTION", "0A000"),
        ("CREATE TEMP VIEW z AS DROP VIEW there", "0A000"),
        ("CREATE TEMP VIEW z AS SELECT 1 AS x, 2 AS X", "42701"),
        ("CREATE TEMP VIEW z (a, b) AS SELECT 1 AS x", "42601"),
        ("CREATE TEMP VIEW z AS SELECT $1 AS x", "42P02"),
        ("CREATE TEMP VIEW z AS SELECT nope FROM visits", "42703"),
        ("CREATE TEMP VIEW z AS SELECT 1) AS x, (SELECT 2", "42601"),
        ("DROP VIEW there, visits", "42809"),
        ("DROP VIEW nope", "42P01"),
        ("DROP VIEW below", "2BP01"),
        ("DROP TABLE visits", "0A000"),
    ],
)
def test_what_a_view_cannot_be_is_refused_and_changes_nothing(client: Bare, statement: str, state: str) -> None:
    done(client, "CREATE TEMP VIEW below AS SELECT 1 AS x", "CREATE TEMP VIEW there AS SELECT x FROM below")
    assert client.state(statement) == state
    assert client.rows("SELECT * FROM there") == [("1",)]
    assert client.state("SELECT * FROM z") == "42P01"


def test_rows_of_people_are_no_less_refused_through_a_view(server: Served, client: Bare) -> None:
    before = server.spent()
    done(client, "CREATE TEMP VIEW all_rows AS SELECT * FROM visits")
    for question in (
        "SELECT * FROM all_rows",
        "SELECT patient_id FROM all_rows",
        "SELECT MAX(patient_id) FROM all_rows",
    ):
        assert client.state(question) == "42501", question
    assert client.rows("SELECT * FROM all_rows LIMIT 0") == []
    assert server.spent() == before


def test_a_role_reads_through_a_view_what_it_may_read_now(tmp_path: Path) -> None:
    def edit(policy: Path) -> None:
        policy.write_text(
            policy.read_text().replace("[analysts.research]", '[analysts.research]\nroles = ["visits"]') + ROLES
        )

    with served(tmp_path, edit=edit) as server, server.client(pairs=PRICE) as client:
        assert client.state("CREATE TEMP VIEW v AS SELECT cost FROM visits") == "42703"
        assert client.state("CREATE TEMP VIEW v AS SELECT * FROM staff") == "42P01"
        done(client, "CREATE TEMP VIEW staff AS SELECT 1 AS x")  # a name that this role does not know is free
        assert client.rows("SELECT * FROM staff") == [("1",)]
        done(client, "CREATE TEMP VIEW ages AS SELECT dept, age FROM visits")
        done(client, "CREATE TEMP VIEW every AS SELECT * FROM visits")
        assert len(client.rows("SELECT dept, COUNT(*) FROM ages WHERE age > 7 GROUP BY dept")) == 3
        path = tmp_path / "clinic.toml"
        dataset = ServedDataset(path, server.gate, PolicyWatch(path, server.database.policy))
        path.write_text(path.read_text().replace(', "visits.age"', ""))
        assert said_by("check", str(path), "--confirm", policy_hash(read_policy(path))).exit_code == 0
        reload = Reload((dataset,), None, lambda _: None)
        asyncio.run_coroutine_threadsafe(reload.read_changes(True), server.loop).result(30)
        spent = server.spent()
        assert client.state("SELECT dept, COUNT(*) FROM ages WHERE age > 7 GROUP BY dept") == "42703"
        assert client.state("SELECT COUNT(*) FROM every") == "42P16"  # it had another column when it was made
        assert server.spent() == spent


def test_views_follow_transactions(client: Bare) -> None:
    done(client, "CREATE TEMP VIEW kept AS SELECT 1 AS x")
    done(client, "BEGIN", "CREATE TEMP VIEW undone AS SELECT 2 AS x", "DROP VIEW kept", "ROLLBACK")
    assert client.rows("SELECT * FROM kept") == [("1",)]
    assert client.state("SELECT * FROM undone") == "42P01"
    done(client, "BEGIN", "SAVEPOINT a", "DROP VIEW kept", "CREATE TEMP VIEW undone AS SELECT 2 AS x", "SAVEPOINT b")
    done(client, "CREATE TEMP VIEW more AS SELECT 3 AS x", "ROLLBACK TO b")
    assert client.rows("SELECT * FROM undone") == [("2",)]
    done(client, "ROLLBACK TO a", "CREATE TEMP VIEW last AS SELECT x FROM kept", "RELEASE a", "COMMIT")
    assert client.rows("SELECT * FROM last") == [("1",)]
    assert {client.state(f"SELECT * FROM {name}") for name in ("undone", "more")} == {"42P01"}  # noqa: S608
    assert client.state("CREATE TEMP VIEW halfway AS SELECT 1 AS x; SELECT nope FROM visits") == "42703"
    assert client.state("SELECT * FROM halfway") == "42P01"  # one text is one transaction
    made = client.send(parse("CREATE TEMP VIEW halfway AS SELECT 1 AS x"), bind(), execute(), parse("SELECT no"), SYNC)
    assert len(errors(made.until(b"Z"))) == 1
    assert client.state("SELECT * FROM halfway") == "42P01"  # and so are messages up to a Sync
    assert tags(client.query("DROP VIEW IF EXISTS nope, kept CASCADE")) == ["DROP VIEW"]
    assert client.state("SELECT * FROM last") == "42P01"
    done(client, "CREATE TEMP VIEW kept AS SELECT 1 AS x", "DISCARD ALL")
    assert client.state("SELECT * FROM kept") == "42P01"


def test_prepared_statements_see_the_view_of_now(server: Served) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as session:
        session.execute("CREATE TEMP VIEW v AS SELECT id FROM staff")
        assert len(session.execute("SELECT * FROM v WHERE id > %s", (3,), prepare=True).fetchall()) == 5
        session.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT id FROM staff WHERE id < 6")
        assert len(session.execute("SELECT * FROM v WHERE id > %s", (3,), prepare=True).fetchall()) == 2
        session.execute("DROP VIEW v")
        session.execute("CREATE TEMP VIEW v AS SELECT name AS id FROM staff")
        with session.transaction(), session.cursor("named") as cursor:
            cursor.execute("SELECT id FROM v ORDER BY id")
            assert cursor.fetchmany(2) == [("Name 0",), ("Name 1",)]


def test_a_prepared_statement_whose_view_has_other_columns_is_not_run(client: Bare) -> None:
    done(client, "CREATE TEMP VIEW v AS SELECT id FROM staff")
    raised(client.send(parse("SELECT * FROM v", "named"), SYNC).until(b"Z"))
    done(client, "DROP VIEW v", "CREATE TEMP VIEW v AS SELECT name FROM staff")
    [said] = errors(client.send(bind(name="named"), execute(), SYNC).until(b"Z"))
    assert (said["C"], said["R"]) == ("0A000", "RevalidateCachedQuery")
    done(client, "DROP VIEW v")
    [said] = errors(client.send(bind(name="named"), execute(), SYNC).until(b"Z"))
    assert said["C"] == "42P01"


def test_errors_are_where_they_were_written(client: Bare) -> None:
    done(client, "CREATE TEMP VIEW v AS SELECT dept, age FROM visits")
    question = "SELECT dept,\n  nope FROM pg_temp.v"
    [said] = errors(client.query(question))
    assert question[int(said["P"]) - 1 :].startswith("nope")
    [said] = errors(client.query(after := "SELECT COUNT(*) FROM pg_temp.v AS a WHERE a.nope > 1"))
    assert after[int(said["P"]) - 1 :].startswith("a.nope")
    [said] = errors(client.query(made := "CREATE TEMP VIEW w AS SELECT nope FROM v"))
    assert made[int(said["P"]) - 1 :].startswith("nope")


def test_views_are_limited_in_number_and_length(client: Bare) -> None:
    long = f"SELECT 1 AS x /* {'-' * (MAX_SQL_CHARS * 2 // 3)} */"
    for number in range(MAX_VIEWS):
        filling = client.state(f"CREATE TEMP VIEW v{number} AS {long if number % 9 == 0 else 'SELECT 1 AS x'}")
        assert filling == ""
    assert client.state("CREATE TEMP VIEW one_more AS SELECT 1 AS x") == "54000"
    assert client.state("CREATE OR REPLACE TEMP VIEW v1 AS SELECT 1 AS x") == ""
    longer = MAX_VIEW_CHARS // len(long)
    states = [client.state(f"CREATE OR REPLACE TEMP VIEW v{9 * at + 1} AS {long}") for at in range(longer)]
    assert "54000" in states
    [said] = errors(client.query("SELECT v0.x FROM v0, v9"))
    assert said["C"] == "54001"
    assert said["M"].startswith("With its temporary views")  # before anything is written out


def test_bombs_are_refused_early(server: Served, client: Bare) -> None:
    done(client, "CREATE TEMP VIEW v0 AS SELECT id, id + id AS y FROM staff")
    states = []
    for number in range(1, MAX_VIEW_DEPTH + 2):
        body = f"SELECT a.id, a.y + b.y AS y FROM v{number - 1} a JOIN v{number - 1} b ON a.id = b.id"  # noqa: S608
        states.append(client.state(f"CREATE TEMP VIEW v{number} AS {body}"))
        if states[-1]:
            break
    assert states[-1] == "54001"  # too many joins, counted where each use of a view counts
    assert len(states) < 9
    done(client, "CREATE TEMP VIEW c0 AS SELECT 1 AS x")
    chain = [client.state(f"CREATE TEMP VIEW c{at} AS SELECT x FROM c{at - 1}") for at in range(1, MAX_VIEW_DEPTH + 2)]  # noqa: S608
    assert chain.index("54001") == MAX_VIEW_DEPTH - 1
    done(client, "CREATE OR REPLACE TEMP VIEW c0 AS SELECT x FROM (SELECT 1 AS x) AS t")
    assert client.rows(f"SELECT * FROM c{MAX_VIEW_DEPTH - 1}") == [("1",)]  # noqa: S608
    done(client, "CREATE TEMP VIEW d0 AS SELECT 1 AS x", "CREATE TEMP VIEW d1 AS SELECT x FROM d0")
    done(client, "CREATE OR REPLACE TEMP VIEW c0 AS SELECT x FROM d1")  # what reads it is deeper now
    assert client.state(f"SELECT * FROM c{MAX_VIEW_DEPTH - 1}") == "54001"  # noqa: S608
    assert client.state("CREATE OR REPLACE TEMP VIEW d0 AS SELECT x FROM d1") == "54001"  # a circle


def test_memory_of_views_is_counted_and_given_back(tmp_path: Path) -> None:
    with served(tmp_path, memory=MemoryLimits(CATALOGUE_BYTES + 200_000, 1 << 30)) as server:
        filler = f"SELECT 1 AS x /* {'-' * (MAX_SQL_CHARS * 2 // 3)} */"
        for _ in range(2):  # what a session held is given back when it ends
            with server.client(pairs=PRICE) as client:
                states = [client.state(f"CREATE TEMP VIEW v{at} AS {filler}") for at in range(9)]
                assert "53200" in states
                done(client, "DROP VIEW v0, v1, v2", f"CREATE TEMP VIEW v0 AS {filler}")
                with server.client(pairs=PRICE) as another:
                    for _ in range(3):  # a refusal leaves nothing behind that counts as held
                        assert another.state("CREATE TEMP VIEW v AS SELECT 1 AS x") == "53200"
                    assert another.rows("SELECT id FROM staff WHERE id = 1") == [("1",)]
            assert eventually(lambda: not server.listener.wire.sessions)


@pytest.mark.parametrize("name", ['"a""b"', '"""b"', '"a"""', '""""""', '"a""""b"', '"é "" Ü"', "plain", '"Mixed"'])
def test_a_view_is_found_by_whatever_name_it_was_given(client: Bare, name: str) -> None:
    done(client, f"CREATE TEMP VIEW {name} AS SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept")  # noqa: S608
    assert [row[0] for row in client.rows(f"SELECT dept FROM {name} ORDER BY dept")] == ["er", "icu", "surgery"]  # noqa: S608
    done(client, f"DROP VIEW {name}")


@pytest.mark.parametrize("named", [(), ("a", "b")])
def test_a_view_whose_question_has_one_column_more_or_less_is_refused(named: tuple[str, ...]) -> None:
    described = [Column(name, oids.TEXT) for name in ("x", "y", "z")]
    shown = tuple(Column(name, oids.TEXT) for name in named or ("x", "y"))
    holding = Holding(SessionMemory(), "research")
    view = TemporaryView("v", "SELECT * FROM t", named, shown, ViewReferences(), 1, 1, holding)
    view.check_columns(described[:2])
    for columns_now in (described, described[:1]):
        with pytest.raises(WireError, match="no longer has the columns"):
            view.check_columns(columns_now)
