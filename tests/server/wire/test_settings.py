"""Settings: the price by SET, by options and inside transactions; intervals; and those that drivers need."""

import pytest
from tests.server.wire.served import BY_DEPT, COUNT, PRICE, Said, Served, columns, errors, kinds, tags

from sfumato.server.wire.settings import Settings, read_within
from sfumato.server.wire.sqlstates import WireError


def test_the_price_is_set_by_options_by_set_and_inside_a_transaction(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        assert client.rows("SHOW sfumato.epsilon") == [("1",)]
        client.query("SET sfumato.epsilon = '0.5'")
        assert client.rows("SHOW sfumato.epsilon") == [("0.5",)]
        client.query("BEGIN; SET LOCAL sfumato.epsilon TO 0.25")
        assert client.rows("SHOW sfumato.epsilon") == [("0.25",)]
        client.query("COMMIT")
        assert client.rows("SHOW sfumato.epsilon") == [("0.5",)]
        client.query("BEGIN; SET sfumato.epsilon = 2; SAVEPOINT s; SET sfumato.epsilon = 3; ROLLBACK TO s")
        assert client.rows("SHOW sfumato.epsilon") == [("2",)]
        client.query("ROLLBACK")
        assert client.rows("SHOW sfumato.epsilon") == [("0.5",)]
        client.query("RESET sfumato.epsilon")
        assert client.rows("SHOW sfumato.epsilon") == [("1",)]
        client.rows("SELECT set_config('sfumato.epsilon', '4', true)")
        assert client.rows("SHOW sfumato.epsilon") == [("1",)]
        client.query("SET sfumato.epsilon = ''; DISCARD ALL")
        assert client.rows("SHOW sfumato.epsilon") == [("1",)]


@pytest.mark.parametrize("value", ["0", "-1", "NaN", "inf", "0x1", "true", "1e999999999", "[1]", "1/0", "1,2"])
def test_a_price_that_means_nothing_is_refused_when_it_is_set(server: Served, value: str) -> None:
    with server.client() as client:
        assert client.state(f"SET sfumato.epsilon = '{value}'") == "22023"
        assert client.state(COUNT) == "22023"
    with pytest.raises(Said) as refused:
        server.client(pairs=(("options", f"-c sfumato.epsilon={value}"),))
    assert refused.value.state == "22023"


def test_a_margin_takes_the_place_of_a_price_and_back(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        client.query("SET sfumato.within = 'n = 25'")
        assert client.rows("SHOW sfumato.epsilon") == [("",)]
        asked = f"{COUNT} WHERE age > 53"
        plan = [row[0] or "" for row in client.rows(f"EXPLAIN {asked}")]
        assert any("n: " in line and "±25 " in line for line in plan), plan
        assert len(client.rows(asked)) == 1
        client.query("SET sfumato.epsilon = 1")
        assert client.rows("SHOW sfumato.within") == [("",)]
        assert client.state("SET sfumato.within = '25'") == "22023"
        assert client.state("SET sfumato.within = 'n = -1'") == "22023"
        assert client.state("SET sfumato.within = 'n = -1%'") == "22023"
        assert client.state("SET sfumato.within = 'n = 5%'") == ""
        assert client.state("SET sfumato.within = 'nothing = 3'") == ""
        assert client.state(COUNT) == "42704"


@pytest.mark.parametrize("text", ["n=25", "n : 25", '{"n": 25}', '"n" = 25'])
def test_margins_are_written_in_several_ways(text: str) -> None:
    assert read_within(text) == {"n": "25"}


@pytest.mark.parametrize("text", ["", "n", "=3", "{", "[1]", '{"n": [1]}', '{"n": null}', "n=1;m=2", "{}"])
def test_margins_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(WireError):
        read_within(text)


def test_a_share_of_the_budget_is_a_price(server: Served) -> None:
    with server.client() as client:
        assert client.state("SET sfumato.share = '200%'") == client.state("SET sfumato.share = 'x'") == "22023"
        client.query("SET sfumato.share = '2%'")
        assert any("2 % of the budget" in str(line) for (line,) in client.rows(f"EXPLAIN {BY_DEPT}"))
        assert client.rows(BY_DEPT) == client.rows(BY_DEPT)


def test_intervals_add_two_columns_to_each_noisy_number(server: Served) -> None:
    with server.client(pairs=PRICE) as client:
        plain = client.rows(BY_DEPT)
        client.query("SET sfumato.intervals = on")
        found = client.query(BY_DEPT)
        names = [name for name, _, _ in columns(found[0][1])]
        assert names == ["dept", "n", "cost", "n_low", "n_high", "cost_low", "cost_high"]
        rows = client.rows(BY_DEPT)
        assert [row[:3] for row in rows] == plain
        for row in rows:
            assert float(row[3] or 0) <= float(row[1] or 0) <= float(row[4] or 0)
        wide = float(rows[0][4] or 0) - float(rows[0][3] or 0)
        client.query("SET sfumato.intervals = '0.5'")
        narrow = client.rows(BY_DEPT)[0]
        assert float(narrow[4] or 0) - float(narrow[3] or 0) < wide
        assert [name for name, _, _ in columns(client.query("SELECT id FROM staff")[0][1])] == ["id"]
        assert client.state("SET sfumato.intervals = 2") == "22023"


def test_explain_is_free_and_the_same_each_time(server: Served) -> None:
    before = server.spent()
    with server.client(pairs=PRICE) as client:
        first = client.rows(f"EXPLAIN {BY_DEPT}")
        assert first[0][0] is not None
        assert first[0][0].startswith("(cost=0..")
        assert client.rows(f"EXPLAIN (VERBOSE) {BY_DEPT}") == first
        assert tags(client.query(f"EXPLAIN {COUNT}")) == ["EXPLAIN"]
    with server.client() as client:
        assert client.state(f"EXPLAIN {COUNT}") == "22023"
    assert server.spent() == before


def test_the_budget_is_shown(server: Served) -> None:
    with server.client() as client:
        found = client.query("SHOW sfumato.budget")
        assert (kinds(found), tags(found)) == ("TDCZ", ["SHOW"])
        (line,) = client.rows("SHOW sfumato.budget")[0]
        assert line is not None
        assert line.startswith("used: ")
        assert all(f"{name}: " in line for name in ("total", "spent", "remaining"))
        assert client.state("SET sfumato.budget = 9") == "55P02"


def test_settings_that_drivers_need(server: Served) -> None:
    with server.client() as client:
        assert client.told["server_version"].startswith("15.0")
        assert client.told["client_encoding"] == "UTF8"
        for sql in (
            "SET client_encoding TO 'UTF-8'",
            "SET NAMES 'utf8'",
            "SET DateStyle = ISO, MDY",
            "SET TIME ZONE 'Europe/Berlin'",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET TRANSACTION READ ONLY",
            "SET extra_float_digits = 3",
            "SET search_path TO public, pg_catalog",
            "SET statement_timeout = '5s'",
            "SHOW ALL",
            "SHOW TRANSACTION ISOLATION LEVEL",
            "SELECT set_config('application_name', 'x', false)",
            "RESET ALL",
            "UNLISTEN *",
            "CLOSE ALL",
            "DEALLOCATE ALL",
        ):
            assert client.state(sql) == "", sql
        assert client.state("SET client_encoding = 'LATIN1'") == "22023"
        assert client.state("SET standard_conforming_strings = off") == "22023"
        assert client.state("SET enable_seqscan = off") == "42704"
        assert client.state("SHOW nothing") == "42704"
        said = errors(client.query("SET sfumato.epsilom = 1"))[0]
        assert "sfumato.epsilon" in said["H"]


def test_what_a_transaction_sets_for_itself_hides_what_the_session_set() -> None:
    settings = Settings("research", (("sfumato.epsilon", "1"),))
    settings.begin()
    settings.set("sfumato.within", "n = 2", local=True)
    assert settings.price() == {"within": {"n": "2"}}
    settings.set("sfumato.epsilon", "3")
    settings.commit()
    assert settings.price() == {"epsilon": "3"}
