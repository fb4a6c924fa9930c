"""Spark as a guest: what its plans and logs hold, what is left behind, what fails, and what nobody is told."""

import logging
import os
import shutil
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.spark_under_law import LIMITS, spark, write_folder

import sfumato
from sfumato.engines.spark import connection
from sfumato.engines.spark.build import SparkBuild
from sfumato.errors import BadSource, EngineFailed

DEPTS = ("er", "icu", "surgery")
COUNT = "SELECT COUNT(*) AS n FROM visits"
FIXED = str(EngineFailed())
VALUE = "Unverwechselbarheim"


def policy_of_folder(folder: Path, **more: Any) -> dict[str, Any]:
    columns = {
        "who": {"type": "integer"},
        "dept": {"type": "text", "values": list(DEPTS)},
        "city": {"type": "text"},
        "cost": {"type": "decimal", "bounds": [0, 10], "step": "0.5"},
        "year": {"type": "integer", "bounds": [2020, 2030]},
        "at": {"type": "timestamp"},
    }
    return {
        "name": "clinic",
        "source": f"spark:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1000, "delta": 1e-6},
        "tables": {"visits": {"unit": "who", "rows_per_unit": 2, "columns": columns}, "staff": {"public": True}},
        **more,
    }


def write_visits(folder: Path, rows: int = 60) -> None:
    """Write visits in partitions, whose files store their numbers in different types; half of the rows are 2024's."""
    for year, kind in ((2024, pa.float64()), (2025, pa.decimal128(10, 2))):
        here = range(rows // 2) if year == 2024 else range(rows // 2, rows)
        table = pa.table(
            {
                "who": pa.array([at % 20 for at in here], pa.int32()),
                "dept": [DEPTS[at % 3] for at in here],
                "city": [VALUE for _ in here],
                "cost": pa.array([at % 7 + 0.5 for at in here]).cast(kind),
                "at": pa.array([datetime(year, 1, 1) for _ in here], pa.timestamp("ns")),
            }
        )
        (folder / "data" / "visits" / f"year={year}").mkdir(parents=True)
        pq.write_table(table, folder / "data" / "visits" / f"year={year}" / "part.parquet")
    write_folder(folder / "data", {"staff": pa.table({"dept": list(DEPTS), "boss": ["Ann", "Bob", "Eve"]})})


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".rows-" in path.name or ".build-" in path.name)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spark()
    folder = tmp_path_factory.mktemp("clinic")
    write_visits(folder)
    return folder


def test_partitions_files_of_different_types_and_nanoseconds_are_read_and_nothing_is_told(
    clinic: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []
    make = SparkBuild.create_table_as

    def seen(build: SparkBuild, relation: str, query: str, *, salted: bool = False) -> None:
        plans.append(query + build.session.sql(query)._jdf.queryExecution().toString())
        make(build, relation, query, salted=salted)

    monkeypatch.setattr(SparkBuild, "create_table_as", seen)
    dead = [clinic / f"clinic.ledger.{name}" for name in ("build-dead", "rows-dead")]
    for folder in dead:  # what a process that was killed leaves behind
        (folder / "stage").mkdir(parents=True)
    with sfumato.open(policy_of_folder(clinic)) as database:
        assert not any(folder.exists() for folder in dead)
        (row,) = database.ask("SELECT COUNT(*) AS n, SUM(year - 2024) AS later FROM visits", epsilon=100).rows()
        assert abs(row["n"] - 40) <= 2  # 20 people keep 2 of 3 rows each
        assert 5 < row["later"] < 35
        bosses = database.ask(
            "SELECT boss AS myalias, SUM(cost) AS s FROM visits JOIN staff USING (dept) GROUP BY boss", epsilon=100
        ).rows()
        assert {one["myalias"] for one in bosses} == {"Ann", "Bob", "Eve"}
        database.ask("SELECT COUNT(*) AS n FROM visits WHERE at >= DATE '2025-01-01'", epsilon=1)
        (copy,) = left_behind(clinic)
        assert all(path.stat().st_mode & 0o077 == 0 for path in [clinic / copy])
    salt = (clinic / "clinic.ledger.copy.salt").read_bytes().hex()
    told = "".join(capfd.readouterr())
    assert any("salt" in plan for plan in plans)
    assert not any(hidden in "".join(plans) for hidden in (salt, VALUE, "Ann"))
    assert told == ""
    assert left_behind(clinic) == [copy]
    assert not [view.name for view in spark().catalog.listTables() if view.name.startswith("c_")]


def test_settings_are_ours_whatever_the_session_of_others_says() -> None:
    ours = spark()
    assert {key: ours.conf.get(key) for key in connection.SETTINGS} == connection.SETTINGS
    static = {key: ours.sparkContext.getConf().get(key) for key in ("spark.ui.enabled", "spark.io.encryption.enabled")}
    assert static == {"spark.ui.enabled": "false", "spark.io.encryption.enabled": "true"}
    spill = Path(ours.sparkContext.getConf().get("spark.local.dir"))
    assert spill.parent.stat().st_mode & 0o077 == 0
    assert not logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.CRITICAL)


def test_an_error_of_spark_is_one_sentence_without_a_word_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    spark()
    with pytest.raises(EngineFailed) as caught:
        connection.execute("SELECT CAST('geheim' AS BIGINT)")
    assert (str(caught.value), caught.value.__cause__, caught.value.__context__) == (FIXED, None, None)
    assert "geheim" not in "".join(capfd.readouterr())


def test_java_that_is_killed_is_one_sentence_charged_and_the_next_question_is_answered(
    clinic: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    unasked = [f"{COUNT} WHERE cost > {at}" for at in range(3)]  # what was asked before is answered without Spark
    with sfumato.open(policy_of_folder(clinic)) as database:
        process = connection.java_process()
        assert process is not None
        before = database.budget().spent.epsilon
        os.kill(process, signal.SIGKILL)
        alive = connection._is_alive
        connection._is_alive = lambda session: True  # it dies after we looked
        try:
            with pytest.raises(EngineFailed) as caught:
                database.ask(unasked[0], epsilon=1)
        finally:
            connection._is_alive = alive
        assert (str(caught.value), caught.value.__cause__, caught.value.__context__) == (FIXED, None, None)
        assert database.budget().spent.epsilon > before
        assert database.ask(unasked[1], epsilon=1).rows()
        assert connection.java_process() != process
        (copy,) = left_behind(clinic)
        shutil.rmtree(clinic / copy)
        with pytest.raises(EngineFailed):
            database.ask(unasked[2], epsilon=1)
    assert "".join(capfd.readouterr()) == ""


def test_a_missing_driver_or_java_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_visits(tmp_path)
    connection.stop()

    def missing(name: str) -> None:
        raise ImportError(name)

    with monkeypatch.context() as patch:
        patch.setattr(connection, "import_module", missing)
        with pytest.raises(BadSource, match=r"pip install 'sfumato\[spark\]'"):
            sfumato.open(policy_of_folder(tmp_path))
    with monkeypatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(BadSource, match="Java 17"):
            sfumato.open(policy_of_folder(tmp_path))
    assert not left_behind(tmp_path)
    assert LIMITS.threads == 2
