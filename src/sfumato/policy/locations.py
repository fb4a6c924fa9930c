"""Where the data and the ledger lie, from what the owner wrote; nothing is opened, and no message repeats it."""

import re
from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import suggestion
from sfumato.policy.entry import Entry, named, quote_entry, refuse, text
from sfumato.policy.policy import Location
from sfumato.policy.schemes import Scheme, source_example, source_schemes

_SERVER = Scheme("postgresql", "//user@host/database", is_url=True, aliases=("postgres",))
LEDGERS = (
    Scheme("sqlite", "clinic.ledger", mistaken=("sqlite3",), suffixes=(".ledger", ".sqlite", ".sqlite3")),
    _SERVER,
)
SEALED_STORES = (Scheme("duckdb", "store/clinic.duckdb", suffixes=(".duckdb",)), _SERVER)
KEY_FILES = (Scheme("file", "../keys/clinic.key"),)
MAX_LOCATION_CHARS = 4096
_FRAMES = ("__arrow_c_stream__", "__dataframe__")
"""Methods by which a data frame of any library is recognised."""


def read_source(entry: Entry, folder: Path) -> Location:
    """Read the location of a source: some engine declares its scheme."""
    return read_location(entry, source_schemes(_split(entry)[0]), folder)


def read_location(entry: Entry, schemes: Sequence[Scheme], folder: Path) -> Location:
    """Read `scheme:path` (relative paths start at `folder`), a name or a URL."""
    written, rest = _split(entry)
    scheme = next((known for known in schemes if written in (known.name, *known.aliases)), None)
    if scheme is None:
        raise _unknown(entry, written, schemes)
    if scheme.is_url:
        return Location(scheme.name, f"{scheme.name}:{_after_slashes(entry, scheme, rest)}", None)
    if scheme.names and re.fullmatch(scheme.names, rest.strip()):
        return Location(scheme.name, rest.strip(), None)
    if not rest.strip() or rest.startswith("//"):
        raise refuse(
            entry,
            f"names no path after {scheme.name}:.",
            "A file or folder is written as a plain path, relative to the policy file or absolute.",
            f"Write for example {scheme.name}:{scheme.example}.",
        )
    return Location(scheme.name, rest, (folder / rest).absolute())


def _split(entry: Entry) -> tuple[str, str]:
    """Return the scheme, empty where there is none, and what follows it."""
    scheme, colon, rest = text(entry, MAX_LOCATION_CHARS).partition(":")
    return (scheme.strip().lower(), rest) if colon else ("", scheme)


def read_frames(entry: Entry, most: int) -> Location:
    """Read a source of frames, by table; the mapping itself is kept, so that it may hold others later."""
    frames = named(entry, "table", most)
    for below in frames.values():
        kind = type(below.value)
        if not any(hasattr(kind, form) for form in _FRAMES):
            raise refuse(
                below,
                f"is {quote_entry(below.value)}.",
                "Where source is a table, it holds frames: Arrow tables, or DataFrames of pandas or polars.",
                f'Hand over frames from Python, or write text: source = "{source_example()}".',
            )
    if not isinstance(entry.value, dict):
        raise AssertionError("names are read from a dict")
    return Location("frames", "", None, entry.value)


def default_ledger(source: Location, name: str) -> Location | None:
    """Return the ledger of a policy that has no file: beside the data, whatever folder the program runs in."""
    if source.path is None:
        return None
    return file_ledger(source.path.parent / f"{name}.ledger")


def file_ledger(path: Path) -> Location:
    """Return the ledger in a file of this machine."""
    return Location("sqlite", path.name, path.absolute())


def _after_slashes(entry: Entry, scheme: Scheme, rest: str) -> str:
    if rest.startswith("//") and len(rest) > 2:
        return rest
    raise refuse(
        entry,
        f"is not a {scheme.name} URL.",
        f"The address of a server starts with {scheme.name}://.",
        f"Write {scheme.name}:{scheme.example}; leave the password to the environment or a password file.",
    )


def _unknown(entry: Entry, written: str, schemes: Sequence[Scheme]) -> Exception:
    names = [scheme.name for scheme in schemes]
    suffix = Path(text(entry, MAX_LOCATION_CHARS)).suffix.lower()
    meant = next((scheme.name for scheme in schemes if written in scheme.mistaken), None)
    by_suffix = next((scheme.name for scheme in schemes if suffix in scheme.suffixes), None)
    advice = f"Did you mean {meant}? " if meant else suggestion(written, names)
    if by_suffix and not written:
        advice = f"Did you mean {by_suffix}:? "
    return refuse(
        entry,
        f'starts with "{written}:", which is not known here.'
        if written.isalnum() and len(written) <= 20
        else "does not start with a scheme.",
        f"A location starts with its kind: {', '.join(f'{name}:' for name in names)}.",
        f"{advice}Write for example {schemes[0].name}:{schemes[0].example}.",
    )
