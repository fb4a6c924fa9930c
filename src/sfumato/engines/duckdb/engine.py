"""The DuckDB engine: plans become statements before anything is charged, and exact, secret integers after."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import finalize

from sfumato.analysis.catalog import Catalog
from sfumato.analysis.flow import Given, Kept, Read, Show
from sfumato.analysis.private_query import Cell, PrivateQuery
from sfumato.analysis.work import check_work
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.catalog_of import catalog_of
from sfumato.engines.duckdb.connection import Limits
from sfumato.engines.duckdb.reader import Reader
from sfumato.engines.duckdb.registration import Registered
from sfumato.engines.duckdb.tables import relations
from sfumato.engines.sql.flow import flow_sql
from sfumato.engines.sql.group import group_sql
from sfumato.engines.sql.public import DuckDBPublic
from sfumato.errors import QueryTooLarge
from sfumato.mechanisms.answers import integer_answers
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.policy.policy import Policy

LONGEST = 1_000_000
"""The most characters of one statement."""
SELECTED = 1_000
"""For so many cells, and their pairs, there is time where keys are selected; nobody knows how many there will be."""


@dataclass(frozen=True, slots=True)
class Job:
    """A plan and its statements, one per group; None where nothing is measured."""

    plan: Plan
    statements: tuple[str | None, ...]


class DuckDB:
    """One registered source. Threads may share it; in a process that was forked it opens the copy again."""

    catalog: Catalog
    version: str
    public: DuckDBPublic

    def __init__(self, policy: Policy, registered: Registered, limits: Limits | None = None) -> None:
        self._reader = Reader(registered, limits or Limits())
        tables = relations(policy, registered)
        self._public_tables = tables.public
        self._tables = {**tables.public, **tables.private}
        self.version = registered.version
        self.public = DuckDBPublic(tables.public, self._reader.rows)
        self.catalog = catalog_of(policy, registered, self.public, self._reader.rows)

    def check(self, private: PrivateQuery) -> None:
        """Accept every question that was analysed: it has a statement here."""

    def prepare(self, plan: Plan) -> Job:
        """Return what will be run. No data is read: whatever can be refused is refused here."""
        self._reader.ready()
        if plan.groups:
            check_outcome(plan)
        else:
            self.public.check(plan.private.outcome)  # a quote refuses what asking would
        groups = tuple(
            replace(one, group=replace(one.group, rows=self.public.at_home(one.group.rows))) for one in plan.groups
        )
        plan = replace(plan, groups=groups)
        return Job(plan, tuple(checked(group_sql(group, self._tables)) for group in groups))

    def run(self, job: Job) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged."""
        groups = zip(job.plan.groups, job.statements, strict=True)
        return Aggregates(tuple(self._run(group, statement) for group, statement in groups))

    def exact(self, show: Show) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""
        self.public.check(show)
        rows = self._reader.free_rows(checked(flow_sql(show, self._public_tables)) or "")
        return [[row[at] for row in rows] for at in range(len(show.items))]

    def close(self) -> None:
        """Let go of the copy."""
        self._reader.close()

    def retire(self) -> None:
        """Let go of the copy when the last question about it is answered: another snapshot has taken its place."""
        finalize(self, self._reader.close)

    def _run(self, plan: GroupPlan, statement: str | None) -> GroupAggregates:
        rows = [] if statement is None else self._reader.rows(statement)
        width, names = len(plan.group.keys), [one.name for one in plan.measured]
        if plan.group.public_keys:
            keys = plan.group.all_cells()
            return GroupAggregates(keys, _columns(names, _spread(rows, keys, width), width), None)
        rows = [row for row in rows if None not in row[:width]]
        found = tuple(row[:width] for row in rows)
        units = integer_answers([row[-1] for row in rows])
        return GroupAggregates(found, _columns(names, rows, width), units)


def check_outcome(plan: Plan) -> None:
    """Refuse what would compute for ever with the noisy groups: that is free, too."""
    cells = {one.group.label: one.group.cells if one.group.public_keys else SELECTED for one in plan.groups}

    def size(node: Read | Given | Kept) -> int:
        return len(node.rows) if isinstance(node, Given) and node.rows is not None else cells.get(node.label, 0)

    check_work(plan.private.outcome, size)


def checked(statement: str | None) -> str | None:
    """Refuse a statement that is too long."""
    if statement is not None and len(statement) > LONGEST:
        raise QueryTooLarge(
            "The query becomes a statement that is too long.",
            f"A statement has at most {LONGEST:,} characters.",
            "Ask for fewer columns at once, or write shorter expressions.",
        )
    return statement


def _spread(rows: list[tuple[Any, ...]], keys: Sequence[tuple[Cell, ...]], width: int) -> list[tuple[Any, ...]]:
    """Give every public cell its row, in their order; what was not declared is dropped, what is absent is empty."""
    found = {row[:width]: row for row in rows}
    return [found.get(key, key) for key in keys]


def _columns(names: list[str], rows: Sequence[tuple[Any, ...]], width: int) -> dict[str, Any]:
    return {
        # the sum of no values is NULL in SQL; here nobody added anything
        name: integer_answers([(row[at] or 0) if at < len(row) else 0 for row in rows])
        for at, name in enumerate(names, width)
    }
