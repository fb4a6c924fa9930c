"""A grant pays for one measurement, once: the dataset's cap holds, and the analyst's own share stays as it is."""

import os
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from tests.ledger.accounts import pure, request_for
from tests.ledger.requesting import (
    BIG,
    MEASUREMENTS,
    ask_charge,
    clinic_policy,
    clinic_request,
    file_question,
    fill_questions,
    find_request,
)

from sfumato.errors import (
    BudgetExhausted,
    LedgerDamaged,
    LedgerRestored,
    Refusal,
    RequestClosed,
    TooManyRequests,
    UnknownName,
)
from sfumato.ledger import approvals
from sfumato.ledger.approvals import RequestState
from sfumato.ledger.chain import GENESIS, STATE_EVERY, Row, RowKind, repeat_key, with_chain_hash
from sfumato.ledger.one_time_grants import MAX_NOTES, MAX_OPEN_REQUESTS
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.state import restored_content
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.ledger.verifying import verify_rows

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_grant_pays_for_its_measurement_and_leaves_the_analysts_own_share_alone(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    request = clinic_request(policy)
    with pytest.raises(BudgetExhausted, match="file a request"):
        ask_charge(ledger, request)
    place = file_question(ledger, request)
    assert find_request(ledger, place).state is RequestState.WAITING
    with pytest.raises(BudgetExhausted):  # a request that waits is no grant
        ask_charge(ledger, request)
    approvals.approve(ledger, place, "go ahead")
    before = ledger.account("research")
    ask_charge(ledger, request)
    found = find_request(ledger, place)
    assert (found.state, found.receipt) == (RequestState.USED, request.receipt)
    assert ledger.account("research") == before
    assert ledger.account().pure == Fraction(BIG)
    assert ledger.verify().spent.epsilon == Fraction(BIG)
    assert ledger.budget("research").spent == ledger.budget().spent  # it bounds what the analyst has seen
    ask_charge(ledger, request)  # a repeat is free
    ask_charge(ledger, clinic_request(policy, "own", pure("0.1")))  # the own share is whole
    ledger.close()
    again = open_ledger(policy)
    assert again.account().pure == Fraction(BIG) + Fraction("0.1")
    again.close()


@pytest.mark.parametrize("changed", MEASUREMENTS.values(), ids=list(MEASUREMENTS))
def test_a_grant_pays_for_no_other_measurement(folder: Path, changed: dict[str, str]) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    approvals.approve(ledger, file_question(ledger, clinic_request(policy)), "")
    with pytest.raises(BudgetExhausted):
        ask_charge(ledger, clinic_request(policy, **changed))  # type: ignore[arg-type]
    assert ledger.account().pure == 0
    ask_charge(ledger, clinic_request(policy))
    ledger.close()


def test_a_grant_is_used_once_also_over_another_snapshot(folder: Path) -> None:
    policy = clinic_policy(folder, 2)
    ledger = open_ledger(policy)
    approvals.approve(ledger, file_question(ledger, clinic_request(policy)), "")
    ask_charge(ledger, clinic_request(policy, version="v2", receipt="second"))  # it was filed about v1
    for version in ("v1", "v2", "v3"):
        if version == "v2":
            ask_charge(ledger, clinic_request(policy, version=version))  # paid for
            continue
        with pytest.raises(BudgetExhausted):
            ask_charge(ledger, clinic_request(policy, version=version, receipt=version))
    assert ledger.account().pure == Fraction(BIG)
    ledger.close()


def test_the_datasets_cap_holds_with_a_grant(folder: Path) -> None:
    policy = clinic_policy(folder, "0.55")
    ledger = open_ledger(policy)
    approvals.approve(ledger, file_question(ledger, clinic_request(policy)), "")
    ask_charge(ledger, request_for(policy, "the owner's own", pure("0.1")))
    with pytest.raises(BudgetExhausted, match="the dataset has"):
        ask_charge(ledger, clinic_request(policy))
    assert ledger.account().pure == Fraction("0.1")
    assert find_request(ledger, ledger.request_rows(None, 1)[0][0].sequence).state is RequestState.APPROVED
    ledger.close()


def test_a_charge_with_a_grant_that_failed_is_taken_up_and_not_charged_again(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy))
    approvals.approve(ledger, place, "")
    with pytest.raises(RuntimeError), ledger.charge(clinic_request(policy)):
        raise RuntimeError("the engine failed")
    ask_charge(ledger, clinic_request(policy))
    assert (ledger.account().pure, len(ledger.history())) == (Fraction(BIG), 1)
    assert ledger.verify().spent.epsilon == Fraction(BIG)
    ledger.close()


