"""How long would a cluster of 10 or 100 machines take? A model, fitted on one executor and checked on two.

`python benchmarks/cluster_model.py` starts Spark clusters of one and of two executors on this machine, each executor a
process with one core, registers tables of several sizes and asks a question by 1,000 groups. It counts the processor's
time, because executors share the cores of one machine with each other and with everything else: of the tasks, as Spark
counts it, and of the driver's two processes.

The model: time = driver + tasks' time / cores + bytes sent / network. The tasks' time is fixed + rows × slope, fitted
to the two least sizes on one executor; on several executors it is larger by a factor, fitted to the least size on two:
each compiles for itself, and rows are sent between processes. The driver's time is fixed, and grows with the number of
tasks and of groups: both slopes are measured alone. All other sizes are predicted, beside what was measured.
"""

import gc
import math
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.engines import SQL, policy, write_parts
from tests.engines.spark.cluster import cpu_seconds, started

import sfumato
from sfumato.engines.spark import connection
from sfumato.opening import open_without_charge

SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000)
FITTED = 2
"""The least sizes to which the model is fitted, on one executor; all others are predicted."""
EMPTY_TASKS = 1_000
ROUNDS = 3
CORES, NETWORK = 16, 1.25e9
"""Assumed of a machine of a cluster, never measured: 16 cores, and a network of 10 Gbit/s."""
_TOTAL = "SELECT COUNT(*) AS n, SUM(price) AS total FROM sales"
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Work:
    """What something took: the processor's seconds of all tasks and of the driver, tasks, and bytes that were sent."""

    tasks_cpu: float
    driver: float
    python: float
    """The part of the driver's time that was this process's."""
    tasks: int
    sent: int
    share: float
    """The part of the tasks' time that the busiest executor had."""

    @property
    def seconds(self) -> float:
        """The time on executors with a core each, were none of them disturbed."""
        return self.driver + self.tasks_cpu * self.share


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that grows in proportion: fixed + slope × size."""

    fixed: float
    slope: float

    def at(self, size: float) -> float:
        """Return the cost of a size."""
        return self.fixed + self.slope * size


def line_through(points: Sequence[tuple[float, float]]) -> Line:
    """Return the line through two points, of which neither part is negative."""
    (low, cheap), (high, dear) = points
    slope = max((dear - cheap) / (high - low), 0.0)
    return Line(max(cheap - slope * low, 0.0), slope)


def _counted(session: Any) -> tuple[float, dict[str, int], int, int]:
    """Return the tasks' seconds of the processor, each executor's milliseconds of tasks, tasks, and bytes sent."""
    store = session.sparkContext._jsc.sc().statusStore()
    none = session.sparkContext._gateway.new_array(session.sparkContext._jvm.double, 0)
    empty = session.sparkContext._jvm.java.util.ArrayList()
    stages = store.stageList(empty, False, False, none, empty)
    cpu = sum(stages.apply(at).executorCpuTime() for at in range(stages.length())) / 1e9
    executors = store.executorList(False)
    every = [executors.apply(at) for at in range(executors.length())]
    every = [one for one in every if one.id() != "driver"]
    busy = {one.id(): one.totalDuration() for one in every}
    return cpu, busy, sum(one.totalTasks() for one in every), sum(one.totalShuffleWrite() for one in every)


def measured(session: Any, action: Callable[[], object]) -> Work:
    """Return what an action takes."""
    before, java, python = _counted(session), cpu_seconds(session)["driver"], time.process_time()
    action()
    python, java = time.process_time() - python, cpu_seconds(session)["driver"] - java
    time.sleep(0.5)  # Spark counts a little later
    after = _counted(session)
    busy = [after[1][name] - before[1].get(name, 0) for name in after[1]]
    share = max(busy) / max(sum(busy), 1)
    return Work(after[0] - before[0], java + python, python, after[2] - before[2], after[3] - before[3], share)


def least(works: Sequence[Work]) -> Work:
    """Return the one that took least."""
    return min(works, key=lambda work: work.seconds)


@dataclass(frozen=True, slots=True)
class Run:
    """What one size took on one cluster."""

    executors: int
    rows: int
    registering: Work
    asking: Work
    heap: float
    """Mebibytes of the driver's Java that are in use after the question."""


