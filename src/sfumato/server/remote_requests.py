"""Requests between a server and its client: JSON documents that read back as the same values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sfumato.errors import UnknownName
from sfumato.exact import integer
from sfumato.ledger.approvals import BudgetRequest, RequestNote, RequestState
from sfumato.planning.quote import Quote
from sfumato.release.release import Release
from sfumato.release.rendering.account_documents import Document, loss_document
from sfumato.server.remote_json import loss_of, quote_of


@dataclass(frozen=True, slots=True)
class RemoteRequests:
    """The requests that the account of a token can see, used like `Database.requests`."""

    fetch: Callable[[str, str, object], Any]
    """Send method, path and body; return the document of the reply."""
    question: Callable[..., dict[str, object]]
    """Return a question as it is sent."""
    ask_question: Callable[..., Release]

    def file(
        self,
        sql: str,
        *,
        reason: str,
        epsilon: object = None,
        within: object = None,
        delta: object = None,
        parameters: object = None,
    ) -> BudgetRequest:
        """Ask the owner for one question beyond the own budget or rights. It is free, and returns the request."""
        question = self.question(sql, epsilon, within, None, delta, parameters)
        return request_of(self.fetch("POST", "/requests", {**question, "reason": reason}))

    def list(self, limit: object = 100) -> list[BudgetRequest]:
        """Return the last requests, newest first."""
        most = integer(limit, "limit", 1)
        return [request_of(document) for document in self.fetch("GET", "/requests", None)[:most]]

    def __iter__(self) -> Iterator[BudgetRequest]:
        return iter(self.list())

    def get(self, request: object) -> BudgetRequest:
        """Return one request by its id."""
        place = integer(request, "request", 1)
        for document in self.fetch("GET", "/requests", None):
            if document["id"] == place:
                return request_of(document)
        raise UnknownName(
            f"There is no request {place}.",
            "It does not exist, or belongs to another account.",
            "List the requests, and name one of them.",
        )

    def review(self, request: object) -> Quote:
        """Show the owner what the question of a request would cost, and which names its analyst lacks; or refuse it."""
        return quote_of(self.fetch("GET", f"/requests/{integer(request, 'request', 1)}/review", None))

    def reply(self, request: object, text: str) -> BudgetRequest:
        """Write a note on a request that waits or is approved."""
        return self._decide(request, "reply", text)

    def approve(self, request: object, text: str = "") -> BudgetRequest:
        """Grant one charge for the question of a request; the owner alone."""
        return self._decide(request, "approve", text)

    def decline(self, request: object, text: str = "") -> BudgetRequest:
        """Decline a request, also one that was approved and not used; the owner alone."""
        return self._decide(request, "decline", text)

    def withdraw(self, request: object) -> BudgetRequest:
        """Take back a request of one's own."""
        return self._decide(request, "withdraw", "")

    def ask(self, request: object) -> Release:
        """Ask the question of a request at its price: with a grant it is charged to the dataset alone."""
        found = self.get(request)
        return self.ask_question(found.sql, **found.price)

    def _decide(self, request: object, what: str, text: str) -> BudgetRequest:
        place = integer(request, "request", 1)
        return request_of(self.fetch("POST", f"/requests/{place}/{what}", {"text": text}))


def request_document(request: BudgetRequest, round_time: Callable[[datetime], datetime] | None = None) -> Document:
    """Return a request as JSON; a server with padding rounds its times."""
    shown = round_time or (lambda time: time)
    return {
        "id": request.id,
        "account": request.account,
        "state": request.state.value,
        "sql": request.sql,
        "price": dict(request.price),
        "loss": None if request.loss is None else loss_document(request.loss),
        "reason": request.reason,
        "time": shown(request.time).isoformat(),
        "notes": [
            {"author": note.author, "time": shown(note.time).isoformat(), "text": note.text} for note in request.notes
        ],
        "receipt": request.receipt,
        "for_rights": request.for_rights,
        "names": list(request.names),
    }


def request_of(document: Mapping[str, Any]) -> BudgetRequest:
    """Return the request of a document."""
    return BudgetRequest(
        id=int(document["id"]),
        account=document["account"],
        sql=document["sql"],
        price=dict(document["price"]),
        loss=None if document["loss"] is None else loss_of(document["loss"]),
        reason=document["reason"],
        time=datetime.fromisoformat(document["time"]),
        state=RequestState(document["state"]),
        notes=tuple(
            RequestNote(note["author"], datetime.fromisoformat(note["time"]), note["text"])
            for note in document["notes"]
        ),
        receipt=document["receipt"],
        for_rights=document.get("for_rights", False),
        names=tuple(document.get("names", ())),
    )
