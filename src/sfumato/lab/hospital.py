"""A policy of everything that made trouble: wide integers, public doubles, names that ours could collide with.

The clinic is small, so that every audit can look at all of it; the hospital is what random questions are asked of.
"""

from datetime import date
from typing import Any

from sfumato.lab.clinic import VISITS
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

_WIDEST = 1 << 60


def hospital(**changes: Any) -> Policy:
    """Return the policy of a made-up hospital."""
    declared: dict[str, Any] = {
        "name": "hospital",
        "source": "parquet:data",
        "ledger": "sqlite:hospital.ledger",
        "budget": {"epsilon": 1000, "delta": 0.9, "query_delta": 0.01},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 4,
                "columns": {
                    **VISITS,
                    "wide": {"type": "integer", "bounds": [-_WIDEST, _WIDEST]},
                    "long": {"type": "integer", "bounds": [0, 10**10]},
                    "fine": {"type": "decimal", "bounds": [0, 1], "step": 1e-6},
                },
            },
            "patients": {
                "unit": "patient_id",
                "rows_per_unit": 3,
                "groups_per_unit": 2,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "sex": {"type": "text", "values": ["f", "m"]},
                    "income": {"type": "integer", "bounds": [0, 50]},
                    "ward": {"type": "text"},
                },
            },
            "claims": {
                "unit": "u",
                "rows_per_unit": 2,
                "columns": {
                    "u": {"type": "integer"},
                    "number": {"type": "integer", "unique": True},
                    "rowid": {"type": "integer", "bounds": [0, 9]},
                    "removed_rows": {"type": "integer", "bounds": [0, 9]},
                    "place": {"type": "text", "values": "staff.dept"},
                    "k0": {"type": "boolean"},
                    "v0": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 1, 9)]},
                },
            },
            "survey": {
                "unit": "rows",
                "columns": {"x": {"type": "integer", "bounds": [-3, 5]}, "mood": {"type": "text"}},
            },
            "staff": {
                "public": True,
                "columns": {
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "name": {"type": "text"},
                    "floor": {"type": "integer"},
                },
            },
            "readings": {
                "public": True,
                "columns": {
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "hour": {"type": "integer"},
                    "level": {"type": "decimal"},
                    "dose": {"type": "decimal", "step": 0.25},
                },
            },
        },
        **changes,
    }
    return read_policy(declared)
