"""Rows that PostgreSQL reads twice: the copy is DuckDB's in however many parts, and the work is given to workers."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from math import exp, log
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.builds import SALT, policy_of
from tests.engines.engines import DuckDBUnderLaw
from tests.engines.postgres_under_law import PostgresUnderLaw, url

from sfumato.engines.postgres.build import ServerBuild
from sfumato.engines.sql.bounding import by_two_scans
from sfumato.engines.sql.bounding.by_two_scans import expected_hashes_needed

COLUMNS = {
    "who": {"type": "integer"},
    "code": {"type": "text", "values": ["a", "b", "ß"]},
    "cost": {"type": "decimal", "bounds": [0, 4], "step": "0.5"},
    "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 1, 3)]},
}


@pytest.fixture(autouse=True)
def _server() -> None:
    url()


def _rows(number: int) -> pa.Table:
    """Return rows of which many are equal, many within their bounds only; some people have most of them."""
    order = random.Random(number)
    drawn = [
        (
            order.choice([None, 1, 1, 1, 2, 2, 3, *range(4, 30)]),
            order.choice(["a", "b", "ß", "c", None]),
            order.choice([None, float("nan"), 1e300, -3.0, 0.0, 0.25, 1.5, 4.0, 7.5, 9.0]),
            order.choice([None, *(date(2024, 1, day) for day in (1, 2, 3, 5, 9)), date(2019, 7, 7)]),
        )
        for _ in range(number)
    ]
    types = (pa.int64(), pa.string(), pa.float64(), pa.date32())
    columns = [pa.array(values, type) for values, type in zip(zip(*drawn, strict=True), types, strict=True)]
    return pa.table(columns, list(COLUMNS))


@pytest.mark.parametrize("share", ["enough", "too small"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("rows_per_unit", "truncation"), [(4, None), (4, 0.05), ({"most": 8, "choose": "private"}, 0.05)]
)
def test_the_copy_is_the_same_in_any_parts_and_where_a_share_of_the_draws_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, rows_per_unit: Any, truncation: float | None, parts: int, share: str
) -> None:
    budget = {"epsilon": 1, "delta": 0, **({} if truncation is None else {"truncation": truncation})}
    visits = {"unit": "who", "rows_per_unit": rows_per_unit, "columns": COLUMNS}
    policy, tables = policy_of({"visits": visits}, budget=budget), {"visits": _rows(900)}
    monkeypatch.setattr(by_two_scans, "MIN_ROWS_IN_PARTS", 0 if parts > 1 else 1 << 62)
    monkeypatch.setattr(by_two_scans, "PARTS", parts)
    made: list[str] = []
    make = ServerBuild.create_table_as

    def seen(build: ServerBuild, relation: str, query: str, *, salted: bool = False) -> None:
        made.append(relation)
        make(build, relation, query, salted=salted)

    monkeypatch.setattr(ServerBuild, "create_table_as", seen)
    if share == "too small":
        monkeypatch.setattr(by_two_scans, "expected_hashes_needed", lambda most: 1)
    assert PostgresUnderLaw().bounded(policy, tables, SALT) == DuckDBUnderLaw().bounded(policy, tables, SALT)
    assert sum("s_chosen" in relation for relation in made) == (1 if share == "enough" else 2)


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_the_copy_is_the_same_where_bounds_moved_values_of_some_people_only(
    monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    order = random.Random(8)  # people of 60, 50 and 40 rows, of which many are equal within bounds
    people = [who for who, rows in ((1, 60), (2, 50), (3, 40), (4, 2)) for _ in range(rows)]
    costs = [
        order.choice([-3.0, 0.0, 2.5, 4.0, 9.0, 7e300] if who in (3, 4)[:moved] else [0.0, 2.5, 4.0]) for who in people
    ]
    table = pa.table(
        {
            "who": pa.array(people),
            "code": pa.array([order.choice("ab") for _ in people]),
            "cost": pa.array(costs),
            "day": pa.array([date(2024, 1, 2)] * len(people)),
        }
    )
    visits = {"unit": "who", "rows_per_unit": 4, "columns": COLUMNS}
    policy = policy_of({"visits": visits}, budget={"epsilon": 1, "delta": 0, "truncation": 0.05})
    monkeypatch.setattr(by_two_scans, "MIN_ROWS_IN_PARTS", 0)
    chosen: list[str] = []
    make = ServerBuild.create_table_as

    def seen(build: ServerBuild, relation: str, query: str, *, salted: bool = False) -> None:
        chosen.extend([query] if "s_chosen" in relation else [])
        make(build, relation, query, salted=salted)

    monkeypatch.setattr(ServerBuild, "create_table_as", seen)
    copies = [engine.bounded(policy, {"visits": table}, SALT) for engine in (PostgresUnderLaw(), DuckDBUnderLaw())]
    assert copies[0] == copies[1]
    assert ("NOT moved" in chosen[0]) == (moved > 0)  # person 3 is apart; 4 keeps all rows


def test_fewer_draws_than_are_kept_lie_below_the_share_next_to_never() -> None:
    # Chernoff's bound of the lower tail of a binomial law of this mean, which the Poisson law has too
    for most in [*range(1, 200), 10**3, 10**4, 10**5, 10**6]:
        mean, fewer = expected_hashes_needed(most), most - 1
        assert exp((fewer * (1 + log(mean / fewer)) if fewer else 0) - mean) < 1e-7


def test_every_type_of_column_is_read_drawn_and_grouped_by_parallel_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2024, 1, 1, 12)
    zoned = pa.array([moment.replace(tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    kept: dict[str, tuple[pa.Array, dict[str, Any]]] = {
        "whole": (pa.array([7]), {"type": "integer", "bounds": [0, 9]}),
        "stepped": (pa.array([7]), {"type": "decimal", "bounds": [0, 9], "step": "0.5"}),
        "exact": (pa.array([Decimal("1.25")]), {"type": "decimal", "bounds": [0, 9], "step": "0.1"}),
        "coarse": (pa.array([Decimal("1.25")]), {"type": "decimal", "bounds": [0, 10], "step": "2.5"}),
        "free": (pa.array([Decimal("1.25")]), {"type": "decimal"}),
        "double": (pa.array([1.25]), {"type": "decimal", "bounds": [0, 9], "step": "0.1"}),
        "float": (pa.array([1.25], pa.float32()), {"type": "decimal"}),
        "truth": (pa.array([True]), {"type": "boolean"}),
        "day": (pa.array([date(2024, 1, 1)]), {"type": "date"}),
        "moment": (pa.array([moment]), {"type": "timestamp"}),
        "zoned": (zoned, {"type": "timestamp", "bounds": [moment, datetime(2025, 1, 1)]}),
        "text": (pa.array(["a"]), {"type": "text", "values": ["a"]}),
        "any": (pa.array(["a"]), {"type": "text", "length": 9}),
    }
    visits = {
        "unit": "who",
        "rows_per_unit": 1,
        "columns": {"who": {"type": "text"}, **{name: declared for name, (_, declared) in kept.items()}},
    }
    policy = policy_of({"visits": visits}, budget={"epsilon": 1, "delta": 0, "truncation": 0.05})
    table = pa.table({"who": pa.array(["Ann"]), **{name: values for name, (values, _) in kept.items()}})
    plans: list[str] = []
    make = ServerBuild.create_table_as

    def explained(build: ServerBuild, relation: str, query: str, *, salted: bool = False) -> None:
        if "s_chosen" in relation:
            for cost in ("parallel_setup_cost = 0", "parallel_tuple_cost = 0", "enable_hashagg = off"):
                build.connection.execute(f"SET LOCAL {cost}")
            plans.append("\n".join(line for (line,) in build.connection.execute(f"EXPLAIN {query}").fetchall()))
        make(build, relation, query, salted=salted)

    monkeypatch.setattr(by_two_scans, "MIN_ROWS_IN_PARTS", 0)
    monkeypatch.setattr(ServerBuild, "create_table_as", explained)
    copies = [engine.bounded(policy, {"visits": table}, SALT) for engine in (PostgresUnderLaw(), DuckDBUnderLaw())]
    assert copies[0] == copies[1]
    (plan,) = plans
    assert plan.index("Gather") < plan.index("Parallel Append") < plan.index("GroupAggregate")
