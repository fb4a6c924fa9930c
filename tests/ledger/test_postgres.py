"""One account on a PostgreSQL server, which these tests start and remove."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, request_for
from tests.ledger.answering import crowds
from tests.ledger.postgres import binaries, server

from sfumato.errors import BudgetExhausted, LedgerUnavailable, PolicyWeakened
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy

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


def test_two_servers_answer_exactly_as_many_questions_as_fit(url: str, policy: Policy) -> None:
    assert crowds(url, "2", 2, 32, 10) == (FITS, 2 * 32 * 10 - FITS)
    first, second = open_ledger(policy), open_ledger(policy)
    assert first.verify().spent.epsilon == second.budget().total.epsilon == 2
    with pytest.raises(BudgetExhausted), first.charge(request_for(policy, "one more")):
        pass
    answered = first.history()[0]
    with second.charge(request_for(policy, answered.sql.removeprefix("SELECT "))) as charge:
        assert charge.kept == answered.release
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
    assert ledger.history()[-1].state == "reserved"
    with ledger.charge(request_for(policy, "cut off")) as charge:
        charge.settle("whole")
    assert [entry.state for entry in ledger.history()][-2:] == ["failed", "settled"]
    assert ledger.verify().entries == charge.sequence + 1
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


def test_a_server_that_is_not_there_is_unavailable_and_its_address_is_not_repeated() -> None:
    with pytest.raises(LedgerUnavailable) as refusal:
        open_ledger(policy_in(Path(), "5", ledger="postgresql://secret@127.0.0.1:1/nothing"))
    assert "secret" not in str(refusal.value)
