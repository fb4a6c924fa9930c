"""Requests of analysts for one measurement beyond their own cap, and the owner's decisions. Proof: proofs/approvals.md

A request is prepared like a question and charges nothing. An approval is one charge for exactly that measurement: the
dataset's cap still decides, and the analyst's own share is left as it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sfumato.errors import BadParameter, Setting, UnknownName
from sfumato.exact import integer
from sfumato.ledger import approvals
from sfumato.ledger.approvals import BudgetRequest, list_requests
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.planning.price_target import price_target_to_json
from sfumato.prepare import Prepared, RequestedPrice
from sfumato.release.release import Release

_MAX_LISTED_REQUESTS = 2**31


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests that one account can see: an analyst's own, or all of them for the owner."""

    payer: Payer
    prepare: Callable[[str, object, RequestedPrice], Prepared]
    """Return a question as `ask` would charge it, or refuse."""
    is_paid: Callable[[Prepared], bool]
    """Whether the account can have the answer at no cost."""
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
        """Ask the owner to pay for one question from the dataset's budget. It is free, and returns the request."""
        if not self.payer.account:
            raise BadParameter(
                "The owner files no requests.",
                "The owner asks from the dataset's budget.",
                ("Ask the question, or name the analyst with ", Setting("analyst"), "."),
            )
        price_said = RequestedPrice(epsilon, within, None, delta, beyond_own_cap=True)
        asked = self.prepare(sql, parameters, price_said)
        plan, price = asked.plan, price_target_to_json(asked.price_target)
        if plan.event is None or self.is_paid(asked):
            raise BadParameter("This question is free.", "Its answer costs nothing more.", "Ask it.")
        if "share" in price:
            raise share_refused()
        if self.payer.ledger.count_affordable(plan.event, self.payer.account, asked.paying):
            raise BadParameter(
                "Your own budget pays for this question.",
                "Requests are for questions that it does not pay for.",
                "Ask the question.",
            )
        charged = ChargedRelease(asked.fingerprint, asked.sql, plan.event, plan.loss, asked.engine.version)
        stated = {name: value for name, value in price.items() if value is not None}
        return self.get(approvals.file_release(self.payer, charged, reason, stated))

    def list(self, limit: object = 100) -> list[BudgetRequest]:
        """Return the last requests, newest first."""
        return list_requests(self.payer.ledger, self.payer.account or None, integer(limit, "limit", 1))

    def __iter__(self) -> Iterator[BudgetRequest]:
        return iter(self.list())

    def get(self, request: object) -> BudgetRequest:
        """Return one request by its id."""
        place = integer(request, "request", 1)
        for found in list_requests(self.payer.ledger, self.payer.account or None, _MAX_LISTED_REQUESTS):
            if found.id == place:
                return found
        raise UnknownName(
            f"There is no request {place}.",
            "It does not exist, or belongs to another account.",
            "List the requests, and name one of them.",
        )

    def reply(self, request: object, text: str) -> BudgetRequest:
        """Write a note on a request that waits or is approved: as the owner, or as the analyst who filed it."""
        approvals.reply(self.payer.ledger, integer(request, "request", 1), self.payer.account, text)
        return self.get(request)

    def approve(self, request: object, text: str = "") -> BudgetRequest:
        """Grant one charge for the question of a request; the owner alone. Asking it uses the grant."""
        self._require_owner("approve a request")
        approvals.approve(self.payer.ledger, integer(request, "request", 1), text)
        return self.get(request)

    def decline(self, request: object, text: str = "") -> BudgetRequest:
        """Decline a request, also one that was approved and not used; the owner alone."""
        self._require_owner("decline a request")
        approvals.decline(self.payer.ledger, integer(request, "request", 1), text)
        return self.get(request)

    def withdraw(self, request: object) -> BudgetRequest:
        """Take back a request of one's own."""
        if not self.payer.account:
            raise BadParameter(
                "The owner withdraws no requests.", "A request belongs to its analyst.", "Decline it instead."
            )
        approvals.withdraw(self.payer.ledger, integer(request, "request", 1), self.payer.account)
        return self.get(request)

    def ask(self, request: object) -> Release:
        """Ask the question of a request at its price: with a grant it is charged to the dataset alone."""
        found = self.get(request)
        return self.ask_question(found.sql, **found.price)

    def _require_owner(self, what: str) -> None:
        if self.payer.account:
            raise BadParameter(
                f"An analyst cannot {what}.",
                "The owner decides what is spent beyond an analyst's cap.",
                ("Open the database without ", Setting("analyst"), "."),
            )


def share_refused() -> BadParameter:
    """Return the refusal of a request whose price is a share of a budget."""
    return BadParameter(
        "A request has no price.",
        "The owner decides about a fixed price, not about a share of a budget.",
        ("Say ", Setting("epsilon"), " or ", Setting("within"), "."),
    )
