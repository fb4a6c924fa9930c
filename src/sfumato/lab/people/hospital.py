"""A policy of everything that made trouble: wide integers, public doubles, names that ours could collide with.

The clinic is small, so that every audit can look at all of it; the hospital is what random questions are asked of.
"""

from datetime import date
from typing import Any

from sfumato.lab.people.clinic import PATIENTS, STAFF, SURVEY, VISITS, made_up_policy
from sfumato.policy.policy import Policy

_WIDEST = 1 << 60
_WIDE_VISITS: dict[str, Any] = {
    **VISITS,
    "wide": {"type": "integer", "bounds": [-_WIDEST, _WIDEST]},
    "long": {"type": "integer", "bounds": [0, 10**10]},
    "fine": {"type": "decimal", "bounds": [0, 1], "step": 1e-6},
}
_CLAIMS: dict[str, Any] = {
    "u": {"type": "integer"},
    "number": {"type": "integer", "unique": True},
    "rowid": {"type": "integer", "bounds": [0, 9]},
    "removed_rows": {"type": "integer", "bounds": [0, 9]},
    "place": {"type": "text", "values": "staff.dept"},
    "k0": {"type": "boolean"},
    "v0": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 1, 9)]},
}
_READINGS: dict[str, Any] = {
    "dept": {"type": "text", "values": ["er", "icu"]},
    "hour": {"type": "integer"},
    "level": {"type": "decimal"},
    "dose": {"type": "decimal", "step": 0.25},
}


def hospital(**changes: Any) -> Policy:
    """Return the policy of a made-up hospital."""
    tables = {
        "visits": {"unit": "patient_id", "rows_per_unit": 4, "columns": _WIDE_VISITS},
        "patients": {"unit": "patient_id", "rows_per_unit": 3, "groups_per_unit": 2, "columns": PATIENTS},
        "claims": {"unit": "u", "rows_per_unit": 2, "columns": _CLAIMS},
        "survey": SURVEY,
        "staff": STAFF,
        "readings": {"public": True, "columns": _READINGS},
    }
    return made_up_policy("hospital", tables, **changes)
