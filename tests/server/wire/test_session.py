"""Sessions by bare frames: what runs when, what is charged, what an error skips, and what transactions do."""

import struct
import threading
from datetime import date
from pathlib import Path

import pytest
from tests.server.wire import served as served_clinic
from tests.server.wire.served import (
    BY_DEPT,
    COUNT,
    FLUSH,
    PRICE,
    STAFF,
    SYNC,
    Bare,
    Said,
    Served,
    bind,
    cells,
    columns,
    describe,
    errors,
    execute,
    kinds,
    message,
    parse,
    raised,
    raw_cells,
    served,
    tags,
    text,
)

from sfumato.database import Database
from sfumato.release.release import Release


def test_a_simple_question_has_columns_rows_and_a_tag(server: Served) -> None:
    with server.client() as client:
        found = client.query("SELECT id, name, salary, since, seen, active FROM staff ORDER BY id LIMIT 2")
        assert kinds(found) == "TDDCZ"
        described = [("id", 20, 0), ("name", 25, 0), ("salary", 701, 0), ("since", 1082, 0), ("seen", 1114, 0)]
        assert columns(found[0][1]) == [*described, ("active", 16, 0)]
        assert cells(found[2][1]) == ("1", "Name 1", "1.5", "2020-02-02", "2021-03-04 05:06:01", "f")
        assert tags(found) == ["SELECT 2"]


def test_private_questions_cost_once_and_public_ones_nothing(server: Served) -> None:
    before, asked = server.spent(), BY_DEPT.replace("GROUP", "WHERE age < 61 GROUP")
    with server.client(pairs=PRICE) as client:
        first = client.rows(asked)
        assert client.rows(asked) == first
        assert [row[0] for row in first] == ["er", "icu", "surgery"]
        client.rows("SELECT * FROM staff")
    assert server.spent() - before == pytest.approx(1)


