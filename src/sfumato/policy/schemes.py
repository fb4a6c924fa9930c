"""Schemes: what stands before the colon of a location. Engines declare those of sources, also from other packages.

The entry points of the group `sfumato.engines` name them: one for each scheme. A built-in scheme needs no metadata of
an installed package, and no other package can take its name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from sfumato.errors import BadSource

GROUP = "sfumato.engines"
"""The entry points by which packages declare the schemes of their engines."""
_BUILT_IN = "sfumato.engines.built_in"
"""The file with the schemes of this package: named as text, because engines are built on policies."""

_FILES = "the names, sizes or times of its files"


@dataclass(frozen=True, slots=True)
class Scheme:
    """Form of the locations of one scheme."""

    name: str
    example: str = "data"
    """Example of the text after the colon, for messages."""
    is_url: bool = False
    """Whether a location is a URL. Otherwise it is a path, which may be relative to the policy file."""
    names: str = ""
    """A regular expression. A location that fully matches it is a name and no path. Empty where each one is a path."""
    aliases: tuple[str, ...] = ()
    """Other spellings that are read as this scheme."""
    mistaken: tuple[str, ...] = ()
    """Words that are not read, but probably mean this scheme."""
    suffixes: tuple[str, ...] = ()
    """Endings of paths that probably mean this scheme where none is written."""


@dataclass(frozen=True, slots=True)
class SourceScheme(Scheme):
    """Declaration of one source scheme by an engine. Loading it must import no driver."""

    backend: str = ""
    """MODULE:NAME of the Backend that opens such sources. It is imported when one is opened."""
    status: str = ""
    """MODULE:NAME of a function that tells whether a source has changed, without the driver: `Policy` → bool. Empty
    where the Backend must be asked."""
    install: str = ""
    """Extra that pip installs for the driver; empty where none is needed."""
    is_written: bool = True
    """Whether a policy names such a source by text; frames are passed from Python."""
    reads_csv: bool = False
    """Whether the section [csv] of a policy has an effect."""
    tells_changes: bool = True
    """Whether such a source tells that it has changed, so that `refresh = "on-change"` can be written."""
    change_evidence: str = _FILES
    """By what such a source tells that it has changed."""
    can_draft: bool = False
    """Whether `sfumato init` reads such a source."""
    can_tune: bool = True
    """Whether many bounds can be tried on an unbounded copy in reasonable time: `sfumato tune`."""


@cache
def built_in_schemes() -> tuple[SourceScheme, ...]:
    """Return the schemes of the built-in engines."""
    schemes: tuple[SourceScheme, ...] = import_module(_BUILT_IN).SCHEMES
    return schemes


def source_scheme(name: str) -> SourceScheme | None:
    """Return the declaration of a scheme; None where no engine reads it."""
    built_in = next((scheme for scheme in built_in_schemes() if scheme.name == name), None)
    return built_in or next((_load_scheme(name, points) for known, points in _outside().items() if known == name), None)


def source_schemes(name: str) -> tuple[Scheme, ...]:
    """Return the schemes that a policy can write. Of other packages, only the scheme of this name is loaded."""
    written = tuple(scheme for scheme in built_in_schemes() if scheme.is_written)
    if any(name in (scheme.name, *scheme.aliases) for scheme in written):
        return written
    return *written, *(
        _load_scheme(known, points) if known == name else Scheme(known) for known, points in _outside().items()
    )


def source_example() -> str:
    """Return a source as a policy may write it, for messages."""
    first = built_in_schemes()[0]
    return f"{first.name}:{first.example}"


def reads_csv(name: str) -> bool:
    """Tell whether sources of this scheme can hold CSV files."""
    scheme = source_scheme(name)
    return scheme is not None and scheme.reads_csv


def tells_changes(name: str) -> bool:
    """Tell whether sources of this scheme tell that they have changed."""
    scheme = source_scheme(name)
    return scheme is None or scheme.tells_changes


def change_evidence(name: str) -> str:
    """Return by what sources of this scheme tell that they have changed."""
    scheme = source_scheme(name)
    return _FILES if scheme is None else scheme.change_evidence


def _outside() -> dict[str, list[EntryPoint]]:
    """Return the entry points of other packages by scheme; installed packages can change while a process runs."""
    built_in = {scheme.name for scheme in built_in_schemes()}
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if point.name not in built_in:
            found.setdefault(point.name, []).append(point)
    return found


def _load_scheme(name: str, points: Iterable[EntryPoint]) -> SourceScheme:
    """Import the declaration of one scheme, or refuse the package that declares it wrongly."""
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise BadSource(
            f"Several installed engines read {name}: sources.",
            f"They are {', '.join(values)}, and each scheme belongs to one engine.",
            "Uninstall all but one of them.",
        )
    try:
        scheme = EntryPoint(name, values[0], GROUP).load()
    except (ImportError, AttributeError):
        scheme = None
    if not isinstance(scheme, SourceScheme) or scheme.name != name:
        raise BadSource(
            f"The engine for {name}: cannot be loaded.",
            f"The entry point {values[0]} is not a SourceScheme of this name.",
            "Correct or reinstall the package that declares it.",
        )
    return scheme
