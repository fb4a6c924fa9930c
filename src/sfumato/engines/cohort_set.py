"""The cohorts of a snapshot: which assignment of people to cohorts it belongs to, and which cohorts are open in it."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CohortSet:
    """The assignment of people to cohorts that a snapshot belongs to, and the cohorts that are open in it."""

    kept: str
    """Random: another assignment has another id."""
    names: tuple[str, ...]


def cohorts_of(kept: Any) -> CohortSet | None:
    """Return the cohorts of a snapshot; None where all people share one budget.

    An engine, or a copy that is complete, of people with cohorts has `cohorts`; others need not know of them.
    """
    found: CohortSet | None = getattr(kept, "cohorts", None)
    return found


def cohorts_to_json(cohorts: CohortSet | None) -> str:
    """Return what a manifest holds of cohorts; nothing where people share one budget."""
    return "" if cohorts is None else json.dumps({"kept": cohorts.kept, "names": cohorts.names})


def cohorts_from_json(text: str) -> CohortSet | None:
    """Read it back."""
    if not text:
        return None
    data = json.loads(text)
    return CohortSet(str(data["kept"]), tuple(map(str, data["names"])))
