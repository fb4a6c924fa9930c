"""What a person sees inside a tool: price, what is left and margins beside an answer, and the remedy of a refusal."""

# ruff: noqa: S608  (the texts are of this file)

import re
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.served import BY_DEPT, COUNT, PRICE, Bare, Message, Served, errors, fields, served, start_up

from sfumato.accounting.loss import percent_up


def notices(found: list[Message]) -> list[dict[str, str]]:
    return [fields(body) for kind, body in found if kind == b"N"]


MARKED = "Marked: n, cost. Without bounds and clipping, the value may lie outside its margin."
MARGINS = "margins at 95 %: n ±20, cost depends on the data."


def ways(sql: str) -> list[str]:
    """Return the ways in which a client can ask a question again."""
    return [
        sql,
        f"{sql} DESC LIMIT 2",
        f"COPY ({sql}) TO STDOUT",
        f"BEGIN; DECLARE c CURSOR FOR {sql}; FETCH ALL c; COMMIT",
        f"SELECT * FROM ({sql}) AS t WHERE n > -1000",
    ]


def test_an_answer_says_its_price_once_and_that_it_is_free_from_then_on(server: Served) -> None:
    for at, way in enumerate(ways(BY_DEPT)):
        asked = BY_DEPT.replace("GROUP", f"WHERE age < {80 + at} GROUP")
        with server.client(pairs=PRICE) as client:
            (said,) = notices(client.query(way.replace(BY_DEPT, asked)))  # each way is charged where it comes first
            budget = server.gate.database(server.caller()).budget()
            left = f"{percent_up(budget.used)} of the budget used; left: {budget.remaining}"
            assert (said["S"], said["C"]) == ("NOTICE", "00000")
            assert said["M"].startswith(f"price: ε = 1, δ = 0; {left}; {MARGINS}")
            assert said["M"].endswith(MARKED)
            assert "Each person contributes at most 4 rows" in said["D"]
            assert "costs nothing" not in said["D"]
        with server.client(pairs=PRICE) as client:
            today = datetime.now(UTC)
            for again in ways(asked):
                (said,) = notices(client.query(again))
                assert said["M"].startswith(f"free: from your answer of {today.day} {today:%B %Y}; {left}; ")
                assert "price" not in said["M"] + said["D"]
                assert "Free" not in said["D"]


