"""Nothing differs: what neighbours show of a question, apart from noisy values, is equal, whatever was asked."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import MANY, SCHEMA, World, a_world, a_world_of_many, policy, write
from tests.sources import HashSource

from sfumato.database import Database
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.audits.fuzzing import difference, fuzz
from sfumato.lab.generators.grammar import Grammar
from sfumato.ledger.opening import open_ledger
from sfumato.policy.reading import read_policy

ORACLES = (
    "SELECT SUM(1 / age) FROM visits",
    "SELECT SUM(1 / (age - 7)) FROM visits WHERE age = 7",
    "SELECT COUNT(*) FROM visits WHERE 1 / (age - 7) > 0",
    "SELECT COUNT(*) FROM visits WHERE CAST(city AS integer) > 0",
    "SELECT SUM(CAST(dept AS integer)) FROM visits",
    "SELECT SUM(LEAST(GREATEST(CAST(city AS integer), 0), 9)) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE CAST(city || '-13-45' AS date) IS NULL",
    "SELECT COUNT(*) FROM visits WHERE score * score * score * score > 0",
    "SELECT COUNT(*) FROM visits WHERE score + 1 > 0 AND score - 1 < 0 AND -score > 0 AND ABS(score) > 1",
    "SELECT COUNT(*) FROM visits WHERE score / -1 > 0 OR score % -1 = 0",
    "SELECT COUNT(*) FROM visits WHERE day + score > DATE '2024-01-01'",
    "SELECT COUNT(*) FROM visits WHERE seen + INTERVAL '9000 years' > TIMESTAMP '2024-01-01 00:00:00'",
    "SELECT COUNT(*) FROM visits WHERE LEFT(city, score) = 'x' OR SUBSTRING(city, score, score) = 'y'",
    "SELECT COUNT(*) FROM visits WHERE REPLACE(REPLACE(city, 'o', 'oooooooooo'), 'o', 'oooooooooo') = 'x'",
    "SELECT COUNT(*) FROM visits WHERE city LIKE '%o%o%o%o%o%o_%'",
    "SELECT COUNT(*) FROM visits WHERE SQRT(cost) > 1 OR POWER(weight, 9) > 1 OR weight * weight > 1",
    "SELECT COUNT(*) FROM visits WHERE weight / 0 > 1 OR weight / weight > 0",
    "SELECT weight, COUNT(*) FROM visits GROUP BY weight",
    "SELECT SUM(weight) FROM visits",
    "SELECT AVG(score) FROM visits",
    "SELECT city FROM visits",
    "SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id",
    "SELECT COUNT(*) FROM visits WHERE patient_id = 1",
    "SELECT COUNT(*) FROM visits LIMIT 0",
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits)",
    "SELECT MAX(age) FROM visits",
    "SELECT repeat(city, 1000000000), COUNT(*) FROM visits GROUP BY 1",
    "SELECT COUNT(*) FROM visits WHERE regexp_matches(city, '(o+)+$')",
    "SELECT COUNT(*) FROM staff LEFT JOIN visits USING (dept)",
    "SELECT COUNT(*) FROM visits JOIN survey ON visits.dept = survey.mood",
)
"""Questions that make other systems tell something by failing."""


def _database(folder: Path, world: World, **changes: Any) -> Database:
    write(folder, world)
    read = read_policy(policy(folder, **changes))
    engine = DuckDB(read, register(read, lambda phase, table: None), Limits(threads=1))
    return Database(read, "", engine, open_ledger(read), HashSource("coins"))


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    world = a_world(11, people=6)
    folder = tmp_path_factory.mktemp("neighbours")
    pair = _database(folder / "one", world), _database(folder / "two", world.without(world.people[0]))
    yield pair
    for database in pair:
        database.close()


@pytest.mark.parametrize("sql", [*SHAPES, *ORACLES])
def test_neighbours_show_the_same(neighbours: tuple[Database, Database], sql: str) -> None:
    assert difference(*neighbours, sql) is None


@pytest.mark.parametrize("rows", [127, 128, 300])
def test_neighbours_show_the_same_if_one_person_has_many_rows(tmp_path: Path, rows: int) -> None:
    world = a_world_of_many(11, rows)
    one, other = (
        _database(tmp_path / name, some, visits=MANY)
        for name, some in (("one", world), ("two", world.without(world.people[-1])))
    )
    with one, other:
        for sql in (
            "SELECT dept, COUNT(*), SUM(age) FROM visits WHERE score >= 0 GROUP BY dept",
            "SELECT VAR_POP(age), CORR(age, cost) FROM visits",
            "SELECT city, COUNT(DISTINCT patient_id) FROM visits WHERE urgent OR NOT urgent OR score > 0 GROUP BY city",
            *SHAPES[rows % 40 :: 40],
        ):
            assert difference(one, other, sql) is None


@pytest.mark.parametrize("seed", range(8))
def test_neighbours_show_the_same_of_random_questions(neighbours: tuple[Database, Database], seed: int) -> None:
    grammar = Grammar(SCHEMA, Random(seed))
    found, asked = fuzz(*neighbours, (grammar.query() for _ in range(25)), seconds=60)
    assert found is None, str(found)
    assert asked


def test_the_random_questions_are_worth_asking(neighbours: tuple[Database, Database]) -> None:
    """At least a third of them is answered: refusing everything would differ in nothing."""
    answered = 0
    for seed in range(60):
        try:
            neighbours[0].explain(Grammar(SCHEMA, Random(1000 + seed)).query(), epsilon="0.5")
        except EngineFailed:
            raise
        except Refusal:
            continue
        answered += 1
    assert answered >= 20
