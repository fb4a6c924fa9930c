"""Rows with two owners on every engine: which pairs are copied, and what each pair shares in each group."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import ENGINES, UnderLaw

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.aggregates import PairsByCell
from sfumato.engines.engine import Engine
from sfumato.engines.sql import two_owners
from sfumato.errors import BadSource
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse
from sfumato.sensitivity.bounded_flow import bounded_flows

Row = dict[str, Any]
BUDGET: dict[str, Any] = {"epsilon": 10, "delta": 0}
TABLES: dict[str, Any] = {
    "orders": {
        "unit": "who",
        "rows_per_unit": 5,
        "columns": {"who": {"type": "text"}, "number": {"type": "integer"}},
    },
    "lines": {
        "unit": ["customer: orders.who via number = number", "supplier: seller"],
        "rows_per_unit": 8,
        "columns": {
            "number": {"type": "integer"},
            "seller": {"type": "text"},
            "amount": {"type": "integer", "bounds": [0, 9]},
            "kind": {"type": "text", "values": ["a", "b"]},
        },
    },
    "messages": {
        "unit": ["src", "dst"],
        "rows_per_unit": 8,
        "columns": {"src": {"type": "text"}, "dst": {"type": "text"}, "day": {"type": "integer", "bounds": [1, 3]}},
    },
    "gifts": {
        "unit": ["giver: src", "taker: dst"],
        "rows_per_unit": 8,
        "columns": {"src": {"type": "text"}, "dst": {"type": "text"}},
    },
    "kinds": {"public": True, "columns": {"kind": {"type": "text"}, "label": {"type": "text"}}},
}
SCHEMAS = {
    "orders": pa.schema([("who", pa.string()), ("number", pa.int64())]),
    "lines": pa.schema(
        [("number", pa.int64()), ("seller", pa.string()), ("amount", pa.int64()), ("kind", pa.string())]
    ),
    "messages": pa.schema([("src", pa.string()), ("dst", pa.string()), ("day", pa.int64())]),
    "gifts": pa.schema([("src", pa.string()), ("dst", pa.string())]),
    "kinds": pa.schema([("kind", pa.string()), ("label", pa.string())]),
}
BOUNDS = (1, 2, 4, 8, 16, 64)


def _rows(seed: int) -> dict[str, list[Row]]:
    draw = Random(seed)
    people = [None, "a", "A", "é", "b", "b ", "5"]
    orders = [{"who": draw.choice(people), "number": number} for number in range(6)]
    orders.append({"who": "b", "number": None})
    lines = [
        {
            "number": draw.choice([None, *range(8)]),
            "seller": draw.choice(people),
            "amount": draw.choice([None, -3, 0, 2, 9, 40]),
            "kind": draw.choice([None, "a", "b", "c"]),
        }
        for _ in range(40)
    ]
    messages = [
        {"src": draw.choice(people), "dst": draw.choice(people), "day": draw.choice([None, 1, 2, 3, 9])}
        for _ in range(40)
    ]
    # of thirty who give and thirty who take, ten do both
    gifts = [{"src": f"{n}", "dst": f"{n + apart}"} for n in range(30) for apart in (0, 20) if n > 19 or apart]
    kinds = [{"kind": "a", "label": "first"}]
    return {"orders": orders, "lines": lines, "messages": messages, "gifts": gifts, "kinds": kinds}


def _arrow(rows: dict[str, list[Row]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(listed, SCHEMAS[name]) for name, listed in rows.items()}


def _pairs(engine: Engine, sql: str) -> dict[Any, Any]:
    """Return the flows of every cell at several bounds, and how many pairs each has."""
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    policy = read_policy({"source": "csv:x", "budget": BUDGET, "tables": TABLES}).budget
    wish = parse_price_target(1, None, None, query.options, policy, PrivacyLoss(policy.epsilon, policy.delta))
    (found,) = engine.run(engine.prepare(make_plan(private, wish))).groups
    (held,) = found.held.values()
    assert isinstance(held, PairsByCell)
    return {
        key: (len(held.for_cell(place).amounts), bounded_flows(held.for_cell(place), BOUNDS))
        for place, key in enumerate(found.keys)
    }


def _expected(shares: Counter[tuple[Any, Any]], same_kind: bool) -> tuple[int, list[int]]:
    """Return the same, by reference: pairs are numbered here, and people of two kinds apart."""
    import numpy as np

    from sfumato.sensitivity.bounded_flow import OwnerPairs

    if same_kind:
        together: Counter[tuple[Any, Any]] = Counter()
        for (one, other), amount in shares.items():
            together[min(one, other), max(one, other)] += amount
        shares = together
    names: dict[Any, int] = {}
    ends = [
        (names.setdefault(("", one), len(names)), names.setdefault(("" if same_kind else "2", other), len(names)))
        for one, other in shares
    ]
    first, second = (np.array([pair[at] for pair in ends], dtype=np.int64) for at in (0, 1))
    amounts = np.array(list(shares.values()), dtype=np.int64)
    return len(shares), bounded_flows(OwnerPairs(first, second, amounts, same_kind), BOUNDS)


def _lines(rows: dict[str, list[Row]]) -> list[tuple[str, str, Row]]:
    """Return the lines that have both owners: the rest is in no answer."""
    owner = {row["number"]: row["who"] for row in rows["orders"] if row["number"] is not None}
    found = ((owner.get(line["number"]), line["seller"], line) for line in rows["lines"])
    return [(one, other, line) for one, other, line in found if one is not None and other is not None]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.dialect.name)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Engine, dict[str, list[Row]]]]:
    rows = _rows(1)
    under_law: UnderLaw = request.param
    engine = under_law.opened(tmp_path / "one", {"budget": BUDGET, "tables": TABLES}, _arrow(rows))
    yield engine, rows
    engine.close()


def test_every_engine_gives_the_pairs_of_the_rows_that_have_both_owners(
    opened: tuple[Engine, dict[str, list[Row]]],
) -> None:
    engine, rows = opened
    lines = _lines(rows)
    assert 0 < len(lines) < len(rows["lines"])
    counted = Counter((one, other) for one, other, _ in lines)
    assert _pairs(engine, "SELECT COUNT(*) FROM lines") == {(): _expected(counted, True)}
    summed: Counter[tuple[Any, Any]] = Counter()
    for one, other, line in lines:
        if line["kind"] == "a" and line["amount"] is not None:
            summed[one, other] += min(max(line["amount"], 0), 9)
    assert _pairs(engine, "SELECT SUM(amount) FROM lines WHERE kind = 'a'") == {(): _expected(summed, True)}
    by_kind = _pairs(engine, "SELECT kind, COUNT(*) FROM lines GROUP BY kind")
    joined = _pairs(engine, "SELECT COUNT(*) FROM lines l JOIN kinds k ON l.kind = k.kind AND k.label = 'first'")
    for kind in ("a", "b"):
        here = Counter((one, other) for one, other, line in lines if line["kind"] == kind)
        assert by_kind[(kind,)] == _expected(here, True)
    assert joined == {(): by_kind[("a",)]}
    sent = [row for row in rows["messages"] if row["src"] is not None and row["dst"] is not None]
    between = Counter((row["src"], row["dst"]) for row in sent)
    assert any(one == other for one, other in between)
    assert any((other, one) in between for one, other in between if one != other)
    assert _pairs(engine, "SELECT COUNT(*) FROM messages") == {(): _expected(between, True)}
    days = _pairs(engine, "SELECT day, COUNT(*) FROM messages GROUP BY day")
    for day in (1, 2, 3):
        assert days[(day,)] == _expected(Counter((r["src"], r["dst"]) for r in sent if r["day"] == day), True)
    # whether both owners have the same name is told by the row alone, of whatever kinds they are
    for table, same_kind in (("messages", True), ("gifts", False)):
        alone = Counter((r["src"], r["dst"]) for r in rows[table] if r["src"] == r["dst"] is not None)
        assert alone
        sql = f"SELECT COUNT(*) FROM {table} WHERE src = dst"  # noqa: S608
        assert _pairs(engine, sql) == {(): _expected(alone, same_kind)}


def test_a_key_of_a_path_that_leads_to_two_people_is_refused(tmp_path: Path) -> None:
    rows = _rows(2)
    rows["orders"] += [{"who": "a", "number": 3}, {"who": "b", "number": 3}]
    with pytest.raises(BadSource, match=r"A value of orders\.number leads to more than one person, and tables\.lines"):
        ENGINES[0].opened(tmp_path / "one", {"budget": BUDGET, "tables": TABLES}, _arrow(rows))


def test_more_pairs_than_the_public_limit_are_refused_to_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(two_owners.MAX_PAIRS, "duckdb", 3)
    with pytest.raises(BadSource, match="too many pairs of owners"):
        ENGINES[0].opened(tmp_path / "one", {"budget": BUDGET, "tables": TABLES}, _arrow(_rows(3)))
