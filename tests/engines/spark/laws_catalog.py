"""Tables of a catalog as the source: the same answers as of the folder of the same rows."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.engines.spark.laws_session import COUNT, VALUE, policy_of_folder, write_visits
from tests.engines.spark_under_law import spark

import sfumato
from sfumato.cli import main
from sfumato.errors import BadSource
from sfumato.policy.reading import read_policy

QUESTIONS = (
    "SELECT COUNT(*) AS n, SUM(cost) AS total, SUM(year - 2024) AS later FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits WHERE at >= DATE '2025-01-01' GROUP BY dept ORDER BY dept",
    "SELECT boss, SUM(cost) AS total FROM visits JOIN staff USING (dept) GROUP BY boss ORDER BY boss",
)
SURE = 10**5
"""With so much epsilon the noise is 0 but for a chance below 10^-900 per number: the scale is at most 1/2,500."""


def answers(words: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the rows of every question without noise."""
    with sfumato.open({**words, "budget": {"epsilon": 10**7, "delta": 1e-6}}) as database:
        return [database.ask(sql, epsilon=SURE).rows() for sql in QUESTIONS]


def fill_catalog(session: Any, folder: Path, database: str) -> None:
    """Save the visits and the staff of a folder as tables of a database."""
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")  # the files hold a time that Spark cannot read
    session.conf.set("spark.sql.caseSensitive", "true")  # else the catalog would have all names in small letters
    session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    former, latter = (  # their types differ: the table has one
        session.read.parquet(f"{folder}/data/visits/year={year}/part.parquet").selectExpr(
            "who", "dept", "city", "CAST(cost AS DECIMAL(10,2)) AS cost", f"DATE'{year}-01-01' AS at", f"{year} AS year"
        )
        for year in (2024, 2025)
    )
    former.unionByName(latter).write.saveAsTable(f"{database}.visits", mode="overwrite")
    session.read.parquet(f"{folder}/data/staff.parquet").write.saveAsTable(f"{database}.Personnel", mode="overwrite")


def policy_of_catalog(folder: Path, name: str, source: str) -> dict[str, Any]:
    """Return the policy of the same tables in a catalog; the public one has another name there."""
    words = policy_of_folder(folder, name=name, source=source, ledger=f"sqlite:{folder}/{name}.ledger")
    return {**words, "tables": {**words["tables"], "staff": {"public": True, "from": "Personnel"}}}


def test_a_catalog_answers_as_its_folder_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_visits(tmp_path)
    fill_catalog(spark(), tmp_path, "lake")
    expected = answers(policy_of_folder(tmp_path))
    assert expected[0][0]["n"] == 40
    # which rows of a person are kept depends on the salt, so that both keep the same ones only under the same salt
    (tmp_path / "lake.ledger.copy.salt").write_bytes((tmp_path / "clinic.ledger.copy.salt").read_bytes())
    (tmp_path / "lake.ledger.copy.salt").chmod(0o600)
    assert answers(policy_of_catalog(tmp_path, "lake", "spark:catalog.lake")) == expected
    wrong = policy_of_catalog(tmp_path, "wrong", "spark:catalog.sea")
    with pytest.raises(BadSource, match="not in the source") as caught:
        sfumato.open(wrong)
    assert "sea" not in str(caught.value).replace("search", "")
    with sfumato.open(policy_of_catalog(tmp_path, "whole", "spark:catalog.spark_catalog.lake")) as database:
        assert database.ask(COUNT, epsilon=1).rows()
    assert VALUE not in "".join(capfd.readouterr())


def test_a_policy_is_drafted_from_a_catalog(tmp_path: Path) -> None:
    session = spark()
    session.sql("CREATE DATABASE IF NOT EXISTS drafted")
    session.sql(
        "CREATE TABLE IF NOT EXISTS drafted.stays (who BIGINT, cost DECIMAL(8,2) COMMENT 'in EUR') "
        "USING parquet COMMENT 'One row per stay'"
    )
    output = tmp_path / "lake.toml"
    options = ["--unit", "who", "--rows-per-unit", "5", "--epsilon", "1", "--delta", "0", "-o", str(output)]
    shown = CliRunner().invoke(main, ["init", "spark:catalog.drafted", *options])
    assert shown.exit_code == 0, shown.output
    written = output.read_text(encoding="utf-8")
    assert 'source = "spark:catalog.drafted"' in written
    assert "# One row per stay" in written
    assert "in EUR" in written
    stays = read_policy(output).table("stays")
    assert stays is not None
    cost = stays.column("cost")
    assert cost is not None
    assert (cost.type, cost.step) == ("decimal", Fraction(1, 100))
    missing = CliRunner().invoke(main, ["init", "spark:catalog.nowhere", "-o", str(tmp_path / "b.toml")])
    assert missing.exit_code == 2
    assert "The catalog that the source names is not there" in missing.output
