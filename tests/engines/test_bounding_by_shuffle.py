"""Bounding in one pass writes the copy that bounding step by step does: tried on the embedded engine, in both ways."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.engines.builds import SALT, policy_of

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.duckdb_file import SOURCE
from sfumato.engines.duckdb.source import read_schema
from sfumato.engines.sql.bounding import by_shuffle
from sfumato.engines.sql.dialect import ByShuffle, ByWindow, Dialect, bounding_of
from sfumato.engines.sql.names import PERSON, quoted, together_name, value_multiplicity_column
from sfumato.engines.sql.staging import owned_rows
from sfumato.errors import BadSource
from sfumato.policy.policy import Policy

ONE_PASS = replace(DUCKDB, bounding=ByShuffle(lambda query, name: query))
VISITS: dict[str, Any] = {
    "unit": "who",
    "rows_per_unit": 3,
    "groups_per_unit": 1,
    "columns": {
        "who": {"type": "integer"},
        "visit": {"type": "integer"},
        "cost": {"type": "decimal", "bounds": [-2, 5], "step": "0.5"},
        "dept": {"type": "text", "values": ["er", "icu", "lab"]},
        "code": {"type": "text", "values": "codes.code"},
    },
}
NOTES: dict[str, Any] = {
    "unit": "visits.who via visit = visit",
    "rows_per_unit": 2,
    "columns": {"visit": {"type": "integer"}, "words": {"type": "integer", "bounds": [0, 9]}, "page": {"type": "text"}},
}
_OWN_COLUMNS = (together_name, value_multiplicity_column, lambda _: PERSON)
"""What hidden columns are called that only one of the ways to build a copy writes."""
SCHEMAS = {
    "visits": pa.schema(
        [
            ("who", pa.int64()),
            ("visit", pa.int32()),
            ("cost", pa.float64()),
            ("dept", pa.string()),
            ("code", pa.string()),
        ]
    ),
    "notes": pa.schema([("visit", pa.int64()), ("words", pa.int64()), ("page", pa.string())]),
    "codes": pa.schema([("code", pa.string())]),
}


def copied_by(dialect: Dialect, policy: Policy, tables: Mapping[str, pa.Table]) -> dict[str, Counter[Any]]:
    """Return every table of the copy to the last hidden column, those of removed rows and of losses among them.

    But for what a build in one pass keeps for itself, and what only DuckDB's copies say: how often a person has a
    value, and the number of the person.
    """
    with duckdb.connect(config={"threads": 1}) as connection:
        for name in (COPY, STAGE, SOURCE):
            connection.execute(f"ATTACH ':memory:' AS {name}")
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {SOURCE}.main.{quoted(name)} AS SELECT * FROM given")  # noqa: S608
        read = {name: table.num_rows for name, table in tables.items()}
        build = Build(connection, policy, read_schema(connection, policy), SALT, read, dialect=dialect)
        for table in policy.tables:
            build_table(build, table, lambda phase, name: None)
        found = connection.execute("SELECT database_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        assert not [name for database, name in found if database == STAGE]
        kept = [name for database, name in found if database == COPY]
        own = " OR ".join(f"starts_with(one, '{name('')}')" for name in _OWN_COLUMNS)
        listed = f"SELECT COLUMNS(lambda one: NOT ({own})) FROM {COPY}.main."  # noqa: S608
        return {name: Counter(connection.execute(listed + quoted(name)).fetchall()) for name in kept}


def tables_of(seed: int) -> dict[str, pa.Table]:
    """Return rows of people who have from none to many, many of them equal, and keys of one person or of none."""
    draw = Random(seed)
    people = [draw.choice([None, *range(12), *[7] * 8, *[8] * 4]) for _ in range(120)]
    visits = [
        {
            "who": who,
            "visit": draw.choice([None, *(3 * (who or 0) + at for at in range(3))]),
            "cost": draw.choice([None, float("nan"), 0.0, 0.25, 4.75, 5.0, 5.5, 7.0, -9.0, 1e300, -1e18]),
            "dept": draw.choice(["er", "icu", "no", None]),
            "code": draw.choice(["a", "b", None]),
        }
        for who in people
    ]
    notes = [
        {
            "visit": draw.choice([None, *range(40)]),
            "words": draw.choice([3, 9, 12, -2, 2**62, 2**63 - 1, -(2**63)]),
            "page": "é",
        }
        for _ in range(90)
    ]
    found = {"visits": visits + visits[:40], "notes": notes + notes[:20], "codes": [{"code": "a"}]}
    return {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in found.items()}


def policy_with(unique: Collection[str], truncation: str | None, **words: Any) -> Policy:
    """Return the policy in which these columns of visits are unique."""
    columns = {name: {**declared, "unique": name in unique} for name, declared in VISITS["columns"].items()}
    budget = {"epsilon": 1, "delta": 0, **({} if truncation is None else {"truncation": truncation})}
    tables = {"visits": {**VISITS, **words, "columns": columns}, "notes": NOTES, "codes": {"public": True}}
    return policy_of(tables, budget=budget)


def _in_parts() -> Dialect:
    window = bounding_of(DUCKDB, ByWindow)
    assert window.rank_partitions is not None
    return replace(DUCKDB, bounding=replace(window, rank_partitions=replace(window.rank_partitions, rows=25)))


@pytest.mark.parametrize("unique", [(), ("visit",)], ids=["none", "unique"])
def test_people_who_are_ranked_in_parts_keep_the_same_rows_numbers_and_losses(unique: tuple[str, ...]) -> None:
    policy, tables = policy_with(unique, "0.1"), tables_of(5)
    assert copied_by(_in_parts(), policy, tables) == copied_by(DUCKDB, policy, tables)


CHOSEN = {"rows_per_unit": {"most": 6, "choose": "private"}}


@pytest.mark.parametrize(
    ("very_many", "unique", "truncation", "words"),
    [
        (1 << 17, (), "0.1", {}),
        (4, (), "0.1", {}),
        (1 << 17, ("visit",), "0.1", {}),
        (4, ("visit", "cost"), "0.1", {}),
        (4, ("visit",), None, CHOSEN),
        (1 << 17, (), None, CHOSEN),
    ],
    ids=["together", "apart", "unique", "unique apart", "unique chosen", "chosen"],
)
def test_one_pass_keeps_the_same_rows_numbers_and_losses(
    very_many: int,
    unique: tuple[str, ...],
    truncation: str | None,
    words: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_shuffle, "HEAVY_UNIT_ROWS", very_many)
    policy, tables = policy_with(unique, truncation, **words), tables_of(very_many % 7)
    here, there = (copied_by(dialect, policy, tables) for dialect in (ONE_PASS, DUCKDB))
    assert set(here) == set(there)
    for name, rows in here.items():
        assert rows == there[name], name
    assert min(rows.total() for rows in here.values()) > 0
    assert len(here) == (5 if truncation is None else 7) + bool(words)  # totals of levels, where questions choose them


@pytest.mark.parametrize("unique", [(), ("visit",)], ids=["none", "unique"])
def test_a_row_that_is_lost_before_it_meets_the_others_of_its_person_is_missed(
    unique: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: table.slice(0, 60) for name, table in tables_of(3).items()}
    words: dict[str, Any] = {"rows_per_unit": 100}
    assert copied_by(ONE_PASS, policy_with(unique, None, **words), few)

    def one_less(*given: Any) -> str:
        return f"SELECT * FROM ({owned_rows(*given)}) AS o ORDER BY ALL OFFSET 1"  # noqa: S608

    monkeypatch.setattr(by_shuffle, "owned_rows", one_less)
    with pytest.raises(BadSource, match="not every row of the source was accounted for"):
        copied_by(ONE_PASS, policy_with(unique, None, **words), few)
