"""Small policies and requests that the laws of this room are tried on."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.accounting.event import Event, Neighbours, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.request import Request
from sfumato.ledger.state import started, sums_text
from sfumato.ledger.transaction import opened_state
from sfumato.ledger.verifying import _Replay
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

TABLES: dict[str, Any] = {
    "visits": {
        "unit": "patient_id",
        "rows_per_unit": 20,
        "columns": {"patient_id": {"type": "integer"}, "age": {"type": "integer", "bounds": [0, 120]}},
    }
}


def policy_in(folder: Path, epsilon: object = 1, delta: object = 0, **more: Any) -> Policy:
    """Return a policy whose ledger lies in the folder."""
    return read_policy(
        {
            "name": "clinic",
            "source": "parquet:nowhere",
            "ledger": f"sqlite:{folder / 'clinic.ledger'}",
            "budget": {"epsilon": epsilon, "delta": delta},
            "tables": TABLES,
            **more,
        }
    )


def pure(epsilon: object) -> Event:
    return Pure(Fraction(str(epsilon)), Neighbours.ADD_REMOVE)


def request_for(policy: Policy, question: str, event: Event | None = None, **more: Any) -> Request:
    """Return a request for a hundredth of epsilon, or for the event."""
    fields: dict[str, Any] = {
        "account": "",
        "fingerprint": question,
        "sql": f"SELECT {question}",
        "event": event or pure("0.01"),
        "loss": PrivacyLoss(Fraction(1, 100)),
        "policy": policy_hash(policy),
        "version": "v1",
        "receipt": f"receipt of {question}",
    }
    return Request(**(fields | more))


def require_read_back(ledger: Ledger) -> None:
    """Check that a state row of the sums, reopening and the second reader tell the same."""
    state, replay = ledger._state, _Replay()
    assert opened_state(ledger._reopen_store()) == state
    row = Row(state.sequence, RowKind.STATE.value, state.time, content=sums_text(state), head=state.head)
    assert started(row) == state
    with ledger.rows() as rows:
        for one in rows:
            replay.read(tuple(one))
    assert replay._sums() == json.loads(sums_text(state))
