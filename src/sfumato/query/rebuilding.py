"""One walk over frozen records: relations, expressions, flows and scalars are all made of them."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

Change = Callable[[str, Any], Any]
"""Returns what stands in the place of a part, given the name of its field; the parts of a tuple have none."""


def rebuilt(thing: Any, change: Change) -> Any:
    """Return a record or tuple with its parts changed, one step deep; whatever else it is, it has no parts.

    What records are not compared by stays as it is: the place in a text.
    """
    if type(thing) is tuple:
        return tuple(change("", part) for part in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    compared = (field.name for field in fields(thing) if field.init and field.compare)
    return replace(thing, **{name: change(name, getattr(thing, name)) for name in compared})
