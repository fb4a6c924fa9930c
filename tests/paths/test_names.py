# ruff: noqa: S608
"""Names are the owner's: none that we use inside can be taken for one of theirs, nor theirs for one of ours."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato
from sfumato.errors import BadPolicy
from sfumato.policy.reading import read_policy

_WORDS = """
id u k n c0 c1 c2 k0 k1 v0 p0_0 p1_0 o p f h place part first nth draw rank row rowid unit rows units owners found pairs
lost chosen crowded folded copy stage source main csv0 records keys0 removed file_name filename
"""
INSIDE = tuple(_WORDS.split())
"""What statements call things while a copy is built or read, and what the engine itself has names for."""


def _open(folder: Path, table: str, unit: str, columns: list[str], scheme: str = "duckdb") -> sfumato.Database:
    """Twenty people with six rows each; the column at place i holds i + 1 in every row.

    At the prices below noise is not 0 with a probability below e^-1000.
    """
    listed = [f'(x % 20) AS "{unit}"', *(f'{at + 1} AS "{name}"' for at, name in enumerate(columns))]
    rows = f"SELECT {', '.join(listed)} FROM range(120) t(x)"
    with duckdb.connect() as connection:
        if scheme == "duckdb":
            connection.execute(f"ATTACH '{folder}/source.duckdb' AS d; CREATE TABLE d.\"{table}\" AS {rows}; DETACH d")
        else:
            (folder / "data").mkdir()
            connection.execute(f"COPY ({rows}) TO '{folder}/data/{table}.{scheme}'")
    declared: dict[str, Any] = {name: {"type": "integer", "bounds": [0, 100]} for name in columns}
    return sfumato.open(
        {
            "source": f"{scheme}:{folder}/{'source.duckdb' if scheme == 'duckdb' else 'data'}",
            "ledger": f"sqlite:{folder}/x.ledger",
            "budget": {"epsilon": 10**12, "delta": 0},
            "tables": {
                table: {"unit": unit, "rows_per_unit": 4, "columns": {unit: {"type": "integer"}, **declared}},
            },
        }
    )


def _check(database: sfumato.Database, table: str, unit: str, columns: list[str]) -> None:
    sums = ", ".join(f'SUM("{name}") AS "{name}"' for name in columns)
    asked = f'SELECT COUNT(*) AS people, {sums} FROM "{table}"'
    row = database.ask(asked, epsilon=10**8).rows()[0]
    assert [round(value) for value in row.values()] == [80, *(80 * (at + 1) for at in range(len(columns)))]
    nested = (
        f'SELECT SUM(least(a, 10)) AS a FROM (SELECT "{unit}", COUNT(*) AS a, MAX("{columns[0]}") AS b FROM "{table}" '
        f'GROUP BY "{unit}") AS s'
    )
    assert round(database.ask(nested, epsilon=10**8).rows()[0]["a"]) == 80
    lost = database.ask(f'SELECT COUNT(*) AS n, SUM(removed_rows) AS r FROM "{table}.removed"', epsilon=10**8).rows()[0]
    assert (round(lost["n"]), round(lost["r"])) == (20, 40)


@pytest.mark.parametrize("scheme", ["duckdb", "csv"])
def test_columns_may_be_called_what_statements_call_things_inside(tmp_path: Path, scheme: str) -> None:
    columns = [*INSIDE, "removed_rows"]
    with _open(tmp_path, "visits", "who", columns, scheme) as database:
        _check(database, "visits", "who", columns)


@pytest.mark.parametrize("name", ["id", "rowid", "c0"])
def test_so_may_the_person_and_the_table(tmp_path: Path, name: str) -> None:
    columns = [other for other in INSIDE if other != name][:5]
    with _open(tmp_path, name, name, columns) as database:
        _check(database, name, name, columns)


@pytest.mark.parametrize("name", ["removed_rows", "Removed_Rows"])
def test_a_person_called_like_the_number_of_removed_rows_is_refused_from_the_policy_alone(name: str) -> None:
    """The sum of removed rows read ids, and whether that failed told neighbours apart."""
    words: dict[str, Any] = {
        "source": "parquet:nowhere",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"v": {"unit": name, "rows_per_unit": 1, "columns": {name: {"type": "integer"}}}},
    }
    with pytest.raises(BadPolicy, match=r"tables.v.unit .*removed_rows.* Rename the column of the person"):
        read_policy(words)


@pytest.mark.parametrize("name", ["v.removed", "v/removed", 'v"removed'])
def test_a_table_cannot_be_called_like_one_of_ours(name: str) -> None:
    with pytest.raises(BadPolicy):
        read_policy({"source": "parquet:x", "budget": {"epsilon": 1, "delta": 0}, "tables": {name: {"unit": "rows"}}})
