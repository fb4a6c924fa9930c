"""Spark sessions whose settings are ours, and whose failures all read the same.

A session that runs in this process is used and never stopped; where there is none, one of our own is started, once, and
ends with the process. Nothing that Spark, Java or the driver says leaves this file.
"""

import atexit
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from subprocess import DEVNULL
from tempfile import mkdtemp
from threading import RLock
from typing import Any, TypeVar

import pyarrow as pa

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.engine import Limits
from sfumato.engines.spark.schemes import SPARK
from sfumato.errors import BadSource, EngineFailed, Refusal

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.optimizer.windowGroupLimitThreshold": "1000000",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.variable.substitute": "false",
}
"""What statements mean depends on these: they are set in a session of their own, and read again.

The threshold lets Spark keep of each person and partition the rows that come first, before rows are sent around: a
person with very many rows is no slow task.
"""
MIN_MAJOR_VERSION = 4
_WINDOW_LIMIT_SETTING = "spark.sql.optimizer.windowGroupLimitThreshold"
"""A setting that has our value in no session but ours."""
_REMOTE_VARIABLES = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")
"""Where these are set, a Spark that another program started is to be used."""
_MAX_RETRIES = 5
"""Maximum number of retries if a server does not answer, over 17 seconds."""
_CHANNEL = {"grpc.use_local_subchannel_pool": 1, "grpc.max_reconnect_backoff_ms": 1000}
"""A server that was started again is reached at once: else all channels of a process wait together, ever longer."""
Result = TypeVar("Result")
_SILENT = "status = off\nrootLogger.level = off\n"
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark prints every error through these, with the values that are in it."""


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """The session of this process."""

    session: Any
    process: int
    gateway: Any
    """The way to a Java process of our own; None where another program's session is used."""
    folder: Path | None
    """Where that process writes what does not fit into memory: only its owner may enter."""


_LOCK = RLock()
_HELD_SESSIONS: list[_Held] = []


def session(limits: Limits | None = None) -> Any:
    """Return a session with our settings: of the Spark that runs in this process, or of one that is started now."""
    with _LOCK:
        if _HELD_SESSIONS and _HELD_SESSIONS[0].process != os.getpid():
            record_engine_failure("This process was forked: the connection to Java is that of its parent.")
            raise EngineFailed()
        if _HELD_SESSIONS and not _is_alive(_HELD_SESSIONS[0].session):
            _let_go()
        if not _HELD_SESSIONS:
            _HELD_SESSIONS.append(_begun(limits or Limits()))
        return _HELD_SESSIONS[0].session


