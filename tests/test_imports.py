"""What a command loads: a library that it does not need costs more time than all its work."""

import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.opening import open

HEAVY = ("duckdb", "numpy", "pyarrow", "sqlglot", "rich", "scipy", "pandas", "psycopg", "pyspark", "uvicorn")
ENGINE = ("sfumato.analysis", "sfumato.planning.plan", "sfumato.language.rel_nodes", "sfumato.engines.engine")
BUILDING = ("sfumato.engines.duckdb.build", "sfumato.engines.duckdb.source", "sfumato.engines.duckdb.inspecting")

LOADED = """
import sys
from sfumato.cli import main
try:
    main(sys.argv[1:])
finally:
    print("\\nloaded:", *sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imports")
    (folder / "visits.csv").write_text("who,cost\n" + "".join(f"{who},{who % 7}\n" for who in range(50)))
    path = folder / "clinic.toml"
    path.write_text(
        """
        name = "clinic"
        source = "csv:visits.csv"
        [budget]
        epsilon = 3
        delta = 0
        [tables.visits]
        unit = "who"
        rows_per_unit = 1
        columns = { who = { type = "integer" }, cost = { type = "integer", bounds = [0, 6] } }
        """
    )
    with open(str(path)) as database:
        database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    return path


def loaded(*words: str) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("command", ["codes", "budget", "history", "verify"])
def test_what_reads_the_ledger_alone_loads_no_engine_and_no_large_library(policy: Path, command: str) -> None:
    modules = loaded(command, *([] if command == "codes" else [str(policy)]))
    assert not modules & {*HEAVY, *ENGINE}
    assert len([name for name in modules if name.startswith("sfumato.")]) < 150


@pytest.mark.parametrize(
    "sql", ["SELECT COUNT(*) AS n FROM visits", "SELECT SUM(cost) AS c FROM visits WHERE cost > 2"]
)
def test_a_question_about_a_snapshot_loads_nothing_that_draws_or_builds(policy: Path, sql: str) -> None:
    modules = loaded("ask", str(policy), sql, "--epsilon", "0.1")
    assert not modules & ({*HEAVY, *BUILDING} - {"duckdb", "numpy", "sqlglot"})