def run_of(session: Any, folder: Path, executors: int, rows: int) -> Run:
    """Register a table of so many rows and ask the question."""
    words = policy(folder, f"e{executors}r{rows}n{next(_numbers)}", f"spark:{folder}/{rows}")
    opened: list[sfumato.Database] = []
    registering = measured(session, lambda: opened.append(open_without_charge(words)))
    with opened[0] as database:

        def ask() -> None:
            database.ask(_unasked(SQL), epsilon=1).rows()

        asking = least([measured(session, ask) for _ in range(ROUNDS)])
    return Run(executors, rows, registering, asking, _heap(session))


def _unasked(sql: str) -> str:
    """Return a question that differs from all before, so that nothing is reused, and reads as much."""
    return sql.replace("FROM sales", f"FROM sales WHERE price < {500 - next(_numbers) / 100}")


def _heap(session: Any) -> float:
    gc.collect()
    session.sparkContext._jvm.java.lang.System.gc()
    runtime = session.sparkContext._jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)


def per_task(session: Any) -> float:
    """Return the driver's seconds for one task, of many that do nothing."""

    def run() -> None:
        session.range(0, EMPTY_TASKS, 1, EMPTY_TASKS).selectExpr("max(id)").toArrow()

    return least([measured(session, run) for _ in range(ROUNDS)]).driver / EMPTY_TASKS


def per_group(session: Any, folder: Path, rows: int) -> float:
    """Return the driver's seconds for one group more: 1,000 of them beside none."""
    words = policy(folder, f"groups{rows}", f"spark:{folder}/{rows}")
    with open_without_charge(words) as database:

        def ask(sql: str) -> Work:
            return measured(session, lambda: database.ask(_unasked(sql), epsilon=1).rows())

        both = [(ask(SQL), ask(_TOTAL)) for _ in range(ROUNDS)]
    many, none = (min(pair[at].python for pair in both) for at in range(2))
    return float(max(many - none, 0.0)) / 1_000


