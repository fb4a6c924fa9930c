"""A made-up pharmacy whose people have many rows in many groups, and bounds that each question chooses."""

from typing import Any

from sfumato.lab.generators.clinic import generate_policy
from sfumato.policy.policy import Policy

MAX_PHARMACY_ROWS = 160
"""Maximum number of rows per person; the worst people have twice as many."""
_ORDERS: dict[str, Any] = {
    "customer": {"type": "integer"},
    "slot": {"type": "integer", "bounds": [0, 479]},
    "shelf": {"type": "integer", "bounds": [-3, 130]},
    "drug": {"type": "text", "values": [f"d{'x' * (number % 5)}{number}" for number in range(128)]},
    "units": {"type": "integer", "bounds": [0, 40]},
    "price": {"type": "decimal", "bounds": {"within": [0, 100_000], "choose": "private"}, "step": 0.5},
    "paid": {"type": "boolean"},
}
_REFILLS: dict[str, Any] = {
    "customer": {"type": "integer"},
    "slot": {"type": "integer", "bounds": [0, 199]},
    "dose": {"type": "integer", "bounds": {"within": [0, 10_000], "choose": "private"}},
    "weight": {"type": "decimal", "bounds": [-4, 12], "step": 0.25},
    "late": {"type": "boolean"},
}


def pharmacy(**changes: Any) -> Policy:
    """Return the policy of a made-up pharmacy."""
    tables = {
        "orders": {"unit": "customer", "rows_per_unit": MAX_PHARMACY_ROWS, "groups_per_unit": 130, "columns": _ORDERS},
        "refills": {
            "unit": "customer",
            "rows_per_unit": {"most": MAX_PHARMACY_ROWS, "choose": "private"},
            "columns": _REFILLS,
        },
        "stock": {"public": True, "columns": {"slot": {"type": "integer"}, "drug": {"type": "text"}}},
    }
    return generate_policy("pharmacy", tables, **changes)
