"""A clock that was a week ahead once: the owner says that it is right now, and that is on record."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.ledger.accounts import policy_in, request_for
from tests.made_up_clinic import fresh_clinic

import sfumato
from sfumato.cli import main
from sfumato.errors import LedgerDamaged, LedgerUnavailable, OtherLedger
from sfumato.ledger import transaction
from sfumato.ledger.chain import STATE_EVERY, RowKind, with_chain_hash
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import accept_clock, open_ledger
from sfumato.ledger.transaction import LedgerTransaction, Reserved
from sfumato.ledger.verifying import verify_rows
from sfumato.policy.policy import Policy

WEEK = timedelta(days=7)
COUNT = "SELECT COUNT(*) AS n FROM visits"
SetClock = Callable[[timedelta], None]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Return how to put the clock of this machine ahead."""
    true = time.time_ns

    def ahead(by: timedelta) -> None:
        monkeypatch.setattr(transaction, "time_ns", lambda: true() + by // timedelta(microseconds=1) * 1000)

    return ahead


def _ask(ledger: Ledger, policy: Policy, question: str) -> None:
    with ledger.charge(request_for(policy, question)) as charge:
        charge.settle("answered")


def test_the_owner_gets_out_of_a_clock_that_was_a_week_ahead(tmp_path: Path, set_clock: SetClock) -> None:
    policy = policy_in(tmp_path)
    ledger = open_ledger(policy)
    set_clock(WEEK)
    _ask(ledger, policy, "under a wrong clock")
    set_clock(timedelta(0))
    with pytest.raises(LedgerUnavailable, match="--accept-clock"):
        _ask(ledger, policy, "under the right one")
    ledger.close()
    again = open_ledger(policy)  # it opens, so that its owner can look
    assert len(again.history()) == 1
    assert WEEK - accept_clock(policy) < timedelta(minutes=10)
    _ask(again, policy, "under the right one")
    after, before = (entry.time for entry in again.history())
    assert after < before  # what was on record stays so
    assert accept_clock(policy) == timedelta(0)  # it is right: there is nothing to put on record
    assert again.verify().entries == 6
    again.close()
    open_ledger(policy).close()


def test_a_clock_row_counts_where_the_sums_are_due(tmp_path: Path, set_clock: SetClock) -> None:
    policy = policy_in(tmp_path, 10)
    ledger = open_ledger(policy)
    set_clock(WEEK)

    def fill(turn: LedgerTransaction) -> None:
        for place in range(STATE_EVERY // 2 - 1):
            reserved = turn.reserve(request_for(policy, str(place)), "")
            assert isinstance(reserved, Reserved)
            turn.settle(reserved.row, "answered")

    ledger.record(fill)
    set_clock(timedelta(0))
    assert accept_clock(policy) > timedelta(days=6)
    with ledger._reading().rows() as rows:
        kinds = [row.kind for row in rows]
    assert kinds[STATE_EVERY - 1 :] == [RowKind.STATE, RowKind.CLOCK]
    assert ledger.verify().entries == STATE_EVERY + 1
    ledger.close()


def test_only_a_clock_row_may_go_back_and_it_says_nothing_else(tmp_path: Path, set_clock: SetClock) -> None:
    ledger = open_ledger(policy_in(tmp_path))
    set_clock(WEEK)
    _ask(ledger, policy_in(tmp_path), "ahead")
    set_clock(timedelta(0))
    accept_clock(policy_in(tmp_path))
    with ledger._reading().rows() as found:
        rows = list(found)
    assert rows[-1].time < rows[-2].time
    assert verify_rows(rows, None).entries == 4
    for wrong in (rows[-1]._replace(kind="failed"), rows[-1]._replace(content="{}")):
        with pytest.raises(LedgerDamaged):
            verify_rows([*rows[:-1], with_chain_hash(rows[-2].head, wrong)], None)
    ledger.close()


def test_the_command_of_the_owner(tmp_path: Path, set_clock: SetClock) -> None:
    policy = fresh_clinic(tmp_path)
    set_clock(WEEK)
    with sfumato.open(policy) as database:
        database.ask(COUNT, epsilon="0.1")
    set_clock(timedelta(0))
    refused = CliRunner().invoke(main, ["ask", str(policy), COUNT, "--epsilon", "0.2"])
    assert (refused.exit_code, "--accept-clock" in refused.stderr) == (2, True)
    accepted = CliRunner().invoke(main, ["verify", str(policy), "--accept-clock"])
    assert accepted.exit_code == 0
    assert "behind the last entry" in accepted.stderr
    assert CliRunner().invoke(main, ["ask", str(policy), COUNT, "--epsilon", "0.2"]).exit_code == 0


def test_a_policy_that_changed_meanwhile_is_no_dead_end(tmp_path: Path, set_clock: SetClock) -> None:
    policy, changed = policy_in(tmp_path), policy_in(tmp_path, 2)
    ledger = open_ledger(policy)
    set_clock(WEEK)
    _ask(ledger, policy, "ahead")
    ledger.close()
    set_clock(timedelta(0))
    with pytest.raises(LedgerUnavailable, match="--accept-clock"):
        open_ledger(changed)
    with pytest.raises(OtherLedger):
        accept_clock(policy_in(tmp_path, 2, name="another clinic"))
    assert accept_clock(changed) > timedelta(days=6)
    again = open_ledger(changed)
    assert again.budget().total.epsilon == 2
    again.verify()
    again.close()


def test_there_is_nothing_to_accept_where_there_is_no_ledger(tmp_path: Path) -> None:
    assert accept_clock(policy_in(tmp_path)) == timedelta(0)
    assert not list(tmp_path.iterdir())
