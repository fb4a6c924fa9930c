"""How files and DuckDB databases are opened: their snapshot, and the engine over it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.inspecting import inspect
from sfumato.engines.duckdb.registration import Snapshot, has_changed, snapshot, was_paid_for
from sfumato.engines.engine import Backend, Limits, Progress
from sfumato.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class _Taken:
    policy: Policy
    snapshot: Snapshot
    limits: Limits

    @property
    def ledger(self) -> str:
        return self.snapshot.ledger

    def keep(self, ledger: str) -> DuckDB:
        return DuckDB(self.policy, self.snapshot.keep(ledger), self.limits)


@contextmanager
def _take(
    policy: Policy, progress: Progress, limits: Limits, *, again: bool, first: Callable[[], None] | None
) -> Iterator[_Taken]:
    with snapshot(policy, progress, limits, again=again, first=first) as taken:
        yield _Taken(policy, taken, limits)


BACKEND = Backend(_take, has_changed, was_paid_for, inspect)
