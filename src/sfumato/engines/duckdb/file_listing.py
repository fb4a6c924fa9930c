"""Which files a source consists of: names, sizes and times. No driver is needed to list them."""

import os
from collections.abc import Iterator
from pathlib import Path

from sfumato.errors import BadSource
from sfumato.policy.policy import Location

_CSV = tuple(f"{ending}{packed}" for ending in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
ENDINGS = {"parquet": (".parquet",), "csv": _CSV, "files": (".parquet", *_CSV)}
LOGS = {"duckdb": ".wal", "sqlite": "-wal"}
"""Sources that are one file, and what is written beside it; an empty log says nothing."""


def check_place(location: Location) -> None:
    """Refuse a source that is not there."""
    source_path(location)


def source_root(location: Location) -> Path:
    """Return the folder in which the files of the source have their names."""
    path = source_path(location)
    return path if path.is_dir() else path.parent


def source_files(location: Location) -> list[Path]:
    """Return every file of the source, sorted; what another process does meanwhile is seen by their stamps."""
    path = source_path(location)
    if location.scheme in LOGS or path.is_file():
        log = path.with_name(f"{path.name}{LOGS.get(location.scheme, '.wal')}")
        return [path, *([log] if log.exists() and log.stat().st_size else [])]
    return sorted(data_files(path, ENDINGS[location.scheme]))


def source_path(location: Location) -> Path:
    """Return the path of a source, or refuse one that is not there."""
    if location.path is None or location.scheme not in (*ENDINGS, *LOGS):
        raise BadSource(
            f"source starts with {location.scheme}:.",
            "This engine reads files.",
            "Write parquet:, csv:, files:, duckdb: or sqlite: with a path.",
        )
    if not location.path.exists() or (location.scheme in LOGS and not location.path.is_file()):
        raise BadSource("The source path does not exist.", "There is no data to protect.", "Check the path in source.")
    return location.path


def data_files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Give the data files below a folder; hidden ones are passed over."""
    for parent, below, names in os.walk(folder, onerror=_refuse_folder):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith(endings) and not name.startswith((".", "_")):
                path = Path(parent) / name
                if not path.is_file():  # opening a pipe would wait for ever
                    raise BadSource(
                        "source contains an entry that is named like a data file but is not a file.",
                        "A broken link or a pipe cannot be read as a file.",
                        "Remove it, or put the file in its place.",
                    )
                yield path


def _refuse_folder(_failure: OSError) -> None:
    """Refuse a folder that cannot be listed: without it a snapshot would silently lack rows."""
    raise BadSource(
        "source contains a folder that cannot be listed.",
        "Files in it would be missing from the snapshot.",
        "Give this user the right to read it, or move it out of the source.",
    )
