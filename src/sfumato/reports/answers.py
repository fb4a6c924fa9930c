"""What was answered, read from the ledger alone: by account, by table and by month."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import Refusal
from sfumato.ledger.accounts import Accounts
from sfumato.ledger.history import Entry
from sfumato.policy.describing import units_of
from sfumato.policy.policy import Policy
from sfumato.release.receipt import Receipt, receipt_from_json

_ENTRIES_PER_PAGE = 1000
OTHER_TABLES = "(other: measured by an extension package, or under an earlier policy)"
DATASET_ACCOUNT = "(data owner)"


@dataclass(frozen=True, slots=True)
class AnsweredTotals:
    """How many questions a group of entries holds, and the sum of their prices."""

    name: str
    questions: int
    loss: PrivacyLoss


def all_entries(accounts: Accounts) -> list[Entry]:
    """Return every charge of every account, the oldest first."""
    entries: list[Entry] = []
    before: int | None = None
    while page := accounts.history(None, _ENTRIES_PER_PAGE, before):
        entries += page
        before = page[-1].sequence
        if before <= 1:
            break
    return entries[::-1]


def receipts_of(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Receipt | None]]:
    """Give each entry with the receipt that is stored with its answer; None where there is none."""
    for entry in entries:
        yield entry, _receipt(entry)


def _receipt(entry: Entry) -> Receipt | None:
    try:
        content = json.loads(entry.release or "null")
        return receipt_from_json(content["receipt"])
    except (ValueError, TypeError, KeyError, Refusal):
        return None  # an extension package stores its answers in its own form


def by_account(entries: Sequence[Entry]) -> list[AnsweredTotals]:
    """Return the totals of each account."""
    return _totals(entries, lambda entry: [entry.account or DATASET_ACCOUNT])


def by_month(entries: Sequence[Entry]) -> list[AnsweredTotals]:
    """Return the totals of each month, in UTC."""
    return _totals(entries, lambda entry: [f"{entry.time:%Y-%m}"])


def by_table(entries: Sequence[Entry], policy: Policy) -> list[AnsweredTotals]:
    """Return the totals of each table. A question about two tables counts for both."""
    named = {units_of([table]): table.name for table in policy.tables if not table.public}

    def tables(entry: Entry) -> list[str]:
        receipt = _receipt(entry)
        parts = receipt.units.split("; ") if receipt is not None else []
        return [named[part] for part in parts if part in named] or [OTHER_TABLES]

    return _totals(entries, tables)


def _totals(entries: Iterable[Entry], names: Callable[[Entry], list[str]]) -> list[AnsweredTotals]:
    found: dict[str, list[PrivacyLoss]] = defaultdict(list)
    for entry in entries:
        for name in names(entry):
            found[name].append(entry.loss)
    return [AnsweredTotals(name, len(losses), sum_of(losses)) for name, losses in sorted(found.items())]


def sum_of(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Return the sum of prices: it bounds all of them together, however they were chosen (basic composition)."""
    epsilon = sum((loss.epsilon for loss in losses), Fraction(0))
    delta = sum((loss.delta for loss in losses), Fraction(0))
    return PrivacyLoss(epsilon, min(Fraction(1), delta))
