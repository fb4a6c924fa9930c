"""A database under audit: a policy over synthetic people, in a temporary folder."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog
from sfumato.database import Database
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.generators.grammar import GrammarTables
from sfumato.lab.generators.population import Population
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.ledger.opening import open_ledger
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.locations import file_ledger
from sfumato.policy.policy import Location, Policy, fold_name
from sfumato.query.parse import parse
from sfumato.query.relation import Query
from sfumato.randomness.source import Source
from sfumato.release.stages import with_any_value

AUDIT_EPSILON = Fraction(10**6)
_ROW_GROUP_ROWS = 2048
"""The fewest rows that an engine gives to one thread."""
SALT = bytes(range(32))
"""Neighbours share it: which rows of a person are kept is not what is compared."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One population under one policy."""

    policy: Policy
    engine: DuckDB

    @property
    def catalog(self) -> Catalog:
        """The tables under the policy's own caps, also where questions choose: equal coins choose other levels."""
        tables = {
            name: replace(
                table,
                rows_chosen=False,
                groups_chosen=False,
                fields=tuple(replace(field, bounds_chosen=False) for field in table.fields),
            )
            for name, table in self.engine.catalog.tables.items()
        }
        return replace(self.engine.catalog, tables=tables)

    def plan(self, sql: str, epsilon: str = "1") -> Plan:
        """Return the plan of a question, or refuse it: the path as far as no data is read."""
        return self.plan_of(parse(sql, self.catalog), epsilon)

    def plan_of(self, query: Query, epsilon: str = "1") -> Plan:
        """Return the plan of a question that was read."""
        private = analyse(query, self.catalog, self.engine.public)
        budget = self.policy.budget
        cap = PrivacyLoss(budget.epsilon, budget.delta)
        plan = make_plan(private, parse_price_target(epsilon, None, None, query.options, budget, cap))
        self.engine.prepare(with_any_value(plan))  # refuses what is too large
        return plan

    def answers(self, sql: str) -> bool:
        """Whether a question has a plan."""
        try:
            self.plan(sql)
        except EngineFailed:
            raise
        except Refusal:
            return False
        return True

    def run(self, plan: Plan) -> Aggregates:
        """Return the exact aggregates: only an audit may look at them, and only of made-up people."""
        return self.engine.run(self.engine.prepare(with_any_value(plan)))


def move_policy(policy: Policy, folder: Path, ample: bool = True, scheme: str = "parquet") -> Policy:
    """Return the policy over the data in `folder`, with a ledger there; `ample`: with more budget than is needed."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    whole = policy.budget
    if ample:
        whole = replace(whole, epsilon=AUDIT_EPSILON, delta=Fraction(999, 1000) if whole.delta else Fraction(0))
    source = Location(scheme, str(folder / "data"), folder / "data")
    return replace(policy, source=source, ledger=file_ledger(folder / "audit.ledger"), budget=whole)


def write_population(population: Population, folder: Path) -> None:
    """Write the data and the shared salt."""
    population.write(folder / "data")
    write_salt(folder)


def write_salt(folder: Path) -> None:
    """Write the shared salt beside the ledger."""
    secret = folder / "audit.ledger.copy.salt"
    secret.touch(mode=0o600)
    secret.write_bytes(SALT)


@contextmanager
def open_subject(
    policy: Policy, population: Population, folder: Path, threads: int = 1, order: object = None
) -> Iterator[Subject]:
    """Open an engine over a population; `order` is the seed of another order of the copy's rows."""
    write_population(population, folder)
    moved = move_policy(policy, folder)
    registered = register(moved, _silent, Limits(threads=1))
    if order is not None:
        _reorder(registered.path, {fold_name(table.name) for table in moved.tables if table.public}, SeededDice(order))
    engine = DuckDB(moved, registered, Limits(threads=threads))
    try:
        yield Subject(moved, engine)
    finally:
        engine.close()


def engine_of(database: Database) -> DuckDB:
    """Return the concrete engine behind the protocol."""
    engine = database.engine
    if not isinstance(engine, DuckDB):
        raise AssertionError("the audits know one engine")
    return engine


@contextmanager
def open_database(policy: Policy, folder: Path, source: Source, account: str = "") -> Iterator[Database]:
    """Open a whole database over what lies in a folder, with these coins."""
    ledger = open_ledger(policy)
    try:
        engine = DuckDB(policy, register(policy, _silent, Limits(threads=1)), Limits(threads=1))
    except BaseException:
        ledger.close()
        raise
    with Database(policy, account, engine, ledger, source) as database:
        database.measure_truncation()
        yield database


def _reorder(path: Path, public: set[str], dice: SeededDice) -> None:
    """Write the private tables of a copy in another order, in parts so small that several threads share each table.

    The order of public rows is public, and stays.
    """
    other = path.with_name(f"{path.name}.reordered")
    with closing(closed_connection([path.parent], Limits(threads=1))) as connection:
        execute(connection, f"ATTACH {literal(str(path))} AS old (READ_ONLY)")
        execute(connection, f"ATTACH {literal(str(other))} AS new (ROW_GROUP_SIZE {_ROW_GROUP_ROWS})")
        tables = execute(
            connection,
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'old' ORDER BY table_oid",
        )
        for schema, table in tables:
            execute(connection, f"CREATE SCHEMA IF NOT EXISTS new.{quoted(schema)}")
            name = f"{quoted(schema)}.{quoted(table)}"
            is_kept = schema != "main" or fold_name(table) in public
            order = "rowid" if is_kept else f"hash(rowid, {dice.randint(0, 1 << 30)}), rowid"
            execute(connection, f"CREATE TABLE new.{name} AS SELECT * FROM old.{name} ORDER BY {order}")  # noqa: S608
    other.replace(path)


def schema_of(catalog: Catalog) -> GrammarTables:
    """Return the schema for a grammar: tables by their names in SQL."""
    named = {_quote_name(name): table for name, table in catalog.tables.items()}
    return GrammarTables(
        {name: dict(table.columns) for name, table in named.items()},
        frozenset(name for name, table in named.items() if table.public),
        {name: fold_name(table.unit) for name, table in named.items() if table.unit is not None},
    )


def _quote_name(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _silent(_phase: str, _table: str) -> None:
    """Do nothing."""
