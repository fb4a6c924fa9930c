"""The number of an account's charges is exact, whoever appends or fails, and nothing is counted twice."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.ledger.accounts import pure, request_for
from tests.ledger.requesting import ask_charge, clinic_policy

from sfumato.errors import LedgerUnavailable, TooManyCharges
from sfumato.ledger.charge_counts import ChargeCounts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.policy.policy import Policy

TINY = pure("1e-9")
ACCOUNTS = "research", "press"


def opened(policy: Policy, max_charges: int) -> Ledger:
    """Open a ledger with few charges for each account: a policy allows thousands at least."""
    ledger = open_ledger(policy)
    ledger._charge_counts = ChargeCounts(max_charges)
    return ledger


def charge_together(ledger: Ledger, policy: Policy, account: str, names: list[str], fails: bool = False) -> None:
    """Charge several questions in one turn, which may fail as a whole after them."""

    def charge_all(transaction: LedgerTransaction) -> None:
        for name in names:
            transaction.reserve(request_for(policy, name, TINY, account=account, receipt=name), "")
        if fails:
            raise OSError("the turn is taken back")

    if fails:
        with pytest.raises(LedgerUnavailable):
            ledger.record(charge_all)
    else:
        ledger.record(charge_all)


def rows_of(ledger: Ledger, account: str) -> int:
    with ledger.rows() as rows:
        return sum(row.kind == "charged" and row.account == account for row in rows)


def test_counts_are_those_of_the_rows_whoever_appends_and_whatever_is_taken_back(folder: Path) -> None:
    policy = clinic_policy(folder)
    random, ledgers = Random(4), [opened(policy, 1000), opened(policy, 1000)]
    for turn in range(40):
        ledger, account = random.choice(ledgers), random.choice(ACCOUNTS)
        names = [f"{turn} {number}" for number in range(random.randrange(1, 4))]
        charge_together(ledger, policy, account, names, fails=random.random() < 0.3)
        for reader in random.sample(ledgers, random.randrange(3)):
            assert all(reader.count_charges(name) == rows_of(reader, name) for name in ACCOUNTS)
    assert all(ledgers[0].count_charges(name) == ledgers[1].count_charges(name) > 5 for name in ACCOUNTS)
    for ledger in ledgers:
        ledger.close()


def test_a_limit_holds_exactly_for_two_handles_after_failures_and_within_one_turn(folder: Path) -> None:
    policy = clinic_policy(folder)
    first, second = opened(policy, 9), opened(policy, 9)
    for number in range(6):
        ask_charge((first, second)[number % 2], request_for(policy, f"q{number}", TINY, account="press"))
    for ledger in (first, second):
        charge_together(ledger, policy, "press", ["taken", "back"], fails=True)
    ask_charge(first, request_for(policy, "in their place", TINY, account="research"))
    with pytest.raises(TooManyCharges):
        charge_together(second, policy, "press", ["a", "b", "c", "d"])
    for ledger in (first, second):
        with pytest.raises(TooManyCharges):
            ask_charge(ledger, request_for(policy, "one more", TINY, account="press"))
        ask_charge(ledger, request_for(policy, f"q{ledger is first}", TINY, account="research"))
        assert (ledger.count_charges("press"), rows_of(ledger, "press")) == (9, 9)
        ledger.close()


def test_no_row_is_counted_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = clinic_policy(folder)
    ledger = opened(policy, 12)
    charge_together(ledger, policy, "research", [f"r{number}" for number in range(12)])
    store = ledger._reading()
    ranges: list[tuple[int, int]] = []
    count = store.count_charges

    def counted(account: str, after: int, last: int) -> int:
        ranges.append((after, last))
        return count(account, after, last)

    monkeypatch.setattr(store, "count_charges", counted)
    for number in range(10):
        ask_charge(ledger, request_for(policy, f"p{number}", TINY, account="press"))
    assert len(ranges) == 10
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    ledger.close()
