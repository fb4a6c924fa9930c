"""Spark over Connect: the same answers, the same silence, and one sentence when the server is gone.

It needs the packages of `pyspark[connect]`, and starts the server that PySpark brings in a process of its own.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.engines.spark.laws_catalog import answers, policy_of_catalog
from tests.engines.spark.laws_session import policy_of_folder, write_visits
from tests.engines.spark.running import FLAGS

from sfumato.engines.spark import connection

ROOT = Path(__file__).parents[3]
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
ASKING = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.engines.spark.laws_catalog import answers, fill_catalog, policy_of_catalog
from tests.engines.spark.laws_session import policy_of_folder
folder = Path(sys.argv[1])
fill_catalog(SparkSession.builder.getOrCreate(), folder, "lake")
print(answers(policy_of_folder(folder)))
print(answers(policy_of_catalog(folder, "lake", "spark:catalog.lake")))
"""
FAILING = """
import sys, time
from pathlib import Path
import sfumato
from tests.engines.spark.laws_session import COUNT, policy_of_folder
with sfumato.open(policy_of_folder(Path(sys.argv[1]))) as database:
    assert database.ask(COUNT, epsilon=1).rows()
    print("asked", flush=True)
    sys.stdin.readline()
    before, begin = database.budget().spent.epsilon, time.monotonic()
    try:
        database.ask(COUNT, epsilon=2)
    except sfumato.Refusal as refusal:
        assert refusal.__cause__ is refusal.__context__ is None
        print(refusal.code, database.budget().spent.epsilon > before, time.monotonic() - begin < 120, flush=True)
    sys.stdin.readline()
    print(len(database.ask(COUNT, epsilon=3).rows()), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    if None in map(find_spec, ("grpc", "grpc_status", "zstandard")):
        pytest.skip("pyspark[connect] is not installed: Spark Connect was NOT tested")
    connection.stop()  # one Java at a time
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home = Path(spark.origin).parent
    submit = [str(home / "bin" / "spark-submit"), "--class", CLASS, "--master", "local[2]"]
    environment = {**os.environ, **FLAGS, "SPARK_HOME": str(home)}
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 4,
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
        "spark.ui.enabled": "false",
    }
    command = [*submit, *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}"))]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(server)
        for _ in range(240):
            with closing(socket.socket()) as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    return server
            time.sleep(0.5)
        pytest.fail("the server did not start")

    os.environ["SPARK_REMOTE"] = f"sc://127.0.0.1:{port}"
    try:
        yield start
    finally:
        del os.environ["SPARK_REMOTE"]
        for server in started:
            kill(server)


def kill(server: subprocess.Popen[bytes]) -> None:
    """End a server and the processes that it started."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def asking(script: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_folder_and_a_catalog_answer_over_connect_as_in_this_process(
    tmp_path: Path, serve: Callable[[], subprocess.Popen[bytes]]
) -> None:
    write_visits(tmp_path)
    serve()
    (tmp_path / "lake.ledger.copy.salt").write_bytes(bytes(32))
    (tmp_path / "clinic.ledger.copy.salt").write_bytes(bytes(32))
    for salt in tmp_path.glob("*.salt"):
        salt.chmod(0o600)
    with asking(ASKING, tmp_path) as client:
        found, told = client.communicate(timeout=1200)
    assert (client.returncode, told) == (0, "")
    files, tables = map(eval, found.splitlines())
    assert files == tables
    here = policy_of_folder(tmp_path, name="here", source=f"parquet:{tmp_path}/data", ledger=f"sqlite:{tmp_path}/h")
    (tmp_path / "h.copy.salt").write_bytes(bytes(32))
    (tmp_path / "h.copy.salt").chmod(0o600)
    assert files == answers(here)
    assert policy_of_catalog(tmp_path, "lake", "spark:catalog.lake")["tables"]["staff"]["from"] == "Personnel"


def test_a_server_that_is_killed_is_one_sentence_charged_and_a_new_one_is_used(
    tmp_path: Path, serve: Callable[[], subprocess.Popen[bytes]]
) -> None:
    write_visits(tmp_path)
    server = serve()
    with asking(FAILING, tmp_path) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stdout.readline() == "asked\n"
        kill(server)
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "engine_failed True True\n"
        again = serve()
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "1\n"
        kill(again)
        client.stdin.write("\n")
        assert client.communicate(timeout=120) == ("", "")  # it does not wait for a server that is gone
        assert client.returncode == 0
