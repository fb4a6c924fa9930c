"""A grant of names is one charge of one measurement, and it changes no request."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from threading import Barrier

import pytest
from tests.ledger.accounts import pure
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

from sfumato.accounting.event import to_json
from sfumato.errors import BudgetExhausted, LedgerDamaged, Refusal, RequestClosed
from sfumato.ledger import approvals
from sfumato.ledger.approvals import RequestState
from sfumato.ledger.chain import STATE_EVERY, Row, RowKind, with_chain_hash
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import note_content
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.request import Request
from sfumato.ledger.verifying import verify_rows
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.randomness.source import system_source

WANTED = "SELECT COUNT(secret) FROM visits"
NAMES = (("visits", "secret"),)


def _file_rights(ledger: Ledger, policy: Policy, sql: str = WANTED) -> int:
    payer = Payer(ledger, "research", policy_hash(policy), system_source())
    return approvals.file_rights(payer, sql, "for the annual report", {"epsilon": BIG})


def _approve_rights(ledger: Ledger, place: int, request: Request) -> None:
    granted = ChargedRelease(request.fingerprint, request.sql, request.event, request.loss, request.version)
    approvals.approve_rights(ledger, place, "", NAMES, granted, request.policy)


def test_a_grant_of_rights_is_for_one_measurement_and_survives_a_state_row(folder: Path) -> None:
    policy = clinic_policy(folder, 1000)
    ledger = open_ledger(policy)
    place, waiting = _file_rights(ledger, policy), _file_rights(ledger, policy, "another text")
    assert _file_rights(ledger, policy) == place
    with pytest.raises(RequestClosed, match="No grant pays"):
        ask_charge(ledger, clinic_request(policy, event=pure("0.1"), only_granted=True))  # the own cap would pay
    _approve_rights(ledger, place, clinic_request(policy))
    assert approvals.granted_names(ledger, "research", WANTED) == NAMES
    assert approvals.granted_names(ledger, "research", "another text") == ()
    assert approvals.granted_names(ledger, "press", WANTED) == ()
    fill_questions(ledger, policy)
    ledger.close()
    again = open_ledger(policy)
    assert again.verify().entries > STATE_EVERY
    assert set(again.open_requests()) == {place, waiting}
    for changed in MEASUREMENTS.values():
        with pytest.raises((RequestClosed, BudgetExhausted)):
            ask_charge(again, clinic_request(policy, only_granted=True, **changed))  # type: ignore[arg-type]
    ask_charge(again, clinic_request(policy, only_granted=True))
    ask_charge(again, clinic_request(policy, only_granted=True))  # a repeat is free
    with pytest.raises(RequestClosed, match="No grant pays"):
        ask_charge(again, clinic_request(policy, version="v2", receipt="v2", only_granted=True))
    assert find_request(again, place).state is RequestState.USED
    assert approvals.granted_names(again, "research", WANTED) == NAMES  # to open the answer again
    assert again.account("research").pure in (0, None)
    assert again.verify().entries
    again.close()


def test_two_owners_who_grant_rights_at_once_give_one_grant(folder: Path) -> None:
    """Each on a handle of its own; the measurement of the first is granted, whatever the second one names."""
    policy = clinic_policy(folder)
    ledgers = [open_ledger(policy) for _ in range(2)]
    place = _file_rights(ledgers[0], policy)
    together = Barrier(2)

    def decide(number: int) -> str:
        together.wait()
        try:
            _approve_rights(ledgers[number], place, clinic_request(policy, str(number)))
        except Refusal as refusal:
            return refusal.code
        return str(number)

    with ThreadPoolExecutor(2) as owners:
        said = list(owners.map(decide, range(2)))
    (winner,) = [word for word in said if word != "request_closed"]
    for question in ("0", "1"):
        if question == winner:
            ask_charge(ledgers[0], clinic_request(policy, question, only_granted=True))
            continue
        with pytest.raises(RequestClosed):
            ask_charge(ledgers[0], clinic_request(policy, question, only_granted=True))
    assert ledgers[1].verify().spent.epsilon == Fraction(BIG)
    for ledger in ledgers:
        ledger.close()


APPROVALS = {
    "rights without a measurement": (True, {"content": note_content("owner", "", NAMES)}),
    "rights without names": (True, {"question": "q", "content": note_content("owner", "")}),
    "rights by the analyst": (True, {"question": "q", "content": note_content("analyst", "", NAMES)}),
    "another measurement than was requested": (False, {"question": "q", "content": note_content("owner", "")}),
    "names for a request for budget": (False, {"content": note_content("owner", "", NAMES)}),
}


@pytest.mark.parametrize(("rights", "fields"), APPROVALS.values(), ids=list(APPROVALS))
def test_an_approval_that_grants_something_else_cannot_be_written_or_verified(
    tmp_path: Path, rights: bool, fields: dict[str, str]
) -> None:
    policy = clinic_policy(tmp_path)
    ledger = open_ledger(policy)
    place = _file_rights(ledger, policy) if rights else file_question(ledger, clinic_request(policy, "filed"))
    event = to_json(pure(BIG)) if "question" in fields else ""
    row = Row(0, RowKind.APPROVED.value, 0, about=place, event=event, **fields)
    with pytest.raises((Refusal, ValueError)):
        ledger.record(lambda transaction: transaction.add(row))
    with ledger.rows() as found:
        rows = list(found)
    ledger.close()
    assert verify_rows(rows, None).entries == len(rows)
    with pytest.raises(LedgerDamaged):
        verify_rows(
            [*rows, with_chain_hash(rows[-1].head, row._replace(sequence=len(rows) + 1, time=rows[-1].time))], None
        )
