"""A program of somebody else: what editors complete and type checkers know of the public names. It is never run."""

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, assert_type

import sfumato
from sfumato import Database, Quote, Refusal, Release
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import EngineFailed
from sfumato.ledger.approvals import BudgetRequest, RequestState
from sfumato.ledger.budget import Budget
from sfumato.ledger.history import Entry
from sfumato.release.receipt import Receipt
from sfumato.server.client import RemoteDatabase

QUESTION = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


def ask(database: Database | RemoteDatabase) -> Release:
    """Use one dataset, here or behind a server, by the same names."""
    assert_type(database.explain(QUESTION, epsilon="0.5"), Quote)
    assert_type(database.budget(), Budget)
    assert_type(database.history(limit=3), tuple[Entry, ...])
    assert_type(database.ask_all([QUESTION], share="1%"), list[Release])
    assert_type(database.requests.list(), list[BudgetRequest])
    return database.ask(QUESTION, within={"n": 25})


def read(release: Release, quote: Quote, budget: Budget, request: BudgetRequest) -> None:
    """Read every part that the documentation names. Only the value of a cell has any type: SQL decides it."""
    assert_type(release.columns, tuple[str, ...])
    assert_type(release.rows(), list[dict[str, Any]])
    assert_type(release.intervals(0.9, bias=True), list[dict[str, Any]])
    assert_type(release.marks(), list[dict[str, bool]])
    assert_type(release.loss, PrivacyLoss)
    assert_type(release.loss.epsilon, Fraction)
    assert_type(release.notes, tuple[str, ...])
    assert_type(release.receipt, Receipt)
    assert_type(release.receipt.id, str)
    assert_type(release.receipt.sequence, int | None)
    assert_type(release.clamped(), Release)
    assert_type(quote.loss, PrivacyLoss)
    assert_type(quote.share, Fraction | None)
    assert_type(quote.margins, Mapping[str, int | float | None])
    assert_type(quote.notes, tuple[str, ...])
    assert_type(budget.used, Fraction)
    assert_type((budget.total, budget.spent, budget.remaining), tuple[PrivacyLoss, PrivacyLoss, PrivacyLoss])
    assert_type(request.state, RequestState)
    assert_type(request.loss, PrivacyLoss | None)


def main() -> str:
    """Open, ask, and handle a refusal."""
    with sfumato.open("clinic.toml", analyst="research") as database:
        assert_type(database, Database)
        assert_type(database.columns(), dict[str, dict[str, str]])
        try:
            release = ask(database)
        except EngineFailed:
            return "The owner looks into the log."
        except Refusal as refusal:
            return f"{refusal.code}: {refusal.remedy}"
        return release.receipt.id


def connect() -> RemoteDatabase:
    """Reach a server."""
    return sfumato.connect("https://db.example", token=os.environ["SFUMATO_TOKEN"])


WRONG = (
    "sfumato.opne('clinic.toml')",
    "sfumato.open('clinic.toml').ask(7, epsilon=1)",
    "sfumato.open('clinic.toml').budget().left",
    "sfumato.open('clinic.toml').ask('SELECT 1').row()",
)
"""Mistakes that a type checker reports before the program runs."""
