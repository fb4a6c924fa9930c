"""The audited clinic: one policy that uses every policy key, under both neighbour relations."""

from datetime import date, datetime
from typing import Any

from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

VISITS: dict[str, Any] = {
    "patient_id": {"type": "integer"},
    "age": {"type": "integer", "bounds": [0, 20]},
    "dept": {"type": "text", "values": ["er", "icu", "surgery"]},
    "city": {"type": "text"},
    "cost": {"type": "decimal", "bounds": [-5, 10], "step": 0.5},
    "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
    "seen": {"type": "timestamp", "bounds": [datetime(2024, 1, 1), datetime(2024, 12, 31)]},
    "urgent": {"type": "boolean"},
    "weight": {"type": "decimal"},
    "score": {"type": "integer"},
}
"""Columns of visits: every type, bounded and not, with public keys and without."""


PATIENTS: dict[str, Any] = {
    "patient_id": {"type": "integer"},
    "sex": {"type": "text", "values": ["f", "m"]},
    "income": {"type": "integer", "bounds": [0, 50]},
    "ward": {"type": "text"},
}
SURVEY: dict[str, Any] = {
    "unit": "rows",
    "columns": {"x": {"type": "integer", "bounds": [-3, 5]}, "mood": {"type": "text"}},
}
STAFF: dict[str, Any] = {
    "public": True,
    "columns": {
        "dept": {"type": "text", "values": ["er", "icu"]},
        "name": {"type": "text"},
        "floor": {"type": "integer"},
    },
}


def clinic(**changes: Any) -> Policy:
    """Return the policy of a made-up clinic."""
    tables = {
        "visits": {"unit": "patient_id", "rows_per_unit": 3, "columns": VISITS, **changes.pop("visits", {})},
        "patients": {"unit": "patient_id", "rows_per_unit": 2, "groups_per_unit": 1, "columns": PATIENTS},
        "survey": SURVEY,
        "staff": STAFF,
    }
    return generate_policy("clinic", tables, analysts={"ada": {"epsilon": 500}, "bob": {"epsilon": 500}}, **changes)


def generate_policy(name: str, tables: dict[str, Any], **more: Any) -> Policy:
    """Return the policy of these tables; its delta is large, so that what hides behind delta can be seen."""
    declared: dict[str, Any] = {
        "name": name,
        "source": "parquet:data",
        "ledger": f"sqlite:{name}.ledger",
        "budget": {"epsilon": 1000, "delta": 0.9, "query_delta": 0.01},
        "tables": tables,
    }
    return read_policy({**declared, **more})
