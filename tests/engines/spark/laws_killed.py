"""A process that is killed while it builds a copy in Spark leaves nothing that counts. It takes long: by command."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.engines.spark.laws_session import COUNT, left_behind, policy_of_folder, write_visits
from tests.engines.spark_under_law import spark

import sfumato

BUILDING = """
import sys
import sfumato
from sfumato.engines.spark.build import SparkBuild
make = SparkBuild.make
def slow(build, relation, query, *, salted=False):
    make(build, relation, query, salted=salted)
    if "s_crowded" in relation:
        print("half", flush=True)
        sys.stdin.read()
SparkBuild.make = slow
sfumato.open(eval(sys.argv[1]))
"""


def test_who_is_killed_while_building_leaves_nothing_that_counts(tmp_path: Path) -> None:
    write_visits(tmp_path)
    words = policy_of_folder(tmp_path)
    command = [sys.executable, "-c", BUILDING, repr(words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as building:
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
