"""A house under audit: a policy over made-up people, in a folder that is thrown away."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog
from sfumato.database import Database
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.connection import Limits
from sfumato.engines.duckdb_engine import DuckDB
from sfumato.engines.registration import register
from sfumato.errors import Refusal
from sfumato.lab.grammar import Schema
from sfumato.lab.population import Population
from sfumato.ledger.opening import open_ledger
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, read_wish
from sfumato.policy.locations import file_ledger
from sfumato.policy.policy import Location, Policy, fold
from sfumato.query.parse import parse
from sfumato.randomness.source import Source

AMPLE = Fraction(10**6)
SALT = bytes(range(32))
"""Neighbours share it: which rows of a person are kept is not what is compared."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One population under one policy."""

    policy: Policy
    engine: DuckDB

    def plan(self, sql: str, epsilon: str = "1") -> Plan:
        """Return the plan of a question, or refuse it: the path as far as no data is read."""
        query = parse(sql, self.engine.catalog)
        private = analyse(query, self.engine.catalog, self.engine.public)
        budget = self.policy.budget
        cap = PrivacyLoss(budget.epsilon, budget.delta)
        return make_plan(private, read_wish(epsilon, None, None, query.options, budget, cap))

    def answers(self, sql: str) -> bool:
        """Whether a question has a plan."""
        try:
            self.plan(sql)
        except Refusal:
            return False
        return True

    def run(self, plan: Plan) -> Aggregates:
        """Return the exact aggregates: only an audit may look at them, and only of made-up people."""
        return self.engine.run(self.engine.prepare(plan))


def moved_to(policy: Policy, folder: Path, ample: bool = True) -> Policy:
    """Return the policy over the data in `folder`, with a ledger there; `ample`: with more budget than is needed."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    whole = policy.budget
    if ample:
        whole = replace(whole, epsilon=AMPLE, delta=Fraction(999, 1000) if whole.delta else Fraction(0))
    source = Location("parquet", str(folder / "data"), folder / "data")
    return replace(policy, source=source, ledger=file_ledger(folder / "audit.ledger"), budget=whole)


def write_population(population: Population, folder: Path) -> None:
    """Write the data and the shared salt."""
    population.write(folder / "data")
    secret = folder / "audit.ledger.copy.salt"
    secret.touch(mode=0o600)
    secret.write_bytes(SALT)


@contextmanager
def subject(policy: Policy, population: Population, folder: Path) -> Iterator[Subject]:
    """Open the engine of a house over a population."""
    write_population(population, folder)
    moved = moved_to(policy, folder)
    engine = DuckDB(moved, register(moved, _silent, Limits(threads=1)), Limits(threads=1))
    try:
        yield Subject(moved, engine)
    finally:
        engine.close()


@contextmanager
def opened(policy: Policy, folder: Path, source: Source, account: str = "") -> Iterator[Database]:
    """Open a whole database over what lies in a folder, with these coins."""
    ledger = open_ledger(policy)
    try:
        engine = DuckDB(policy, register(policy, _silent, Limits(threads=1)), Limits(threads=1))
    except BaseException:
        ledger.close()
        raise
    with Database(policy, account, engine, ledger, source) as database:
        yield database


def schema_of(catalog: Catalog) -> Schema:
    """Return what a grammar needs to know of a catalog: tables by the names that a text calls them."""
    named = {_spelled(name): table for name, table in catalog.tables.items()}
    return Schema(
        {name: dict(table.columns) for name, table in named.items()},
        frozenset(name for name, table in named.items() if table.public),
        {name: fold(table.unit) for name, table in named.items() if table.unit is not None},
    )


def _spelled(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _silent(_phase: str, _table: str) -> None:
    """Say nothing."""
