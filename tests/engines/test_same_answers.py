"""The same policy, rows and salt on every engine: the same refusals, quotes, keys and exact integers as on DuckDB."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.engines.engines import ENGINES, DuckDBUnderLaw, UnderLaw
from tests.paths.shapes import SHAPES
from tests.paths.worlds import SCHEMA, World, a_world, policy, write

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.aggregates import GroupAggregates, Held, KeyFrequencies, PairsByCell
from sfumato.engines.engine import Engine
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.generators.grammar import Grammar
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.planning.quote import make_quote
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse

SALT = bytes(range(32))
TABLES = ("visits", "patients", "survey", "staff")
REFUSED = (
    "SELECT SUM(score) FROM visits",
    "SELECT patient_id, COUNT(*) FROM visits GROUP BY 1",
    "SELECT nothing FROM visits",
    "SELECT * FROM visits",
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE w.dept = v.dept)",
    "SELECT COUNT(*) FROM pg_catalog.pg_class",
    "SELECT lower(city, 2) FROM visits",
)
RANDOM = 200
"""So many questions are made up besides; with the shapes, asked of two clinics, there are more than 300."""


class Both:
    """One clinic on two engines."""

    def __init__(
        self, folder: Path, engine: UnderLaw, world: World, tables: Sequence[str] = TABLES, **visits: int
    ) -> None:
        write(folder / "written", world)
        words = policy(folder, visits=visits)
        words["tables"] = {name: words["tables"][name] for name in tables}
        data = {name: pq.read_table(folder / "written" / "data" / f"{name}.parquet") for name in tables}
        self.policy: Policy = read_policy(words)
        del words["source"], words["ledger"]
        self.engines: list[Engine] = []
        for one in (DuckDBUnderLaw(), engine):
            root = folder / one.dialect.name
            root.mkdir(parents=True)
            secret = root / "small.ledger.copy.salt"
            secret.touch(mode=0o600)
            secret.write_bytes(SALT)
            self.engines.append(one.opened(root, words, data))

    def shown(self, engine: Engine, sql: str) -> tuple[Any, ...]:
        """Return everything that a question shows and computes: a refusal, or quote, keys and exact integers."""
        try:
            query = parse(sql, engine.catalog)
            with engine.public.one_question():
                private = analyse(query, engine.catalog, engine.public)
            engine.check(private)
            budget = self.policy.budget
            wish = parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
            plan = make_plan(private, wish)
            job, quote = engine.prepare(plan), make_quote(plan)
        except EngineFailed:
            raise
        except Refusal as refusal:
            return refusal.code, str(refusal)
        price = quote.loss, quote.margins, quote.mechanisms, tuple(private.names)
        if not plan.groups:
            return *price, engine.query_public(private.outcome)
        return *price, exact_of(engine.run(job).groups)


def exact_of(groups: Sequence[GroupAggregates]) -> list[Any]:
    """Return everything that was measured, whatever the order of cells."""
    return [
        (
            {key: [values[at].tolist() for values in group.columns.values()] for at, key in enumerate(group.keys)},
            None if group.units is None else sum(int(n) for n in group.units),
            {name: _held(group, held) for name, held in group.held.items()},
        )
        for group in groups
    ]


def _held(group: GroupAggregates, held: Held) -> dict[tuple[Any, ...], int]:
    """Return what every bucket of every cell holds, or each kind of key there, whatever the order of cells."""
    if isinstance(held, KeyFrequencies):
        return {(group.keys[cell], powers): times for cell in held.cells for powers, times in held.for_cell(cell)}
    if isinstance(held, PairsByCell):
        return {(group.keys[cell], shared): 1 for cell in held.cells for shared in held.shares(cell)}
    entries = zip(held.cells.tolist(), held.buckets.tolist(), held.weights.tolist(), strict=True)
    return {(group.keys[cell], bucket): weight for cell, bucket, weight in entries}


@pytest.fixture(scope="module", params=ENGINES[1:], ids=lambda engine: engine.dialect.name)
def clinics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Both]]:
    folder = tmp_path_factory.mktemp("same")
    both = [
        Both(folder / "a", request.param, a_world(1, people=12)),
        Both(folder / "b", request.param, a_world(2, people=12), groups_per_unit=2),
    ]
    yield both
    for one in both:
        for engine in one.engines:
            engine.close()


def _same(both: Both, sql: str) -> tuple[Any, ...]:
    here, there = (both.shown(engine, sql) for engine in both.engines)
    assert here == there, sql
    return here


def test_every_shape_of_question_has_the_same_quote_keys_and_integers(clinics: list[Both]) -> None:
    for both in clinics:
        assert all(len(_same(both, sql)) > 2 for sql in SHAPES)


def test_what_is_refused_is_refused_in_the_same_words(clinics: list[Both]) -> None:
    assert all(len(_same(both, sql)) == 2 for both in clinics for sql in REFUSED)


def test_made_up_questions_have_the_same_quote_keys_and_integers(clinics: list[Both]) -> None:
    grammar = Grammar(SCHEMA, Random(13))
    answered = [len(_same(clinics[at % 2], grammar.query())) > 2 for at in range(RANDOM)]
    assert sum(answered) > RANDOM // 3
