"""Cells of the engine are those of the domain: a table through the database is counted as the same table of arrays."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato
from sfumato.synthesis.domain import Range
from sfumato.synthesis.synthesize import synthesize, synthesize_table

DAY, NOON = date(2020, 2, 28), datetime(2020, 2, 28, 12)
COLUMNS: list[tuple[dict[str, Any], Range, list[Any]]] = [
    ({"type": "integer", "bounds": [18, 90]}, Range(18, 90, 7, whole=True), [18, 30, 54, 89, 90, 200, -3]),
    ({"type": "integer", "bounds": [-50, -10]}, Range(-50, -10, 7, whole=True), [-50, -49, -30, -10, 0, -99]),
    ({"type": "integer", "bounds": [-5, 5]}, Range(-5, 5, 7, whole=True), [-5, -1, 0, 1, 5, 6]),
    ({"type": "integer", "bounds": [3, 5]}, Range(3, 5, 7, whole=True), [3, 4, 5, 9]),
    (
        {"type": "date", "bounds": [DAY, DAY + timedelta(99)]},
        Range(DAY, DAY + timedelta(99), 7),
        [DAY, DAY + timedelta(50)],
    ),
    (
        {"type": "timestamp", "bounds": [NOON, NOON + timedelta(2)]},
        Range(NOON, NOON + timedelta(2), 7),
        [NOON, NOON + timedelta(hours=30), NOON + timedelta(9)],
    ),
    ({"type": "integer", "bounds": [0, 40]}, Range(0, 40, 7, whole=True), [0, 20, 40]),
]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("declared", "domain", "values"), COLUMNS)
def test_the_engine_counts_each_value_in_its_cell(
    tmp_path: Path, declared: dict[str, Any], domain: Range, values: list[Any], nulls: bool
) -> None:
    given = [*values, *values[:2], None]
    (tmp_path / "data").mkdir()
    table = {"id": list(range(len(given))), "x": given, "b": [True] * len(given)}
    parquet.write_table(pa.table(table), tmp_path / "data" / "t.parquet")
    columns = {"id": {"type": "integer"}, "x": declared, "b": {"type": "boolean"}}
    said: dict[str, object] = {
        "source": f"parquet:{tmp_path / 'data'}",
        "ledger": f"sqlite:{tmp_path / 't.ledger'}",
        "budget": {"epsilon": 100_000, "delta": "1e-6"},
        "tables": {"t": {"unit": "id", "rows_per_unit": 1, "columns": columns}},
    }
    exact: dict[str, Any] = {"epsilon": 10_000, "delta": "0.4"}  # noise of a deviation far below 1
    with sfumato.open(said) as db:
        found = synthesize(db, "t", columns=["x", "b"], **exact, bins=7, nulls=["x"] if nulls else [])
    arrays = synthesize_table({"x": given}, {"x": domain}, **exact, nulls=["x"] if nulls else [])
    counts = [held.marginal("x").counts.round().astype(int).tolist() for held in (found, arrays)]
    assert counts[0] == counts[1]
    assert sum(counts[0]) == len(given) - (not nulls)


def test_a_decimal_is_counted_in_the_cell_of_its_steps(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    values = [Decimal("2.5"), Decimal("2.75"), Decimal("9"), Decimal("8.75"), Decimal("100")]
    parquet.write_table(pa.table({"id": range(5), "x": values}), tmp_path / "data" / "t.parquet")
    columns = {"id": {"type": "integer"}, "x": {"type": "decimal", "bounds": [2.5, 9], "step": 0.25}}
    said: dict[str, object] = {
        "source": f"parquet:{tmp_path / 'data'}",
        "ledger": f"sqlite:{tmp_path / 't.ledger'}",
        "budget": {"epsilon": 100_000, "delta": "1e-6"},
        "tables": {"t": {"unit": "id", "rows_per_unit": 1, "columns": columns}},
    }
    with sfumato.open(said) as db:
        found = synthesize(db, "t", columns=["x"], epsilon=10_000, delta="0.4", bins=27)
    wanted = np.zeros(27)
    wanted[[0, 1, 25, 26]] = 1, 1, 1, 2
    assert found.marginal("x").counts.round().tolist() == wanted.tolist()
