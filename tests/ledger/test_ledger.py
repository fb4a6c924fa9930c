"""What one ledger promises: charged once, kept for ever, refused when it does not fit."""

import os
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.accounts import TABLES, policy_in, pure, request_for

from sfumato.accounting.event import Approximate, GaussianNoise, LaplaceNoise, Neighbours, Parallel
from sfumato.accounting.filter import Filter
from sfumato.errors import (
    BadParameter,
    BadPolicy,
    BudgetExhausted,
    LedgerDamaged,
    LedgerUnavailable,
    MixedNeighbours,
    OtherLedger,
    PolicyChanged,
    PolicyWeakened,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy


def _ask(ledger: Ledger, policy: Policy, question: str, key: str | None = None, **more: Any) -> tuple[str, int]:
    """Ask as the database does; the release says which charge paid for it."""
    with ledger.charge(request_for(policy, question, **more), key) as charge:
        if charge.stored_release is None:
            charge.settle(f"release {charge.sequence}")
            return f"release {charge.sequence}", charge.sequence
        return charge.stored_release, charge.sequence


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return policy_in(tmp_path, analysts={"research": {"epsilon": "1/2"}, "audit": {"epsilon": 5}})


def test_a_budget_for_exactly_m_equal_questions_answers_exactly_m(policy: Policy) -> None:
    ledger = open_ledger(policy)
    for place in range(100):
        _ask(ledger, policy, f"q{place}")
    with pytest.raises(BudgetExhausted, match=r"the dataset has 0 % of .* left.*`budget\.epsilon`"):
        _ask(ledger, policy, "one more")
    assert ledger.budget().remaining.epsilon == 0
    assert ledger.budget().spent.epsilon == ledger.budget().total.epsilon == 1
    ledger.close()


def test_an_analyst_meets_their_own_cap_and_the_dataset_its_own(policy: Policy) -> None:
    ledger = open_ledger(policy)
    for place in range(50):
        _ask(ledger, policy, f"q{place}", account="research")
    with pytest.raises(BudgetExhausted, match=r"research has 0 % of .* left.*`analysts\.research\.epsilon`"):
        _ask(ledger, policy, "more", account="research")
    assert ledger.budget("research").total.epsilon == Fraction(1, 2)
    for place in range(50):
        _ask(ledger, policy, f"q{place}", account="audit")
    with pytest.raises(BudgetExhausted, match=r"the dataset has 0 % of .* left"):
        _ask(ledger, policy, "more", account="audit")
    assert ledger.budget("audit").total.epsilon == 1  # its own cap of 5 is the looser one
    assert [len(ledger.history(name)) for name in ("", "research", "audit", None)] == [0, 50, 50, 100]
    ledger.close()


def test_the_same_question_is_the_same_release_at_no_cost(policy: Policy) -> None:
    ledger = open_ledger(policy)
    first = _ask(ledger, policy, "q")
    before = ledger.verify()
    assert _ask(ledger, policy, "q", receipt="another", sql="SELECT  q") == first
    assert ledger.verify() == before
    ledger.close()
    again = open_ledger(policy)
    assert _ask(again, policy, "q") == first
    again.close()


@pytest.mark.parametrize("other", [{"account": "research"}, {"version": "v2"}, {"question": "q "}])
def test_another_question_version_or_account_is_charged_anew(policy: Policy, other: dict[str, str]) -> None:
    ledger = open_ledger(policy)
    first = _ask(ledger, policy, "q")
    assert _ask(ledger, policy, **{"question": "q", **other}) != first
    assert ledger.budget().spent.epsilon == Fraction(2, 100)
    ledger.close()


def test_what_started_and_failed_stays_charged_and_is_taken_up_by_a_retry(policy: Policy) -> None:
    ledger = open_ledger(policy)
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, "q")) as failed:
        raise ZeroDivisionError
    assert ledger.history()[0].state == "failed"
    release, sequence = _ask(ledger, policy, "q", receipt="of the retry")
    [entry] = ledger.history()
    assert (entry.state, entry.release, entry.sequence, entry.receipt) == (
        "settled",
        release,
        failed.sequence,
        failed.receipt,
    )
    assert sequence == failed.sequence
    assert ledger.budget().spent.epsilon == Fraction(1, 100)
    ledger.close()


