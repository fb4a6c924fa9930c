"""The open handles of one policy: the owner's and one per account, closed when their last request has ended.

A server that takes over another policy opens new handles. Requests that are under way end with those they began with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from sfumato.database import Database
from sfumato.errors import NotGranted
from sfumato.ledger.ledger import Budget
from sfumato.policy.policy import fold_name


@dataclass(frozen=True, slots=True)
class AccountState:
    """One account, as the owner sees it."""

    name: str
    account: str
    budget: Budget
    charges: int


def account_states(owner: Database) -> tuple[AccountState, ...]:
    """Return every account of a policy with its budget."""
    states = []
    for analyst in owner.policy.analysts:
        with owner.as_analyst(analyst.name) as database:
            states.append(AccountState(analyst.name, fold_name(analyst.name), database.budget(), database.charges()))
    return tuple(states)


class DatabaseHandles:
    """Handles on one snapshot and ledger under one policy. Threads may share them."""

    def __init__(self, owner: Database) -> None:
        self.owner = owner
        self._by_account: dict[tuple[str, tuple[str, ...] | None], Database] = {}
        """By account, and the roles of the identity provider where they count."""
        self._counting = Lock()
        self._uses = 0
        self._is_retired = False

    def of(self, account: str, roles: tuple[str, ...] | None = None) -> Database:
        """Return the handle of an account, with these roles alone where they are given; the empty name is the owner."""
        if not account:
            return self.owner
        if self.owner.policy.analyst(account) is None:
            raise NotGranted()  # the policy named it when the request began; it may not learn who is in it now
        key = (account, roles)
        if key not in self._by_account:
            self._by_account[key] = self.owner.as_analyst(account, roles)
        return self._by_account[key]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the handles open for a request."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Count one more use."""
        with self._counting:
            self._uses += 1

    def release(self) -> None:
        """Count one use less. The last one closes handles that were retired."""
        with self._counting:
            self._uses -= 1
            is_last = self._is_retired and not self._uses
        if is_last:
            self.close()

    def retire(self) -> None:
        """Close the handles when nothing uses them any longer."""
        with self._counting:
            self._is_retired = True
            is_unused = not self._uses
        if is_unused:
            self.close()

    def close(self) -> None:
        """Close all of them."""
        for database in (*self._by_account.values(), self.owner):
            database.close()
