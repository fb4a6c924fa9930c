"""The tools of an agent, as functions of one account: every answer has its intervals, its cost and what is left."""

from collections.abc import Callable
from typing import Any

from sfumato.accounting.loss import round_down
from sfumato.database import Database
from sfumato.errors import BadParameter, Refusal
from sfumato.release.rendering.account_documents import Document, budget_document, entry_document
from sfumato.release.rendering.documents import LEVEL, quote_document, release_document
from sfumato.server.client import RemoteDatabase
from sfumato.server.tables import tables_document

MAX_ANSWER_ROWS = 500
"""Number of rows of one answer that a tool returns."""
INSTRUCTIONS = (
    "This is a differentially private database. You ask SQL about many people, and every answer has random noise. "
    "Call `tables` first, and `explain` before `ask`: explaining is free. Each `ask` spends from a budget that does "
    "not come back, so ask few questions, and ask for groups in one question. Repeating a question exactly is free. "
    "Always report a value with its interval, and never read anything into differences that are smaller than "
    "the intervals. Questions about single people are refused. If a question is refused, read why, and do not try "
    "variants to get around it."
)


class Tools:
    """The tools `tables`, `explain`, `ask`, `budget` and `history` of one account."""

    def __init__(self, account: Database | RemoteDatabase, epsilon: str | None = None) -> None:
        if isinstance(account, Database) and not account.account:
            raise BadParameter(
                "An agent needs the account of an analyst.",
                "An agent must not spend the whole budget of the dataset.",
                "Add [analysts.NAME] with its own epsilon to the policy, and name it.",
            )
        self._account = account
        self._epsilon = epsilon

    def tables(self) -> Document:
        """List the tables and columns that questions may use, with types, bounds, keys and who is protected. Free."""
        if isinstance(self._account, RemoteDatabase):
            return self._account.tables()
        return tables_document(self._account.visible_policy, self._account.catalog)

    def explain(
        self,
        sql: str,
        epsilon: str | None = None,
        within: dict[str, float | str] | None = None,
        share: str | None = None,
    ) -> Document:
        """Say what a question would cost, and how large the margins of its answer would be. Free.

        `epsilon` is the maximum price, `share` a part of the budget such as "2%", and `within` the 95 % margin that is
        needed for each column, such as {"n": 25}. Give one of them.
        """
        quote = self._account.explain(sql, **self._price(epsilon, within, share))
        return {**quote_document(quote), "left": self._remaining_text()}

    def ask(
        self,
        sql: str,
        epsilon: str | None = None,
        within: dict[str, float | str] | None = None,
        share: str | None = None,
    ) -> Document:
        """Ask a question and spend its price. Values are noisy: `intervals` hold the true value with 95 % probability.

        Prices are given as in `explain`. The same question again is free.
        """
        release = self._account.ask(sql, **self._price(epsilon, within, share))
        answer = release_document(release, LEVEL)
        rows = len(release)
        for part in ("rows", "intervals"):
            answer[part] = list(_list_of(answer[part]))[:MAX_ANSWER_ROWS]
        notes = [f"Only the first {MAX_ANSWER_ROWS} of {rows} rows are shown."] if rows > MAX_ANSWER_ROWS else []
        return {
            **{part: answer[part] for part in ("columns", "rows", "intervals", "level")},
            "cost": answer["loss"],
            "left": self._remaining_text(),
            "notes": [*notes, *release.notes],
            "receipt": release.receipt.id,
        }

    def budget(self) -> Document:
        """Say what this account may spend in all, what it has spent, and what is left. Free."""
        return {**budget_document(self._account.budget()), "left": self._remaining_text()}

    def history(self, limit: int = 20) -> Document:
        """List the questions of this account and their prices, newest first. Asking one of them again is free."""
        entries = [entry_document(entry) for entry in self._account.history(limit)]
        kept = ("sequence", "time", "sql", "epsilon", "delta", "state", "receipt")
        return {"entries": [{name: entry[name] for name in kept} for entry in entries]}

    def _remaining_text(self) -> str:
        budget = self._account.budget()
        window = f" in this {budget.every}" if budget.every is not None else ""
        return f"ε = {round_down(budget.remaining.epsilon)} of {round_down(budget.total.epsilon)}{window}"

    def _price(self, epsilon: str | None, within: object, share: str | None) -> dict[str, Any]:
        if epsilon is None and within is None and share is None:
            epsilon = self._epsilon
        price = {"epsilon": epsilon, "within": within, "share": share}
        return {name: value for name, value in price.items() if value is not None}


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def guarded(tool: Callable[..., Document], failure: Callable[[str], Exception]) -> Callable[..., Any]:
    """Return what a tool says of a call: its document, or a failure with the words of a refusal and nothing else."""

    def call(*arguments: object, **named: object) -> Document:
        try:
            return tool(*arguments, **named)
        except Refusal as refusal:
            words = f"Refused ({refusal.code}): {refusal}"
        except Exception:
            words = "The question could not be answered. The error message is not shown."
        raise failure(words)

    return call
