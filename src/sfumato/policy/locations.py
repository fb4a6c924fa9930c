"""Where the data and the ledger lie, from what the owner wrote; nothing is opened, and no message repeats it."""

import re
from pathlib import Path

from sfumato.errors import suggestion
from sfumato.policy.entry import Entry, named, refuse, shown, text
from sfumato.policy.policy import Location

FILES = ("parquet", "csv", "files", "duckdb", "sqlite")
"""Sources that are a path."""
SOURCES = (*FILES, "postgresql", "spark")
"""What some engine reads."""
LEDGERS = ("sqlite", "postgresql")
MAX_LOCATION_CHARS = 4096
_FRAMES = ("__arrow_c_stream__", "__dataframe__")
"""What frames of any library can be asked for."""
_CATALOG = re.compile(r"catalog(\.\w+){0,2}")
"""A catalog of Spark's, and a database of it; everything else after spark: is a folder."""
_SYNONYMS = {"postgres": "postgresql", "sqlite3": "sqlite", "pq": "parquet", "tsv": "csv"}
_EXAMPLES = {"sqlite": "clinic.ledger", "file": "../keys/clinic.key"}
_LEDGER_SUFFIXES = {".ledger": "sqlite"}
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"}


def read_location(entry: Entry, schemes: tuple[str, ...], folder: Path) -> Location:
    """Read `scheme:path` (relative paths start at `folder`) or a postgresql URL."""
    words = text(entry, MAX_LOCATION_CHARS)
    scheme, colon, rest = words.partition(":")
    scheme = scheme.strip().lower()
    if scheme == "postgres":
        scheme = "postgresql"
    if not colon or scheme not in schemes:
        raise _unknown(entry, words, scheme if colon else "", schemes)
    if scheme == "postgresql":
        return Location(scheme, f"postgresql:{_after_slashes(entry, rest)}", None)
    if scheme == "spark" and _CATALOG.fullmatch(rest.strip()):
        return Location(scheme, rest.strip(), None)
    if not rest.strip() or rest.startswith("//"):
        raise refuse(
            entry,
            f"names no path after {scheme}:.",
            "A file or folder is written as a plain path, relative to the policy file or absolute.",
            f"Write for example {_example(scheme, schemes)}.",
        )
    return Location(scheme, rest, (folder / rest).absolute())


def read_frames(entry: Entry, most: int) -> Location:
    """Read a source of frames, by table; the mapping itself is kept, so that it may hold others later."""
    frames = named(entry, "table", most)
    for below in frames.values():
        kind = type(below.value)
        if not any(hasattr(kind, form) for form in _FRAMES):
            raise refuse(
                below,
                f"is {shown(below.value)}.",
                "Where source is a table, it holds frames: Arrow tables, or DataFrames of pandas or polars.",
                'Hand over frames from Python, or write text: source = "parquet:data".',
            )
    if not isinstance(entry.value, dict):
        raise AssertionError("names are read from a dict")
    return Location("frames", "", None, entry.value)


def ledger_beside(source: Location, name: str) -> Location | None:
    """Return the ledger of a policy that has no file: beside the data, whatever folder the program runs in."""
    if source.path is None:
        return None
    return file_ledger(source.path.parent / f"{name}.ledger")


def file_ledger(path: Path) -> Location:
    """Return the ledger in a file of this machine."""
    return Location("sqlite", path.name, path.absolute())


def _after_slashes(entry: Entry, rest: str) -> str:
    if rest.startswith("//") and len(rest) > 2:
        return rest
    raise refuse(
        entry,
        "is not a postgresql URL.",
        "The address of a PostgreSQL server starts with postgresql://.",
        "Write postgresql://user@host/database; leave the password to the environment or a password file.",
    )


def _unknown(entry: Entry, words: str, scheme: str, schemes: tuple[str, ...]) -> Exception:
    meant = _SYNONYMS.get(scheme)
    advice = f"Did you mean {meant}? " if meant in schemes else suggestion(scheme, schemes)
    suffix = {**_SUFFIXES, **({} if schemes == SOURCES else _LEDGER_SUFFIXES)}.get(Path(words).suffix.lower())
    if suffix in schemes and not scheme:
        advice = f"Did you mean {suffix}:? "
    return refuse(
        entry,
        f'starts with "{scheme}:", which is not known here.'
        if scheme.isalnum() and len(scheme) <= 20
        else "does not start with a scheme.",
        f"A location starts with its kind: {', '.join(f'{known}:' for known in schemes)}.",
        f"{advice}Write for example {_example(schemes[0], schemes)}.",
    )


def _example(scheme: str, schemes: tuple[str, ...]) -> str:
    path = "clinic.db" if scheme == "sqlite" and schemes == SOURCES else _EXAMPLES.get(scheme, "data")
    return f"{scheme}:{path}"
