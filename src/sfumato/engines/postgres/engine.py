"""The PostgreSQL engine: plans become statements before anything is charged, and exact, secret integers after."""

from collections.abc import Iterator
from typing import Any
from weakref import finalize

from sfumato.analysis.catalog import REMOVED, Catalog
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.engine import Histograms, Job, Limits, PlannedStatement, SelectedBounds
from sfumato.engines.postgres.build import relation
from sfumato.engines.postgres.connection import copy_in, execute
from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.numbers import DOUBLE, TYPES
from sfumato.engines.postgres.reader import ServerReader
from sfumato.engines.public_store import PublicStore, RemoteTables
from sfumato.engines.snapshots import Registered, identity_of
from sfumato.engines.sql.build_protocol import copied_name
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.cohorts import restricted_tables
from sfumato.engines.sql.names import COHORTS, RANK, TOTALS, quoted
from sfumato.engines.sql.public import MaterializedTable, PublicTables
from sfumato.engines.sql.statements import Statements, aggregated, count_histograms, planned_statements, prepared
from sfumato.errors import EngineFailed
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import MaterializedNode, ProjectNode
from sfumato.planning.bounding.truncation import CUT
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy, fold_name
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_TYPES = {Kind.REAL: DOUBLE, Kind.TEXT: 'text COLLATE "C"', Kind.BOOLEAN: "boolean"}


class PostgreSQL:
    """One registered source. Threads may share it; in a process that was forked it connects again."""

    catalog: Catalog
    version: str
    public: PublicTables
    cohorts: CohortSet | None

    def __init__(self, policy: Policy, registered: Registered, limits: Limits) -> None:
        self._store = PublicStore(policy, registered, limits)
        self.catalog, self.version, self.public = self._store.catalog, self._store.version, self._store.public
        self._identity = identity_of(registered.path)
        self._reader = ServerReader(policy.source.target, self._identity)
        copied = {fold_name(table.name) for table in registered.tables}
        self._tables = {
            fold_name(name): self._relation(policy, name)
            for table in policy.tables
            for name in (table.name + ending for ending in ("", REMOVED, CUT, TOTALS))
            if not table.public and (name.endswith(REMOVED) or fold_name(name) in copied)
        }
        self._remote = RemoteTables()
        self.cohorts = registered.cohorts
        self._policy = policy

    def _relation(self, policy: Policy, table: str) -> str:
        """Return a table of the copy; of those who lost something there is one row each, whose rank is 1."""
        name = relation(self._identity, copied_name(policy, table))
        losers = table.endswith((REMOVED, CUT))
        return subquery(select(f"*, 1 AS {quoted(RANK)}", name), "losers") if losers else name

    @property
    def stores_truncation_losses(self) -> bool:
        """Whether the copy holds what caps and bounds cut off of each person."""
        return any(name.endswith(CUT) for name in self._tables)

    def check(self, private: PrivateQuery) -> None:
        """Accept every question that was analysed: it has a statement here."""

    def prepare(self, plan: Plan) -> Statements:
        """Return what will be run. No private table is read: whatever can be refused is refused here."""
        self._store.ready()
        tables = self._tables
        if plan.cohorts is not None:
            kept = relation(self._identity, copied_name(self._policy, COHORTS))
            tables = restricted_tables(tables, self._policy, kept, plan.cohorts, POSTGRES)
        return prepared(plan, tables, self.public, POSTGRES, self._bring)

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return the statements that `run` would execute, in their order."""
        return planned_statements(job)

    def run_selection(self, job: Job) -> Histograms:
        """Return what the bounds of a plan that has been charged are selected by: in one transaction."""
        if isinstance(job, Statements) and not job.selects_bounds:
            return {}
        with self._reader.asking() as run:
            return count_histograms(job, run)

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged: in one transaction, a statement per group."""
        if isinstance(job, Statements) and job.nothing:
            return aggregated(job, _read_no_rows)
        with self._reader.asking() as run:
            return aggregated(job, run, selected=selected, histograms=histograms)

    def query_public(self, show: ProjectNode) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""
        return self._store.exact(show)

    def close(self) -> None:
        """Let go of the copy, and leave no connection and no public rows behind."""
        self._close(self._reader, self._store, self._remote.relations())

    def retire(self) -> None:
        """Let go of the copy when the last question about it is answered: another snapshot has taken its place."""
        finalize(self, self._close, self._reader, self._store, [])

    @staticmethod
    def _close(reader: ServerReader, store: PublicStore, brought: list[str]) -> None:
        if brought:
            try:
                with reader.writing() as connection:
                    execute(connection, f"DROP TABLE IF EXISTS {', '.join(brought)}")
            except EngineFailed:
                pass  # they are swept with the copy
        reader.close()
        store.close()

    def _bring(self, kept: MaterializedNode) -> MaterializedNode:
        """Write public rows into a table of the schema of our own, once."""
        return self._remote.bring(kept, self._insert_text)

    def _insert_text(self, rows: MaterializedTable, columns: list[Facts]) -> str:
        name = relation(self._identity, f"p{fresh_id(system_source())[:12]}")
        listed = [f"c{at} {_TYPES.get(facts.kind) or TYPES.of(facts)}" for at, facts in enumerate(columns)]
        with self._reader.writing() as connection:
            while self._remote.unused:
                execute(connection, f"DROP TABLE IF EXISTS {self._remote.unused.popleft()}")
            execute(connection, f"CREATE UNLOGGED TABLE {name} ({', '.join([*listed, f'{quoted(RANK)} bigint'])})")
            copy_in(connection, name, self._rows(rows, len(columns)))
            execute(connection, f"ANALYZE {name}")
        return name

    def _rows(self, rows: MaterializedTable, width: int) -> Iterator[tuple[Any, ...]]:
        for part in self._store.rows(rows, width):
            yield from part


def _read_no_rows(_statement: str) -> list[tuple[Any, ...]]:
    raise AssertionError("nothing is measured")
