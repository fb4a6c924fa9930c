"""Budgets, history and what was verified, in plain text."""

from collections.abc import Mapping, Sequence

from sfumato.accounting.loss import percent_up, round_up
from sfumato.ledger.budget import Budget
from sfumato.ledger.history import Entry, source_texts
from sfumato.ledger.verifying import Verified
from sfumato.release.rendering.table import text_table

CHANGED = (
    "The source has changed since its snapshot was taken, and answers still come from that snapshot. Take another one: "
    "sfumato refresh POLICY"
)
"""A message that only the owner gets."""
AWAY = "The source is not at the location that the policy names. Answers come from its last snapshot."
WAITING = (
    "This policy differs from the one that the ledger knows. It takes effect when the database is next opened: "
    "sfumato check POLICY"
)
DATASET = "(dataset)"
"""How the dataset's own account is called where accounts are listed."""
_MAX_SQL_CHARS = 70


def budget_text(budget: Budget) -> str:
    """Return the lines of a budget: the used share first, then the cap, what is spent and what is left."""
    return str(budget)


def budgets_text(budgets: Mapping[str, Budget]) -> str:
    """Return every account as a table. Each charge of an analyst counts for the dataset, too."""
    columns = [
        [name or DATASET for name in budgets],
        [percent_up(budget.used) for budget in budgets.values()],
        [round_up(budget.total.epsilon) for budget in budgets.values()],
        [round_up(budget.spent.epsilon) for budget in budgets.values()],
        [round_up(budget.spent.delta) for budget in budgets.values()],
    ]
    names = ["account", "used", "total ε", "spent ε", "at δ"]
    right = [False, True, True, True, True]
    if any(budget.every is not None for budget in budgets.values()):
        columns.append([f"every {budget.every}" if budget.every else "never" for budget in budgets.values()])
        names.append("renews")
        right.append(False)
    promise = next((f"\n{budget.promise}" for budget in budgets.values() if budget.promise), "")
    return text_table(names, columns, right) + promise


def history_text(entries: Sequence[Entry], whose: bool = False) -> str:
    """Return the charges as a table, newest first; `whose` adds the accounts.

    Where some answer is made from earlier ones, a column says which.
    """
    if not entries:
        return "Nothing was asked yet."
    columns = [
        [str(entry.sequence) for entry in entries],
        [f"{entry.time:%Y-%m-%d %H:%M}" for entry in entries],
        [round_up(entry.loss.epsilon) for entry in entries],
        [entry.state for entry in entries],
        [_one_line(entry.sql) for entry in entries],
    ]
    names, right = ["#", "time (UTC)", "ε", "state", "question"], [True, False, True, False, False]
    if any(made := source_texts(entries)):
        columns.insert(4, made)
        names.insert(4, "made from")
        right.insert(4, False)
    if whose:
        columns.insert(2, [entry.account or DATASET for entry in entries])
        names.insert(2, "account")
        right.insert(2, False)
    return text_table(names, columns, right)


def verified_text(verified: Verified) -> str:
    """Say what was checked."""
    return (
        f"The ledger holds: {verified.entries:,} entries, every hash and every sum computed again.\n"
        f"spent  {verified.spent}\nhead   {verified.head}"
    )


def _one_line(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= _MAX_SQL_CHARS else line[: _MAX_SQL_CHARS - 1] + "…"
