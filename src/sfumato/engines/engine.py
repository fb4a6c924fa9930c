"""What the path needs of an engine: a catalog, statements before the charge, exact and secret integers after it."""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Protocol

from sfumato.analysis.catalog import Catalog, PublicData
from sfumato.analysis.private_query import PrivateQuery
from sfumato.diagnostics import statement_label
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.inspection import SourceReport
from sfumato.engines.source_catalogue import SourceCatalogue
from sfumato.errors import BadParameter, Refusal, quote_value
from sfumato.language.rel_nodes import ProjectNode
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Location, Policy

Job = object
"""What an engine prepared. It is opaque: only the engine that prepared it reads it."""

Histograms = Mapping[str, GroupAggregates]
"""What all people add at every candidate bound, by the label of the selection: exact and secret."""

SelectedBounds = Mapping[str, int]
"""The index of the threshold that was selected, by the label of the selection."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)

Progress = Callable[[str, str], None]
"""A function that is called with the phase and the table. It gets no counts: the number of rows is a secret."""


def checked_progress(progress: Progress | None) -> Progress:
    """Return a progress callback; refuse a value that is not callable, before any charge or read."""
    if progress is None:
        return _silent
    if not callable(progress):
        raise BadParameter(
            f"progress = {quote_value(progress)} is not callable.",
            "It is called with the phase and the table.",
            "Pass a function of two strings, for example `print`, or leave it out.",
        )
    try:
        signature(progress).bind("", "")
    except ValueError:  # some functions in C do not tell what they take
        return progress
    except TypeError:
        raise BadParameter(
            f"progress = {quote_value(progress)} does not take two arguments.",
            "It is called with the phase and the table.",
            "Pass a function of two strings, for example `print`, or leave it out.",
        ) from None
    return progress


def _silent(_phase: str, _table: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources an engine may use on this machine; beyond the memory it works on disk."""

    memory: str = "2GB"
    threads: int | None = None
    temp: Path | None = None
    """The folder in which private folders for spilled rows are made; None: beside the copy."""

    @property
    def memory_bytes(self) -> int:
        """The memory in bytes; 0 where it reads as no size.

        >>> Limits("512MiB").memory_bytes >> 20, Limits("1.5GB").memory_bytes
        (512, 1500000000)
        """
        match = _SIZE.fullmatch(self.memory.strip())
        base = 1024 if match and match[3] else 1000
        return int(Fraction(match[1]) * base ** " KMGT".index(match[2].upper() or " ")) if match else 0


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """One statement that an engine would run, with what it is for: for the data owner.

    >>> print(PlannedStatement("count people", "SELECT 1"))
    -- e004ebd5b553: count people
    SELECT 1;
    """

    purpose: str
    sql: str

    @property
    def label(self) -> str:
        """The name under which the debug file lists the statement."""
        return statement_label(self.sql)

    def __str__(self) -> str:
        return f"-- {self.label}: {self.purpose}\n{self.sql};"


class FreePublic(PublicData, Protocol):
    """Computations allowed before any charge, within an allowance of time."""

    def one_question(self, account: str = "") -> AbstractContextManager[None]:
        """Give everything that the body asks, in this thread, one allowance of time together."""


class Engine(Protocol):
    """Executor of plans over one snapshot of a bounded copy; thread-safe."""

    @property
    def catalog(self) -> Catalog:
        """The tables that a question may name."""

    @property
    def public(self) -> FreePublic:
        """Computations allowed before any charge."""

    @property
    def version(self) -> str:
        """The data's version: a counter or random id."""

    @property
    def stores_truncation_losses(self) -> bool:
        """Whether the copy holds what caps and bounds cut off of each person: where the policy spent on it then."""

    def check(self, private: PrivateQuery) -> None:
        """Refuse what this engine cannot answer, from the text alone."""

    def prepare(self, plan: Plan) -> Job:
        """Return what will be run. No data is read: whatever can be refused is refused here."""

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return the statements that `run_selection` and `run` would execute, in their order. No data is read."""

    def run_selection(self, job: Job) -> Histograms:
        """Return what the bounds of a plan that has been charged are selected by; nothing where it selects none."""

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged.

        With `selected`, only the selected bounds are measured, and `histograms`, from `run_selection`, are not counted
        again. Without it, all candidate bounds are measured.
        """

    def query_public(self, show: ProjectNode) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""

    def close(self) -> None:
        """Let go of the data. Closing twice is fine."""

    def retire(self) -> None:
        """Let go of it when the last question about it is answered: another snapshot has taken its place."""


class PendingSnapshot(Protocol):
    """A snapshot that was found, or one that is complete and becomes the current one when it is kept."""

    @property
    def ledger(self) -> str:
        """The ledger that paid for answers about the snapshot before it; empty where there was none."""

    @property
    def refused(self) -> Refusal | None:
        """Why another snapshot, which the policy asks for, could not be taken: for the data owner alone."""

    def commit(self, ledger: str) -> Engine:
        """Make it the current one, whose answers this ledger pays for, and open it."""


class TakeSnapshot(Protocol):
    """Finds the current snapshot of a policy's source, or takes one aside."""

    def __call__(
        self,
        policy: Policy,
        progress: Progress,
        limits: Limits,
        *,
        again: bool,
        first: Callable[[], None] | None,
    ) -> AbstractContextManager[PendingSnapshot]:
        """Find the current snapshot, or take one. A caller that leaves without keeping it has changed nothing.

        One is taken where there is none, where the policy's words about tables have changed, where the source has
        changed and the policy says so, and if it is to be taken `again`. `first` may refuse before anything is read.
        """


class SnapshotWatch(Protocol):
    """Notices that another process has taken a snapshot."""

    def may_have_changed(self) -> bool:
        """Tell whether there may be another snapshot: one look at the status of one file."""

    def open_newer(self, version: str, ledger: Callable[[], str]) -> Engine | None:
        """Return the engine of the current snapshot if it is another one than `version` and `ledger` pays for it.

        Where nothing moved, it does nothing else. It never takes a snapshot, and never fails: a snapshot that
        cannot be opened now is looked for again at the next question.
        """


@dataclass(frozen=True, slots=True)
class Backend:
    """How the sources of some schemes are opened."""

    take: TakeSnapshot
    has_changed: Callable[[Policy], bool]
    """Whether the source has changed since its snapshot was taken; nothing is read."""
    has_ledger: Callable[[Policy], bool]
    """Whether there is a snapshot that a ledger belongs to."""
    watch: Callable[[Policy], SnapshotWatch]
    """Looks for snapshots that other processes take."""
    forget: Callable[[Policy], None]
    """Removes what lies elsewhere, on a server or in a folder, of copies whose files are of no more use."""
    inspect: Callable[[Policy], SourceReport] | None = None
    """Counts what the source loses on its way into the copy, for its owner; None where the engine cannot."""
    describe: Callable[[Location], SourceCatalogue] | None = None
    """Reads names, types, keys and comments for a first policy, and no row; None where the engine has no catalogue."""
