"""Spark on a cluster: two executors, each a process with memory of its own, and what one machine cannot show.

The copy and the answers are those of DuckDB for the same salt when one person has a tenth of all rows, and when
executors are killed while they compute. The driver gets counts and cells, never rows.

Some questions about one private table are asked in every run; all shapes of questions about all tables by command:
`python -m tests.engines.spark cluster`. `benchmarks/cluster_model.py` measures the driver's memory at two sizes.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engines import SPARK
from tests.engines.spark.cluster import executor_processes, stage_in_progress, started, tasks_of_executors
from tests.engines.spark.laws_answers import hidden_columns, rows_of_copy
from tests.engines.spark_under_law import LIMITS, SparkUnderLaw, spark
from tests.engines.test_same_answers import TABLES as ALL_TABLES
from tests.engines.test_same_answers import Both
from tests.paths.shapes import SHAPES
from tests.paths.worlds import World, a_world, visit

from sfumato.engines.engine import Engine
from sfumato.engines.opening import open_engine
from sfumato.engines.spark import connection
from sfumato.engines.spark.engine import Spark
from sfumato.engines.sql.bounding import by_shuffle
from sfumato.policy.reading import read_policy

Result = TypeVar("Result")
ALL = bool(os.environ.get(SPARK))
TABLES = ALL_TABLES if ALL else ("visits", "staff")
PEOPLE, FILES, KILLS = 100, 4, 2 if ALL else 1
HEAVY = 20
"""A person with more rows is ranked apart, here: the one with a tenth of all rows."""
CELLS = {
    "SELECT dept, COUNT(*) AS n, SUM(cost), COUNT(DISTINCT patient_id) FROM visits GROUP BY dept": 4,
    "SELECT MEDIAN(age) FROM visits": 1,
    "SELECT urgent, MEDIAN(cost) FROM visits GROUP BY urgent": 3,
    "SELECT s.floor, SUM(age) FROM visits JOIN staff s USING (dept) GROUP BY s.floor": 2,
}
"""Questions, and how many groups their rows have: declared keys, and those without one together."""
ASKED = (*CELLS, *(SHAPES if ALL else ()))


class Cluster(SparkUnderLaw):
    """A cluster under the laws; a table lies in several files, so that every executor reads some."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.rows_to_driver: list[int] = []

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        """Open a source below a folder in another thread than the session's, while executors are killed."""
        for name, table in data.items():
            (root / "data" / name).mkdir(parents=True)
            size = -(-table.num_rows // FILES)
            for at in range(FILES):
                pq.write_table(table.slice(at * size, size), root / "data" / name / f"{at}.parquet")
        place = {"source": f"spark:{root}/data", "ledger": f"sqlite:{root}/small.ledger"}

        def register() -> Engine:
            with open_engine(read_policy({**policy, **place}), lambda phase, name: None, LIMITS) as taken:
                return taken.commit("")

        return self.killing(KILLS, register)

    def killing(self, times: int, work: Callable[[], Result]) -> Result:
        """Return what some work returns during which so many executors are killed, the oldest first.

        Each is killed in another stage. The first is stopped before, so that the work cannot end without its death.
        """
        os.kill(executor_processes(self.session)[0], signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            running, stage = pool.submit(work), -1
            for _ in range(times):
                while (found := stage_in_progress(self.session, after=stage)) is None and not running.done():
                    time.sleep(0.005)
                assert found is not None, running.result()
                os.kill(executor_processes(self.session)[0], signal.SIGKILL)
                stage = found
            return running.result(timeout=300)


def skewed_world(people: int) -> World:
    """Return a clinic in which one more person has a tenth of all visits."""
    world, random = a_world(3, people=people), Random(4)
    visits = [*world.visits, *(visit(random, people) for _ in range(len(world.visits) // 9))]
    random.shuffle(visits)
    return World(visits, world.patients, world.survey)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    connection.stop()  # a Java process has one Spark
    settings = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # else one task would do it all
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than so few rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with pytest.MonkeyPatch.context() as patch, started(tmp_path_factory.mktemp("cluster"), settings) as session:
        found, frames = Cluster(session), type(session.range(1))
        to_arrow = frames.toArrow

        def seen(frame: Any) -> pa.Table:
            table = to_arrow(frame)
            found.rows_to_driver.append(table.num_rows)
            return table

        patch.setattr(frames, "toArrow", seen)
        patch.setattr(by_shuffle, "HEAVY_UNIT_ROWS", HEAVY)
        yield found
    connection.stop()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Both]:
    world = skewed_world(PEOPLE)
    assert sum(row["patient_id"] == PEOPLE for row in world.visits) > 1.5 * HEAVY
    both = Both(tmp_path_factory.mktemp("same"), cluster, world, TABLES, groups_per_unit=2)
    yield both
    for engine in both.engines:
        engine.close()


def test_a_copy_built_while_executors_are_killed_is_that_of_duckdb_row_for_row(clinic: Both, cluster: Cluster) -> None:
    assert spark().sparkContext.master.startswith("local-cluster[2,1,")
    assert max(cluster.rows_to_driver) == 1  # counts of the build
    tasks = tasks_of_executors(cluster.session)
    assert len(tasks) >= 2 + 1  # who was killed was replaced
    assert sum(completed > 0 for completed in tasks.values()) >= 2
    there = clinic.engines[1]
    assert isinstance(there, Spark)
    hidden = {name: hidden_columns(there, name) for name in TABLES if name != "staff"}
    of_duckdb, of_spark = (rows_of_copy(engine, hidden) for engine in clinic.engines)
    assert of_duckdb == of_spark
    assert of_duckdb["visits"].total() > PEOPLE


def test_answers_are_those_of_duckdb_and_their_cells_alone_reach_the_driver(clinic: Both, cluster: Cluster) -> None:
    for sql in ASKED:
        here = clinic.shown(clinic.engines[0], sql)
        cluster.rows_to_driver.clear()
        there = clinic.shown(clinic.engines[1], sql)
        assert here == there, sql
        assert len(here) > 2, sql
        if sql in CELLS:  # a statement returns no more rows than the answer has
            assert 0 < max(cluster.rows_to_driver) <= CELLS[sql], sql


def test_a_question_during_which_an_executor_is_killed_has_the_same_answer(clinic: Both, cluster: Cluster) -> None:
    here, there = clinic.engines
    assert cluster.killing(1, lambda: clinic.shown(there, next(iter(CELLS)))) == clinic.shown(here, next(iter(CELLS)))