def test_two_equal_questions_at_once_are_one_charge(policy: Policy) -> None:
    ledger, found, entered = open_ledger(policy), [], threading.Barrier(9)

    def _one() -> None:
        entered.wait()
        found.append(_ask(ledger, policy, "q"))

    threads = [threading.Thread(target=_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    with ledger.charge(request_for(policy, "q")) as charge:
        entered.wait()
        charge.settle("the one")
    for thread in threads:
        thread.join()
    assert found == [("the one", charge.sequence)] * 8
    assert len(ledger.history()) == 1
    ledger.close()


def test_a_second_handle_waits_for_the_first_and_takes_over_when_it_fails(policy: Policy) -> None:
    first, second, found = open_ledger(policy), open_ledger(policy), []
    waiter = threading.Thread(target=lambda: found.append(_ask(second, policy, "q")))
    with first.charge(request_for(policy, "q")) as charge:
        waiter.start()
        waiter.join(0.1)
        assert waiter.is_alive()
    waiter.join()
    assert found[0][1] == charge.sequence
    assert [entry.state for entry in second.history()] == ["settled"]
    first.close()
    second.close()


def test_a_key_names_one_question_and_resumes_it(policy: Policy) -> None:
    ledger = open_ledger(policy)
    first = _ask(ledger, policy, "q", key="k1")
    assert _ask(ledger, policy, "q", key="k1") == first
    with pytest.raises(BadParameter, match="used for another question"):
        _ask(ledger, policy, "p", key="k1")
    with pytest.raises(ZeroDivisionError), ledger.charge(request_for(policy, "cut off"), "k2") as charge:
        raise ZeroDivisionError
    with pytest.raises(BadParameter, match="used for another question"):
        _ask(ledger, policy, "p", key="k2")
    assert _ask(ledger, policy, "cut off", key="k2")[1] == charge.sequence
    assert ledger.budget().spent.epsilon == Fraction(2, 100)
    ledger.close()


def test_a_settled_charge_is_found_by_its_receipt_and_by_nobody_elses(policy: Policy) -> None:
    with closing(open_ledger(policy)) as ledger:
        for number in range(3):
            _ask(ledger, policy, f"q{number}", receipt=f"receipt{number}")
        with pytest.raises(ValueError, match="stop"), ledger.charge(request_for(policy, "q4", receipt="receipt4")):
            raise ValueError("stop")
        found = ledger.settled("receipt1")
        assert found is not None
        assert [found] == [entry for entry in ledger.history() if entry.receipt == "receipt1"]
        assert found.release is not None
        assert ledger.settled("receipt1", "research") is None
        assert [ledger.settled(other) for other in ("receipt4", "receipt", "", "a\0b", "\ud800", "%s")] == [None] * 6


def test_a_charge_pays_for_one_release(policy: Policy) -> None:
    ledger = open_ledger(policy)
    with ledger.charge(request_for(policy, "q")) as charge:
        charge.settle("one")
        with pytest.raises(BadParameter, match="settled"):
            charge.settle("two")
    with ledger.charge(request_for(policy, "q")) as kept, pytest.raises(BadParameter, match="settled"):
        kept.settle("three")
    ledger.close()


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_text_that_cannot_be_stored_exactly_is_refused(policy: Policy, text: str) -> None:
    ledger = open_ledger(policy)
    with pytest.raises(BadParameter, match="cannot be stored"):
        _ask(ledger, policy, text)
    assert ledger.history() == ()
    ledger.close()


def test_sums_are_those_of_the_filter_whatever_the_events(tmp_path: Path) -> None:
    relation = Neighbours.ADD_REMOVE
    events = (
        LaplaceNoise(3, Fraction(100), relation),
        GaussianNoise(2, Fraction(10**6), relation),
        Approximate(pure("0.01"), Fraction(1, 10**9)),
        Parallel((pure("0.02"), pure("0.01"))),
    )
    policy = policy_in(tmp_path, 3, "1e-6")
    ledger, expected = open_ledger(policy), Filter(Fraction(3), Fraction(1, 10**6))
    for place in range(20):
        event = events[place % 4]
        expected = expected.charge(event)
        _ask(ledger, policy, f"q{place}", event=event)
    assert ledger.budget().spent == expected.spent == ledger.verify().spent
    ledger.close()


def test_how_many_more_fit_is_how_many_more_are_answered(policy: Policy) -> None:
    ledger = open_ledger(policy)
    _ask(ledger, policy, "q")
    fits = ledger.count_affordable(pure("0.03"), "research")
    assert fits == 16
    for place in range(fits):
        _ask(ledger, policy, f"q{place}", event=pure("0.03"), account="research")
    with pytest.raises(BudgetExhausted):
        _ask(ledger, policy, "more", event=pure("0.03"), account="research")
    ledger.close()


def test_a_changed_budget_is_recorded_and_what_was_spent_stays(tmp_path: Path) -> None:
    low, high = policy_in(tmp_path, "0.02"), policy_in(tmp_path, "0.03", analysts={"new": {"epsilon": 1}})
    ledger = open_ledger(low)
    _ask(ledger, low, "a")
    _ask(ledger, low, "b")
    ledger.close()
    ledger = open_ledger(high)
    _ask(ledger, high, "c", account="new")
    with pytest.raises(BudgetExhausted):
        _ask(ledger, high, "d", account="new")
    ledger.close()
    ledger = open_ledger(low)
    assert ledger.budget().remaining.epsilon == 0
    with pytest.raises(BudgetExhausted):
        _ask(ledger, low, "e")
    assert ledger.verify().entries == 3 + 2 * 3
    ledger.close()


def test_a_delta_may_come_later_and_never_go_again(tmp_path: Path) -> None:
    without, having = policy_in(tmp_path, 1, 0), policy_in(tmp_path, 1, "1e-6")
    ledger = open_ledger(without)
    _ask(ledger, without, "a")
    ledger.close()
    ledger = open_ledger(having)
    _ask(ledger, having, "b", event=GaussianNoise(1, Fraction(10**6), Neighbours.ADD_REMOVE))
    # a pure ε has Rényi loss at most ε: that is what the past counts for
    assert ledger._state.accounts[""].renyi >= Fraction(1, 100) * 2**64
    assert ledger.verify().entries == 6
    ledger.close()
    with pytest.raises(BadPolicy, match=r"budget\.delta = 0"):
        open_ledger(without)


def test_another_relation_never_continues_a_ledger(policy: Policy, tmp_path: Path) -> None:
    open_ledger(policy).close()
    with pytest.raises(MixedNeighbours):
        open_ledger(policy_in(tmp_path, neighbours="replace"))


def test_other_tables_after_spending_need_the_owners_word(tmp_path: Path) -> None:
    policy = policy_in(tmp_path)
    looser = policy_in(tmp_path, tables={"visits": {**TABLES["visits"], "rows_per_unit": 40}})
    ledger = open_ledger(policy)
    open_ledger(looser).close()  # nothing was spent: nobody was promised anything
    open_ledger(policy).close()
    _ask(ledger, policy, "q")
    with pytest.raises(PolicyWeakened, match=policy_hash(looser)):
        open_ledger(looser)
    with pytest.raises(PolicyWeakened):
        open_ledger(looser, confirm=policy_hash(policy))
    assert _ask(ledger, policy, "q2")[0]
    changed = open_ledger(looser, confirm=policy_hash(looser))
    with pytest.raises(PolicyChanged):
        _ask(ledger, policy, "q3")
    assert changed.verify().spent.epsilon == Fraction(2, 100)
    open_ledger(looser).close()  # said once, said for good
    ledger.close()
    changed.close()


def test_a_clock_that_went_back_stops_answers(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(policy)
    _ask(ledger, policy, "a")
    now = time.time_ns()
    monkeypatch.setattr("sfumato.ledger.transaction.time_ns", lambda: now - 10**9)
    _ask(ledger, policy, "b")  # a second: clocks of several servers differ by so much
    monkeypatch.setattr("sfumato.ledger.transaction.time_ns", lambda: now - 3600 * 10**9)
    with pytest.raises(LedgerUnavailable, match="clock"):
        _ask(ledger, policy, "c")
    monkeypatch.undo()
    _ask(ledger, policy, "c")
    times = [entry.time for entry in reversed(ledger.history())]
    assert times == sorted(times)
    ledger.close()


def test_a_child_of_fork_has_a_ledger_of_its_own(policy: Policy) -> None:
    ledger = open_ledger(policy)
    _ask(ledger, policy, "before")
    with ledger.charge(request_for(policy, "in the parent")) as charge:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _ask(ledger, policy, "in the child")
                try:
                    charge.settle("not mine")
                except LedgerUnavailable:
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        charge.settle("mine")
    assert [entry.release for entry in ledger.history() if entry.sql == "SELECT in the parent"] == ["mine"]
    assert ledger.verify().spent.epsilon == Fraction(3, 100)
    ledger.close()


@pytest.mark.parametrize("key", ["key", "another key", ""])
def test_a_charge_whose_process_died_is_shown_and_taken_up(policy: Policy, key: str) -> None:
    child = os.fork()
    if child == 0:
        with open_ledger(policy).charge(request_for(policy, "q"), "key"):
            os._exit(0)
    os.waitpid(child, 0)
    ledger = open_ledger(policy)
    assert [entry.state for entry in ledger.history()] == ["failed"]
    first = _ask(ledger, policy, "q", key=key)
    assert _ask(ledger, policy, "q", key="key") == _ask(ledger, policy, "q") == first
    assert [entry.state for entry in ledger.history()] == ["settled"]
    assert ledger.verify().spent.epsilon == Fraction(1, 100)
    ledger.close()


def test_a_closed_ledger_refuses_and_closes_twice(policy: Policy) -> None:
    ledger = open_ledger(policy)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        _ask(ledger, policy, "q")


def test_opening_begins_at_the_last_state_and_finds_the_same_sums(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, 1000, "1e-6", analysts={"research": {"epsilon": 900}})
    ledger = open_ledger(policy)
    for place in range(505):
        _ask(ledger, policy, f"q{place}", account="research")
    state, verified = ledger._state, ledger.verify()
    assert verified.entries == state.sequence > 1000
    ledger.close()
    again = open_ledger(policy)
    assert again._state == state
    assert again.verify() == verified
    assert _ask(again, policy, "q3", account="research")[0] == "release 8"
    again.close()


def test_files_beside_the_ledger_are_the_owners_alone(policy: Policy, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        ledger = open_ledger(policy)
        _ask(ledger, policy, "q")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        ledger.close()
    finally:
        os.umask(old)
    assert {"clinic.ledger", "clinic.ledger-wal", "clinic.ledger.anchor", "clinic.ledger.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_a_ledger_that_is_replaced_while_in_use_is_refused(policy: Policy, tmp_path: Path) -> None:
    ledger = open_ledger(policy)
    path = tmp_path / "clinic.ledger"
    copy = path.read_bytes()
    path.rename(tmp_path / "elsewhere")
    path.write_bytes(copy)
    with pytest.raises(LedgerDamaged, match="replaced"):
        _ask(ledger, policy, "q")
    ledger.close()


def test_a_ledger_belongs_to_the_dataset_whose_name_it_has(tmp_path: Path) -> None:
    mine, yours = policy_in(tmp_path), policy_in(tmp_path, 100, name="another clinic")
    open_ledger(mine).close()
    with pytest.raises(OtherLedger, match="belongs to 'clinic', not to 'another clinic'"):
        open_ledger(yours)
    ledger = open_ledger(mine)
    assert ledger.budget().total.epsilon == 1
    ledger.close()
    renamed = open_ledger(yours, confirm=policy_hash(yours))  # only the owner knows that it is the same
    assert renamed.budget().total.epsilon == 100
    renamed.verify()
    renamed.close()
    with pytest.raises(OtherLedger, match="belongs to 'another clinic', not to 'clinic'"):
        open_ledger(mine)