def test_filing_the_same_again_returns_the_request_that_is_open(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy))
    assert file_question(ledger, clinic_request(policy)) == place  # a client that lost the reply sends it again
    approvals.approve(ledger, place, "")
    assert file_question(ledger, clinic_request(policy)) == place
    ask_charge(ledger, clinic_request(policy))
    assert file_question(ledger, clinic_request(policy, version="v2")) > place
    ledger.close()


def test_what_was_decided_stays_decided(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    declined, withdrawn, revoked, approved = (
        file_question(ledger, clinic_request(policy, str(number))) for number in range(4)
    )
    approvals.decline(ledger, declined, "no")
    approvals.withdraw(ledger, withdrawn, "research")
    approvals.approve(ledger, revoked, "")
    approvals.decline(ledger, revoked, "changed my mind")
    approvals.approve(ledger, approved, "")
    for place in (declined, withdrawn, revoked, approved):
        with pytest.raises(RequestClosed):
            approvals.approve(ledger, place, "")
    for question in ("0", "1", "2"):
        with pytest.raises(BudgetExhausted):
            ask_charge(ledger, clinic_request(policy, question))
    states = {place: find_request(ledger, place).state.value for place in (declined, withdrawn, revoked, approved)}
    assert list(states.values()) == ["declined", "withdrawn", "declined", "approved"]
    assert ledger.verify().spent.epsilon == 0
    ledger.close()


def test_analysts_see_and_change_their_own_requests_alone(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy))
    with pytest.raises(UnknownName):
        approvals.withdraw(ledger, place, "press")
    with pytest.raises(UnknownName):
        approvals.reply(ledger, place, "press", "mine now")
    assert approvals.list_requests(ledger, "press", 10) == []
    approvals.reply(ledger, place, "", "which year?")
    approvals.reply(ledger, place, "research", "2025")
    assert [(note.author, note.text) for note in find_request(ledger, place).notes] == [
        ("owner", "which year?"),
        ("analyst", "2025"),
    ]
    ledger.close()


def test_requests_and_notes_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    places = [file_question(ledger, clinic_request(policy, str(number))) for number in range(MAX_OPEN_REQUESTS)]
    with pytest.raises(TooManyRequests, match="open"):
        file_question(ledger, clinic_request(policy, "one more"))
    file_question(ledger, clinic_request(policy, account="press"))  # the limit is each account's own
    for _ in range(MAX_NOTES):
        approvals.reply(ledger, places[0], "research", "please")
    with pytest.raises(TooManyRequests, match="notes"):
        approvals.reply(ledger, places[0], "research", "please")
    for place in places:
        approvals.withdraw(ledger, place, "research")
    monkeypatch.setattr(approvals, "MAX_REQUESTS_PER_DAY", MAX_OPEN_REQUESTS)
    with pytest.raises(TooManyRequests, match="24 hours"):
        file_question(ledger, clinic_request(policy, "one more"))
    ledger.close()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 3000, "nul \0", 7], ids=["empty", "blank", "long", "nul", "number"])
def test_a_reason_is_a_short_text(folder: Path, reason: str) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    with pytest.raises(Refusal, match=r"reason|character"):
        approvals.file_request(ledger, clinic_request(policy), reason, {})
    ledger.close()


def test_open_requests_survive_a_state_row(folder: Path) -> None:
    """Opening begins at a state row, so it must hold who waits and who has used a grant."""
    policy = clinic_policy(folder, 1000)
    ledger = open_ledger(policy)
    used, waiting, approved = (
        file_question(ledger, clinic_request(policy, question)) for question in ("used", "waits", "granted")
    )
    approvals.approve(ledger, used, "")
    ask_charge(ledger, clinic_request(policy, "used"))
    approvals.approve(ledger, approved, "")
    fill_questions(ledger, policy)
    ledger.close()
    again = open_ledger(policy)
    assert again.verify().entries > STATE_EVERY
    assert {place: request.approved for place, request in again.open_requests().items()} == {
        waiting: False,
        approved: True,
    }
    assert again.budget("research").spent == again.budget().spent
    ask_charge(again, clinic_request(policy, "granted"))
    assert again.verify().entries
    again.close()


