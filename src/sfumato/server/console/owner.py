"""What the owner sees: accounts and grants, the snapshot, the ledger, and what the bounds leave out."""

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.accounting.loss import round_down, round_up
from sfumato.ledger.ledger import Budget, Verified
from sfumato.server.console.markup import Html, tag
from sfumato.server.console.views import header, page, spent_bar
from sfumato.server.console.wording import share
from sfumato.server.grants import Secrets


@dataclass(frozen=True, slots=True)
class Account:
    """One account as its owner sees it."""

    name: str
    budget: Budget
    granted: str
    """Since when; empty where nothing is granted."""
    charges: int


@dataclass(frozen=True, slots=True)
class OwnerPage:
    """All that the owner's page shows."""

    dataset: str
    budget: Budget
    accounts: Sequence[Account]
    version: str
    changed: bool
    policy: str
    bounds: Sequence[tuple[str, str]]
    """Tables, and what their bounds leave out."""
    timing: str
    verified: Verified | None = None
    granted: tuple[str, Secrets] | None = None


def owner_page(desk: OwnerPage) -> Html:
    """Return the owner's page."""
    body = [
        header(desk.dataset, "", desk.budget),
        tag(
            "main",
            _granted(*desk.granted) if desk.granted else None,
            _accounts(desk),
            _snapshot(desk),
            _ledger(desk),
            _bounds(desk),
            class_="work owner",
        ),
    ]
    return page("Owner", body, desk.dataset)


def _granted(name: str, given: Secrets) -> Html:
    return tag(
        "section",
        tag("h2", f"New access for {name}"),
        tag("p", "Shown once. Only digests are kept: copy both now."),
        tag(
            "dl",
            tag("dt", "token"),
            tag("dd", tag("code", given.token)),
            tag("dt", "password"),
            tag("dd", tag("code", given.password)),
        ),
        class_="card notice",
        role="status",
    )


def _accounts(desk: OwnerPage) -> Html:
    rows = [_account(one) for one in desk.accounts]
    names = ("Account", "Spent", "Left", "Share", "Answers", "Access")
    right = ("Spent", "Left", "Answers")
    heads = [tag("th", name, scope="col", class_="number" if name in right else None) for name in names]
    table = tag(
        "table",
        tag("caption", "Every account also spends from the dataset's budget."),
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
    )
    return tag(
        "section",
        tag("h2", "Accounts"),
        tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Accounts"),
        class_="card",
    )


def _account(one: Account) -> Html:
    budget = one.budget
    spent = share(budget.spent.epsilon, budget.total.epsilon)
    bar = spent_bar(spent)

    def act(verb: str, words: str) -> Html:
        hidden = tag("input", type="hidden", name="name", value=one.name)
        return tag(
            "form", hidden, tag("button", words, type="submit", class_="quiet"), method="post", action=f"/owner/{verb}"
        )

    access = (
        [f"since {one.granted[:10]} ", act("grant", "Replace"), act("revoke", "Revoke")]
        if one.granted
        else ["none ", act("grant", "Grant")]
    )
    return tag(
        "tr",
        tag("th", one.name, scope="row"),
        tag("td", f"ε {round_up(budget.spent.epsilon)}", class_="number"),
        tag("td", f"ε {round_down(budget.remaining.epsilon)}", class_="number"),
        tag("td", bar, class_="bar"),
        tag("td", f"{one.charges:,}", class_="number"),
        tag("td", tag("div", access, class_="access")),
    )


def _snapshot(desk: OwnerPage) -> Html:
    changed = (
        "The source has changed since, by names, sizes or times of its files. Take another one with "
        "sfumato refresh POLICY, then start the server again."
        if desk.changed
        else "The source has not changed since, by names, sizes and times of its files."
    )
    return tag(
        "section",
        tag("h2", "Snapshot"),
        tag(
            "dl",
            tag("dt", "data version"),
            tag("dd", tag("code", desk.version)),
            tag("dt", "policy"),
            tag("dd", tag("code", desk.policy)),
            tag("dt", "timing"),
            tag("dd", desk.timing),
        ),
        tag("p", changed, class_="note"),
        class_="card",
    )


def _ledger(desk: OwnerPage) -> Html:
    found = desk.verified
    said = (
        tag(
            "p",
            f"It holds: {found.entries:,} entries, every hash and every sum computed again. Head ",
            tag("code", found.head),
            class_="note",
            role="status",
        )
        if found
        else tag("p", "A second reader computes every hash and every sum again.", class_="hint")
    )
    button = tag("button", "Verify the ledger", type="submit", class_="primary")
    return tag(
        "section", tag("h2", "Ledger"), said, tag("form", button, method="post", action="/owner/verify"), class_="card"
    )


def _bounds(desk: OwnerPage) -> Html:
    items = [tag("div", tag("dt", tag("code", name)), tag("dd", words)) for name, words in desk.bounds]
    return tag("section", tag("h2", "What the bounds remove"), tag("dl", items), class_="card")
