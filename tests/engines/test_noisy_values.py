"""Values that are measured first, on every engine: the same exact integers as on DuckDB, whatever the value is."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.engines.engines import ENGINES, UnderLaw
from tests.engines.test_same_answers import exact_of
from tests.paths.test_noisy_values import QUESTIONS, TABLES, rows_of

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.engine import Engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse
from sfumato.randomness.source import system_source
from sfumato.release.publish import publish
from sfumato.release.stages import bind, run_stages

WORDS: dict[str, Any] = {"budget": {"epsilon": 50, "delta": 0}, "tables": TABLES}
VALUES = (None, -3, 0, 40, 55 * 10**6, 10**15)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = ENGINES[0].opened(tmp_path_factory.mktemp("first"), WORDS, rows_of())
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=ENGINES[1:], ids=lambda engine: engine.dialect.name)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    under_law: UnderLaw = request.param
    engine = under_law.opened(tmp_path_factory.mktemp("first"), WORDS, rows_of())
    yield engine
    engine.close()


def _plan(engine: Engine, sql: str) -> Plan:
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    budget = read_policy({"source": "csv:x", **WORDS}).budget
    return make_plan(
        private, parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
    )


@pytest.mark.parametrize("sql", QUESTIONS)
def test_rows_are_compared_with_a_noisy_value_alike(reference: Engine, other: Engine, sql: str) -> None:
    for value in VALUES:
        found = []
        for engine in (reference, other):
            plan = _plan(engine, sql)
            bound = {first.label: (value,) * len(first.items) for first in plan.private.first}
            found.append(exact_of(engine.run(engine.prepare(bind(plan, bound))).groups))
        assert found[0] == found[1], value


@pytest.mark.parametrize("sql", QUESTIONS)
def test_both_stages_run(other: Engine, sql: str) -> None:
    plan, source = _plan(other, sql), system_source()
    noisy = run_stages(plan, lambda stage: publish(stage, other.run(other.prepare(stage)), source), evaluate)
    assert len(noisy.groups) == len(plan.groups)