def test_an_answer_from_other_answers_says_that_it_is_free(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        client.rows("SELECT dept, COUNT(*) AS n FROM visits WHERE age < 103 GROUP BY dept")
        (said,) = notices(client.query(f"{COUNT} WHERE age < 103 AND dept IS NULL"))
        assert said["M"].startswith("free: from your answer of ")


def test_an_answer_that_another_account_paid_for_is_free_and_does_not_say_when(tmp_path: Path) -> None:
    def shared(policy: Path) -> None:
        policy.write_text(policy.read_text().replace('source = "csv:data"', 'source = "csv:data"\nanswers = "shared"'))

    with served(tmp_path, edit=shared) as server, server.client(pairs=PRICE) as client:
        client.rows(BY_DEPT)
        password = server.grants.grant("press").password
        with server.client(user="press", password=password, pairs=PRICE) as other:
            (said,) = notices(other.query(BY_DEPT))
            assert said["M"].startswith(
                "free: from an earlier answer; 0.1 % of the budget used; left: ε = 999, δ = 0; "
            )


def test_what_is_free_says_nothing_and_a_client_may_hide_notices(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        for sql in ("SELECT * FROM staff", "SELECT 1", "SELECT relname FROM pg_class", f"EXPLAIN {COUNT}"):
            assert not notices(client.query(sql))
        client.rows("SET client_min_messages = warning")
        assert not notices(client.query(COUNT))


def test_groups_that_may_be_missing_and_an_empty_answer_are_told(tmp_path: Path) -> None:
    def private_keys(policy: Path) -> None:
        text = policy.read_text().replace("delta = 0", "delta = 1e-6")
        policy.write_text(text.replace(', values = ["er", "icu", "surgery"]', ""))

    with served(tmp_path, edit=private_keys) as server, server.client(pairs=PRICE) as client:
        asked = "SELECT dept, COUNT(*) AS n FROM visits {} GROUP BY dept"
        (said,) = notices(client.query(asked.format("")))
        assert said["D"].startswith("note: Groups are selected privately with δ = ")
        assert "a group appears with probability 95 % from " in said["D"]
        (said,) = notices(client.query(asked.format("WHERE age > 119")))
        assert "No group passed the private selection: " in said["M"]


def test_explain_begins_with_a_line_that_tools_read_as_cost(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        asked = f"{COUNT} WHERE age > 47"
        (first,), (second,), *_ = client.rows(f"EXPLAIN {asked}")
        assert first == "(cost=0..1 delta=0)"
        assert second == "price: ε = 1, δ = 0"
        client.rows("SET sfumato.epsilon = '1/8000000'")
        (first,), *_ = client.rows(f"EXPLAIN {asked}")
        superset = re.search(r"cost=([\d\.]+)\.\.([\d\.]+)", str(first))
        assert superset is not None
        assert float(superset[2]) == pytest.approx(1 / 8_000_000)
        client.rows(asked)
        assert client.rows(f"EXPLAIN {asked}")[0] == ("(cost=0..0)",)  # its measurement is paid for
        assert client.rows("EXPLAIN SELECT relname FROM pg_class")[0] == ("(cost=0..0)",)
        assert client.rows("EXPLAIN SELECT name FROM staff")[0] == ("(cost=0..0)",)


@pytest.mark.parametrize(
    "sql", [COUNT, "SELECT age FROM visits", "SELECT SUM(nothing) FROM visits", "SELECT * FROM nowhere"]
)
def test_the_remedy_of_a_refusal_is_in_its_message_too(server: Served, sql: str) -> None:
    with server.client() as client:
        (said,) = errors(client.query(sql))
        assert said["H"]
        assert said["M"].endswith(said["H"])


def test_a_driver_hands_the_notice_on(server: Served) -> None:
    heard: list[str] = []
    with psycopg.connect(server.dsn, options="-c sfumato.epsilon=1") as connection:
        connection.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        connection.execute(BY_DEPT.replace("GROUP", "WHERE age < 79 GROUP")).fetchall()
    assert [said.split(";")[0] for said in heard] == ["price: ε = 1, δ = 0"]


def test_a_finer_answer_is_offered_with_the_setting_that_buys_it(server: Served) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM visits WHERE age < 61 GROUP BY dept"
    with server.client(pairs=PRICE) as client:
        client.rows(sql)
        (said,) = notices(client.query(sql))
        offer = re.search(r"Refine for (\S+) more \(n ±\d+ at 95 %\): (SET [^;]*); and ask again\.$", said["M"])
        assert offer is not None
        explained = client.rows(f"EXPLAIN {sql}")
        assert offer[2] in str(explained[-1])
        client.query(offer[2])
        (finer,) = notices(client.query(sql))
        assert finer["M"].startswith(f"price: ε = {offer[1]}, δ = 0; ")
        assert server.gate.database(server.caller()).history()[0].refines


def test_what_follows_from_earlier_answers_is_refined_by_a_margin(server: Served) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM visits WHERE age < 62 GROUP BY dept"
    with server.client(pairs=PRICE) as client:
        client.rows(sql)
        client.query("SET sfumato.epsilon = ''; SET sfumato.within = 'n = 100'")
        (said,) = notices(client.query(sql))
        assert said["M"].startswith("free: from your answer of ")
        offer = re.search(r"Refine for (\S+) more .*: (SET sfumato.within = [^;]*); and ask again\.$", said["M"])
        assert offer is not None
        client.query(offer[2])
        (finer,) = notices(client.query(sql))
        assert finer["M"].startswith(f"price: ε = {offer[1]}, ")


def _welcome(server: Served, **settings: str) -> list[dict[str, str]]:
    """Return the notices that a client gets before its first statement."""
    with Bare(server) as client:
        client.send(start_up(("user", "research"), ("database", "clinic"), *settings.items()))
        client.authenticate(server.password)
        return notices(client.until(b"Z"))


def test_a_session_begins_with_the_price_of_questions_that_name_none(tmp_path: Path, server: Served) -> None:
    def with_price(policy: Path) -> None:
        text = policy.read_text()
        policy.write_text(text.replace("[analysts.research]\n", '[analysts.research]\nprice = "1%"\n'))

    with served(tmp_path, edit=with_price) as priced:
        (said,) = _welcome(priced)
        assert (said["S"], said["C"]) == ("NOTICE", "00000")
        assert (
            said["M"]
            == "A question that names no price costs 1% of your budget. Set another: SET sfumato.epsilon = '0.1';"
        )
        assert not _welcome(priced, options="-c sfumato.epsilon=1")
        assert not _welcome(priced, client_min_messages="warning")
        with priced.client() as client:
            ((shown,),) = client.rows("SHOW sfumato.budget")
            assert shown is not None
            assert shown.endswith("; a question that names no price costs 1% of the budget")
    assert not _welcome(server)
