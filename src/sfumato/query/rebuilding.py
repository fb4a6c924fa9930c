"""One walk over frozen records: relations, expressions, flows and scalars are all made of them."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

Change = Callable[[str, Any], Any]
"""Returns what stands in the place of a part, given the name of its field; the parts of a tuple have none."""


def rebuild_fields(thing: Any, change: Change) -> Any:
    """Return a record or tuple with its parts changed, one step deep; whatever else it is, it has no parts.

    A field that records are not compared by stays as it is: the place in a text.
    """
    if type(thing) is tuple:
        parts = tuple([change("", part) for part in thing])
        return parts if any(new is not old for new, old in zip(parts, thing, strict=True)) else thing
    changed = {}
    for name in _compared_fields(type(thing)):  # type: ignore[arg-type]  # a type can be hashed
        part = getattr(thing, name)
        if (other := change(name, part)) is not part:
            changed[name] = other
    return replace(thing, **changed) if changed else thing


@cache
def _compared_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the parts that records of this kind are compared by; whatever is no record has none."""
    return tuple(field.name for field in fields(kind) if field.init and field.compare) if is_dataclass(kind) else ()
