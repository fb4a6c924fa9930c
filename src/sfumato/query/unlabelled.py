"""Relations without their labels: two uses of one WITH clause, or of one subquery, are the same relation here."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from sfumato.query.relation import Relation

_LABELS = frozenset({"label", "of"})


def unlabelled(relation: Relation) -> Relation:
    """Return a relation whose labels are numbers, in the order in which they are met.

    Two relations are equal then if one becomes the other by renaming its labels: they have the same rows.
    """
    found: Relation = _renamed(relation, {})
    return found


def _renamed(value: Any, numbers: dict[str, str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(part, numbers) for part in value) if type(value) is tuple else value
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in fields(value):
        if field.compare and field.init:
            part = getattr(value, field.name)
            label = field.name in _LABELS and isinstance(part, str)
            changed[field.name] = numbers.setdefault(part, str(len(numbers))) if label else _renamed(part, numbers)
    return replace(value, **changed)
