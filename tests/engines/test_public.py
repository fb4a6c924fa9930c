"""What is public: the catalog of policy and copy, facts of public tables, and exact answers over them alone."""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import UnderLaw, engine_under_law
from tests.engines.opened import of, opened, read

from sfumato.engines.engine import Engine
from sfumato.engines.spark.dialect import SPARK
from sfumato.engines.sql.names import NUMBER
from sfumato.language.facts import STORED_LIMIT, Facts, Kind, Outside
from sfumato.language.rel_nodes import FilterNode, InputNode, Item, JoinNode, LimitNode, ProjectNode, SortNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type

pytestmark = pytest.mark.usefixtures("every_engine")

DECLARED: dict[str, Any] = {
    "Visits": {
        "unit": "Patient",
        "rows_per_unit": 3,
        "groups_per_unit": 2,
        "columns": {
            "Patient": {"type": "text"},
            "Age": {"type": "integer", "bounds": [0, 120]},
            "n": {"type": "integer", "unique": True},
            "site": {"type": "text", "values": "staff.site"},
            "kind": {"type": "text", "values": ["zebra", "ape"]},
            "cost": {"type": "decimal", "bounds": [0, 5000], "step": "0.01"},
            "rate": {"type": "decimal"},
            "open": {"type": "boolean"},
            "day": {"type": "date", "bounds": [date(2020, 1, 1), date(2020, 1, 3)]},
            "born": {"type": "date"},
            "at": {"type": "timestamp"},
            "code": {"type": "integer", "values": [9, -4]},
        },
    },
    "lone": {"unit": "rows", "columns": {"x": {"type": "integer", "bounds": [1, 2]}}},
    "staff": {"public": True},
}


@pytest.fixture(scope="module")
def engine(every_engine: UnderLaw, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    moment = datetime(2020, 1, 1, 0, 0, 1)
    visits = {
        "patient": ["p"], "age": [3], "n": [1], "site": ["north"], "kind": ["ape"], "cost": [1.5], "rate": [0.1],
        "open": [True], "day": [date(2020, 1, 2)], "born": [date(1990, 1, 1)], "at": [moment], "code": [9],
    }  # fmt: skip
    staff = pa.table(
        {
            "Site": ["south", "north", "north", None],
            "wage": pa.array([Decimal("12.50"), Decimal("-1.25"), None, Decimal("3.00")], pa.decimal128(10, 2)),
            "big": pa.array([1, 2, 2**64 - 1, None], pa.uint64()),
            "score": [0.5, float("nan"), float("inf"), -1.0],
            "active": [True, False, None, True],
            "since": [date(1970, 1, 2), date(1969, 12, 31), None, date(2000, 1, 1)],
            "seen": [moment, None, moment, moment],
            "tags": [["a"], [], None, ["b"]],
        }
    )
    root: Path = tmp_path_factory.mktemp("public")
    return opened(root, DECLARED, {"visits": pa.table(visits), "lone": pa.table({"x": [1]}), "staff": staff})


def test_private_columns_have_the_facts_that_the_policy_declares(engine: Engine) -> None:
    table = engine.catalog.tables["visits"]
    facts = {field.name: field.facts for field in table.fields}
    assert (table.unit, table.identity, table.rows_per_unit, table.groups_per_unit) == ("patient", True, 3, 2)
    assert table.owner == table.field("patient")
    assert facts["patient"] == Facts(Type.TEXT, Kind.UNIT, nullable=False)
    assert facts["age"] == Facts(Type.INTEGER, Kind.INTEGER, low=0, high=120, outside=Outside.STORED)
    assert facts["n"] == Facts(
        Type.INTEGER, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1, declared_low=False, declared_high=False
    )
    assert facts["cost"] == Facts(
        Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100), low=0, high=500_000, outside=Outside.STORED
    )
    assert facts["rate"] == Facts(Type.DECIMAL, Kind.REAL)
    assert facts["open"] == Facts(Type.BOOLEAN, Kind.BOOLEAN)
    assert facts["kind"] == Facts(Type.TEXT, Kind.TEXT, max_chars=5)
    assert (facts["born"].low, facts["born"].bounded) == ((date(1, 1, 1) - date(1970, 1, 1)).days, False)
    assert facts["at"].high == (
        datetime(9999, 12, 31, 23, 59, 59, 999999) - datetime(1970, 1, 1)
    ).days * 86_400_000_000 + (86_400_000_000 - 1)
    assert (facts["code"].low, facts["code"].high, facts["code"].bounded) == (-4, 9, True)
    assert table.field("n").unique


def test_public_values_are_known_where_the_policy_or_a_public_table_lists_them(engine: Engine) -> None:
    table = engine.catalog.tables["visits"]
    cells = {field.name: field.cells for field in table.fields}
    assert cells["kind"] == ("zebra", "ape")  # in the order that the owner chose
    assert cells["site"] == ("north", "south")
    assert cells["open"] == (False, True)
    assert cells["age"] == tuple(range(121))
    assert cells["day"] == (18262, 18263, 18264)
    assert cells["code"] == (9, -4)
    assert [cells[name] for name in ("n", "cost", "rate", "born", "at", "patient")] == [None] * 6


