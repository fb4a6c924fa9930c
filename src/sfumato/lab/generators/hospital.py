"""A policy of everything that made trouble: wide integers, public doubles, names that ours could collide with.

The clinic is small, so that every audit can look at all of it; the hospital is what random questions are asked of.
"""

from datetime import date
from typing import Any

from sfumato.lab.generators.clinic import PATIENTS, STAFF, SURVEY, VISITS, generate_policy
from sfumato.policy.policy import Policy

_WIDE_BOUND = 1 << 60
_WIDE_VISITS: dict[str, Any] = {
    **VISITS,
    "wide": {"type": "integer", "bounds": [-_WIDE_BOUND, _WIDE_BOUND]},
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
    return generate_policy("hospital", tables, **changes)


_STAYS: dict[str, Any] = {
    "person": {"type": "integer"},
    "number": {"type": "integer"},
    "age": {"type": "integer", "bounds": [0, 20]},
    "dept": {"type": "text", "values": ["er", "icu", "surgery"]},
    "cost": {"type": "decimal", "bounds": [0, 10], "step": 0.5},
    "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2025, 12, 31)]},
    "urgent": {"type": "boolean"},
    "note": {"type": "text"},
}
_DOSES: dict[str, Any] = {
    "stay": {"type": "integer"},
    "bed": {"type": "integer", "bounds": [0, 479]},
    "amount": {"type": "integer", "bounds": [0, 9]},
    "drug": {"type": "text"},
}
MANY_ROWS = 480
"""Maximum number of rows per person of an archive; their ranks fill all words of bits that a statement takes."""


def archive(**changes: Any) -> Policy:
    """Return a policy under which one person has hundreds of rows and cells, and a path leads to people."""
    stays: dict[str, Any] = {"unit": "person", "rows_per_unit": {"most": MANY_ROWS, "choose": "private"}}
    doses: dict[str, Any] = {"unit": "stays.person via stay = number", "rows_per_unit": MANY_ROWS}
    tables = {
        "stays": {**stays, "columns": _STAYS},
        "doses": {**doses, "groups_per_unit": MANY_ROWS // 3, "columns": _DOSES},
        "staff": STAFF,
    }
    return generate_policy("archive", tables, **changes)
