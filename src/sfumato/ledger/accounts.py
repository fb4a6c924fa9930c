"""The accounts of a dataset, read from its ledger alone: the data may be away, and nothing is recorded."""

from collections.abc import Iterable
from time import time_ns
from types import TracebackType
from typing import Self

from sfumato.errors import BadParameter, PolicyWeakened, quote_value
from sfumato.ledger.approvals import BudgetRequest, list_requests
from sfumato.ledger.caps import account_budgets
from sfumato.ledger.damage import damaged
from sfumato.ledger.history import HISTORY_PAGE_ENTRIES, page_of
from sfumato.ledger.ledger import Budget, Entry, Ledger, Verified
from sfumato.ledger.opening import existing_ledger, pending
from sfumato.ledger.recorded_policy import DATASET, RecordedPolicy, recorded
from sfumato.ledger.state import EMPTY, is_digest, under
from sfumato.policy.policy import Policy

_MAX_LISTED_REQUESTS = 2**31


class Accounts:
    """The caps and the spending of every account. Close it, or use it as a context manager."""

    def __init__(self, policy: Policy, ledger: Ledger | None, waiting: RecordedPolicy | None) -> None:
        self._policy = policy
        self._ledger = ledger
        self.waiting = waiting
        """The parts of this policy that the ledger does not know yet: they are recorded when the database is opened."""

    def budgets(self) -> dict[str, Budget]:
        """Return every account, at its own cap; the dataset's under the empty name."""
        if self._ledger is None:
            now = time_ns() // 1000
            return account_budgets(under(EMPTY, recorded(self._policy, {}, False), now))
        waiting = self.waiting
        return self._ledger.budgets(None if waiting is None else lambda state: under(state, waiting, time_ns() // 1000))

    def budget(self, account: str = DATASET) -> Budget:
        """Return what one account can still spend: for an analyst, the tighter of their cap and the dataset's."""
        found = self.budgets()
        both = [found[name] for name in dict.fromkeys((account, DATASET))]
        return min(both, key=lambda cap: (cap.total.epsilon * (1 - cap.used), cap.remaining.delta))

    def history(
        self, account: str | None = None, limit: object = HISTORY_PAGE_ENTRIES, before: object = None
    ) -> tuple[Entry, ...]:
        """Return what was charged to an account, or to all, newest first: a page, as `Database.history` does."""
        page = page_of(limit, before)
        return () if self._ledger is None else self._ledger.history(account, *page)

    def requests(self) -> list[BudgetRequest]:
        """Return the requests of all accounts, the oldest first."""
        return [] if self._ledger is None else list_requests(self._ledger, None, _MAX_LISTED_REQUESTS)[::-1]

    def verify(self) -> Verified | None:
        """Have the second reader compute every hash and every sum again; None where there is no ledger yet."""
        return None if self._ledger is None else self._ledger.verify()

    def require(self, receipts: Iterable[str]) -> None:
        """Refuse a ledger that does not hold these receipts, each written SEQUENCE:HEAD."""
        for receipt in receipts:
            sequence, _, head = receipt.partition(":")
            if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 18 and is_digest(head)):
                raise BadParameter(
                    f"{quote_value(receipt)} is not a receipt.",
                    "A receipt is checked by its sequence and its head.",
                    "Write SEQUENCE:HEAD, as the receipt has them: the head has 64 digits.",
                )
            if self._ledger is None:
                raise damaged("The ledger is missing, but the receipt shows that there was one.")
            self._ledger.require(int(sequence), head)

    def close(self) -> None:
        """Let go of the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_accounts(policy: Policy) -> Accounts:
    """Open the accounts of a policy. Where it would be refused as weaker, those of the policy in force are shown."""
    ledger = existing_ledger(policy)
    if ledger is None:
        return Accounts(policy, None, None)
    try:
        return Accounts(policy, ledger, pending(ledger, policy))
    except PolicyWeakened:
        return Accounts(policy, ledger, None)
    except BaseException:
        ledger.close()
        raise
