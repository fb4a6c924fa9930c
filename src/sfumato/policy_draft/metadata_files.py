"""Metadata files of other tools, read within limits: JSON as a tree, texts as they are."""

import json
from collections.abc import Iterator
from pathlib import Path

from sfumato.errors import BadParameter, quote_value

MAX_METADATA_BYTES = 2**22


def read_text(file: Path, what: str, shape: str) -> str:
    """Return the text of a metadata file, or refuse it; `what` names the format, `shape` says how it looks."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_METADATA_BYTES + 1)
        if len(content) <= MAX_METADATA_BYTES:
            return content.decode("utf-8-sig")
    except (OSError, ValueError):
        pass
    raise not_metadata(file, what, shape)


def read_json(file: Path, what: str, shape: str) -> object:
    """Return the tree of a JSON file, with every number as its text; or refuse it."""
    text = read_text(file, what, shape)
    try:
        tree: object = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        raise not_metadata(file, what, shape) from None
    return tree


def as_list(value: object) -> list[object]:
    """Return a list; JSON-LD writes a list of one as that one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def iterate_objects(tree: object, depth: int = 0) -> Iterator[dict[str, object]]:
    """Give every object of a tree, the outer ones first."""
    if depth > 50:
        return
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from iterate_objects(part, depth + 1)


def not_metadata(file: Path, what: str, shape: str) -> BadParameter:
    """Return the refusal of a file that is not what it should be."""
    return BadParameter(f"{quote_value(str(file))} is not {what}.", shape, "Check the path and the file.")
