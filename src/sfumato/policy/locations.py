"""Where the data and the ledger lie, from what the owner wrote; nothing is opened, and no message repeats it."""

import re
from pathlib import Path

from sfumato.errors import suggestion
from sfumato.policy.entry import Entry, refuse, text
from sfumato.policy.policy import Location

FILES = ("parquet", "csv", "files", "duckdb")
SOURCES = (*FILES, "postgresql", "spark")
"""What some engine reads."""
LEDGERS = ("sqlite", "postgresql")
_LONGEST = 4096
_CATALOG = re.compile(r"catalog(\.\w+){0,2}")
"""A catalog of Spark's, and a database of it; everything else after spark: is a folder."""
_SYNONYMS = {"postgres": "postgresql", "sqlite3": "sqlite", "pq": "parquet", "tsv": "csv"}
_EXAMPLES = {"sqlite": "clinic.ledger", "file": "../keys/clinic.key"}
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".duckdb": "duckdb", ".ledger": "sqlite", ".sqlite": "sqlite"}


def read_location(entry: Entry, schemes: tuple[str, ...], folder: Path) -> Location:
    """Read `scheme:path` (relative paths start at `folder`) or a postgresql URL."""
    words = text(entry, _LONGEST)
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
            f"Write for example {scheme}:{_EXAMPLES.get(scheme, 'data')}.",
        )
    return Location(scheme, rest, (folder / rest).absolute())


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
    suffix = _SUFFIXES.get(Path(words).suffix.lower())
    if suffix in schemes and not scheme:
        advice = f"Did you mean {suffix}:? "
    return refuse(
        entry,
        f'starts with "{scheme}:", which is not known here.'
        if scheme.isalnum() and len(scheme) <= 20
        else "does not start with a scheme.",
        f"A location starts with its kind: {', '.join(f'{known}:' for known in schemes)}.",
        f"{advice}Write for example {schemes[0]}:{_EXAMPLES.get(schemes[0], 'data')}.",
    )
