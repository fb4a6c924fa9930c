"""Requests of analysts for one measurement beyond their own cap or rights, and the owner's decisions.

A request is prepared like a question and charges nothing. An approval is one charge for exactly that measurement: the
dataset's cap still decides, and the analyst's own share is left as it is. A text with names that do not exist for the
analyst is filed as it is typed. Whether they exist is not checked until the owner does so. Proof: proofs/approvals.md
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sfumato.accounting.loss import PrivacyLoss
from sfumato.engines.engine import Engine
from sfumato.errors import BadParameter, Setting, UnknownName
from sfumato.exact import integer
from sfumato.ledger import approvals
from sfumato.ledger.approvals import BudgetRequest, RequestState, list_requests
from sfumato.ledger.one_time_grants import MAX_OPEN_REQUESTS, GrantedName
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.planning.planner import parse_price_target
from sfumato.planning.price_target import price_target_to_json
from sfumato.planning.quote import Quote, make_quote
from sfumato.policy.policy import Policy, fold_name
from sfumato.policy.rights import rights_of
from sfumato.prepare import Prepared, QueryPreparer, RequestedPrice
from sfumato.query.parameters import bind, inline_parameters
from sfumato.query.relation import Options
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
    policy: Policy
    engine: Callable[[], Engine]
    """Return the snapshot that answers now."""
    roles: tuple[str, ...] | None = None
    """The roles that an identity provider gave the person who uses the account; None where the policy says them."""

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
        if not self.payer.account:
            raise BadParameter(
                "The owner files no requests.",
                "The owner asks from the dataset's budget.",
                ("Ask the question, or name the analyst with ", Setting("analyst"), "."),
            )
        price_said = RequestedPrice(epsilon, within, None, delta, beyond_own_cap=True)
        try:
            asked = self.prepare(sql, parameters, price_said)
        except UnknownName as refusal:
            if refusal.undeclared is None:
                raise
            return self._file_for_rights(sql, parameters, reason, price_said)
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
        return self.get(approvals.file_release(self.payer, charged, reason, _price_fields(price)))

    def _file_for_rights(self, sql: str, parameters: object, reason: str, price: RequestedPrice) -> BudgetRequest:
        """File a text whose names do not exist for the account: the text, the price and the reason decide alone."""
        text = inline_parameters(sql, bind(parameters))
        whole = self.policy.budget
        cap = PrivacyLoss(whole.epsilon, whole.delta)
        target = parse_price_target(price.epsilon, price.within, price.delta, Options(), whole, cap)
        if target.epsilon is None and not target.within:
            raise share_refused()
        stated = _price_fields(price_target_to_json(target))
        for found in self.list(MAX_OPEN_REQUESTS):
            if (found.state, found.sql, found.price) == (RequestState.APPROVED, text, stated):
                return found
        return self.get(approvals.file_rights(self.payer, text, reason, stated, self.roles))

    def review(self, request: object) -> Quote:
        """Show the owner what the question of a request would cost, and which names its analyst lacks; or refuse it."""
        self._require_owner("review a request")
        found = self.get(request)
        asked, names = self._with_missing_names(found)
        quote = make_quote(asked.plan)
        if not names:
            return quote
        who = found.account if found.roles is None else f"{found.account} (roles: {', '.join(found.roles)})"
        lacking = f"{who} may not use {', '.join(map(approvals.name_text, names))}."
        return replace(quote, notes=(lacking, *quote.notes))

    def _with_missing_names(self, found: BudgetRequest) -> tuple[Prepared, tuple[GrantedName, ...]]:
        """Prepare a question for its analyst with the names of its text that they lack, added one by one.

        Where an identity provider says the roles, they lack what those lacked with which the request was filed.
        """
        epsilon, within, delta = (found.price.get(name) for name in ("epsilon", "within", "delta"))
        price = RequestedPrice(epsilon, within, None, delta, beyond_own_cap=True)
        names: tuple[GrantedName, ...] = ()
        while True:
            preparer = QueryPreparer(self.policy, found.account, self.payer.ledger, names, roles=found.roles)
            try:
                return preparer.prepare(found.sql, None, price, None, self.engine()), names
            except UnknownName as refusal:
                more = missing_names(self.policy, found, names, refusal)
            if not more:
                return self.prepare(found.sql, None, price), names  # refused to the owner, in the owner's words
            names = (*names, *more)

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
        found = self.get(request)
        if found.for_rights and found.state is RequestState.WAITING:
            self._approve_rights(found, text)
        else:
            approvals.approve(self.payer.ledger, found.id, text)
        return self.get(request)

    def _approve_rights(self, found: BudgetRequest, text: str) -> None:
        asked, names = self._with_missing_names(found)
        plan = asked.plan
        if plan.event is None or not names:
            raise BadParameter(
                "This question needs no grant.",
                "It reads public tables alone, or names nothing that its analyst lacks by now.",
                "Add the names to a role of the analyst, or decline the request and say so.",
            )
        granted = ChargedRelease(asked.fingerprint, asked.sql, plan.event, plan.loss, asked.engine.version)
        approvals.approve_rights(self.payer.ledger, found.id, text, names, granted, self.payer.policy)

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


def missing_names(
    policy: Policy, found: BudgetRequest, granted: Collection[GrantedName], refusal: UnknownName
) -> tuple[GrantedName, ...]:
    """Return the declared names, each spelled in a request's text, that its account lacks and a refusal missed."""
    if refusal.undeclared is None:
        return ()
    (kind, typed), rights = refusal.undeclared, rights_of(policy, found.account, granted, claimed=found.roles)
    name, text = fold_name(typed), fold_name(found.sql)
    tables = [table for table in policy.tables if fold_name(table.name) in text]
    if kind == "table":
        return tuple((name, "") for table in tables if fold_name(table.name) == name and not rights.may_use_table(name))
    return tuple(
        (fold_name(table.name), name)
        for table in tables
        if rights.may_use_table(table.name)
        and not rights.may_use_column(table.name, name)
        and (not table.columns or table.column(name) is not None)
    )


def _price_fields(price: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in price.items() if value is not None}


def share_refused() -> BadParameter:
    """Return the refusal of a request whose price is a share of a budget."""
    return BadParameter(
        "A request has no price.",
        "The owner decides about a fixed price, not about a share of a budget.",
        ("Say ", Setting("epsilon"), " or ", Setting("within"), "."),
    )
