"""One account on a PostgreSQL server, which these tests start and remove."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.accounts import TABLES, policy_in, request_for
from tests.ledger.answering import crowds
from tests.ledger.postgres import binaries, server

from sfumato.errors import BudgetExhausted, LedgerUnavailable, OtherLedger, PolicyWeakened
from sfumato.ledger.accounts import open_accounts
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.postgres_store import PostgresStore
from sfumato.policy.policy import Policy
from sfumato.randomness.source import system_source

FITS = 200


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    found = binaries()
    if found is None:
        assert not os.environ.get("CI"), "PostgreSQL is needed"
        pytest.skip("NO SERVER WAS TRIED: PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="NO SERVER WAS TRIED: psycopg is not installed")
    with server(found) as address:
        yield address


@pytest.fixture
def policy(url: str) -> Policy:
    return policy_in(Path(), "2", ledger=url)


def test_accounts_are_read_from_a_server_and_no_ledger_is_created_for_it(policy: Policy) -> None:
    for entries in (None, 1):
        with open_accounts(policy) as accounts:
            assert accounts.budget().total.epsilon == 2
            verified = accounts.verify()
            assert (None if verified is None else verified.entries) == entries
        open_ledger(policy).close()


def test_two_servers_answer_exactly_as_many_questions_as_fit(url: str, policy: Policy) -> None:
    assert crowds(url, "2", 2, 32, 10) == (FITS, 2 * 32 * 10 - FITS)
    first, second = open_ledger(policy), open_ledger(policy)
    assert first.verify().spent.epsilon == second.budget().total.epsilon == 2
    with pytest.raises(BudgetExhausted), first.charge(request_for(policy, "one more")):
        pass
    answered = first.history()[0]
    with second.charge(request_for(policy, answered.sql.removeprefix("SELECT "))) as charge:
        assert charge.stored_release == answered.release
    assert first.settled(answered.receipt) == answered
    assert first.settled("receipt") is first.settled(answered.receipt, "somebody") is None
    assert [entry.state for entry in first.history()] == ["settled"] * FITS
    first.close()
    second.close()


def test_a_server_that_died_leaves_a_charge_that_another_sees(url: str) -> None:
    policy = policy_in(Path(), "5", ledger=url)  # a raised budget is recorded
    child = os.fork()
    if child == 0:
        with open_ledger(policy).charge(request_for(policy, "cut off")):
            os._exit(0)
    os.waitpid(child, 0)
    ledger = open_ledger(policy)
    before = ledger.history()[0]
    assert before.state == "failed"
    with ledger.charge(request_for(policy, "cut off")) as charge:
        assert ledger.history()[0].state == "reserved"
        charge.settle("whole")
    after = ledger.history()[0]
    assert (after.state, after.sequence) == ("settled", before.sequence)
    assert ledger.verify().entries == charge.sequence + 1
    ledger.close()


@pytest.mark.parametrize("moment", ["before the charge", "before the settlement"])
def test_whenever_the_server_hangs_up_there_is_one_charge_and_one_noise(url: str, moment: str) -> None:
    policy = policy_in(Path(), "5", ledger=url)
    ledger, drawn = open_ledger(policy), []

    def hang_up() -> None:
        other = open_ledger(policy)
        other._store._connection.execute(  # type: ignore[union-attr]
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        other.close()

    def ask(at: str = "") -> str:
        if at == "before the charge":
            hang_up()
        with ledger.charge(request_for(policy, moment)) as charge:
            if charge.stored_release is not None:
                return charge.stored_release
            drawn.append(charge.noise_from(system_source()).read(8).hex())
            if at == "before the settlement":
                hang_up()
            charge.settle(drawn[-1])
        return drawn[-1]

    with pytest.raises(LedgerUnavailable):
        ask(moment)
    found = {ask() for _ in range(3)}
    assert found == set(drawn)
    assert len(drawn) == 1
    assert [entry.state for entry in ledger.history() if entry.sql == f"SELECT {moment}"] == ["settled"]
    ledger.verify()
    ledger.close()


def test_a_connection_that_is_lost_refuses_once_and_comes_back(url: str) -> None:
    policy = policy_in(Path(), "5", ledger=url)
    ledger, other = open_ledger(policy), open_ledger(policy)
    other._store._connection.execute(  # type: ignore[union-attr]
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )
    with pytest.raises(LedgerUnavailable), ledger.charge(request_for(policy, "again")):
        pass
    with ledger.charge(request_for(policy, "again")) as charge:
        charge.settle("there")
    ledger.close()
    other.close()


def test_rows_on_a_server_are_neither_changed_nor_deleted(url: str, policy: Policy) -> None:
    ledger = open_ledger(policy_in(Path(), "5", ledger=url))
    for change in (
        "UPDATE sfumato_entries SET content = ''",
        "DELETE FROM sfumato_entries",
        "TRUNCATE sfumato_entries",
    ):
        with pytest.raises(Exception, match="append only"):
            ledger._store._connection.execute(change)  # type: ignore[union-attr]
    ledger.close()


def test_other_tables_need_the_owners_word_on_a_server_too(url: str) -> None:
    with pytest.raises(PolicyWeakened):
        open_ledger(policy_in(Path(), "5", ledger=url, tables={"visits": {"unit": "rows"}}))


def _in_schema(url: str, schema: str) -> str:
    with _connected(url) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    return f"{url}?options=-csearch_path%3D{schema},public"


def _connected(url: str) -> Any:
    return pytest.importorskip("psycopg").connect(url, autocommit=True)


def test_the_search_path_of_a_url_says_in_which_schema_the_ledger_lies(url: str) -> None:
    clinics = [
        policy_in(Path(), budget, name=name, ledger=_in_schema(url, name))
        for name, budget in (("north", "1"), ("south", "0.02"))
    ]
    north, south = map(open_ledger, clinics)
    with north.charge(request_for(clinics[0], "asked in the north")) as charge:
        charge.settle("of the north")
    assert [str(ledger.budget().total.epsilon) for ledger in (north, south)] == ["1", "1/50"]
    assert (len(north.history()), len(south.history())) == (1, 0)
    with _connected(url) as connection:
        found = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'sfumato_entries'").fetchall()
    assert {("north",), ("south",)} <= set(found)
    for ledger in (north, south):
        ledger.verify()
        ledger.close()


def test_charges_at_the_same_place_of_two_ledgers_of_a_database_are_two(url: str) -> None:
    clinics = [
        policy_in(Path(), "1", name=name, ledger=_in_schema(url, name), tables=TABLES) for name in ("east", "west")
    ]
    east, west = map(open_ledger, clinics)
    with (
        east.charge(request_for(clinics[0], "the same")) as first,
        west.charge(request_for(clinics[1], "the same")) as second,
    ):
        assert first.sequence == second.sequence
        second.settle("of the west")
        other = open_ledger(clinics[0])
        assert not other._store.claim(first.sequence)  # type: ignore[union-attr]
        other.close()
        first.settle("of the east")
    assert [entry.state for ledger in (east, west) for entry in ledger.history()] == ["settled", "settled"]
    east.close()
    west.close()


def test_a_schema_that_does_not_exist_is_refused(url: str) -> None:
    with pytest.raises(LedgerUnavailable, match="schema"):
        open_ledger(policy_in(Path(), "1", ledger=f"{url}?options=-csearch_path%3Dnowhere"))


def test_settings_of_the_url_cannot_make_commits_less_durable(url: str) -> None:
    ledger = open_ledger(policy_in(Path(), "1", name="fast", ledger=f"{_in_schema(url, 'fast')}"))
    store = PostgresStore(f"{url}?options=-csearch_path%3Dfast%20-csynchronous_commit%3Doff")
    assert store._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()
    ledger.close()


def test_a_ledger_of_another_dataset_is_refused_and_keeps_its_cap(url: str) -> None:
    address = _in_schema(url, "shared")
    mine = policy_in(Path(), "1", name="mine", ledger=address)
    open_ledger(mine).close()
    with pytest.raises(OtherLedger, match=r"belongs to 'mine', not to 'yours'"):
        open_ledger(policy_in(Path(), "100", name="yours", ledger=address))
    again = open_ledger(mine)
    assert again.budget().total.epsilon == 1
    again.close()


def test_an_account_that_lies_where_an_older_version_put_it_does_not_begin_anew(url: str) -> None:
    open_ledger(policy_in(Path(), "5", ledger=url)).close()  # in "public", whatever the URL said
    with pytest.raises(LedgerUnavailable, match=r"lies in the schema public, not in moved"):
        open_ledger(policy_in(Path(), "5", ledger=_in_schema(url, "moved")))


def test_a_server_that_is_not_there_is_unavailable_and_its_address_is_not_repeated() -> None:
    with pytest.raises(LedgerUnavailable) as refusal:
        open_ledger(policy_in(Path(), "5", ledger="postgresql://secret@127.0.0.1:1/nothing"))
    assert "secret" not in str(refusal.value)