def test_an_answer_without_groups_comes_with_a_notice_that_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows of one person share a key, so a group appears with a probability of at most delta."""
    monkeypatch.setattr(served_clinic, "POLICY", served_clinic.POLICY.replace("delta = 0\n", "delta = 1e-6\n"))
    sql = "SELECT cost * 1000 + age AS k, COUNT(*) AS n FROM visits GROUP BY 1"
    with served(tmp_path) as server, server.client(pairs=(("options", "-c sfumato.epsilon=0.01"),)) as client:
        found = client.query(sql)
        assert kinds(found) == "TNCZ"
        assert b"No group passed the private selection" in found[1][1]
        assert b"twice the epsilon" in found[1][1]
        client.query("SET client_min_messages = warning")
        assert kinds(client.query(sql)) == "TCZ"
        clear = client.query("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100) COUNT(*) AS n FROM visits")
        assert kinds(clear) == "TDCZ"


def test_an_unset_price_is_refused_with_its_remedy_in_sql(server: Served) -> None:
    with server.client() as client:
        said = errors(client.query(COUNT))[0]
        assert (said["S"], said["C"]) == ("ERROR", "22023")
        assert said["M"] == f"The query has no price. {said['H']}"
        for way in (
            "SET sfumato.share = '1%';",
            "SET sfumato.epsilon = '0.1';",
            "SET sfumato.within = 'column = margin';",
        ):
            assert way in said["H"]
        assert "analysts.NAME.price" in said["H"]


def test_parse_bind_and_describe_run_and_charge_nothing(server: Served) -> None:
    before = server.spent()
    with server.client(pairs=PRICE) as client:
        sql = "SELECT dept, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE age > $1 AND day < $2 GROUP BY dept"
        client.send(parse(sql, "q"), describe(b"S", "q"), bind((b"30", b"2024-01-20"), "p", "q"), describe(b"P", "p"))
        found = client.send(SYNC).until(b"Z")
        assert kinds(found) == "1tT2TZ"
        assert found[1][1] == struct.pack(">HII", 2, 20, 1082)
        assert columns(found[2][1]) == [("dept", 25, 0), ("n", 20, 0), ("c", 701, 0)]
    assert server.spent() == before


def test_a_portal_is_one_charge_in_parts_and_when_executed_again(server: Served) -> None:
    sql, before = "SELECT dept, COUNT(*) AS n FROM visits WHERE age < 77 GROUP BY dept", server.spent()
    with server.client(pairs=PRICE) as client:
        client.send(parse(sql), bind(portal="p"), execute("p", 2), execute("p", 2), execute("p", 2), SYNC)
        found = client.until(b"Z")
        assert kinds(found) == "12DDNsDCCZ"
        assert tags(found) == ["SELECT 1", "SELECT 0"]
        again = client.send(parse(sql), bind(), execute(), SYNC).until(b"Z")
        assert [body for kind, body in again if kind == b"D"] == [body for kind, body in found if kind == b"D"]
    assert server.spent() - before == pytest.approx(1)


def test_after_an_error_everything_up_to_sync_is_skipped_and_uncharged(server: Served) -> None:
    before = server.spent()
    with server.client(pairs=PRICE) as client:
        bad = "SELECT COUNT(*) FROM nowhere"
        fresh = "SELECT COUNT(*) AS n FROM visits WHERE age < 31"
        client.send(parse(bad), parse(fresh), bind(), execute(), parse(fresh, "x"), FLUSH, execute(), SYNC)
        found = client.until(b"Z")
        assert kinds(found) == "EZ"
        assert errors(found)[0]["C"] == "42P01"
        assert errors(found)[0]["P"] == "22"
        assert kinds(client.send(parse("SELECT 1"), bind(), execute(), SYNC).until(b"Z")) == "12DCZ"
    assert server.spent() == before


VALUES = [
    ("SELECT id FROM staff WHERE id = $1", 20, b"3", struct.pack(">q", 3), "3"),
    ("SELECT id FROM staff WHERE id = $1", 21, b"3", struct.pack(">h", 3), "3"),
    ("SELECT id FROM staff WHERE name = $1", 25, b"Name 4", b"Name 4", "4"),
    ("SELECT id FROM staff WHERE salary = $1", 701, b"5.5", struct.pack(">d", 5.5), "5"),
    ("SELECT id FROM staff WHERE salary = $1", 1700, b"5.5", bytes.fromhex("00020000000000010005") + b"\x13\x88", "5"),
    (
        "SELECT id FROM staff WHERE since = $1",
        1082,
        b"2020-02-07",
        struct.pack(">i", (date(2020, 2, 7) - date(2000, 1, 1)).days),
        "6",
    ),
    ("SELECT id FROM staff WHERE active = $1 AND id > 6", 16, b"f", b"\x00", "7"),
    ("SELECT id FROM staff WHERE seen = $1", 1114, b"2021-03-04 05:06:08", struct.pack(">q", 668149568000000), "8"),
]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("sql", "oid", "written", "packed", "expected"), VALUES, ids=[str(v[1]) for v in VALUES])
def test_values_come_as_text_and_in_binary(
    server: Served, sql: str, oid: int, written: bytes, packed: bytes, expected: str, binary: bool
) -> None:
    with server.client() as client:
        value = packed if binary else written
        client.send(parse(sql, types=(oid,)), bind((value,), formats=(int(binary),)), execute(), SYNC)
        found = client.until(b"Z")
        raised(found)
        assert [cells(body) for kind, body in found if kind == b"D"] == [(expected,)]


def test_answers_leave_in_binary(server: Served) -> None:
    with server.client() as client:
        sql = "SELECT id, name, salary, since, seen, active FROM staff WHERE id = 3"
        found = client.send(parse(sql), bind(results=(1,)), execute(), SYNC).until(b"Z")
        row = raw_cells(next(body for kind, body in found if kind == b"D"))
        days = (date(2020, 2, 4) - date(2000, 1, 1)).days
        expected = [struct.pack(">q", 3), b"Name 3", struct.pack(">d", 3.5), struct.pack(">i", days)]
        assert list(row) == [*expected, struct.pack(">q", 668149563000000), b"\x00"]


@pytest.mark.parametrize("value", ["' OR 1=1 --", "'; SELECT 1; --", "$1", "\\", "Name 1' OR 'a'='a"])
def test_a_value_is_never_more_text(server: Served, value: str) -> None:
    with server.client() as client:
        sql = "SELECT id FROM staff WHERE name = $1"
        found = client.send(parse(sql), bind((value.encode(),)), execute(), SYNC).until(b"Z")
        assert kinds(found) == "12CZ"
        assert tags(found) == ["SELECT 0"]


def test_a_null_and_a_wrong_number_of_values(server: Served) -> None:
    with server.client() as client:
        sql = "SELECT id FROM staff WHERE name = $1"
        assert kinds(client.send(parse(sql), bind((None,)), execute(), SYNC).until(b"Z")) == "12CZ"
        assert errors(client.send(parse(sql), bind(), execute(), SYNC).until(b"Z"))[0]["C"] == "08P01"
        sql = "SELECT id FROM staff WHERE id = $1"
        assert errors(client.send(parse(sql, types=(23,)), bind((b"x",)), SYNC).until(b"Z"))[0]["C"] == "22P02"


def test_several_statements_are_each_policed_and_charged(server: Served) -> None:
    before = server.spent()
    with server.client() as client:
        sql = "SET sfumato.epsilon = '1'; SELECT COUNT(*) FROM visits WHERE age < 12; SELECT 1; SELECT * FROM visits"
        found = client.query(f"{sql}; SELECT COUNT(*) FROM visits WHERE age < 13")  # noqa: S608
        assert tags(found) == ["SET", "SELECT 1", "SELECT 1"]
        assert errors(found)[0]["C"] == "42501"
        assert client.state(COUNT) == "22023"  # the price that was set in the same message went with it
    assert server.spent() - before == pytest.approx(1)


def test_an_error_has_its_place_in_what_was_sent(server: Served) -> None:
    with server.client() as client:
        assert errors(client.query("SELECT 1;  SELECT x\nFROM staff"))[0]["P"] == "19"
        assert errors(client.query("EXPLAIN SELECT nope FROM staff"))[0]["P"] == "16"
        assert errors(client.query("SELECT 1; FROBNICATE"))[0]["P"] == "11"


def test_transactions_are_accepted_and_refund_nothing(server: Served) -> None:
    before = server.spent()
    with server.client(pairs=PRICE) as client:
        assert client.query("BEGIN")[-1][1] == b"T"
        client.rows("SELECT COUNT(*) FROM visits WHERE age < 21")
        client.query("SAVEPOINT a")
        assert client.state("SELECT * FROM nowhere") == "42P01"
        assert client.state("SELECT 1") == "25P02"
        assert kinds(client.send(parse("SELECT 1"), bind(), execute(), SYNC).until(b"Z")) == "EZ"
        assert client.query("ROLLBACK TO SAVEPOINT a")[-1][1] == b"T"
        assert client.rows("SELECT 1") == [("1",)]
        assert tags(client.query("ROLLBACK")) == ["ROLLBACK"]
        assert client.state("ROLLBACK TO nothing") == "25P01"
        for sql in ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "COMMIT AND CHAIN", "END", "START TRANSACTION"):
            assert client.state(sql) == ""
        assert client.state("ROLLBACK TO nothing") == "3B001"
        assert tags(client.query("COMMIT")) == ["ROLLBACK"]
    assert server.spent() - before == pytest.approx(1)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY visits TO STDOUT",
        "COPY (SELECT 1) TO '/etc/passwd'",
        "LISTEN x",
        "NOTIFY x",
        "DECLARE c CURSOR FOR SELECT * FROM visits",
        "FETCH 1 FROM c",
        "CREATE TABLE t (a int)",
        "CREATE FUNCTION f() RETURNS int AS 'select 1' LANGUAGE sql",
        "DROP TABLE visits",
        "INSERT INTO staff VALUES (1)",
        "UPDATE staff SET id = 1",
        "DELETE FROM visits",
        "TRUNCATE visits",
        "ALTER TABLE visits ADD COLUMN x int",
        "GRANT ALL ON visits TO public",
        "DO $$ BEGIN END $$",
        "CALL p()",
        "VACUUM",
        "LOCK TABLE visits",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_sleep(10)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * INTO t FROM staff",
        "SELECT * FROM staff FOR UPDATE",
        "WITH d AS (DELETE FROM staff RETURNING *) SELECT * FROM d",
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION press",
        "ATTACH 'x.db'",
        "PRAGMA database_list",
    ],
)
def test_whatever_is_no_question_is_an_error_without_data(server: Served, sql: str) -> None:
    before = server.spent()
    with server.client(pairs=PRICE) as client:
        found = client.query(sql)
        assert len(errors(found)) == 1
        assert len(errors(found)[0]["C"]) == 5
        assert b"D" not in [kind for kind, _ in found]
        assert client.rows("SELECT 1") == [("1",)]
    assert server.spent() == before


def test_prepared_statements_in_sql(server: Served) -> None:
    with server.client() as client:
        client.query("PREPARE q (int) AS SELECT name FROM staff WHERE id = $1")
        assert client.rows("EXECUTE q (3)") == [("Name 3",)]
        assert client.rows("EXECUTE q (-1 + 3)") == [("Name 2",)]
        assert client.state("EXECUTE q") == "42601"
        assert client.state("PREPARE q AS SELECT 1") == "42P05"
        assert tags(client.query("DEALLOCATE q")) == ["DEALLOCATE"]
        assert client.state("EXECUTE q (3)") == "26000"


def test_statements_and_portals_by_name(server: Served) -> None:
    with server.client() as client:
        many = client.send(parse("SELECT id FROM staff", "s"), parse("SELECT 1", "s"), SYNC).until(b"Z")
        assert errors(many)[0]["C"] == "42P05"
        client.send(bind(portal="p", name="s"), bind(portal="p", name="s"), SYNC)
        assert errors(client.until(b"Z"))[0]["C"] == "42P03"
        closed = client.send(message(b"C", b"S" + text("s")), bind(name="s"), SYNC).until(b"Z")
        assert (kinds(closed), errors(closed)[0]["C"]) == ("3EZ", "26000")
        assert errors(client.send(execute("nobody"), SYNC).until(b"Z"))[0]["C"] == "34000"
        assert errors(client.send(parse("SELECT 1; SELECT 2"), SYNC).until(b"Z"))[0]["C"] == "42601"


def test_empty_questions_and_commands_by_the_extended_protocol(server: Served) -> None:
    with server.client() as client:
        assert kinds(client.query("")) == "IZ"
        assert kinds(client.query(" ; -- nothing\n;")) == "IZ"
        assert kinds(client.send(parse(""), bind(), describe(), execute(), SYNC).until(b"Z")) == "12nIZ"
        client.send(parse("SET application_name = 'x'"), bind(), describe(), execute(), SYNC)
        assert kinds(client.until(b"Z")) == "12nCSZ"
        assert kinds(client.send(message(b"F", b"\x00" * 10)).until(b"Z")) == "EZ"


class Held:
    """Replaces asking by something that waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go, self.begun, self.ended = threading.Event(), threading.Event(), threading.Event()
        ask = Database.ask

        def waiting(database: Database, sql: str, **price: object) -> Release:
            self.begun.set()
            self.let_go.wait(20)
            release = ask(database, sql, **price)  # type: ignore[arg-type]
            self.ended.set()
            return release

        monkeypatch.setattr(Database, "ask", waiting)


