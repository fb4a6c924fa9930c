"""An engine of another package is found by its entry point, answers, and keeps and counts the same as the built-in."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engines import DuckDBUnderLaw
from tests.engines.test_same_answers import REFUSED, Both
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world

import sfumato
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.engine import Engine, Limits
from sfumato.engines.opening import open_engine
from sfumato.policy.reading import read_policy

OUTSIDE = Path(__file__).parent / "outside"
PEOPLE, ROWS, MOST = 40, 3, 2
POLICY = """
source = "mirror:data"
neighbours = "add-remove"
[budget]
epsilon = 2000
delta = 0
[tables.visits]
unit = "patient_id"
rows_per_unit = 2
[tables.visits.columns]
patient_id = {type = "integer"}
"""


def installed(folder: Path) -> list[str]:
    """Return the folders that stand for an installed package: its metadata, and its code."""
    info = folder / "mirror_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mirror-engine\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[sfumato.engines]\nmirror = mirror_engine.schemes:MIRROR\n", encoding="utf-8"
    )
    return [str(folder), str(OUTSIDE)]


@pytest.fixture(scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for folder in installed(tmp_path_factory.mktemp("packages") / "site"):
            patch.syspath_prepend(folder)
        yield


class MirrorUnderLaw(DuckDBUnderLaw):
    """The outside engine, opened as a policy opens it."""

    dialect = replace(DUCKDB, name="mirror")

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        (root / "data").mkdir(parents=True, exist_ok=True)
        for name, table in data.items():
            pq.write_table(table, root / "data" / f"{name}.parquet")
        place = {"source": f"mirror:{root}/data", "ledger": f"sqlite:{root}/small.ledger"}
        with open_engine(read_policy({**policy, **place}), lambda phase, name: None, Limits(threads=2)) as taken:
            return taken.commit("")


def test_a_process_with_the_package_opens_and_answers(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    people = [person for person in range(PEOPLE) for _ in range(ROWS)]
    pq.write_table(pa.table({"patient_id": people}), tmp_path / "data" / "visits.parquet")
    (tmp_path / "clinic.toml").write_text(POLICY, encoding="utf-8")
    command = [sys.executable, str(OUTSIDE / "ask_mirror.py"), str(tmp_path / "clinic.toml")]
    here = [str(Path(sfumato.__file__).parents[1])]
    outside = subprocess.run(command, env=_environment(here), capture_output=True, text=True, check=False)
    assert outside.returncode != 0
    assert "not known here" in outside.stderr
    known = _environment([*here, *installed(tmp_path / "site")])
    answered = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert answered.returncode == 0, answered.stderr
    assert int(answered.stdout) == PEOPLE * MOST  # the scale of the noise is 2/1000: it is 0 but once in e^500 draws


def _environment(folders: list[str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


@pytest.mark.usefixtures("_installed")
def test_refusals_quotes_keys_and_exact_integers_are_those_of_the_built_in_engine(tmp_path: Path) -> None:
    both = Both(tmp_path, MirrorUnderLaw(), a_world(1, people=12))
    try:
        for sql in (*SHAPES, *REFUSED):
            here, there = (both.shown(engine, sql) for engine in both.engines)
            assert here == there, sql
    finally:
        for engine in both.engines:
            engine.close()
