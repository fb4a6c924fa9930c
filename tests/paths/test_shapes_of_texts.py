"""What is remembered never shows: texts of one shape, in any order and at any price, are planned as if never seen."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.database import Database
from sfumato.errors import EngineFailed, Refusal
from sfumato.planning import fresh_budget, noise, planner
from sfumato.prepare import RequestedPrice

SHAPES = (
    "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE age > {a}",
    "SELECT COUNT(*) AS n, SUM(LEAST(cost, {a})) AS s FROM visits",
    "SELECT dept, COUNT(*) AS n, AVG(LEAST(cost, {b})) AS c FROM visits WHERE age < {a} GROUP BY dept",
    "SELECT SUM(CASE WHEN age > {a} THEN cost ELSE {b} END) AS s, COUNT(*) AS n FROM visits",
    "SELECT SUM(cost) FILTER (WHERE age > {a}) AS s, COUNT(*) FILTER (WHERE age < {b}) AS n FROM visits",
    "SELECT SUM(age * {b}) AS s, COUNT(DISTINCT patient_id) AS n FROM visits WHERE dept <> '{t}'",
    "SELECT age / {b} AS band, COUNT(*) AS n FROM visits WHERE day >= DATE '2024-01-0{c}' GROUP BY 1",
    "SELECT dept, urgent, SUM(cost) AS s, COUNT(cost) AS n FROM visits WHERE city IN ('{t}', 'oslo') GROUP BY 1, 2",
    "SELECT QUANTILE_CONT(age, 0.{c}) AS q, MAX(LEAST(age, {a})) AS m FROM visits",
    "SELECT city, COUNT(*) AS n FROM visits WHERE age > {a} GROUP BY city ORDER BY n DESC LIMIT {b}",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = {b}) COUNT(*) AS n, SUM(age) AS s FROM visits",
    "SELECT COUNT(DISTINCT city) AS n, COUNT(DISTINCT age) AS m FROM visits WHERE age > {a}",
    "SELECT VAR_POP(LEAST(cost, {b})) AS v, CORR(cost, LEAST(age, {a})) AS r FROM visits",
)
PRICES = (
    RequestedPrice("1"),
    RequestedPrice("0.3"),
    RequestedPrice(None, None, "1%"),
    RequestedPrice("1", delta=0),
    RequestedPrice(None, {"n": 40}),
)
TEXTS_PER_SHAPE = 4
CITIES = ("rome", "oslo", "er", "x")
ANALYSTS = {"ada": {"epsilon": 500}, "bob": {"epsilon": 500}}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("shapes")
    write(folder, a_world(5))
    with sfumato.open(policy(folder, analysts=ANALYSTS)) as opened:
        yield opened


def texts(random: Random) -> list[str]:
    """Return texts of all shapes with random literals, mixed."""
    found = [
        shape.format(
            a=random.randrange(1, 20), b=random.randrange(1, 6), c=random.randrange(1, 9), t=random.choice(CITIES)
        )
        for shape in SHAPES
        for _ in range(TEXTS_PER_SHAPE)
    ]
    random.shuffle(found)
    return found


def planned(handle: Database, sql: str, price: RequestedPrice) -> tuple[object, ...]:
    """Return everything that is decided before a charge: plans, names, price and statements, or the refusal."""
    try:
        asked = handle.prepare(sql, None, price)
    except EngineFailed:
        raise
    except Refusal as refusal:
        return type(refusal), str(refusal)
    quote = handle.explain(sql, epsilon=price.epsilon, within=price.within, share=price.share, delta=price.delta)
    statements = asked.engine.statements(asked.job) if asked.plan.event is not None else ()
    return asked.plans, asked.plan, asked.names, statements, replace(quote, effect=None)


def forget() -> None:
    """Forget all noise that any question was given."""
    for remembered in (noise._noise_of_shape, noise._event_of, fresh_budget.used_of_fresh, planner._preferred_by_shape):
        remembered.cache_clear()


def test_a_remembered_shape_plans_as_a_new_one(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans, names, prices and statements are equal with everything remembered, and with nothing, not even shapes."""
    random = Random(11)
    asked = [(sql, price) for sql in texts(random) for price in random.sample(PRICES, 3)]
    random.shuffle(asked)
    with database.as_analyst("ada") as handle:
        forget()
        remembered = [planned(handle, sql, price) for sql, price in asked]
    monkeypatch.setattr(planner, "best_noise", noise._best_noise)
    for (sql, price), known in zip(asked, remembered, strict=True):
        forget()
        with database.as_analyst("ada") as handle:
            assert planned(handle, sql, price) == known, (sql, price)


def test_literals_that_move_nothing_share_their_noise(database: Database) -> None:
    """Else the law above would compare nothing."""
    with database.as_analyst("ada") as handle:
        forget()
        for age in range(2, 12):
            handle.prepare(SHAPES[0].format(a=age), None, RequestedPrice("1"))
            handle.prepare(SHAPES[4].format(a=age, b=age + 1), None, RequestedPrice("1"))
        known = noise._noise_of_shape.cache_info()
    assert known.misses <= 4 < 16 <= known.hits


def test_literals_that_move_more_have_their_own_noise(database: Database) -> None:
    with database.as_analyst("ada") as handle:
        margins = {str(handle.explain(SHAPES[5].format(b=by, t="er"), epsilon=1).margins) for by in (1, 2, 3, 5)}
    assert len(margins) == 4


@pytest.mark.parametrize("at", range(3))
def test_another_account_has_plans_of_its_own(database: Database, at: int) -> None:
    """A question that one account has asked is planned for another as if nobody had: only its caps may differ."""
    sql = texts(Random(at))[at]
    with database.as_analyst("ada") as ada, database.as_analyst("bob") as bob:
        assert planned(ada, sql, PRICES[0]) == planned(bob, sql, PRICES[0])
