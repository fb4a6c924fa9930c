"""Ask the questions of a dashboard together: once for each snapshot, and at most once in each period."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.accounting.loss import PrivacyLoss
from sfumato.dashboards.dashboard import SavedDashboard, period_start
from sfumato.database import Database
from sfumato.errors import PolicyChanged
from sfumato.exact import typed_rational, typed_share
from sfumato.ledger.history import Entry
from sfumato.prepare import RequestedPrice
from sfumato.release.release import Release

_PAGE_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class AnsweredDashboard:
    """A dashboard with its answers."""

    dashboard: SavedDashboard
    dataset: str
    releases: tuple[Release, ...]
    """The answers, in the order of the tiles."""
    loss: PrivacyLoss
    """The privacy loss of all of them together."""
    charged: bool
    """Whether they were charged just now."""
    time: datetime
    """When they were charged."""
    more: int | None
    """How many more refreshes what is left of the budget pays for; None where nothing is charged."""

    def price_text(self) -> str:
        """Return what one refresh costs, how often that is, and how long the budget lasts."""
        period, price = self.dashboard.period, f"{self.loss}"
        if self.more is None:
            return "All questions are free."
        often = f"a {period}, charged once at most" if period else "for each snapshot"
        left = f"What is left pays for {self.more:,} more." if self.more else "Nothing is left for another one."
        return f"All questions together cost {price} {often}. {left}"


def answer_dashboard(database: Database, dashboard: SavedDashboard, now: datetime | None = None) -> AnsweredDashboard:
    """Ask the questions not yet asked in this period, as one charge. The others are shown again at no cost."""
    now = now or datetime.now(UTC)
    price: dict[str, Any] = dict(dashboard.price)
    paid = [_is_charged(database, dashboard, sql) for sql in dashboard.questions]
    charged_sql = ";\n".join(sql for sql, costs in zip(dashboard.questions, paid, strict=True) if costs)
    known = _earlier(database, dashboard, charged_sql, now) if dashboard.period and any(paid) else None
    releases = None if known is None else _shown_again(database, dashboard, known, paid)
    charges = database.charges()
    if known is None or releases is None:
        releases = tuple(database.ask_all(dashboard.questions, **price))
        known = None
    first = next((release for release, costs in zip(releases, paid, strict=True) if costs), None)
    more = None
    if first is not None and first.event is not None:
        more = database.payer.ledger.count_affordable(first.event, database.account)
    return AnsweredDashboard(
        dashboard,
        database.policy.name,
        releases,
        PrivacyLoss(Fraction(0)) if first is None else first.loss,
        known is None and database.charges() > charges,
        _charged_at(database, first, now) if known is None else known.time,
        more,
    )


def _is_charged(database: Database, dashboard: SavedDashboard, sql: str) -> bool:
    """Tell whether a question reads private rows; nothing is read for that."""
    price = RequestedPrice(dashboard.price.get("epsilon"), None, dashboard.price.get("share"))
    return database.prepare(sql, None, price).plan.event is not None


def _charged_at(database: Database, release: Release | None, now: datetime) -> datetime:
    entry = None if release is None else database.entry(release.receipt.id)
    return now if entry is None else entry.time


def _earlier(database: Database, dashboard: SavedDashboard, sql: str, now: datetime) -> Entry | None:
    """Return the charge of these questions at this price in this period; None where there is none."""
    start = period_start(dashboard.period, now.date())
    for entry in _entries(database):
        if entry.time.date() < start:
            return None
        if entry.sql == sql and entry.release is not None and _has_price(entry.release, dashboard):
            return entry
    return None


def _entries(database: Database) -> Iterator[Entry]:
    before = None
    while page := database.history(_PAGE_ENTRIES, before):
        yield from page
        before = page[-1].sequence


def _has_price(release: str, dashboard: SavedDashboard) -> bool:
    """Tell whether a stored release was asked for at the price of the dashboard."""
    wish = json.loads(release).get("wish") or {}
    asked = {
        name: typed_share(value, name) if name == "share" else typed_rational(value, name)
        for name, value in dashboard.price.items()
    }
    return all(wish.get(name) is not None and Fraction(wish[name]) == value for name, value in asked.items())


def _shown_again(
    database: Database, dashboard: SavedDashboard, entry: Entry, paid: list[bool]
) -> tuple[Release, ...] | None:
    """Return the answers of an earlier charge; None where the policy has changed since, so they cannot be shown."""
    found, place = [], 0
    try:
        for sql, costs in zip(dashboard.questions, paid, strict=True):
            place += costs
            found.append(
                database.reopen(entry.receipt, question=place if sum(paid) > 1 else None)
                if costs
                else database.ask(sql)
            )
    except PolicyChanged:
        return None
    return tuple(found)