def execute(statement: str) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, which leave Spark as one Arrow table; a failure is one fixed sentence."""
    return guarded(lambda: _rows(session().sql(statement).toArrow()), statement)


def execute_in_columns(statement: str, keys: int | None = None) -> list[pa.ChunkedArray]:
    """Run one statement that may return very many rows and return its columns.

    If the first `keys` columns are keys, rows with equal keys leave Spark as one row with a list of the other values.
    This process receives as many rows as there are keys, and they never become objects of Python.
    """
    return guarded(lambda: _in_columns(session().sql(statement), keys), statement)


def guarded(work: Callable[[], Result], statement: str = "") -> Result:
    """Return what a call of Spark returns; a failure is one fixed sentence.

    The refusal is raised after the handler, so that Spark's words are not even in its context.
    """
    try:
        return work()
    except Refusal:
        raise
    except (Exception, SystemExit) as error:  # a session that died raises whatever the driver happened to do,
        # and under `python -c` PySpark ends the process where a package of Connect is missing
        record_engine_failure(error, statement)
    raise EngineFailed()


def stop() -> None:
    """Stop the session if it is our own; another one is only let go of."""
    with _LOCK:
        if _HELD_SESSIONS and _HELD_SESSIONS[0].process == os.getpid():
            _let_go()


def java_process() -> int | None:
    """Return the process of our own Java, if there is one."""
    return _HELD_SESSIONS[0].gateway.proc.pid if _HELD_SESSIONS and _HELD_SESSIONS[0].gateway is not None else None


def _rows(table: Any) -> list[tuple[Any, ...]]:
    columns = [_column(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _column(column: Any) -> list[Any]:
    values = column.to_pylist()
    return (
        [None if value is None else int(value) for value in values]
        if str(column.type).startswith("decimal")
        else values
    )


def _in_columns(frame: Any, keys: int | None) -> list[pa.ChunkedArray]:
    if keys is None:
        return list(frame.toArrow().columns)
    functions: Any = import_module("pyspark.sql.functions")
    names = [f"c{at}" for at in range(len(frame.columns))]
    held = functions.collect_list(functions.struct(*names[keys:]))
    packed = frame.toDF(*names).groupBy(*names[:keys]).agg(held).toArrow()
    lists = packed.column(keys).combine_chunks()
    rows = lists.value_parent_indices()
    others = [pa.chunked_array([column]) for column in lists.flatten().flatten()]
    return [*(column.take(rows) for column in packed.columns[:keys]), *others]


def _begun(limits: Limits) -> _Held:
    spark = _driver()
    with warnings.catch_warnings():  # about versions of libraries that are not used, and settings with a new name
        warnings.simplefilter("ignore")
        running = _running(spark)
        if running is None and any(name in os.environ for name in _REMOTE_VARIABLES):
            running = _refusing(spark.SparkSession.builder.getOrCreate)
            if _is_remote(running):
                _end_with_the_process(running)
        gateway, folder = None, None
        if running is None:
            gateway, folder, running = _start_local(limits)
        pinned = _refusing(lambda: _pin_session(running))
    if pinned is None:
        raise BadSource(
            "The settings of the Spark session could not be set.",
            "The meaning of a statement depends on them, so nothing is read with other settings.",
            "Use PySpark 4 or newer and a session whose spark.sql settings can be changed.",
        )
    return _Held(pinned, os.getpid(), gateway, folder)


def _running(spark: Any) -> Any:
    """Return a session of the Spark that runs in this process, whichever thread made it; None where none runs."""
    found: Any = None
    with suppress(EngineFailed):
        found = guarded(spark.SparkSession.getActiveSession)  # of this thread
    context: Any = getattr(import_module("pyspark"), "SparkContext", None)
    if found is None and context is not None and context._active_spark_context is not None:
        found = _refusing(spark.SparkSession.builder.getOrCreate)
    return found


def _pin_session(running: Any) -> Any:
    """Return a session beside the running one, which keeps its own settings; None where one was not taken."""
    if _is_remote(running):
        for option, number in _CHANNEL.items():
            running.client._builder.setChannelOption(option, number)  # of channels that are opened from now on
    pinned = running.newSession()
    if _is_remote(pinned):  # it would try for ten minutes to reach a server that is gone
        retrying: Any = import_module("pyspark.sql.connect.client.retries")
        pinned.client.set_retry_policies([retrying.DefaultPolicy(max_retries=_MAX_RETRIES)])
        _end_with_the_process(pinned)
    for key, value in SETTINGS.items():
        pinned.conf.set(key, value)
    return pinned if all(pinned.conf.get(key) == value for key, value in SETTINGS.items()) else None


def _refusing(work: Callable[[], Result]) -> Result:
    try:
        return guarded(work)
    except EngineFailed:
        pass
    raise BadSource(
        "Spark could not be started or reached.",
        "Its message is not shown, because it may contain an address or a path.",
        "Check that a Java 17 runtime is installed (JAVA_HOME, or java on the PATH); of a remote one the address, "
        "pip install 'pyspark[connect]', and that PySpark is 4.3 or newer on both sides.",
    )


def _start_local(limits: Limits) -> tuple[Any, Path, Any]:
    """Start a local Spark that listens to no other process, shows nothing, and whose files only the owner may read."""
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise BadSource(
            "A source on Spark needs a Java 17 runtime, which was not found.",
            "Spark runs in Java, beside this program.",
            "Install one (for example the package openjdk-17-jre-headless), or set JAVA_HOME.",
        )
    folder = Path(mkdtemp(prefix="sfumato-spark-"))  # for its owner only
    (folder / "log4j2.properties").write_text(_SILENT)
    gateway = None
    try:
        core = import_module("pyspark")
        conf = core.SparkConf(loadDefaults=False)
        for key, value in _own_settings(folder, limits).items():
            conf.set(key, value)
        launch = import_module("pyspark.java_gateway").launch_gateway
        gateway = _refusing(lambda: launch(conf, {"stderr": DEVNULL, "stdout": DEVNULL}))
        context = _refusing(lambda: core.SparkContext(conf=conf, gateway=gateway))
        return gateway, folder, _refusing(lambda: import_module("pyspark.sql").SparkSession(context))
    except BaseException:
        _end(gateway, folder)
        raise


def _own_settings(folder: Path, limits: Limits) -> dict[str, str]:
    log = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties"
    return {
        "spark.app.name": "sfumato",
        "spark.master": f"local[{limits.threads or '*'}]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{log} -Djava.io.tmpdir={folder}",
        "spark.driver.maxResultSize": "256m",
        "spark.driver.memory": f"{max(limits.memory_bytes >> 20, 512)}m",
        "spark.eventLog.enabled": "false",
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.io.encryption.enabled": "true",
        "spark.local.dir": str(folder / "spill"),
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(max(4 * (limits.threads or os.cpu_count() or 1), 8)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _is_remote(session: Any) -> bool:
    """Tell whether a session is one over Spark Connect."""
    return ".connect." in type(session).__module__


def _end_with_the_process(session: Any) -> None:
    """See to it that a remote session of our own ends with the process, and its connection with it.

    PySpark closes the connection when it forgets a session, where gRPC waits without end for calls to a server that is
    gone; and at the end of the process it asks the server to drop models that we never make, for ten minutes.
    """
    session.client.close = _do_nothing
    atexit.unregister(session.client._on_exit)


def _do_nothing() -> None:
    pass


def _is_alive(session: Any) -> bool:
    def alive() -> bool:
        if _is_remote(session):  # a server that was started again does not know our settings
            return not session.is_stopped and session.conf.get(_WINDOW_LIMIT_SETTING) == SETTINGS[_WINDOW_LIMIT_SETTING]
        return session.sparkContext._jsc is not None and not session.sparkContext._jsc.sc().isStopped()

    try:
        return guarded(alive)
    except EngineFailed:
        return False


def _let_go() -> None:
    held = _HELD_SESSIONS.pop()
    if held.gateway is not None:
        _end(held.gateway, held.folder)


def _end(gateway: Any, folder: Path | None) -> None:
    """End a Java process of our own, dead or alive, so that PySpark can start another one."""
    core: Any = import_module("pyspark")
    sql: Any = import_module("pyspark.sql")
    context = core.SparkContext._active_spark_context
    others = context is not None and context._gateway is not gateway  # another program's context, which goes on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ending in (lambda: None if others else context.stop(), lambda: gateway.shutdown()):
            with suppress(EngineFailed):  # it may be dead
                guarded(ending)
    if gateway is not None and gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.kill()
        gateway.proc.wait()
    if not others:
        core.SparkContext._active_spark_context = core.SparkContext._gateway = core.SparkContext._jvm = None
        sql.SparkSession._instantiatedSession = sql.SparkSession._activeSession = None
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _driver() -> Any:
    try:
        with warnings.catch_warnings():  # about versions of pandas, which is not used
            warnings.simplefilter("ignore")
            spark = import_module("pyspark.sql")
        version = import_module("pyspark").__version__
    except ImportError:
        spark, version = None, ""
    if spark is None or int(version.split(".")[0]) < MIN_MAJOR_VERSION:
        raise BadSource(
            "A source on Spark needs PySpark 4, which is not installed.",
            "It is an optional extra.",
            f"Install it: pip install '{SPARK.install}'. It needs a Java 17 runtime.",
        )
    logger: Any = import_module("pyspark.logger").PySparkLogger
    for name in _LOGGERS:
        logger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_of_the_driver)
    return spark


def _not_of_the_driver(record: logging.LogRecord) -> bool:
    """Pass over what the driver logs under no name of its own."""
    return "py4j" not in Path(record.pathname).parts


atexit.register(stop)
