"""`unit` with two owners: what it means, one canonical form for every spelling, and what is refused beside it."""

from typing import Any

import pytest

from sfumato.errors import BadPolicy
from sfumato.policy.canonical import policy_hash
from sfumato.policy.describing import column_words, table_words, units_of
from sfumato.policy.policy import OwnerPair, Policy, UnitColumn, UnitPath
from sfumato.policy.reading import read_policy

KEY = {"type": "integer"}


def _policy(unit: Any, table: dict[str, Any] | None = None, **dataset: Any) -> Policy:
    lines = {
        "unit": unit,
        "rows_per_unit": 8,
        "columns": {"number": KEY, "seller": KEY, "name": {"type": "text"}, "size": {"type": "integer"}},
        **(table or {}),
    }
    orders = {"unit": "buyer", "rows_per_unit": 3, "columns": {"number": KEY, "buyer": KEY}}
    return read_policy(
        {
            "source": "csv:x",
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {"lines": lines, "orders": orders},
            **dataset,
        }
    )


def test_owners_of_one_kind_and_of_two() -> None:
    same = _policy(["number", "seller"]).table("lines")
    assert same is not None
    assert same.unit == OwnerPair((UnitColumn("number"), UnitColumn("seller")))
    assert same.has_two_owners
    assert same.names_people("SELLER")
    assert not same.names_people("size")
    assert "each row belongs to two people, number and seller" in table_words(same)
    assert column_words(same, same.columns[1]) == "one of the two people of a row: not shown"
    two = _policy(["supplier: seller", "Customer: orders.buyer via number = number"]).table("lines")
    assert two is not None
    path = UnitPath("orders", "buyer", "number", "number")
    assert two.unit == OwnerPair((path, UnitColumn("seller")), ("customer", "supplier"))
    assert units_of([two]) == (
        "lines: each customer (orders.buyer) and each supplier (seller), with all rows they share"
    )


def test_a_policy_has_one_hash_however_its_owners_are_listed() -> None:
    same = {policy_hash(_policy(unit)) for unit in (["number", "seller"], ["seller", "number"], [" Seller", "number "])}
    kinds = {
        policy_hash(_policy(unit))
        for unit in (["a: number", "b: seller"], ["B: seller", "A:number"], ["b : seller", "a: number"])
    }
    others = {policy_hash(_policy(unit)) for unit in ("number", "seller", ["b: number", "a: seller"])}
    chosen = policy_hash(_policy(["number", "seller"], {"rows_per_unit": {"most": 8, "choose": "private"}}))
    assert len(same) == len(kinds) == 1
    assert chosen in same
    assert len(same | kinds | others) == 5


@pytest.mark.parametrize(
    ("unit", "table", "dataset", "said"),
    [
        (["number"], {}, {}, "lists 1 owners"),
        (["number", "seller", "name"], {}, {}, "tables.lines.unit"),
        (["number", "number"], {}, {}, "names the same owner twice"),
        (["number", "rows"], {}, {}, "Each owner of a row is named by a column"),
        (["number", "nobody"], {}, {}, "not a declared column"),
        (["a: number", "seller"], {}, {}, "names the kind of one owner"),
        (["a: number", "A: seller"], {}, {}, "the same kind twice"),
        (["number", "name"], {}, {}, "names one owner by type text and the other by type integer"),
        (["a: orders.number via number = number", "b: seller"], {}, {}, "which is not the unit of"),
        (["number", 7], {}, {}, "tables.lines.unit"),
        (["number", "seller"], {"groups_per_unit": 2}, {}, "groups_per_unit is written for rows with two owners"),
        (["number", "seller"], {"columns": {"number": KEY, "seller": KEY, "x": {**KEY, "unique": True}}}, {}, "unique"),
        (
            ["number", "seller"],
            {"columns": {"number": KEY, "seller": KEY, "x": {**KEY, "bounds": [0, 9], "total_per_unit": 9}}},
            {},
            "total_per_unit",
        ),
        (
            ["number", "seller"],
            {
                "columns": {
                    "number": KEY,
                    "seller": KEY,
                    "x": {**KEY, "bounds": {"within": [0, 9], "choose": "private"}},
                }
            },
            {},
            "Write bounds = ",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(unit: Any, table: Any, dataset: Any, said: str) -> None:
    with pytest.raises(BadPolicy, match=said):
        _policy(unit, table, **dataset)


def test_a_path_does_not_lead_to_a_table_with_two_owners() -> None:
    with pytest.raises(BadPolicy, match="which is not the unit of"):
        read_policy(
            {
                "source": "csv:x",
                "budget": {"epsilon": 1, "delta": 0},
                "tables": {
                    "pairs": {"unit": ["a", "b"], "rows_per_unit": 2, "columns": {"a": KEY, "b": KEY}},
                    "more": {"unit": "pairs.a via k = b", "rows_per_unit": 2, "columns": {"k": KEY}},
                },
            }
        )


def test_rows_per_unit_is_required() -> None:
    with pytest.raises(BadPolicy, match="rows_per_unit is missing"):
        read_policy(
            {
                "source": "csv:x",
                "budget": {"epsilon": 1, "delta": 0},
                "tables": {"t": {"unit": ["a", "b"], "columns": {"a": KEY, "b": KEY}}},
            }
        )
