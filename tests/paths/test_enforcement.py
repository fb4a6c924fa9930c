"""What planning proved is enforced: whatever it was told, no person moves an aggregate further than was declared."""

# ruff: noqa: S608 - statements are written by hand here, never from anybody's input
import gc
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.paths.shapes import SHAPES
from tests.paths.test_sensitivity import Opened, _check
from tests.paths.worlds import WITH_TOTAL, World, a_world, policy, write

from sfumato.analysis.catalog import PublicRows
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.engines.sql.builder import Pieces, select
from sfumato.engines.sql.flow import MaterializedRows
from sfumato.engines.sql.names import RANK, duplicate_rank_column, quoted, value_rank_column
from sfumato.errors import UnsupportedSql
from sfumato.language.rel_nodes import Item, RelNode
from sfumato.language.scalar import Scalar
from sfumato.policy.reading import read_policy

OVERFULL = tuple(
    f"INSERT INTO {table} SELECT t.* REPLACE (t.{quoted(RANK)} + {most} * n AS {quoted(RANK)}) "
    f"FROM {table} t, range(1, 9) AS r(n)"
    for table, most in (("visits", 3), ("patients", 1))
)
"""Everybody has nine times the rows that the policy allows."""
FAR = (
    "UPDATE visits SET age = age * 1000 - 5000, cost = cost * 1000 + 7",
    "UPDATE patients SET income = -1000000",
    "UPDATE visits SET dept = 'er ' || dept WHERE rowid % 2 = 0",
)
"""Values lie far beyond what was declared, and keys are none of the declared ones."""
AGAIN = (f"UPDATE visits SET score = 5, {quoted(duplicate_rank_column('score'))} = {quoted(RANK)}",)
"""A column that is unique within a person holds one value in all rows."""
MANY_CELLS = (
    f"UPDATE visits SET dept = ['er', 'icu', 'surgery'][{quoted(RANK)}], {quoted(value_rank_column('dept'))} = "
    f"{quoted(RANK)}",
)
"""Everybody is in as many cells as they have rows, where the policy lets one of them count."""

JOINS = (
    "SELECT COUNT(*), SUM(v.cost) FROM visits v JOIN staff s ON v.dept = s.dept",
    "SELECT s.floor, COUNT(*), COUNT(DISTINCT v.age) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY s.floor",
    "SELECT COUNT(*) FROM visits v JOIN (VALUES (1), (1), (1), (2)) AS w (x) ON v.age - v.age + 1 = w.x",
    "SELECT COUNT(*), SUM(w.x) FROM visits v LEFT JOIN (VALUES ('er', 5), ('er', 6), ('icu', 9)) AS w (d, x) "
    "ON v.dept = w.d",
    "SELECT COUNT(*) FROM visits v CROSS JOIN staff s",
    "SELECT COUNT(*) FROM survey q JOIN staff s ON q.mood = s.dept",
)


class Tampered(Opened):
    """A clinic whose copy is not what registration promised."""

    def __init__(
        self, folder: Path, world: World, tampering: tuple[str, ...], person: int | None, **changes: Any
    ) -> None:
        write(folder, world)
        self.policy = read_policy(policy(folder, **changes))
        registered = register(self.policy, lambda phase, table: None)
        with duckdb.connect(str(registered.path)) as copy:
            people = sorted(
                copy.execute("SELECT patient_id FROM visits UNION SELECT patient_id FROM patients").fetchall()
            )
            for statement in tampering:
                copy.execute(statement)
            if person is not None:
                for table in ("visits", "patients", '"visits.removed"', '"patients.removed"'):
                    copy.execute(f"DELETE FROM {table} WHERE patient_id = $1", people[person])
        self.engine = DuckDB(self.policy, registered, Limits(threads=1))


def _tampered(folder: Path, tampering: tuple[str, ...], **changes: Any) -> tuple[Opened, list[Opened]]:
    world = a_world(11)
    first, *others = (
        Tampered(folder / str(place), world, tampering, place, **changes) for place in (None, *range(len(world.people)))
    )
    return first, list(others)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, list[Opened]]]:
    first, others = _tampered(tmp_path_factory.mktemp("broken"), OVERFULL + FAR, visits={"columns": WITH_TOTAL})
    yield first, others
    for opened in (first, *others):
        opened.engine.close()