def test_no_grant_outlives_a_restore(folder: Path) -> None:
    """An approved request of a backup may have been used since: with the backup it would be used twice."""
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    waiting, approved = (
        file_question(ledger, clinic_request(policy, "waits")),
        file_question(ledger, clinic_request(policy)),
    )
    approvals.approve(ledger, approved, "")
    ledger.record(lambda transaction: transaction.mark_restored(approved, restored_content("ab", 0)))
    with pytest.raises(LedgerRestored):
        ask_charge(ledger, clinic_request(policy))
    ledger.record(lambda transaction: transaction.accept_restored("I accept.", None))
    with pytest.raises(BudgetExhausted):
        ask_charge(ledger, clinic_request(policy))
    assert {find_request(ledger, place).state for place in (waiting, approved)} == {RequestState.LAPSED}
    assert ledger.verify().spent.epsilon == 0
    ledger.close()


FORGERIES = {
    "a charge names a request that is not approved": (False, {}),
    "a charge names a grant for another question": (True, {"question": "other"}),
    "a charge names a grant of another account": (True, {"account": "press"}),
}


@pytest.mark.parametrize(("approved", "changed"), FORGERIES.values(), ids=list(FORGERIES))
def test_a_charge_that_no_grant_pays_for_cannot_be_written(
    folder: Path, approved: bool, changed: dict[str, str]
) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy))
    if approved:
        approvals.approve(ledger, place, "")
    request = clinic_request(policy, **changed)  # type: ignore[arg-type]

    def forge(transaction: LedgerTransaction) -> None:
        transaction._append_charge(request, "", "same")

    with pytest.raises(Refusal):
        ledger.record(forge)
    assert ledger.account().pure == 0
    ledger.close()


def test_the_second_reader_refuses_a_grant_that_was_used_twice(folder: Path) -> None:
    policy = clinic_policy(folder)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy, event=pure("0.3")))
    approvals.approve(ledger, place, "")
    ask_charge(ledger, clinic_request(policy, event=pure("0.3")))
    with ledger.rows() as found:
        rows = list(found)
    ledger.close()
    charge = next(row for row in rows if row.kind == RowKind.CHARGED)
    assert charge.about == place

    def chained(forged: list[Row]) -> list[Row]:
        head, written = GENESIS, []
        for sequence, row in enumerate(forged, 1):
            written.append(with_chain_hash(head, row._replace(sequence=sequence)))
            head = written[-1].head
        return written

    assert verify_rows(chained(rows), None).entries == len(rows)
    second = charge._replace(version="v2", same=repeat_key("research", charge.question, "v2"))
    twice = [*rows, second]
    for forged in (twice, [row for row in rows if row.kind != RowKind.APPROVED]):
        with pytest.raises(LedgerDamaged):
            verify_rows(chained(forged), None)


RACE = """
import sys
from pathlib import Path
from tests.ledger.test_approvals import decide_at
decide_at(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
"""


def decide_at(folder: Path, place: int, what: str, start: float) -> None:
    """Open the ledger, wait for the start, decide or ask, and print what came of it: one process of a race."""
    policy = clinic_policy(folder, 5)
    ledger = open_ledger(policy)
    while time.time() < start:
        pass
    try:
        if what == "approve":
            approvals.approve(ledger, place, "")
        elif what == "decline":
            approvals.decline(ledger, place, "")
        else:
            ask_charge(ledger, clinic_request(policy, version=what, receipt=what))
        print("done")
    except Refusal as refusal:
        print(refusal.code)
    ledger.close()


def _race(folder: Path, place: int, actions: list[str]) -> list[str]:
    start = time.time() + 0.05  # only so that they meet; the outcome does not depend on it
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(folder), str(place), action, str(start)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=environment,
        )
        for action in actions
    ]
    return [process.communicate(timeout=60)[0].strip() for process in running]


def test_of_two_owners_who_approve_one_request_one_gives_one_grant(folder: Path) -> None:
    policy = clinic_policy(folder, 5)
    ledger = open_ledger(policy)
    place = file_question(ledger, clinic_request(policy))
    ledger.close()
    assert Counter(_race(folder, place, ["approve", "approve"])) == {"done": 1, "request_closed": 1}
    # the one grant is used by two processes at once, over different snapshots: one charge
    assert Counter(_race(folder, place, ["v1", "v2"])) == {"done": 1, "budget_exhausted": 1}
    ledger = open_ledger(policy)
    assert ledger.account().pure == Fraction(BIG)
    assert ledger.verify().spent.epsilon == Fraction(BIG)
    with ledger.rows() as rows:
        assert [row.kind for row in rows].count("approved") == 1
    ledger.close()
