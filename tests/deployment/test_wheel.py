"""The wheel and the sdist hold the whole program, and without extras every command works or says what to install."""

import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.deployment.environments import EXTRAS, REPOSITORY, Environment, build

import sfumato

POLICY = """
source = "csv:visits.csv"
budget = { epsilon = 3, delta = 1e-6 }
analysts.research.epsilon = 1
[tables.visits]
unit = "patient_id"
rows_per_unit = 2
columns = { patient_id = { type = "integer" }, dept = { type = "text", values = ["er", "icu"] } }
"""
COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"

COMMANDS = {
    "plot": ("ask", "clinic.toml", COUNT, "--epsilon", "0.1", "--plot", "picture.svg"),
    "postgres": ("check", "elsewhere.toml"),
    "spark": ("check", "cluster.toml"),
    "server": ("serve", "clinic.toml"),
    "report": ("report", "clinic.toml", "--format", "pdf", "--output", "report.pdf"),
    "mcp": ("mcp", "clinic.toml", "--analyst", "research"),
}
"""A command that needs the extra."""

CALLS = {
    "pandas": "release.to_pandas()",
    "polars": "release.to_polars()",
    "torch": "import_module('sfumato.learn.ghost').clipped_sum(None, None, None, None, 1)",
    "paillier": "import_module('sfumato.sealed.providers').Paillier()",
    "bfv": "import_module('sfumato.sealed.providers').Bfv()",
}
"""A line of Python that needs the extra."""

UNNEEDED = frozenset({"learn", "client"})
"""Extras that no message names: pipelines of scikit-learn, and what `connect` needs of what is installed anyway."""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    visits = [f"{visit % 600},{('er', 'icu')[visit % 2]}" for visit in range(900)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient_id,dept", *visits]) + "\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "clinic.toml").write_text(POLICY)
    (tmp_path / "elsewhere.toml").write_text(POLICY.replace("csv:visits.csv", "postgresql://reader@localhost/clinic"))
    (tmp_path / "cluster.toml").write_text(POLICY.replace("csv:visits.csv", "spark:data"))
    return tmp_path


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = REPOSITORY / "src"
    wanted = {str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name and ".egg-info" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted
    assert f"sfumato-{sfumato.__version__}-py3-none-any.whl" == wheel.name


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build(tmp_path / "dist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert {"LICENSE", "SECURITY.md", "deploy", "docs", "proofs", "tests"} <= {path.name for path in source.iterdir()}
    again = build(tmp_path / "again", "wheel", source)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_without_extras_questions_are_answered(bare: Environment, clinic: Path) -> None:
    for command in (
        ("check", "clinic.toml"),
        ("explain", "clinic.toml", COUNT, "--epsilon", "0.1"),
        ("ask", "clinic.toml", COUNT, "--epsilon", "0.1", "--output", "table.csv"),
        ("verify", "clinic.toml"),
        ("report", "clinic.toml", "--format", "html", "--output", "report.html"),
    ):
        done = bare.run(bare.program, *command, cwd=clinic)
        assert done.returncode == 0, (command, done.stderr)
    assert (clinic / "table.csv").read_text().startswith("dept,")
    assert "budget" in bare.run(bare.program, "--help", cwd=clinic).stdout


def test_every_extra_has_a_case() -> None:
    assert sorted(EXTRAS) == sorted([*COMMANDS, *CALLS, *UNNEEDED])


@pytest.mark.parametrize("extra", COMMANDS)
def test_a_command_without_its_extra_says_what_to_install(extra: str, bare: Environment, clinic: Path) -> None:
    done = bare.run(bare.program, *COMMANDS[extra], cwd=clinic)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'sfumato[{extra}]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_call_without_its_extra_says_what_to_install(bare: Environment, clinic: Path) -> None:
    script = f"""
from importlib import import_module
import sfumato

database = sfumato.open("clinic.toml")
release = database.ask({COUNT!r}, epsilon="0.1")
assert release.to_arrow().num_rows == 2
for extra, call in {CALLS!r}.items():
    try:
        eval(call)
    except sfumato.Refusal as refusal:
        assert f"pip install 'sfumato[{{extra}}]'" in str(refusal), (extra, str(refusal))
    else:
        raise AssertionError(extra)
"""
    done = bare.run(bare.python, "-c", script, cwd=clinic)
    assert done.returncode == 0, done.stderr
