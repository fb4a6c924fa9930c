"""Croissant metadata (JSON-LD of MLCommons) as wishes: types, keys, and enumerations as public values.

Croissant knows no person and no bounds. Where a field has `minValue` and `maxValue` of schema.org, they are its bounds.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from sfumato.policy_draft.draft import DraftOptions
from sfumato.policy_draft.metadata_files import as_list, not_metadata, read_json

_WHAT, _SHAPE = "Croissant metadata", "It is a JSON-LD file with a `recordSet` of fields and their `dataType`."
_TYPES = {
    "integer": "integer",
    "float": "decimal",
    "number": "decimal",
    "text": "text",
    "boolean": "boolean",
    "date": "date",
    "datetime": "timestamp",
}
"""Types of schema.org by their folded names. Those of Croissant (cr:Int64, cr:Float32) begin with the same words."""

Node = Mapping[str, object]


def read_croissant(file: Path) -> DraftOptions:
    """Read the record sets of a dataset; each that reads a file is a table, named after the file or itself."""
    tree = read_json(file, _WHAT, _SHAPE)
    sets = [part for part in as_list(_get(tree, "recordSet")) if isinstance(part, Mapping)]
    if not any(as_list(_get(part, "field")) for part in sets):
        raise not_metadata(file, _WHAT, _SHAPE)
    files = _file_names(tree)
    enumerations = {_id(part): _enumeration(part) for part in sets}
    types: dict[str, str] = {}
    bounds: dict[str, tuple[str, str]] = {}
    values: dict[str, tuple[str, ...]] = {}
    unique: list[str] = []
    for part in sets:
        fields = [field for field in as_list(_get(part, "field")) if isinstance(field, Mapping)]
        sources = [_source(field) for field in fields]
        table = next((files[source] for source in sources if source in files), _last(_id(part)))
        keys = {_last(_reference(key)) for key in as_list(_get(part, "key"))}
        for field in fields:
            if not _source(field):
                continue  # a record set whose records are in the metadata is no table
            name = _column(field)
            path = f"{table}.{name}"
            kind = _type(field)
            if kind is not None and kind != "timestamp":
                types[path] = kind
            low, high = _get(field, "minValue"), _get(field, "maxValue")
            if isinstance(low, str) and isinstance(high, str):
                bounds[path] = (low, high)
            known = enumerations.get(_set_of(_reference(_get(_get(field, "references"), "field"))))
            if known:
                values[path] = known
            if keys == {_last(_id(field))}:
                unique.append(path)
    return DraftOptions(types=types, bounds=bounds, values=values, unique=tuple(unique))


def _get(tree: object, key: str) -> object:
    """Return a property, with or without the prefix of its vocabulary."""
    if not isinstance(tree, Mapping):
        return None
    return next((tree[name] for name in (key, f"cr:{key}", f"sc:{key}", f"ml:{key}") if name in tree), None)


def _id(node: object) -> str:
    found = node.get("@id") or _get(node, "name") if isinstance(node, Mapping) else node
    return str(found or "")


def _reference(node: object) -> str:
    return _id(node) if isinstance(node, Mapping) else str(node or "")


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].rpartition("#")[2]


def _set_of(path: str) -> str:
    return path.rpartition("/")[0]


def _source(field: Node) -> str:
    """Return the id of the file, or set of files, that a field is read from; empty where there is none."""
    source = _get(field, "source")
    return _reference(_get(source, "fileObject") or _get(source, "fileSet"))


def _column(field: Node) -> str:
    column = _get(_get(_get(field, "source"), "extract"), "column")
    return str(column) if isinstance(column, str) else _last(str(_get(field, "name") or _id(field)))


def _type(field: Node) -> str | None:
    for declared in as_list(_get(field, "dataType")):
        word = _last(_reference(declared)).rpartition(":")[2].lower()
        for name in (word, word.rstrip("0123456789")):
            found = _TYPES.get({"int": "integer", "uint": "integer", "bool": "boolean"}.get(name, name))
            if found is not None:
                return found
    return None


def _file_names(tree: object) -> dict[str, str]:
    """Return the names of tables by the ids of their files: what `sfumato init` calls them."""
    found = {}
    for file in as_list(_get(tree, "distribution")):
        address = _get(file, "contentUrl")
        if isinstance(address, str) and PurePosixPath(address).suffix.lower() in (".csv", ".parquet"):
            found[_id(file)] = PurePosixPath(address).stem
    return found


def _enumeration(part: Node) -> tuple[str, ...]:
    """Return the values of an enumeration whose records are in the metadata; none elsewhere."""
    kinds = {_last(_reference(kind)).rpartition(":")[2] for kind in as_list(_get(part, "dataType"))}
    keys = [_reference(key) for key in as_list(_get(part, "key"))]
    if "Enumeration" not in kinds or len(keys) != 1:
        return ()
    records = [record for record in as_list(_get(part, "data")) if isinstance(record, Mapping)]
    shown = (record.get(keys[0], record.get(_last(keys[0]))) for record in records)
    return tuple(str(value) for value in shown if value is not None)
