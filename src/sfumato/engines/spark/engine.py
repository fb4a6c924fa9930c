"""The Spark engine: plans become statements before anything is charged, and exact, secret integers after."""

import shutil
from pathlib import Path
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analysis.catalog import REMOVED, Catalog
from sfumato.analysis.private_query import PrivateQuery
from sfumato.diagnostics import record_engine_failure
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.engine import Histograms, Job, Limits, PlannedStatement, SelectedBounds
from sfumato.engines.public_store import PublicStore, RemoteTables
from sfumato.engines.snapshot_paths import places_of
from sfumato.engines.snapshots import Registered, identity_of
from sfumato.engines.spark.build import view_name
from sfumato.engines.spark.dialect import SPARK, quoted
from sfumato.engines.spark.numbers import NARROW, TYPES
from sfumato.engines.spark.reader import SparkReader
from sfumato.engines.spark.registration import rows_folder
from sfumato.engines.sql.build_protocol import copied_name
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.cohorts import restricted_tables
from sfumato.engines.sql.names import COHORTS, RANK, TOTALS
from sfumato.engines.sql.public import MaterializedTable, PublicTables
from sfumato.engines.sql.statements import Statements, aggregated, count_histograms, planned_statements, prepared
from sfumato.errors import EngineFailed
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import MaterializedNode, ProjectNode
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.bounding.truncation import CUT
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy, fold_name
from sfumato.query.functions import Aggregation
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_LISTS_OF_ROWS = (Aggregation.CROSS_UNIT_COUNT, Aggregation.BOUNDED_FLOW)
_TYPES = {Kind.REAL: pa.float64(), Kind.TEXT: pa.string(), Kind.BOOLEAN: pa.bool_()}


class Spark:
    """One registered source. Threads may share it; in a process that was forked it refuses."""

    catalog: Catalog
    version: str
    public: PublicTables
    cohorts: CohortSet | None

    def __init__(self, policy: Policy, registered: Registered, limits: Limits) -> None:
        self._store = PublicStore(policy, registered, limits)
        self.catalog, self.version, self.public = self._store.catalog, self._store.version, self._store.public
        self._identity = identity_of(registered.path)
        self._folder = rows_folder(places_of(policy), self._identity)
        self._tables, folders = {}, {}
        for table in policy.tables:
            if not table.public:
                for name in (table.name + ending for ending in ("", REMOVED, CUT, TOTALS)):
                    place = copied_name(policy, name)
                    if (self._folder / place).exists():
                        folders[view_name(self._identity, place)] = place
                        self._tables[fold_name(name)] = self._relation(place, name.endswith((REMOVED, CUT)))
        self.cohorts = registered.cohorts
        self._policy = policy
        if self.cohorts is not None:
            kept = copied_name(policy, COHORTS)
            folders[view_name(self._identity, kept)] = kept
        self._shelf = self._folder / f"public-{fresh_id(system_source())[:12]}"
        self._reader = SparkReader(self._folder, folders, limits)
        self._remote = RemoteTables()

    def _relation(self, place: str, losers: bool) -> str:
        """Return a table of the copy; of those who lost something there is one row each, whose rank is 1."""
        name = quoted(view_name(self._identity, place))
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
            kept = quoted(view_name(self._identity, copied_name(self._policy, COHORTS)))
            tables = restricted_tables(tables, self._policy, kept, plan.cohorts, SPARK)
        return prepared(plan, tables, self.public, SPARK, self._bring)

    def statements(self, job: Job) -> tuple[PlannedStatement, ...]:
        """Return the statements that `run` would execute, in their order."""
        return planned_statements(job)

    def run_selection(self, job: Job) -> Histograms:
        """Return what the bounds of a plan that has been charged are selected by."""
        return count_histograms(job, self._reader.rows)

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged: a statement per group, a small table each."""
        keys = _keys_of_buckets(job)
        return aggregated(
            job, self._reader.rows, lambda sql: self._reader.columns(sql, keys.get(sql)), selected, histograms
        )

    def query_public(self, show: ProjectNode) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""
        return self._store.exact(show)

    def close(self) -> None:
        """Let go of the copy, and leave no view and no public rows behind."""
        self._close(self._reader, self._store, self._shelf)

    def retire(self) -> None:
        """Let go of the copy when the last question about it is answered: another snapshot has taken its place."""
        finalize(self, self._close, self._reader, self._store, self._shelf)

    @staticmethod
    def _close(reader: SparkReader, store: PublicStore, shelf: Path) -> None:
        reader.close()
        store.close()
        shutil.rmtree(shelf, ignore_errors=True)

    def _bring(self, kept: MaterializedNode) -> MaterializedNode:
        """Write public rows into a file that Spark reads, once."""
        return self._remote.bring(kept, self._rows_text)

    def _rows_text(self, rows: MaterializedTable, columns: list[Facts]) -> str:
        while self._remote.unused:
            self._drop(self._remote.unused.popleft())
        name = view_name(self._identity, f"p{fresh_id(system_source())[:12]}")
        fields = [(f"c{at}", _arrow_type(facts)) for at, facts in enumerate(columns)]
        schema = pa.schema([*fields, (RANK, pa.int64())])
        failed = True
        try:
            self._shelf.mkdir(mode=0o700, exist_ok=True)
            with pq.ParquetWriter(self._shelf / name, schema) as writer:
                for part in self._store.rows(rows, len(columns)):
                    values = zip(*part, strict=True)
                    writer.write_table(
                        pa.table(
                            [pa.array(value, field.type) for value, field in zip(values, schema, strict=True)],
                            schema=schema,
                        )
                    )
            failed = False
        except (OSError, pa.ArrowException) as error:
            record_engine_failure(error)
        if failed:
            raise EngineFailed()
        self._reader.show(name, self._shelf / name)
        return quoted(name)

    def _drop(self, relation: str) -> None:
        name = relation.strip("`")
        self._reader.hide(name)
        (self._shelf / name).unlink(missing_ok=True)


def _arrow_type(facts: Facts) -> pa.DataType:
    narrow = TYPES.of(facts) == NARROW
    return _TYPES.get(facts.kind) or (pa.int64() if narrow else pa.decimal128(38, 0))


def _keys_of_buckets(job: Job) -> dict[str, int]:
    """Return the statements whose rows are buckets, and how many keys stand before these.

    Matched values are as many as rows may be: no executor puts those of a key into one list.
    """
    if not isinstance(job, Statements):
        raise AssertionError("a job is run by the engine that prepared it")
    return {
        statements[selection.name]: len(group.group.keys)
        for group, statements in zip(job.plan.groups, job.histograms, strict=True)
        for selection in group.chosen
        if selection.quantity.function not in _LISTS_OF_ROWS and not isinstance(selection.mechanism, MatchedCount)
    }
