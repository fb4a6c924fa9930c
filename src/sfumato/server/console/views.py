"""The pages of the console and the values that their templates show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from markupsafe import Markup

from sfumato.accounting.loss import round_up
from sfumato.errors import BudgetExhausted, Refusal, UnknownName, UnreachableMargin
from sfumato.ledger.approvals import BudgetRequest
from sfumato.ledger.history import source_texts
from sfumato.ledger.ledger import Budget, Entry, Verified
from sfumato.planning.notes.note import MAX_PRINTED_NOTES
from sfumato.planning.refinement_offer import RefinementOffer
from sfumato.release.release import Release
from sfumato.release.rendering.svg import MAX_BARS, noisy_columns, number_columns
from sfumato.release.rendering.table import format_value
from sfumato.server.console.templates import render
from sfumato.server.console.wording import citation, percent, python_line, used_percent
from sfumato.server.grants import Secrets
from sfumato.server.statuses import position_of

MAX_ROWS_SHOWN = 500
"""Maximum number of rows of an answer on its page. Downloads have all rows."""
_MAX_HISTORY_ENTRIES = 100
_AFTER_THE_CHARGE = frozenset(
    {"answer_lost", "engine_failed", "entropy_failed", "ledger_damaged", "ledger_unavailable", "still_answering"}
)
"""Refusals that may come after a question was charged."""


@dataclass(frozen=True, slots=True)
class EditorText:
    """The fields of the form."""

    sql: str = ""
    epsilon: str = "0.1"
    margin: str = ""
    column: str = ""
    share: str = ""

    @property
    def by(self) -> str:
        """What decides the price: a margin, a share of the budget, or epsilon."""
        return "margin" if self.margin else "share" if self.share else "epsilon"


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """Values of the page on which an analyst asks."""

    dataset: str
    analyst: str
    """Empty for the owner."""
    tables: Sequence[dict[str, Any]]
    budget: Budget
    history: Sequence[Entry]
    draft: EditorText = field(default_factory=EditorText)
    answer: Markup | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """One account on the owner's page."""

    name: str
    budget: Budget
    granted: str
    """Start of the grant; empty where nothing is granted."""
    charges: int


@dataclass(frozen=True, slots=True)
class OwnerPage:
    """Values of the owner's page."""

    dataset: str
    budget: Budget
    accounts: Sequence[Account]
    version: str
    changed: bool
    policy: str
    bounds: Sequence[tuple[str, str]]
    """Tables, and what their bounds leave out."""
    timing: str
    change_evidence: str
    """By what the source tells that it has changed."""
    verified: Verified | None = None
    granted: tuple[str, Secrets] | None = None


@dataclass(frozen=True, slots=True)
class RequestReview:
    """What a waiting request for names needs and costs, or why it cannot be answered: the owner's to see."""

    text: str
    can_be_granted: bool


@dataclass(frozen=True, slots=True)
class RequestsPage:
    """Values of the page of requests."""

    dataset: str
    analyst: str
    """Empty for the owner."""
    budget: Budget
    requests: Sequence[BudgetRequest]
    round_time: Callable[[datetime], datetime]
    refusal: Refusal | None = None
    reviews: Mapping[int, RequestReview] = field(default_factory=dict)
    """By id, for the owner."""


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """Values of the page on which a dashboard is made."""

    dataset: str
    analyst: str
    """Empty for the owner."""
    budget: Budget
    history: Sequence[Entry]
    periods: Sequence[str]
    text: str
    """The file of the dashboard."""
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class AnswerCell:
    """One value of an answer with its interval, as text."""

    text: str
    number: bool
    interval: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """The question of an answer on its page."""

    url: str
    dataset: str
    draft: EditorText
    price: dict[str, object]
    """What `ask` was given; nothing for an answer about public tables."""
    day: str


@dataclass(frozen=True, slots=True)
class BarPart:
    """One question's part of the budget bar, in percent of its width."""

    start: float
    width: float
    epsilon: str
    sql: str


def login_page(dataset: str, refused: bool = False, sign_on: bool = False) -> Markup:
    """Return the page that asks for a token, or leads to the identity provider."""
    return render("login.html", dataset=dataset, refused=refused, sign_on=sign_on)


def console_page(page: ConsolePage) -> Markup:
    """Return the page on which questions are asked."""
    columns = {column["name"] for table in page.tables for column in table["columns"]}
    return render(
        "console.html",
        page=page,
        dataset=page.dataset,
        draft=page.draft,
        parts=list(_bar_parts(page.budget, page.history[:_MAX_HISTORY_ENTRIES][::-1])),
        max_history=_MAX_HISTORY_ENTRIES,
        made_from=source_texts(page.history[:_MAX_HISTORY_ENTRIES]),
        words=sorted({table["name"] for table in page.tables} | columns),
        example=_example(page.tables),
        refusal=refusal_view(page.refusal, page.draft.sql) if page.refusal else None,
        position=position_of(page.refusal) if page.refusal else None,
        owner_label=_owner_label(page.refusal),
    )


