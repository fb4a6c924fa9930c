"""Policies that the tests of this room start from: the one of the design, and one with everything that can be said."""

import copy
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

CLINIC = """\
name = "clinic"
source = "parquet:data"
ledger = "sqlite:clinic.ledger"
neighbours = "add-remove"

[budget]
epsilon = 3
delta = 1e-6
query_delta = 1e-9

[tables.visits]
unit = "patient_id"
rows_per_unit = 20
groups_per_unit = 3

[tables.visits.columns]
patient_id = { type = "integer" }
age  = { type = "integer", bounds = [0, 120] }
dept = { type = "text", values = ["er", "icu", "surgery"] }
cost = { type = "decimal", bounds = [0, 5000], step = 0.01 }

[tables.staff]
public = true

[analysts.research]
epsilon = 1
"""

EVERYTHING: dict[str, Any] = {
    "name": "shop",
    "source": "duckdb:/data/shop.duckdb",
    "ledger": "postgresql://owner@host/ledger",
    "neighbours": "replace",
    "budget": {"epsilon": "1/3", "delta": 1e-5, "query_delta": 0},
    "tables": {
        "orders": {
            "unit": "o_custkey",
            "rows_per_unit": 50,
            "columns": {
                "o_orderkey": {"type": "integer", "unique": True},
                "o_custkey": {"type": "text"},
                "o_day": {"type": "date", "bounds": [date(1992, 1, 1), date(1998, 12, 31)]},
                "o_at": {"type": "timestamp", "bounds": [datetime(1992, 1, 1), datetime(1999, 1, 1, 0, 0, 0, 1)]},
                "o_open": {"type": "boolean", "values": [True, False]},
                "o_site": {"type": "integer", "bounds": [-5, 5], "values": [-5, 0, 5]},
            },
        },
        "lineitem": {
            "unit": "orders.o_custkey via l_orderkey = o_orderkey",
            "rows_per_unit": 200,
            "groups_per_unit": 7,
            "columns": {
                "l_orderkey": {"type": "integer"},
                "l_price": {"type": "decimal", "bounds": [-0.5, 1000], "step": 0.05, "values": ["0.1", 0.2]},
                "l_mode": {"type": "text", "values": "modes.mode"},
                "l_note": {"type": "decimal"},
            },
        },
        "reviews": {"unit": "rows", "columns": {"stars": {"type": "integer", "bounds": [1, 5]}}},
        "modes": {"public": True, "columns": {"mode": {"type": "text", "unique": True}}},
    },
    "analysts": {"research": {"epsilon": 0.1, "price": "1%"}, "press": {"epsilon": 9, "delta": "1e-7"}},
}

Change = Callable[[dict[str, Any]], None]


def changed(change: Change) -> dict[str, Any]:
    """Return a copy of EVERYTHING with one change made to it."""
    policy = copy.deepcopy(EVERYTHING)
    change(policy)
    return policy


def written(text: str, folder: Path) -> Path:
    """Write a policy file and return its path."""
    path = folder / "clinic.toml"
    path.write_bytes(text.encode())
    return path
