"""Requests and grants on a ledger: what their laws share."""

from pathlib import Path
from typing import Any

from tests.ledger.accounts import policy_in, pure, request_for

from sfumato.accounting.event import Composed, Event
from sfumato.ledger import approvals
from sfumato.ledger.approvals import BudgetRequest
from sfumato.ledger.chain import STATE_EVERY
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.request import Request
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.policy.policy import Policy

ANALYSTS = {"research": {"epsilon": "0.1"}, "press": {"epsilon": "0.1"}}
ADDRESS = "server_address"
BIG = "0.5"
"""More than an analyst's own cap, and less than the dataset's."""


def clinic_policy(folder: Path, epsilon: object = 1) -> Policy:
    """Return the policy of a folder: its ledger lies there, or on the server whose address does."""
    address = folder / ADDRESS
    where = {"ledger": address.read_text()} if address.exists() else {}
    return policy_in(folder, epsilon, analysts=ANALYSTS, **where)


def clinic_request(
    policy: Policy, question: str = "q", event: Event | None = None, account: str = "research", **more: Any
) -> Request:
    return request_for(policy, question, event or pure(BIG), account=account, **more)


def file_question(ledger: Ledger, request: Request) -> int:
    return approvals.file_request(ledger, request, "for the annual report", {"epsilon": BIG})


def ask_charge(ledger: Ledger, request: Request) -> None:
    with ledger.charge(request) as charge:
        if charge.stored_release is None:
            charge.settle("release")


def find_request(ledger: Ledger, place: int) -> BudgetRequest:
    return next(found for found in approvals.list_requests(ledger, None, 100) if found.id == place)


def fill_questions(ledger: Ledger, policy: Policy) -> None:
    """Charge many questions in few turns, beyond the next state row."""

    def charge_all(transaction: LedgerTransaction) -> None:
        for number in range(STATE_EVERY):
            transaction.reserve(request_for(policy, f"fill {number}", receipt=f"fill {number}"), "")

    ledger.record(charge_all)


MEASUREMENTS = {
    "another question": {"question": "other"},
    "another price": {"event": pure("0.6")},
    "another account": {"account": "press"},
    "twice the event": {"event": Composed((pure(BIG), pure("0.01")))},
}
