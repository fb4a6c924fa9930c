"""What a person sees inside a tool: price, what is left and margins beside an answer, and the remedy of a refusal."""

import re
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.served import BY_DEPT, COUNT, PRICE, Message, Served, errors, fields, served


def notices(found: list[Message]) -> list[dict[str, str]]:
    return [fields(body) for kind, body in found if kind == b"N"]


def test_each_charged_answer_says_price_rest_and_margins(server: Served) -> None:
    ways = (BY_DEPT, f"COPY ({BY_DEPT}) TO STDOUT", f"BEGIN; DECLARE c CURSOR FOR {BY_DEPT}; FETCH ALL c; COMMIT")
    with server.client(pairs=PRICE) as client:
        for sql in ways:
            (said,) = notices(client.query(sql))
            left = server.gate.database(server.caller()).budget().remaining
            expected = f"price: ε = 1, δ = 0; left: {left}; margins at 95 %: n ±21, cost depends on the data."
            marked = "Without bounds and clipping, values may lie outside their margin: n in 3 of 3 rows, cost in "
            assert (said["S"], said["C"]) == ("NOTICE", "00000")
            assert said["M"].startswith(f"{expected} {marked}")
            assert "Each person contributes at most 4 rows" in said["D"]
            assert "costs nothing" not in said["D"]


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
        connection.execute(BY_DEPT).fetchall()
    assert [said.split(";")[0] for said in heard] == ["price: ε = 1, δ = 0"]
