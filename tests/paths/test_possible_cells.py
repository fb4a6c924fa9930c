"""What a condition leaves of public values is found for keys alone, and is what the engine finds."""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.analysis import keys
from sfumato.errors import EngineFailed
from sfumato.prepare import RequestedPrice

COMPARISONS = ["<", "<=", ">", ">=", "<>", "="]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("cells")
    write(folder)
    columns: dict[str, Any] = {
        "person": {"type": "integer"},
        "day": {"type": "date", "bounds": [date(2000, 1, 1), date(2020, 12, 31)]},
        "grade": {"type": "integer", "values": [5, 1, 3, 2]},
        "cost": {"type": "decimal", "bounds": [0, 20], "step": 0.5},
    }
    policy: dict[str, Any] = {
        "name": "cells",
        "source": f"parquet:{folder}/data",
        "budget": {"epsilon": 100, "delta": 1e-6},
        "ledger": f"sqlite:{folder}/cells.ledger",
        "tables": {"visits": {"unit": "person", "rows_per_unit": 3, "columns": columns}},
    }
    with sfumato.open(policy) as opened:
        yield opened


def write(folder: Path) -> None:
    (folder / "data").mkdir()
    table = pa.table({"person": [1, 2], "day": [date(2001, 2, 3)] * 2, "grade": [1, 5], "cost": [1.5, 2.0]})
    pq.write_table(table, folder / "data" / "visits.parquet")


def cells(database: Any, sql: str) -> list[tuple[object, ...] | None]:
    (group,) = database.prepare(sql, None, RequestedPrice("1")).plan.private.groups
    return [key.cells for key in group.keys]


@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize(
    ("column", "values"),
    [("grade", ["0", "1", "3", "4", "5", "9", "2.5"]), ("cost", ["0", "0.25", "7.5", "20"]), ("grade + 1", ["3"])],
)
def test_arithmetic_leaves_what_the_engine_leaves(
    database: Any, operator: str, column: str, values: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = column.split()[0]
    for value in values:
        for condition in (f"{column} {operator} {value}", f"{value} {operator} {column}", f"NOT {key} {operator} 3"):
            sql = f"SELECT {key}, COUNT(*) FROM visits WHERE {condition} AND {key} < 19 GROUP BY {key}"
            try:
                found = cells(database, sql)
            except EngineFailed:
                raise
            except sfumato.Refusal:
                continue  # a condition that never holds
            with monkeypatch.context() as patched:
                patched.setattr(keys, "_ORDER", {})
                patched.setattr(keys, "_clipped_cells", lambda *_: None)
                assert found == cells(database, f"{sql} -- again"), sql


def test_a_condition_on_a_column_that_is_no_key_asks_no_engine(database: Any) -> None:
    public = database.engine.public
    with patch.object(type(public), "distinct", side_effect=AssertionError("nobody needs these values")):
        database.explain("SELECT COUNT(*) FROM visits WHERE day >= DATE '2012-03-04' AND grade <> 3", epsilon=1)
        database.explain("SELECT grade, COUNT(*) FROM visits WHERE EXTRACT(year FROM day) = 2012 GROUP BY 1", epsilon=1)
        database.explain(
            "SELECT COUNT(*) FROM (SELECT day + 1 AS d FROM visits WHERE day < DATE '2009-01-01') AS t", epsilon=1
        )
        # the days themselves are found by arithmetic
        database.explain("SELECT day, COUNT(*) FROM visits WHERE day >= DATE '2020-12-01' GROUP BY day", epsilon=1)


def test_a_long_chain_of_conditions_and_subqueries_leaves_its_values(database: Any) -> None:
    chain = " AND ".join(
        f"day <> DATE '2000-01-{1 + at % 28:02}' AND day >= DATE '2020-11-{1 + at % 30:02}'" for at in range(60)
    )
    (left,) = cells(database, f"SELECT day, COUNT(*) FROM visits WHERE {chain} GROUP BY day")
    assert left is not None
    assert len(left) == 32
    nested = "SELECT * FROM visits"
    for at in range(12):
        nested = f"SELECT * FROM ({nested}) AS t{at} WHERE grade <> {at + 2} AND day >= DATE '2020-12-{1 + at:02}'"
    (left,) = cells(database, f"SELECT day, COUNT(*) FROM ({nested}) AS t GROUP BY day")
    assert left is not None
    assert len(left) == 20