def cancel(server: Served, process: int, secret: int) -> None:
    with Bare(server) as other:
        other.send(struct.pack(">IIII", 16, 80877102, process, secret))
        assert other.socket.recv(10) == b""


def test_the_right_cancel_ends_the_waiting_and_refunds_nothing(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    held, sql, before = Held(monkeypatch), "SELECT COUNT(*) AS n FROM visits WHERE age < 51", server.spent()
    with server.client(pairs=PRICE) as client:
        client.send(message(b"Q", text(sql)))
        assert held.begun.wait(10)
        cancel(server, client.key[0], client.key[1] ^ 1)
        cancel(server, client.key[0] ^ 1, client.key[1])
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.read()
        client.socket.settimeout(10)
        cancel(server, *client.key)
        assert errors(client.until(b"Z"))[0]["C"] == "57014"
        held.let_go.set()
        assert held.ended.wait(10)
        assert len(client.rows(sql)) == 1
    assert server.spent() - before == pytest.approx(1)


def test_a_statement_timeout_ends_the_waiting(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    with server.client(pairs=(*PRICE, ("statement_timeout", "200ms"))) as client:
        said = errors(client.query("SELECT COUNT(*) AS n FROM visits WHERE age < 52"))[0]
        assert (said["C"], said["M"]) == ("57014", "canceling statement due to statement timeout")
        held.let_go.set()
        assert held.ended.wait(10)
        assert client.state("SET statement_timeout = 'soon'") == "22023"


def test_keys_of_cancellation_are_random_and_never_zero(server: Served) -> None:
    keys = set()
    for _ in range(4):
        with server.client() as client:
            keys.add(client.key)
    assert len(keys) == 4
    assert all(process and secret for process, secret in keys)


def test_a_revoked_analyst_is_out_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        assert client.rows("SELECT 1") == [("1",)]
        server.grants.grant("research")
        with pytest.raises(Said) as out:
            client.query(COUNT)
        assert out.value.state == "28000"
        with pytest.raises(Said) as wrong:
            server.client()
        assert wrong.value.state == "28P01"


def test_a_budget_for_three_questions_answers_three(tmp_path: Path) -> None:
    with served(tmp_path, epsilon="3") as server, server.client(pairs=PRICE) as client:
        states = [client.state(f"SELECT COUNT(*) FROM visits WHERE age < {age}") for age in range(5)]  # noqa: S608
        assert states == ["", "", "", "53400", "53400"]
        assert client.rows("SELECT COUNT(*) FROM staff") == [(str(STAFF),)]
