"""The heart: a person's rows in the copy depend on that person's own rows and on nothing else."""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.engines.builds import SALT, bounded, policy_of
from tests.engines.engines import Rows
from tests.engines.reference import Row, bounded_reference, keyed

from sfumato.engines.sql.names import PATH_UNIT
from sfumato.policy.policy import Policy

pytestmark = pytest.mark.usefixtures("every_engine")

ORDERS = {
    "unit": "person",
    "rows_per_unit": 2,
    "columns": {
        "person": {"type": "integer"},
        "key": {"type": "integer", "unique": True},
        "cost": {"type": "decimal", "bounds": [-2, 5], "step": "0.5"},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "code": {"type": "text", "values": "codes.code"},
        "day": {"type": "date", "bounds": [date(2020, 1, 1), date(2020, 1, 3)]},
        "at": {"type": "timestamp"},
        "ok": {"type": "boolean"},
    },
}
LINES = {
    "unit": "orders.person via link = key",
    "rows_per_unit": 3,
    "columns": {"link": {"type": "integer"}, "amount": {"type": "integer", "bounds": [0, 3]}, "Note": {"type": "text"}},
}
VOTES = {"unit": "rows", "columns": {"choice": {"type": "integer", "bounds": [0, 9]}}}
POLICY = policy_of({"orders": ORDERS, "lines": LINES, "votes": VOTES, "codes": {"public": True}})
SCHEMAS = {
    "orders": pa.schema(
        [
            ("person", pa.int64()),
            ("key", pa.int32()),
            ("cost", pa.float64()),
            ("dept", pa.string()),
            ("code", pa.string()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("ok", pa.bool_()),
            ("undeclared", pa.string()),
        ]
    ),
    "lines": pa.schema([("link", pa.int64()), ("amount", pa.int16()), ("Note", pa.string())]),
    "votes": pa.schema([("choice", pa.decimal128(38, 10))]),
    "codes": pa.schema([("code", pa.string())]),
}

Database = dict[str, list[Row]]
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Each example builds a database: shrinking one would take minutes."""

_few = st.integers(0, 3) | st.none()


def own_key(row: Row) -> Row:
    """Return an order with a key that leads to nobody but its person; one without a person may have any of them."""
    key, person = row["key"], row["person"] or 0
    return {**row, "key": None if key is None else 10 * person + key % 10}


_texts = st.sampled_from(["", "er", "icu", "zz", "1:a", "-", "é", None])
order_rows = st.fixed_dictionaries(
    {
        "person": _few,
        "key": _few,
        "cost": st.sampled_from([None, float("nan"), float("inf"), -0.0, 0.25, 0.75, 1.0, 7.5, -9.0, 5e-324]),
        "dept": _texts,
        "code": _texts,
        "day": st.dates(date(2019, 12, 30), date(2020, 1, 5)) | st.none(),
        "at": st.datetimes(datetime(1969, 1, 1), datetime(1971, 1, 1)) | st.none(),
        "ok": st.booleans() | st.none(),
        "undeclared": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3),
    }
).map(own_key)
_links = st.sampled_from([None, *(10 * person + key for person in range(5) for key in range(4))])
_lines = st.fixed_dictionaries({"link": _links, "amount": st.integers(-5, 9) | st.none(), "Note": _texts})
_votes = st.fixed_dictionaries({"choice": st.decimals(-5, 15, places=1).map(Decimal) | st.none()})
databases = st.fixed_dictionaries(
    {
        "orders": st.lists(order_rows, max_size=12),
        "lines": st.lists(_lines, max_size=12),
        "votes": st.lists(_votes, max_size=4),
        "codes": st.just([{"code": "1:a"}, {"code": "er"}, {"code": None}]),
    }
)


def arrow(database: Database) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist([*rows], SCHEMAS[name]) for name, rows in database.items()}


def copied(database: Database, **options: Any) -> dict[str, Rows]:
    return bounded(POLICY, arrow(database), **options)


def of_unit(rows: Rows, unit: int) -> Rows:
    return Counter({row: count for row, count in rows.items() if row[0] == unit})


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(databases)
def test_the_copy_is_what_the_definition_says(database: Database) -> None:
    copy = copied(database)
    assert {name: copy[name] for name in ("orders", "lines", "votes")} == bounded_reference(POLICY, database, SALT)
    assert copy["codes"] == Counter([("1:a",), ("er",), (None,)])


def visits(unit: str, rows: int, **columns: object) -> Policy:
    return policy_of({"visits": {"unit": unit, "rows_per_unit": rows, "columns": columns}})


@pytest.mark.parametrize("most", [1, 3, 8])
def test_where_many_rows_are_equal_the_copy_is_what_the_definition_says(most: int) -> None:
    """No column is unique, and people differ in how often their rows repeat: some have one row twenty times."""
    draw, choices = Random(5), (1, 2, 20)
    rows: list[Row] = [
        {
            "who": who,
            "x": draw.randrange(draw.choice(choices)),
            "y": draw.choice(["é", "", None]),
            "z": draw.choice([0.5, None]),
        }
        for who in (*range(-3, 9), None)
        for _ in range(who % 5 * 6 if who else 20)
    ]
    numbers = {"x": {"type": "integer", "bounds": [0, 9]}, "z": {"type": "decimal", "step": "0.5"}}
    policy = visits("who", most, who={"type": "integer"}, y={"type": "text"}, **numbers)
    schema = pa.schema([("who", pa.int64()), ("x", pa.int32()), ("y", pa.string()), ("z", pa.float64())])
    copy = bounded(policy, {"visits": pa.Table.from_pylist(rows, schema)})
    assert copy["visits"] == bounded_reference(policy, {"visits": rows}, SALT)["visits"]
    assert max(Counter(row[0] for row in copy["visits"].elements()).values()) == most


def test_another_salt_keeps_other_rows_under_other_ids() -> None:
    policy = visits("who", 1, who={"type": "integer"}, x={"type": "integer", "bounds": [0, 999]})
    table = {"visits": pa.table({"who": [7] * 1000, "x": list(range(1000))})}
    drawn = [next(iter(bounded(policy, table, bytes([salt] * 32))["visits"])) for salt in range(8)]
    assert len({unit for unit, _ in drawn}) == 8
    assert len({x for _, x in drawn}) > 4  # all in one of 1000 places has probability below 1e-11


def test_equal_rows_have_the_same_chance_as_different_ones() -> None:
    """Half of a person's rows are equal: of 2000 people they give half of what is kept, within 6 standard deviations.

    The error rate is below 1e-8; the salt is fixed, so the outcome is too.
    """
    policy = visits("who", 2, who={"type": "integer"}, x={"type": "integer", "bounds": [0, 9]})
    pairs = [(who, x) for who in range(2000) for x in (0, 0, 0, 0, 1, 2, 3, 4)]
    copy = bounded(policy, {"visits": pa.table({"who": [p[0] for p in pairs], "x": [p[1] for p in pairs]})})["visits"]
    zeros = sum(count for (_, x), count in copy.items() if x == 0)
    deviation = (4000 * 0.25 * 6 / 7) ** 0.5  # hypergeometric: two of eight
    assert abs(zeros - 2000) < 6 * deviation


def test_the_same_person_has_the_same_id_in_every_table_however_it_is_stored() -> None:
    column = {"who": {"type": "integer"}}
    tables: dict[str, object] = {
        name: {"unit": "who", "rows_per_unit": 1, "columns": column} for name in ("a", "b", "c", "d")
    }
    stored = {
        "a": pa.table({"who": pa.array([5], pa.int8())}),
        "b": pa.table({"who": pa.array([5.0], pa.float64())}),
        "c": pa.table({"who": pa.array([Decimal("5.00")], pa.decimal128(10, 2))}),
        "d": pa.table({"who": pa.array([5], pa.uint64())}),
    }
    copies = bounded(policy_of(tables), stored)
    assert {unit for rows in copies.values() for (unit,) in rows} == {keyed(SALT, "unit", "5")}


def test_a_unit_that_is_unique_keeps_one_row() -> None:
    policy = policy_of(
        {"people": {"unit": "who", "columns": {"who": {"type": "text", "unique": True}, "x": {"type": "text"}}}}
    )
    copy = bounded(policy, {"people": pa.table({"who": ["a", "a", "b", None], "x": ["1", "2", "3", "4"]})})["people"]
    assert copy.total() == 2
    assert len({unit for unit, _ in copy}) == 2


def test_rows_that_declare_no_column_can_still_be_counted() -> None:
    copy = bounded(policy_of({"votes": {"unit": "rows"}}), {"votes": pa.table({"choice": [1, 2, 2]})})
    # the columns of such a table are not part of what is copied
    assert copy["votes"].total() == 3


def test_the_path_has_a_column_of_its_own_for_the_id() -> None:
    assert '"' in PATH_UNIT  # which no declared name can hold


@pytest.mark.parametrize("name", ["select", "Ünïcode ☃", "it's", "a;b--c", "x" * 63, "%s{}$1", "$salt", "rows", "id"])
def test_hostile_names_are_only_names(name: str) -> None:
    table = name.replace(".", "")
    columns = {name: {"type": "integer"}, "p": {"type": "integer", "bounds": [0, 1]}, "u": {"type": "text"}}
    if name.lower() == "rows":
        columns["who"] = columns.pop(name)
    unit = next(key for key in columns if key in (name, "who"))
    policy = policy_of({table: {"unit": unit, "rows_per_unit": 1, "columns": columns}})
    copy = bounded(policy, {table: pa.table({unit: [1, 1, 2], "p": [1, 1, 1], "u": ["$salt", "'", '"']})})
    assert copy[table].total() == 2


def test_names_that_begin_alike_have_hidden_columns_of_their_own() -> None:
    """A server that cuts names after 63 bytes would take `"rows" x…xa` and `"rows" x…xb` for one."""
    numbers = {f"{'x' * 60}{last}": {"type": "integer", "bounds": [0, 1]} for last in "ab"}
    columns = {"who": {"type": "integer"}, **numbers}
    policy = policy_of({"visits": {"unit": "who", "rows_per_unit": 2, "columns": columns}})
    rows = pa.table({"who": [1, 1, 2], **{name: [0, 1, None] for name in numbers}})
    assert bounded(policy, {"visits": rows})["visits"].total() == 3