def test_where_each_row_is_a_person_the_owner_has_no_name_that_a_query_could_write(engine: Engine) -> None:
    table = engine.catalog.tables["lone"]
    assert table.owner is not None
    number = NUMBER if engine_under_law().dialect.numbers_rows else "rowid"
    assert (table.unit, table.identity, table.rows_per_unit, table.owner.stored) == (None, False, 1, number)
    assert '"' in table.owner.name
    assert [field.name for field in table.fields] == ["x"]


def test_public_columns_have_the_range_of_the_public_data_and_other_types_do_not_exist(engine: Engine) -> None:
    facts = {field.name: field.facts for field in engine.catalog.tables["staff"].fields}
    assert list(facts) == ["site", "wage", "big", "score", "active", "since", "seen"]
    assert facts["wage"] == Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100), low=-125, high=1250)
    big = Type.DECIMAL if engine_under_law().dialect is SPARK else Type.INTEGER  # to Spark it has 20 digits
    assert facts["big"] == Facts(big, Kind.INTEGER, low=1, high=2)  # what needs more than 64 bits is NULL
    assert facts["since"] == Facts(Type.DATE, Kind.INTEGER, low=-1, high=10957)
    assert facts["score"].kind is Kind.REAL
    assert facts["active"].kind is Kind.BOOLEAN


def test_public_tables_alone_are_exact_and_in_their_order(engine: Engine) -> None:
    table = engine.catalog.tables["staff"]
    items = tuple(Item(field.name, of(table, field.name)) for field in table.fields)
    assert engine.query_public(ProjectNode(read(table), "out", items)) == [
        ["south", "north", "north", None],
        [1250, -125, None, 300],
        [1, 2, None, None],
        [0.5, None, None, -1.0],
        [True, False, None, True],
        [1, -1, None, 10957],
        [1577836801000000, None, 1577836801000000, 1577836801000000],
    ]
    ordered = SortNode(read(table), ((of(table, "active"), True, False),))
    assert engine.query_public(ProjectNode(LimitNode(ordered, 2, 1), "out", items[:2])) == [
        [None, "north"],
        [300, -125],
    ]


def test_a_private_table_cannot_be_read_as_a_public_one(engine: Engine) -> None:
    table = engine.catalog.tables["visits"]
    with pytest.raises(KeyError):
        engine.query_public(ProjectNode(read(table), "out", ()))
    with pytest.raises(KeyError):
        engine.public.materialize(read(table), (), ())
    with pytest.raises(KeyError):
        engine.public.value_range(read(table), of(table, "age"))


def test_facts_of_public_flows_are_counted_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    table, public = engine.catalog.tables["staff"], engine.public
    flow, site = read(table), of(table, "site")

    def facts() -> list[object]:
        null = FilterNode(flow, Scalar(Operator.IS_NULL, (site,), of(table, "active").facts))
        return [
            public.materialize(flow, (), (site,)).max_rows_per_key,
            public.materialize(flow, (), ()).max_rows_per_key,
            public.materialize(null, (), (site,)).max_rows_per_key,
            public.materialize(flow, (), (site, of(table, "active"))).max_rows_per_key,
            public.value_range(flow, of(table, "wage")),
            public.value_range(
                FilterNode(flow, Scalar(Operator.IS_NULL, (of(table, "wage"),), site.facts)), of(table, "wage")
            ),
            public.distinct(flow, site, 2),
            public.distinct(flow, site, 1),
            public.distinct(flow, of(table, "active"), 5),
        ]

    expected = [2, 4, 0, 1, (-125, 1250), None, ("north", "south"), None, (False, True)]
    assert facts() == expected
    monkeypatch.setattr(public, "_run", None)  # the second time nothing is run
    assert facts() == expected


def test_literal_rows_need_no_table(engine: Engine) -> None:
    number, text = Facts(Type.INTEGER, Kind.INTEGER, low=-1, high=7), Facts(Type.TEXT, Kind.TEXT)
    given = InputNode('v "1"', (("n", number), ("it's", text)), ((7, "a'b"), (None, None), (-1, "")))
    name = column('v "1"', "it's", text)
    assert engine.public.distinct(given, name, 9) == ("", "a'b")
    nothing = InputNode("empty", (("n", number),), ())
    pair = JoinNode(JoinKind.LEFT, given, nothing, None)
    assert engine.public.materialize(pair, (), (name,)).max_rows_per_key == 1
    assert engine.public.materialize(nothing, (), ()).max_rows_per_key == 0
    assert engine.public.materialize(InputNode("one", (), ((),)), (), ()).max_rows_per_key == 1


def test_a_public_table_that_is_too_long_for_free_questions_can_still_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.language.cost_limits.MAX_PUBLIC_WORK_ROWS", 2)
    table = opened(tmp_path, {"staff": {"public": True}}, {"staff": pa.table({"floor": [3, 1, 2]})})
    facts = table.catalog.tables["staff"].field("floor").facts
    assert (facts.low, facts.high) == (1, 3)
    table.close()
