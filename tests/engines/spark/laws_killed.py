"""Processes that build a copy in Spark: one that is killed leaves nothing that counts, of two at once one builds.

It takes long: by command.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.laws_session import COUNT, left_behind, policy_of_folder, write_visits
from tests.engines.spark_under_law import spark

import sfumato

BUILDING = """
import sys
import sfumato
from sfumato.engines.spark.build import SparkBuild
make = SparkBuild.create_table_as
def slow(build, relation, query, *, salted=False):
    make(build, relation, query, salted=salted)
    if "s_units" in relation:
        print("half", flush=True)
        sys.stdin.read()
SparkBuild.create_table_as = slow
with sfumato.open(eval(sys.argv[1])) as database:
    print(database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.01").rows(), flush=True)
"""


def _builder(words: dict[str, Any]) -> subprocess.Popen[str]:
    """Start a process that opens a database, waits when it has built half of the copy, and asks one question."""
    command = [sys.executable, "-c", BUILDING, repr(words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_that_open_at_once_one_builds_and_the_other_uses_it(tmp_path: Path) -> None:
    write_visits(tmp_path)
    words = policy_of_folder(tmp_path)
    with _builder(words) as former:
        assert former.stdout is not None
        assert former.stdout.readline() == "half\n"
        with _builder(words) as latter:
            with pytest.raises(subprocess.TimeoutExpired):  # it starts its Spark, and waits
                latter.communicate(timeout=30)
            assert len(left_behind(tmp_path)) == 1
            built, _ = former.communicate("", timeout=300)
            used, _ = latter.communicate("", timeout=300)
    assert former.returncode == latter.returncode == 0
    # the same question of the same snapshot is the same release, and the latter never came to half of a copy
    assert used == built
    assert used.startswith("[{")
    assert len(left_behind(tmp_path)) == 1


def test_who_is_killed_while_building_leaves_nothing_that_counts(tmp_path: Path) -> None:
    write_visits(tmp_path)
    words = policy_of_folder(tmp_path)
    with _builder(words) as building:
        assert building.stdout is not None
        assert building.stdout.readline() == "half\n"
        (half,) = left_behind(tmp_path)
        building.send_signal(signal.SIGKILL)
    time.sleep(1)
    assert left_behind(tmp_path) == [half]
    spark()
    with sfumato.open(words) as database:
        assert half not in left_behind(tmp_path)
        assert database.ask(COUNT, epsilon=1).rows()
    with pytest.raises(FileNotFoundError):
        (tmp_path / half).stat()
