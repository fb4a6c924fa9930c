"""Domains of OpenDP, written as JSON, as wishes: bounds and types of atoms, categories, and rows per person.

A domain is what OpenDP's `serialize` writes: an object with `__function__` and `__kwargs__`. It describes a column as a
`series_domain`, or as the value below the column's name.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from sfumato.policy_draft.draft import DraftOptions
from sfumato.policy_draft.metadata_files import as_list, iterate_objects, not_metadata, read_json

_WHAT = "a description of OpenDP domains"
_SHAPE = "It is JSON of column names with their domains, or of `series_domain` objects, as `serialize` writes them."
_TYPES = {"bool": "boolean", "string": "text", "str": "text", "f32": "decimal", "f64": "decimal", "float": "decimal"}
_TYPES |= {f"{sign}{bits}": "integer" for sign in "iu" for bits in (8, 16, 32, 64)} | {"int": "integer"}

_PARAMETERS = frozenset({"element_domain", "atom_domain", "key_domain", "value_domain", "domain", "input_domain"})
"""Names of constructors' own parameters: domains below them are parts of another domain."""


def read_opendp(file: Path) -> DraftOptions:
    """Read the series of a lazy frame; OpenDP names no table, so columns stand without one."""
    types: dict[str, str] = {}
    bounds: dict[str, tuple[str, str]] = {}
    values: dict[str, tuple[str, ...]] = {}
    units: tuple[str, ...] = ()
    rows: dict[str, int] = {}
    for node in iterate_objects(read_json(file, _WHAT, _SHAPE)):
        given = _arguments(node)
        for name, domain in _columns(node):
            for element in iterate_objects(domain):
                inner = _arguments(element)
                ends = _pair(inner.get("bounds"))
                if ends is not None:
                    bounds[name] = ends
                categories = _as_list(inner.get("categories"))
                if categories:
                    values[name] = tuple(map(str, categories))
                kind = _TYPES.get(str(inner.get("T", "")).lower())
                if kind is not None:
                    types[name] = kind
        identifier = given.get("identifier")
        if isinstance(identifier, str):
            units = (identifier,)
        contributions = given.get("contributions")
        if isinstance(contributions, str) and contributions.isdigit() and int(contributions) > 0:
            rows[""] = int(contributions)
    if not (types or bounds or values):
        raise not_metadata(file, _WHAT, _SHAPE)
    return DraftOptions(units=units, rows_per_unit=rows, types=types, bounds=bounds, values=values)


def _columns(node: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Give the columns that an object describes: a series, or domains below the names of their columns."""
    if _function(node) == "series_domain":
        given = _arguments(node)
        if isinstance(given.get("name"), str):
            yield str(given["name"]), given.get("element_domain")
        return
    if _function(node) or node.get("__module__"):
        return
    for name, domain in node.items():
        if isinstance(domain, Mapping) and name not in _PARAMETERS:
            function = _function(domain)
            if function.endswith("_domain") and function != "series_domain":
                yield name, domain


def _function(node: Mapping[str, object]) -> str:
    return str(node.get("__function__") or node.get("function") or "").rpartition(".")[2].removeprefix("make_")


def _arguments(node: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments by name: below `__kwargs__` or `kwargs`, or beside the name of the function."""
    found = node.get("__kwargs__") or node.get("kwargs")
    return found if isinstance(found, Mapping) else node


def _as_list(value: object) -> list[object]:
    """Return a list or a tuple, which OpenDP writes as an object with one key."""
    if isinstance(value, Mapping):
        value = value.get("__tuple__") or value.get("tuple")
    return as_list(value) if isinstance(value, list) else []


def _pair(value: object) -> tuple[str, str] | None:
    ends = _as_list(value)
    return (ends[0], ends[1]) if len(ends) == 2 and isinstance(ends[0], str) and isinstance(ends[1], str) else None
