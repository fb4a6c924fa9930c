"""Accounts are read from the ledger alone; and they share answers where the policy says so."""

import threading
from fractions import Fraction
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, request_for

from sfumato.errors import OtherLedger
from sfumato.ledger.accounts import open_accounts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy

ANALYSTS = {"research": {"epsilon": "0.5"}, "press": {"epsilon": "0.1"}}


def _ask(ledger: Ledger, policy: Policy, question: str, account: str, shared: bool) -> str:
    with ledger.charge(request_for(policy, question, account=account, shared=shared)) as charge:
        if charge.stored_release is not None:
            return charge.stored_release
        charge.settle(f"{question} for {account}")
        return f"{question} for {account}"


@pytest.mark.parametrize("shared", [False, True])
def test_who_asks_the_same_later_pays_nothing_only_where_answers_are_shared(tmp_path: Path, shared: bool) -> None:
    policy = policy_in(tmp_path, analysts=ANALYSTS, answers="shared" if shared else "separate")
    ledger = open_ledger(policy)
    first = _ask(ledger, policy, "q", "research", shared)
    second = _ask(ledger, policy, "q", "press", shared)
    owners = _ask(ledger, policy, "q", "", shared)
    assert ({first, second, owners} == {first}) is shared
    spent = {name: budget.spent.epsilon * 100 for name, budget in ledger.budgets().items()}
    assert spent == ({"": 1, "research": 1, "press": 0} if shared else {"": 3, "research": 1, "press": 1})
    ledger.verify()
    ledger.close()


def test_a_question_that_another_account_is_just_asking_is_waited_for(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, analysts=ANALYSTS, answers="shared")
    ledger, found = open_ledger(policy), list[str]()
    with ledger.charge(request_for(policy, "q", account="research", shared=True)) as charge:
        other = threading.Thread(target=lambda: found.append(_ask(ledger, policy, "q", "press", True)))
        other.start()
        charge.settle("the answer")
    other.join()
    assert found == ["the answer"]
    assert ledger.budgets()["press"].spent.epsilon == 0
    ledger.close()


def test_separate_answers_are_what_silence_means_and_shared_ones_are_on_record(tmp_path: Path) -> None:
    silent, separate, shared = (
        policy_in(tmp_path, **more) for more in ({}, {"answers": "separate"}, {"answers": "shared"})
    )
    assert policy_hash(silent) == policy_hash(separate) != policy_hash(shared)


def test_accounts_are_read_without_data_and_nothing_is_left_behind(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, analysts=ANALYSTS)  # its source is nowhere
    with open_accounts(policy) as accounts:
        assert {name: budget.total.epsilon for name, budget in accounts.budgets().items()} == {
            "": 1,
            "research": Fraction(1, 2),
            "press": Fraction(1, 10),
        }
        assert (accounts.history(), accounts.verify()) == ((), None)
    assert list(tmp_path.iterdir()) == []


def test_accounts_show_every_account_and_a_policy_that_is_not_in_force_yet(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, analysts=ANALYSTS)
    ledger = open_ledger(policy)
    _ask(ledger, policy, "q", "research", False)
    ledger.close()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith(".lock")}
    raised = policy_in(tmp_path, epsilon=2, analysts=ANALYSTS)
    for read, total in ((policy, 1), (raised, 2)):
        with open_accounts(read) as accounts:
            assert accounts.budget().total.epsilon == total
            assert accounts.budget().spent.epsilon == Fraction(1, 100)
            assert accounts.budget("press").remaining.epsilon == Fraction(1, 10)
            assert [entry.account for entry in accounts.history()] == ["research"]
            assert accounts.history("press") == ()
            assert (accounts.waiting is None) is (read is policy)
            verified = accounts.verify()
            assert verified is not None
            assert verified.entries == 3
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith(".lock")}
    assert {name: after[name] for name in files if name.endswith(".ledger")} == {
        name: files[name] for name in files if name.endswith(".ledger")
    }


def test_a_policy_that_would_be_refused_as_weaker_still_shows_what_was_spent(tmp_path: Path) -> None:
    policy = policy_in(tmp_path)
    ledger = open_ledger(policy)
    _ask(ledger, policy, "q", "", False)
    ledger.close()
    weaker = policy_in(tmp_path, tables={"visits": {"unit": "rows"}})
    with open_accounts(weaker) as accounts:
        assert len(accounts.history()) == 1
    with pytest.raises(OtherLedger):
        open_accounts(policy_in(tmp_path, name="other"))