@pytest.mark.parametrize("sql", [*SHAPES, *JOINS])
def test_a_copy_that_is_not_bounded_moves_nothing_further(broken: tuple[Opened, list[Opened]], sql: str) -> None:
    """Nine times the rows, values a thousand times too far, unknown keys: the statement cuts all of them."""
    _check(*broken, sql)


def _without_conditions(columns: Pieces, source: str = "", *, where: Pieces = (), **clauses: Any) -> str:
    return select(columns, source, **clauses)


def test_without_the_cuts_the_same_copy_would_move_it(
    broken: tuple[Opened, list[Opened]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law above can fail: with no test of ranks, and with no clipping, it does."""
    monkeypatch.setattr("sfumato.engines.sql.flow.select", _without_conditions)
    with pytest.raises(AssertionError):
        _check(*broken, "SELECT COUNT(*) FROM visits")
    with pytest.raises(AssertionError):
        _check(
            *broken, "SELECT COUNT(*) FROM visits a JOIN visits b ON a.dept = b.dept AND a.patient_id < b.patient_id"
        )
    monkeypatch.undo()
    monkeypatch.setattr("sfumato.engines.sql.scalar.clipped", lambda name, facts, dialect: name)
    with pytest.raises(AssertionError):
        _check(*broken, "SELECT SUM(cost) FROM visits")


def test_a_column_that_is_not_unique_multiplies_nothing(tmp_path: Path) -> None:
    columns = policy(tmp_path)["tables"]["visits"]["columns"]
    unique = {**columns, "score": {"type": "integer", "unique": True}}
    first, others = _tampered(tmp_path, AGAIN, visits={"columns": unique})
    sql = "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.score = b.score"
    assert first.plan(sql).private.groups[0].contribution.rows == 3
    assert _check(first, others, sql) <= 3
    met = "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id <> b.patient_id AND a.score = b.score"
    assert list(map(int, first.plan(met).private.groups[0].asked[0].aggregate.parameters)) == [0, 1, 3, 1, 3, 1]
    assert _check(first, others, met)


def test_a_person_in_many_cells_counts_in_as_many_as_were_priced(tmp_path: Path) -> None:
    first, others = _tampered(tmp_path, MANY_CELLS, visits={"groups_per_unit": 1})
    for rows in ("visits", "visits WHERE cost >= 0"):
        sql = f"SELECT dept, COUNT(DISTINCT patient_id) FROM {rows} GROUP BY dept"
        assert first.plan(sql).private.groups[0].contribution.groups == 1
        assert _check(first, others, sql) == 1


@dataclass(frozen=True)
class Understated:
    """Kept rows of which only one is said to meet anybody."""

    true: PublicRows
    max_rows_per_key: int = 1
    size: int = 0

    @property
    def relation(self) -> str:
        assert isinstance(self.true, MaterializedRows)
        return self.true.relation


class Lying:
    """Public facts that are wrong: every key occurs once, every scalar has one value."""

    def __init__(self, engine: DuckDB) -> None:
        self._public = engine.public

    def materialize(self, flow: RelNode, columns: tuple[Item, ...], keys: tuple[Scalar, ...]) -> Understated:
        return Understated(self._public.materialize(flow, columns, keys))

    def value_range(self, flow: RelNode, scalar: Scalar) -> tuple[int, int] | None:
        return (0, 1)

    def distinct(self, flow: RelNode, scalar: Scalar, most: int) -> tuple[Any, ...] | None:
        found = self._public.distinct(flow, scalar, most)
        return found if found is None else found[:1]

    def with_local_tables(self, flow: RelNode) -> RelNode:
        return flow

    def rows(self, flow: RelNode, scalars: tuple[Scalar, ...], most: int) -> tuple[tuple[Any, ...], ...] | None:
        found = self._public.rows(flow, scalars, most)
        return found if found is None else found[:1]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, list[Opened]]]:
    folder, world = tmp_path_factory.mktemp("clinic"), a_world(12)
    people = [world.without(person) for person in world.people]
    first, *others = (Opened(folder / str(place), one) for place, one in enumerate((world, *people)))
    yield first, others
    for opened in (first, *others):
        opened.engine.close()


@pytest.mark.parametrize("sql", JOINS)
def test_public_facts_that_lie_move_nothing_further(
    clinic: tuple[Opened, list[Opened]], monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    for opened in (clinic[0], *clinic[1]):
        monkeypatch.setattr(opened.engine, "public", Lying(opened.engine))
    (group,) = clinic[0].plan(sql).private.groups
    assert group.contribution.rows in {1, 3}, "the lie was believed"
    _check(*clinic, sql)


def test_price_and_statement_read_the_same_rows_also_when_they_were_forgotten_in_between(
    clinic: tuple[Opened, list[Opened]],
) -> None:
    engine, sql = clinic[0].engine, JOINS[3]
    plan = clinic[0].plan(sql)
    engine.public._held.clear()
    gc.collect()
    clinic[0].plan(JOINS[0])  # drops what nobody has
    first = engine.run(engine.prepare(plan))
    again = engine.run(engine.prepare(clinic[0].plan(sql)))
    assert [list(column) for column in first.groups[0].columns.values()] == [
        list(column) for column in again.groups[0].columns.values()
    ]
    del plan, first, again
    engine.public._held.clear()
    gc.collect()
    engine.public._drop_unused()
    left = engine._reader.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'")
    assert left == [], "rows that nobody has are gone"


@pytest.mark.parametrize("aggregate", ["VAR_SAMP", "STDDEV_POP", "SUM", "AVG"])
@pytest.mark.parametrize("below", [0, 1])
def test_an_aggregate_of_doubles_meets_nobody(clinic: tuple[Opened, list[Opened]], aggregate: str, below: int) -> None:
    """The engine adds doubles in no fixed order: such a threshold is met in one run and not in the next."""
    value = f"{aggregate}(a.x * 1e25 + b.x * 1e-25)"  # on no grid
    rows = "(VALUES (1), (2), (3)) AS a (x) CROSS JOIN (VALUES (5), (7)) AS b (x)"
    public = f"SELECT {value} AS v FROM {rows}"
    if below:
        chosen = "CASE WHEN s.v > 855.689775654177 THEN 0 ELSE i.c END"
        public = f"SELECT {chosen} AS v FROM ({public}) s CROSS JOIN (VALUES (1), (2)) i (c)"
    with pytest.raises(UnsupportedSql, match="inexact"):
        clinic[0].plan(f"SELECT COUNT(*) FROM visits JOIN ({public}) p ON visits.age - visits.age = p.v")


def test_exact_aggregates_of_public_rows_may_meet_people(clinic: tuple[Opened, list[Opened]]) -> None:
    public = "SELECT dept, COUNT(*) AS n, SUM(floor) AS s, AVG(floor) AS a, MAX(name) AS m FROM staff GROUP BY dept"
    sums = "COUNT(*), SUM(LEAST(p.n, 5)), SUM(LEAST(p.s, 5))"
    _check(*clinic, f"SELECT {sums} FROM visits v JOIN ({public}) p ON v.dept = p.dept WHERE p.a > 1")


def test_a_plan_of_another_engine_is_cut_at_what_was_accounted_for_there(clinic: tuple[Opened, list[Opened]]) -> None:
    first, (other, *_) = clinic
    for sql in JOINS:
        plan = first.plan(sql)
        (mine,), (theirs,) = (other.engine.run(other.engine.prepare(one)).groups for one in (plan, other.plan(sql)))
        assert [list(one) for one in mine.columns.values()] == [list(one) for one in theirs.columns.values()]


def test_a_child_computes_its_public_rows_for_itself(clinic: tuple[Opened, list[Opened]]) -> None:
    """Also with a plan of its parent, whose memory is gone."""
    engine, sql = clinic[0].engine, JOINS[1]
    plan = clinic[0].plan(sql)
    expected = [list(column) for column in engine.run(engine.prepare(plan)).groups[0].columns.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the test's own process has threads
        child = os.fork()
    if child == 0:
        same = False
        try:
            found = [engine.run(engine.prepare(one)).groups[0].columns.values() for one in (plan, clinic[0].plan(sql))]
            same = all([list(column) for column in columns] == expected for columns in found)
        finally:
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
