"""Relations without their labels: two uses of one WITH clause, or of one subquery, are the same relation here."""

from typing import Any

from sfumato.query.rebuilding import rebuild_fields
from sfumato.query.relation import Relation

_LABELS = frozenset({"label", "of"})


def number_labels(relation: Relation) -> Relation:
    """Return a relation whose labels are numbers, in the order in which they are met.

    Two relations are equal then if one becomes the other by renaming its labels: they have the same rows.
    """
    numbers: dict[str, str] = {}

    def renamed(name: str, part: Any) -> Any:
        if name in _LABELS and isinstance(part, str):
            return numbers.setdefault(part, str(len(numbers)))
        return rebuild_fields(part, renamed)

    numbered: Relation = rebuild_fields(relation, renamed)
    return numbered
