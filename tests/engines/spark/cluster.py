"""A Spark cluster on this machine: executors are processes of their own, and the driver computes nothing."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EXECUTOR = b"CoarseGrainedExecutorBackend"


@contextmanager
def started(folder: Path, settings: Mapping[str, str], executors: int = 2, memory: int = 1024) -> Iterator[Any]:
    """Give the session of a cluster of so many executors with one core each, and stop it afterwards.

    Workers write into the folder `work` of SPARK_HOME: it becomes one of links, below `folder`.
    """
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = folder / "home"
    home.mkdir(parents=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(found.origin).parent / name)
    os.environ |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    given = {
        "spark.master": f"local-cluster[{executors},1,{memory}]",
        "spark.executor.memory": f"{memory}m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "spill"),
        "spark.executor.heartbeatInterval": "2s",
        "spark.network.timeoutInterval": "2s",
        "spark.network.timeout": "20s",  # an executor that was killed does not answer again
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "100ms",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(2 * executors),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    core: Any = import_module("pyspark")
    session = import_module("pyspark.sql").SparkSession.builder.config(map=given).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    gateway = session.sparkContext._gateway
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        core.SparkContext._gateway = core.SparkContext._jvm = None
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
            del os.environ[name]


def executor_processes(session: Any) -> list[int]:
    """Return the processes of the executors: the Java of the driver is their parent."""
    driver = session.sparkContext._gateway.proc.pid
    return [process for process in _children(driver) if EXECUTOR in Path(f"/proc/{process}/cmdline").read_bytes()]


def _children(parent: int) -> list[int]:
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def tasks_of_executors(session: Any) -> dict[str, int]:
    """Return how many tasks each executor that ever was has completed, by its number."""
    store = session.sparkContext._jsc.sc().statusStore().executorList(False)
    every = [store.apply(at) for at in range(store.length())]
    return {one.id(): one.completedTasks() for one in every if one.id() != "driver"}


def stage_in_progress(session: Any, after: int = -1) -> int | None:
    """Return the number of a stage that runs now, of whose tasks some are completed, later than another one."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return next((one.stageId for one in stages if one and one.stageId > after and one.numCompletedTasks), None)


def cpu_seconds(session: Any) -> dict[str, float]:
    """Return the processor's seconds of the driver's Java, and of all executors that ever were, since they began."""
    driver = session.sparkContext._gateway.proc.pid
    own, ended = _cpu(driver)
    alive = sum(sum(_cpu(process)) for process in executor_processes(session))
    return {"driver": own, "executors": ended + alive}


def _cpu(process: int) -> tuple[float, float]:
    """Return the processor's seconds of a process, and of its children that ended."""
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own, system, ended, ended_system = (int(numbers[at]) / os.sysconf("SC_CLK_TCK") for at in range(11, 15))
    return own + system, ended + ended_system
