"""Answers as data frames: the same columns, types and values with and without pyarrow."""

import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pytest
from tests.release.plans import COUNTED

from sfumato.language.facts import Facts
from sfumato.query.types import Type
from sfumato.release.rendering import export
from sfumato.release.rendering.export import ExportColumn, arrow_table, export_column, pandas_frame, polars_frame

VALUES: dict[Type, list[Any]] = {
    Type.INTEGER: [3, -1, 2**62],
    Type.DECIMAL: [0.5, 2, -1.25],
    Type.BOOLEAN: [True, False, True],
    Type.DATE: [date(2024, 2, 29), date(1970, 1, 1), date(1900, 1, 1)],
    Type.TIMESTAMP: [datetime(2024, 2, 29, 12, 0, 0, 5), datetime(1970, 1, 1), datetime(1900, 1, 1)],
    Type.TEXT: ["er", "", "it's"],
    Type.INTERVAL: [timedelta(days=1), timedelta(microseconds=5), timedelta(0)],
}
CASES = {
    f"{type.value} {kind}": (type, values)
    for type, found in VALUES.items()
    for kind, values in (("values", found), ("with NULL", [found[0], None, found[1]]), ("NULLs", [None] * 3), ("", []))
}
CASES["integers beyond 64 bits"] = (Type.INTEGER, [2**80, None, -1])
CASES["integers beyond 38 digits"] = (Type.INTEGER, [10**40, None, 1])


def column(type: Type, values: list[Any]) -> ExportColumn:
    facts: Facts = COUNTED
    return export_column("x", values, replace(facts, type=type))


@pytest.mark.parametrize("case", CASES)
def test_polars_gets_what_arrow_would_give(case: str) -> None:
    made = column(*CASES[case])
    direct, by_arrow = polars_frame([made]), pl.from_arrow(arrow_table([made]))
    assert isinstance(by_arrow, pl.DataFrame)
    assert direct.schema == by_arrow.schema
    assert direct.equals(by_arrow)


@pytest.mark.parametrize("case", CASES)
def test_pandas_gets_the_same_without_arrow(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = column(*CASES[case])
    by_arrow = pandas_frame([made])
    monkeypatch.setattr(export, "_has_arrow", lambda: False)
    pd.testing.assert_frame_equal(pandas_frame([made]), by_arrow)


def test_frames_need_no_arrow_installed() -> None:
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("duckdb", "scipy", "pyarrow", "sqlglot", "click", "starlette"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from sfumato.query.types import Type
from sfumato.release.rendering.export import ExportColumn, pandas_frame, polars_frame
columns = [ExportColumn("dept", Type.TEXT, ["er"]), ExportColumn("n", Type.INTEGER, [3])]
print(pandas_frame(columns).to_dict("records"), polars_frame(columns).to_dicts())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[{'dept': 'er', 'n': 3}] [{'dept': 'er', 'n': 3}]\n", done.stderr
