"""The laws of the Spark engine, in two processes: a session takes long to start, and a process has one."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.engines.spark.running import CLUSTER, FLAGS, LAWS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("laws", [LAWS, CLUSTER], ids=["one machine", "cluster"])
def test_the_laws_hold_on_spark(laws: list[str]) -> None:
    if find_spec("pyspark") is None or shutil.which("java") is None:
        if os.environ.get("CI"):
            pytest.fail("CI tests the Spark engine: install PySpark and a Java 17 runtime")
        pytest.skip("PySpark or Java is not installed: the Spark engine was NOT tested")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=laws_*.py", "-x"]
    path = [ROOT / "src", ROOT, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, **FLAGS, "PYTHONPATH": os.pathsep.join(map(str, path))}
    environment = {key: value for key, value in environment.items() if not key.startswith("PYTEST_")}
    done = subprocess.run([*command, *laws], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
