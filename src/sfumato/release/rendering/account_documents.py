"""Budgets and what the ledger holds, as what JSON knows: exact numbers are text. No answer is read for them."""

from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.budget import Budget
from sfumato.ledger.history import Entry
from sfumato.ledger.verifying import Verified

Document = dict[str, object]


def budget_document(budget: Budget, changed: bool | None = None) -> Document:
    """Return a budget. Only the owner is told whether the source has changed."""
    losses = {"total": budget.total, "spent": budget.spent, "remaining": budget.remaining}
    parts: Document = {"used": str(budget.used), **{name: loss_document(loss) for name, loss in losses.items()}}
    if budget.every is not None and budget.renews is not None:
        parts |= {"every": str(budget.every), "renews": budget.renews.isoformat()}
    if budget.promise:
        parts["promise"] = budget.promise
    if budget.cohorts:
        parts["cohorts"] = {name: budget_document(cohort) for name, cohort in budget.cohorts.items()}
    return parts if changed is None else {**parts, "source_changed": changed}


def entry_document(entry: Entry) -> Document:
    """Return one charge; the release itself is had by asking again, which is free."""
    return {
        "sequence": entry.sequence,
        "time": entry.time.isoformat(),
        "account": entry.account,
        "sql": entry.sql,
        **loss_document(entry.loss),
        "state": entry.state,
        "receipt": entry.receipt,
        "policy": entry.policy,
        "version": entry.version,
        "head": entry.head,
        **({"refines": entry.refines} if entry.refines else {}),
        **({"rests_on": list(entry.rests_on)} if entry.rests_on else {}),
    }


def verified_document(verified: Verified) -> Document:
    """Return what was checked of a ledger."""
    return {"entries": verified.entries, "head": verified.head, "spent": loss_document(verified.spent)}


def loss_document(loss: PrivacyLoss) -> Document:
    """Return a loss as exact text: a binary float would not be the number that was promised."""
    return {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
