"""Editors and type checkers know the public names: a program outside of the package passes `mypy --strict`."""

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from tests.types import outside_program

LARGE = ",".join(f"{name}.*" for name in ("altair", "duckdb", "mcp", "numpy", "pandas", "polars", "pyarrow", "sqlglot"))
"""Packages of others that take mypy long, and say nothing about our names."""
PROGRAM = Path(outside_program.__file__)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy says about the program and about its mistakes, in a folder without our configuration."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copyfile(PROGRAM, folder / "program.py")
    (folder / "mistakes.py").write_text("import sfumato\n\n" + "\n".join(outside_program.WRONG) + "\n")
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\n[mypy-{LARGE}]\nfollow_imports = skip\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        str(folder / "cache"),
        "program.py",
        "mistakes.py",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False).stdout


def test_the_marker_for_type_checkers_ships() -> None:
    assert (files("sfumato") / "py.typed").is_file()


def test_the_program_has_no_type_error(said: str) -> None:
    assert [line for line in said.splitlines() if line.startswith("program.py")] == []


def test_each_mistake_is_reported(said: str) -> None:
    found = {
        int(line.split(":")[1]) - 2 for line in said.splitlines() if line.startswith("mistakes.py") and "error" in line
    }
    assert found == set(range(1, len(outside_program.WRONG) + 1)), said
