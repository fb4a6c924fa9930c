"""SmartNoise's metadata (YAML) as wishes: its private id becomes the unit, its limits the bounds."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from sfumato.errors import BadParameter, quote_value
from sfumato.policy_draft.draft import DraftOptions

_MAX_FILE_BYTES = 2**20
_SETTINGS = frozenset(
    {"row_privacy", "rows", "max_ids", "max_contributions", "censor_dims", "clamp_counts", "clamp_columns"}
    | {"sample_max_ids", "use_dpsu", "synthesizer"}
)
"""Table settings beside its columns."""
_TYPES = {"int": "integer", "float": "decimal", "string": "text", "boolean": "boolean", "datetime": "timestamp"}

Tree = Mapping[object, object]


def read_smartnoise(file: Path) -> DraftOptions:
    """Read the metadata of a SmartNoise collection; bounds and types are named TABLE.COLUMN."""
    units: list[str] = []
    rows: dict[str, int] = {}
    types: dict[str, str] = {}
    bounds: dict[str, tuple[str, str]] = {}
    for table, content in _iterate_tables(_parse_file(file)):
        if content.get("row_privacy") is True:
            units.append(f"{table}=rows")
        limit = content.get("max_contributions", content.get("max_ids"))
        if isinstance(limit, int) and limit > 0:
            rows[table] = limit
        for name, column in content.items():
            if name in _SETTINGS or not isinstance(column, Mapping):
                continue
            path = f"{table}.{name}"
            if column.get("private_id") is True:
                units.append(f"{table}={name}")
            if (kind := _TYPES.get(str(column.get("type")))) is not None and kind != "timestamp":
                types[path] = kind
            low, high = column.get("lower"), column.get("upper")
            if low is not None and high is not None:
                bounds[path] = (str(low), str(high))
    return DraftOptions(units=tuple(units), rows_per_unit=rows, types=types, bounds=bounds)


def _iterate_tables(collection: Tree) -> Iterator[tuple[str, Tree]]:
    """Give every table: below the collection come schemas, below them tables."""
    for schemas in collection.values():
        if not isinstance(schemas, Mapping):
            continue
        for tables in schemas.values():
            if not isinstance(tables, Mapping):
                continue
            for name, content in tables.items():
                if isinstance(content, Mapping):
                    yield str(name), content


def _parse_file(file: Path) -> Tree:
    try:
        with file.open("rb") as stream:
            tree = yaml.safe_load(stream.read(_MAX_FILE_BYTES))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        tree = None
    if isinstance(tree, Mapping) and any(True for _ in _iterate_tables(tree)):
        return tree
    raise BadParameter(
        f"{quote_value(str(file))} is not SmartNoise metadata.",
        "It is a YAML file of a collection, its schemas, their tables and their columns.",
        "Check the path and the file.",
    )
