"""The DuckDB engine: plans become statements before anything is charged, and exact, secret integers after."""

from weakref import finalize

from sfumato.analysis.catalog import Catalog
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.build_catalog import build_catalog
from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.connection import COPY
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.reader import Reader
from sfumato.engines.duckdb.tables import DuckDBTables
from sfumato.engines.engine import Histograms, Job, Limits, PlannedStatement, SelectedBounds
from sfumato.engines.snapshots import Registered
from sfumato.engines.sql.cohorts import restricted_tables
from sfumato.engines.sql.names import COHORTS, quoted
from sfumato.engines.sql.public import PublicTables
from sfumato.engines.sql.statements import (
    Statements,
    aggregated,
    count_histograms,
    planned_statements,
    prepared,
    query_columns,
)
from sfumato.language.rel_nodes import ProjectNode
from sfumato.planning.bounding.truncation import CUT
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy

_COHORTS = f"{COPY}.main.{quoted(COHORTS)}"
SHELF = "memory.main"
"""Where public rows are kept that were computed once: beside the copy, in memory."""


class DuckDB:
    """One registered source. Threads may share it; in a process that was forked it opens the copy again."""

    catalog: Catalog
    version: str
    public: PublicTables
    cohorts: CohortSet | None

    def __init__(self, policy: Policy, registered: Registered, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._reader = Reader(registered, limits)
        tables = DuckDBTables(policy, registered.tables, self._reader.rows)
        self._public_tables, private = tables.relations()
        self._tables = {**self._public_tables, **private}
        self.version = registered.version
        self.cohorts = registered.cohorts
        self._policy = policy
        self.public = PublicTables(self._public_tables, self._reader.rows, DUCKDB, SHELF, limits.memory_bytes)
        self.catalog = build_catalog(policy, tables, self.public)

    @property
    def stores_truncation_losses(self) -> bool:
        """Whether the copy holds what caps and bounds cut off of each person."""
        return any(name.endswith(CUT) for name in self._tables)

    def check(self, private: PrivateQuery) -> None:
        """Accept every question that was analysed: it has a statement here."""

    def prepare(self, plan: Plan) -> Statements:
        """Return what will be run. No data is read: whatever can be refused is refused here."""
        self._reader.ready()
        tables = self._tables
        if plan.cohorts is not None:
            tables = restricted_tables(tables, self._policy, _COHORTS, plan.cohorts, DUCKDB)
        return prepared(plan, tables, self.public, DUCKDB)

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return the statements that `run` would execute, in their order."""
        return planned_statements(job)

    def run_selection(self, job: Job) -> Histograms:
        """Return what the bounds of a plan that has been charged are selected by."""
        return count_histograms(job, self._reader.rows)

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged."""
        return aggregated(job, self._reader.rows, self._reader.columns, selected, histograms, self._reader.batches)

    def query_public(self, show: ProjectNode) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""
        self.public.check(show)
        return query_columns(show, self._public_tables, DUCKDB, self._reader.free_rows)

    def close(self) -> None:
        """Let go of the copy."""
        self._reader.close()

    def retire(self) -> None:
        """Let go of the copy when the last question about it is answered: another snapshot has taken its place."""
        finalize(self, self._reader.close)
