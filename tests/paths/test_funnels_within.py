"""Counts whose conditions contain each other, with margins that are named: they are measured without steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.release.bars_clinic import opened

import sfumato

FUNNEL = ", ".join(f"COUNT(*) FILTER (WHERE step >= {least}) AS n{least}" for least in (1, 2, 3))
TABLE: dict[str, Any] = {"rows_per_unit": 1, "columns": {"step": {"type": "integer", "bounds": [0, 5]}}}


def _clinic(folder: Path) -> sfumato.Database:
    return opened(folder, {"p": np.arange(600), "step": np.arange(600) % 6}, dict(TABLE))


@pytest.mark.parametrize("within", [{"n1": 30}, {"n3": 30}, {"n1": 60, "n2": 30, "n3": 20}])
def test_margins_of_a_funnel_that_are_named_are_kept(tmp_path: Path, within: dict[str, int]) -> None:
    sql = f"SELECT {FUNNEL} FROM v"  # noqa: S608
    with _clinic(tmp_path) as database:
        quoted = database.explain(sql, within=within).margins
        ends = database.ask(sql, within=within).intervals()[0]
    for name, most in within.items():
        low, high = ends[name]
        margin = quoted[name]
        assert margin is not None
        assert margin <= most
        assert high - low <= 2 * most