def _owner_label(refusal: Refusal | None) -> str:
    """Return what the owner can be asked for after a refusal; empty where a request would not help."""
    if isinstance(refusal, UnknownName) and refusal.undeclared is not None:
        return "Ask the owner for a name that your role lacks:"
    return "Ask the owner to pay for it:" if isinstance(refusal, BudgetExhausted | UnreachableMargin) else ""


def owner_page(page: OwnerPage) -> Markup:
    """Return the owner's page."""
    return render("owner.html", page=page, dataset=page.dataset)


def requests_page(page: RequestsPage) -> Markup:
    """Return the page of requests."""
    refusal = refusal_view(page.refusal) if page.refusal else None
    return render("requests.html", page=page, dataset=page.dataset, refusal=refusal)


def dashboard_page(page: DashboardPage) -> Markup:
    """Return the page on which a dashboard is made."""
    refusal = refusal_view(page.refusal) if page.refusal else None
    return render("dashboard.html", page=page, dataset=page.dataset, refusal=refusal)


def refusal_page(dataset: str, refusal: Refusal) -> Markup:
    """Return a page that shows only a refusal."""
    return render("refused.html", dataset=dataset, refusal=refusal_view(refusal))


def refusal_view(refusal: Refusal, sql: str = "") -> Markup:
    """Return a refusal: what, why, what next, and the line of the question with a mark below the position."""
    position, marked_line = position_of(refusal), ""
    if position is not None and sql:
        lines = sql.splitlines() or [""]
        marked_line = f"{lines[min(position[0], len(lines)) - 1]}\n{' ' * (position[1] - 1)}^"
    may_be_charged = refusal.code in _AFTER_THE_CHARGE
    return render("refusal.html", refusal=refusal, marked_line=marked_line, may_be_charged=may_be_charged)


def answer_view(asked: AskedQuestion, release: Release, offer: RefinementOffer | None) -> Markup:
    """Return an answer: table, chart, price, downloads, citation and the line of Python that asks the same.

    With an offer, a button asks for a finer answer.
    """
    stored = release.receipt.sequence is not None
    numbers = number_columns(release)
    return render(
        "answer.html",
        release=release,
        stored=stored,
        receipt=release.receipt.id,
        drawn=noisy_columns(release)[:2] if stored and 1 < len(release) <= MAX_BARS else [],
        numbers=numbers,
        rows=_answer_rows(release, numbers),
        max_rows=MAX_ROWS_SHOWN,
        max_notes=MAX_PRINTED_NOTES,
        draft=asked.draft,
        offer=offer,
        citation=citation(asked.dataset, asked.draft.sql, release, asked.day),
        python_line=python_line(asked.url, asked.draft.sql, asked.price),
    )


def _answer_rows(release: Release, numbers: list[str]) -> Iterator[list[AnswerCell]]:
    shown = zip(release.rows()[:MAX_ROWS_SHOWN], release.intervals(), release.marks(), strict=False)
    for row, ends, marks in shown:
        cells = []
        for name in release.columns:
            interval = ends[name] if isinstance(ends[name], tuple) else None
            text = format_value(row[name], interval, marked=marks.get(name, False))
            cells.append(AnswerCell(text, name in numbers, f"{interval[0]} to {interval[1]}" if interval else ""))
        yield cells


def _bar_parts(budget: Budget, history: Sequence[Entry]) -> Iterator[BarPart]:
    """Divide the spent part of the budget bar in proportion to what each question cost."""
    total = sum((entry.loss.epsilon for entry in history), Fraction(0))
    start = 0.0
    for entry in history:
        width = used_percent(budget) * percent(entry.loss.epsilon, total) / 100
        yield BarPart(start, width, round_up(entry.loss.epsilon), " ".join(entry.sql.split())[:80])
        start += width


def _example(tables: Sequence[dict[str, Any]]) -> str:
    for table in tables:
        keys = [column["name"] for column in table["columns"] if isinstance(column.get("values"), list)]
        if not table["public"]:
            key = f"{keys[0]}, " if keys else ""
            group = f"\nGROUP BY {keys[0]}" if keys else ""
            return f"SELECT {key}COUNT(*) AS n\nFROM {table['name']}{group}"
    return "SELECT 1"
