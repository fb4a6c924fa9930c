"""From the eight files of TPC-H to a private answer over three joined tables: `init`, `check` and `ask`, no editor."""

import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import duckdb
import pytest
from click.testing import CliRunner

from sfumato.cli import main

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
JOIN = "customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey"
SEGMENTS = "AUTOMOBILE,BUILDING,FURNITURE,HOUSEHOLD,MACHINERY"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of TPC-H's own generator: 300 customers."""
    program = which("tpchgen-cli", path=str(Path(sys.executable).parent)) or which("tpchgen-cli")
    if program is None:
        pytest.skip("NOT RUN: tpchgen-cli is not installed (pip install 'sfumato[test]')")
    folder = tmp_path_factory.mktemp("shop")
    subprocess.run([program, "parquet", "-s", "0.002", "-o", str(folder / "tpch")], check=True, capture_output=True)
    assert sorted(path.stem for path in (folder / "tpch").iterdir()) == list(TABLES)
    return folder


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_three_commands_lead_from_eight_files_to_an_answer_over_three_of_them(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    public = [word for table in ("nation", "part", "partsupp", "region", "supplier") for word in ("--public", table)]
    said = _run(
        *("init", "tpch", "--unit", "customer.c_custkey", *public),
        *("--rows-per-unit", "orders=40", "--rows-per-unit", "lineitem=200"),
        *("--bounds", "l_extendedprice=0:100000", "--bounds", "o_orderdate=1992-01-01:1998-12-31"),
        *("--values", f"c_mktsegment={SEGMENTS}", "--values", "c_nationkey=nation.n_nationkey"),
        *("--epsilon", "8", "--delta", "1e-6"),
    )
    assert "in lineitem the person is orders.o_custkey via l_orderkey = o_orderkey" in said
    checked = _run("check", "tpch.toml")
    assert "lineitem  one o_custkey, found in orders: at most 200 rows count" in checked
    question = f"SELECT c_mktsegment AS s, COUNT(*) AS n FROM {JOIN} GROUP BY s"  # noqa: S608
    shown = _run("ask", "tpch.toml", question, "--epsilon", "4")
    answer = {name: int(count.replace(",", "")) for name, count in re.findall(r"(?m)^([A-Z]+) +(-?[\d,]+) ± ", shown)}
    margin = int(re.findall(r"± ([\d,]+)", shown)[0].replace(",", ""))
    files = {table: f"'{shop / 'tpch' / table}.parquet' AS {table}" for table in TABLES}
    joined = re.sub(r"\b(customer|orders|lineitem)\b", lambda name: files[name[0]], JOIN)
    truth = dict(duckdb.execute(f"SELECT c_mktsegment, COUNT(*) FROM {joined} GROUP BY 1").fetchall())  # noqa: S608
    assert margin < 200  # with o_orderkey unique a person's lines count once; otherwise 40 times as often
    assert set(answer) == set(truth)
    # 95 % margins of Laplace noise are three scales: five are passed in twice 10^-6 of all runs
    assert all(abs(answer[segment] - truth[segment]) <= 5 * margin for segment in truth)


def test_without_a_word_about_units_nothing_is_answered(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    said = _run("init", "tpch", "-o", "silent.toml")
    assert "Still to fill in: budget.epsilon, budget.delta, tables.customer.unit." in said
    assert CliRunner().invoke(main, ["check", "silent.toml"]).exit_code == 2
