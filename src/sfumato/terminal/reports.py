"""Prices, budgets, history and proofs of a ledger, as plain text and as JSON."""

from collections.abc import Iterable, Sequence

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.errors import BadParameter, shown
from sfumato.ledger.ledger import Budget, Entry, Verified
from sfumato.planning.quote import Quote
from sfumato.release.harmless import to_json
from sfumato.release.release import Release
from sfumato.release.table import text_table
from sfumato.terminal.plain import round_down

CHANGED = (
    "The source has changed since its snapshot was taken (by the names, sizes or times of its files), and answers "
    "still come from that snapshot. Take another one: sfumato refresh POLICY"
)
"""What the owner is told, and nobody else."""
_LONGEST = 70


def read_margins(pairs: Iterable[str]) -> dict[str, str] | None:
    """Read margins as they are typed, n=25; None where there are none.

    >>> read_margins(["n=25"])
    {'n': '25'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadParameter(
                f"{shown(pair)} is no margin.", "A margin is asked for by column.", "Write COLUMN=MARGIN, such as n=25."
            )
        found[name.strip()] = value.strip()
    return found or None


def spending_text(release: Release, before: Budget, after: Budget) -> str:
    """Say what an answer took from the budget: nothing, if it was given before or nobody is in it."""
    if release.event is None:
        return "exact and free: nobody is in it"
    if _is_repeated(release, before, after):
        return f"asked before, so free now (then {release.loss})"
    return f"cost {release.loss}"


def footer_text(release: Release, before: Budget, after: Budget) -> str:
    """Return the line below an answer in plain text, which states its price already."""
    again = "asked before, so free now; " if _is_repeated(release, before, after) else ""
    return f"{again}{left_text(after)}"


def _is_repeated(release: Release, before: Budget, after: Budget) -> bool:
    return release.event is not None and release.loss.epsilon > 0 and after.spent == before.spent


def left_text(budget: Budget) -> str:
    """Return what is left, never more than there is."""
    return f"ε = {round_down(budget.remaining.epsilon)} of {round_up(budget.total.epsilon)} left"


def budget_text(budget: Budget) -> str:
    """Return the three lines of a budget."""
    left = f"ε = {round_down(budget.remaining.epsilon)}, δ = {round_down(budget.remaining.delta)}"
    return f"total      {budget.total}\nspent      {budget.spent}\nremaining  {left}"


def budget_json(budget: Budget, changed: bool | None = None) -> str:
    """Return a budget as JSON; fractions are exact text. Only the owner is told whether the source has changed."""
    losses = {"total": budget.total, "spent": budget.spent, "remaining": budget.remaining}
    parts: dict[str, object] = {name: _loss(loss) for name, loss in losses.items()}
    return _json(parts if changed is None else {**parts, "source_changed": changed})


def quote_json(quote: Quote) -> str:
    """Return a quote as JSON."""
    return _json(
        {
            "loss": _loss(quote.loss),
            "level": 0.95,
            "margins": dict(quote.margins),
            "mechanisms": dict(quote.mechanisms),
            "notes": list(quote.notes),
        }
    )


def history_text(entries: Sequence[Entry]) -> str:
    """Return the charges as a table, oldest first."""
    if not entries:
        return "Nothing was asked yet."
    columns = [
        [str(entry.sequence) for entry in entries],
        [f"{entry.time:%Y-%m-%d %H:%M}" for entry in entries],
        [round_up(entry.loss.epsilon) for entry in entries],
        [entry.state for entry in entries],
        [_one_line(entry.sql) for entry in entries],
    ]
    return text_table(["#", "time (UTC)", "ε", "state", "question"], columns, [True, False, True, False, False])


def history_json(entries: Iterable[Entry]) -> str:
    """Return the charges as JSON; releases themselves are had by asking again, which is free."""
    return _json(
        [
            {
                "sequence": entry.sequence,
                "time": entry.time.isoformat(),
                "account": entry.account,
                "sql": entry.sql,
                **_loss(entry.loss),
                "state": entry.state,
                "receipt": entry.receipt,
                "policy": entry.policy,
                "version": entry.version,
                "head": entry.head,
            }
            for entry in entries
        ]
    )


def verified_text(verified: Verified) -> str:
    """Say what was checked."""
    return (
        f"The ledger holds: {verified.entries:,} entries, every hash and every sum computed again.\n"
        f"spent  {verified.spent}\nhead   {verified.head}"
    )


def verified_json(verified: Verified) -> str:
    """Return what was checked as JSON."""
    return _json({"entries": verified.entries, "head": verified.head, "spent": _loss(verified.spent)})


def _loss(loss: PrivacyLoss) -> dict[str, str]:
    """Return a loss as exact text: a binary float would not be the number that was promised."""
    return {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}


def _one_line(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _json(value: object) -> str:
    return to_json(value)