def in_cluster(folder: Path, executors: int, sizes: Sequence[int]) -> tuple[list[Run], float, float]:
    """Return what every size takes on a cluster, and the driver's seconds for a task and for a group."""
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "8"}
    with started(folder / f"cluster{executors}", settings, executors) as session:
        run_of(session, folder, executors, sizes[0])  # Java compiles what it has run
        run_of(session, folder, executors, sizes[0])
        runs = [run_of(session, folder, executors, rows) for rows in sizes]
        slopes = per_task(session), per_group(session, folder, sizes[0])
        connection.stop()
    return runs, *slopes


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of a cost over the size, in logarithms, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(cost, 1e-9)) for cost in costs]
    middle = sum(xs) / len(xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / sum((x - middle) ** 2 for x in xs)


@dataclass(frozen=True, slots=True)
class Model:
    """What registering or one question takes on any cluster."""

    tasks_cpu: Line
    driver: float
    tasks: int
    """How many tasks the driver's time includes."""
    sent_per_row: float
    per_task: float
    apart: float
    """By which factor the tasks' time is larger on several executors than on one."""

    def seconds(self, rows: float, cores: int, machines: int = 1, tasks: int | None = None) -> float:
        """Return the time on so many machines, which have so many cores together."""
        driver = self.driver + self.per_task * max((tasks or self.tasks) - self.tasks, 0)
        away = 0 if machines == 1 else 1 - 1 / machines  # what stays on its machine is not sent
        tasks_cpu = self.tasks_cpu.at(rows) * (self.apart if cores > 1 else 1)
        return driver + tasks_cpu / cores + self.sent_per_row * rows * away / (machines * NETWORK)


def fitted(runs: Sequence[Run], work: Callable[[Run], Work], task: float) -> Model:
    """Return the model of the least sizes on one executor, and of the least one on two."""
    known = [(run.rows, work(run)) for run in runs if run.executors == 1][:FITTED]
    line = line_through([(rows, one.tasks_cpu) for rows, one in known])
    rows, last = known[-1]
    two = next(run for run in runs if run.executors > 1)
    apart = max(work(two).tasks_cpu / line.at(two.rows), 1.0)
    return Model(line, min(one.driver for _, one in known), last.tasks, last.sent / rows, task, apart)


def print_checks(name: str, model: Model, runs: Sequence[Run], work: Callable[[Run], Work]) -> None:
    """Print what was measured beside what the model says, and how the parts grow."""
    print(
        f"\n{name}: tasks {model.tasks_cpu.fixed:.2f} s + {model.tasks_cpu.slope * 1e6:.2f} s per million rows, "
        f"{model.apart:.2f} times that on several executors, driver {model.driver:.2f} s, "
        f"{model.sent_per_row:.1f} bytes sent per row\n"
    )
    print("| executors | rows | tasks, s | driver, s | busiest executor | time, s | model, s | model / time |")
    print("|---|---|---|---|---|---|---|---|")
    least_of_two = next(run for run in runs if run.executors > 1)
    for run in runs:
        found, told = work(run), model.seconds(run.rows, run.executors)
        fit = "fitted" if run in runs[:FITTED] or run is least_of_two else f"{told / found.seconds:.2f}"
        print(
            f"| {run.executors} | {run.rows:,} | {found.tasks_cpu:.2f} | {found.driver:.2f} | {found.share:.0%} | "
            f"{found.seconds:.2f} | {told:.2f} | {fit} |"
        )
    one = [run for run in runs if run.executors == 1]
    sizes = [run.rows for run in one]
    print(
        f"\nexponents on one executor: tasks {exponent(sizes, [work(run).tasks_cpu for run in one]):.2f}, "
        f"driver {exponent(sizes, [work(run).driver for run in one]):.2f}"
    )


def print_clusters(models: dict[str, Model]) -> None:
    """Print what the model says of clusters that are not here."""
    print(f"\nA machine has {CORES} cores and {NETWORK / 1.25e8:g} Gbit/s; two tasks per core and stage:\n")
    print("| machines | rows | " + " | ".join(models) + " |\n|---|---|" + "---|" * len(models))
    for machines in (1, 10, 100):
        for rows in (10**9, 10**10, 10**11):
            cores = CORES * machines
            told = [
                model.seconds(rows, cores, machines, max(2 * cores, 8) * max(model.tasks // 8, 1))
                for model in models.values()
            ]
            print(f"| {machines} | {rows:,} | " + " | ".join(f"{seconds:,.1f} s" for seconds in told) + " |")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="at least three sizes, the least first")
    sizes = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in sizes:
            write_parts(folder / str(rows) / "sales", rows, 0)
        runs, task, group = in_cluster(folder, 1, sizes)
        runs += in_cluster(folder, 2, sizes[1:])[0]
    models: dict[str, Model] = {}
    kinds: dict[str, Callable[[Run], Work]] = {
        "registering": lambda run: run.registering,
        "question by 1,000 groups": lambda run: run.asking,
    }
    for name, work in kinds.items():
        models[name] = fitted(runs, work, task)
        print_checks(name, models[name], runs, work)
    print(f"\ndriver: {task * 1000:.2f} ms per task, {group * 1e6:.0f} µs per group")
    heaps = ", ".join(f"{run.rows:,} rows {run.heap:.0f} MiB" for run in runs)
    print(f"driver's Java after a question: {heaps}")
    print_clusters(models)


if __name__ == "__main__":
    main()
