"""Opening a source: its bounded copy is found, or built by exactly one process while the others wait."""

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.bounded_copy import Build, CopiedColumn, CopiedTable, Progress, build_table
from sfumato.engines.connection import COPY, STAGE, Limits, closed_connection, execute, literal, open_copy
from sfumato.engines.loading import load_tables
from sfumato.engines.parquet_mending import mended
from sfumato.engines.private_file import publish
from sfumato.engines.salt import read_or_draw_salt
from sfumato.engines.source import Files, attach_source, read_schema, source_files
from sfumato.engines.versions import (
    FORMAT,
    Manifest,
    fresh_id,
    locked,
    read_manifest,
    stamp_of,
    write_manifest,
)
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.canonical import tables_hash
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Source, system_source

_ATTEMPTS = 3
_SHAPE = "sfumato_shape"
"""The schema of the copy in which its public shape is written down."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A source that can be asked: which version of the data, and what is public about its copy."""

    version: str
    path: Path = field(repr=False)
    tables: tuple[CopiedTable, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Places:
    """The files beside the ledger. Their names come from the ledger's, which the owner typed, and from random ids."""

    ledger: Path

    def beside(self, ending: str) -> Path:
        """Return the file beside the ledger with this ending."""
        return self.ledger.with_name(f"{self.ledger.name}.{ending}")

    @property
    def copies(self) -> list[Path]:
        """Every copy there is, current or not."""
        begins = f"{self.ledger.name}.copy-"
        return [path for path in self.ledger.parent.iterdir() if path.name.startswith(begins) and path.is_file()]

    @property
    def builds(self) -> list[Path]:
        """Every folder of a build that is under way or was interrupted."""
        return [path for path in self.ledger.parent.iterdir() if path.name.startswith(f"{self.ledger.name}.build-")]


def register(policy: Policy, progress: Progress, limits: Limits | None = None) -> Registered:
    """Return the copy of the source as it is now; build it where there is none or the source has changed."""
    places = places_of(policy)
    try:
        with locked(places.beside("copy.lock")):
            return _current(policy, places, progress, limits or Limits(), system_source())
    except OSError:
        pass  # a disk that is full, a folder that cannot be written: the system's words hold paths
    raise EngineFailed()


def places_of(policy: Policy) -> Places:
    """Return where the copy and its salt lie: beside the ledger, or beside the data where the ledger is on a server."""
    path = policy.ledger.path
    if path is None and policy.source.path is not None:
        path = policy.source.path.with_name(f"{policy.source.path.name}.sfumato")
    if path is None:
        raise BadSource(
            "source and ledger are both on servers.",
            "The bounded copy and its salt are files, and lie beside one of the two.",
            'Write ledger = "sqlite:PATH".',
        )
    source = policy.source.path
    if "?" in str(path) or (policy.source.scheme == "duckdb" and "?" in str(source)):
        raise BadSource(
            "The path of the ledger or of the database holds a question mark.",
            "The engine takes what follows it for a parameter.",
            "Rename the folder or the file.",
        )
    if not path.parent.is_dir():
        raise BadSource(
            "ledger lies in a folder that does not exist.",
            "The bounded copy and its salt lie beside it.",
            "Create the folder, or correct the path.",
        )
    if source is not None and source.is_dir() and path.resolve().is_relative_to(source.resolve()):
        raise BadSource(
            "ledger lies inside source.",
            "The bounded copy and its salt lie beside the ledger, and secrets do not belong among the data.",
            'Write ledger = "sqlite:PATH" with a path outside that folder, or move the data into a folder below it.',
        )
    return Places(path)


def _current(policy: Policy, places: Places, progress: Progress, limits: Limits, random: Source) -> Registered:
    """Return the current copy. The caller holds the lock, so whatever is unfinished was left by a dead process."""
    salt = read_or_draw_salt(places.beside("copy.salt"), random)
    known, tables = read_manifest(places.beside("copy.manifest")), tables_hash(policy)
    for _ in range(_ATTEMPTS):
        stamp = stamp_of(source_files(policy.source), salt)
        same_data = known is not None and known.stamp == stamp
        if known is not None and same_data and known.tables == tables:
            path = places.ledger.with_name(known.copy)
            if path.is_file():
                return Registered(known.version, path, _shape(path, limits))
        version = known.version if known is not None and same_data else fresh_id(random)
        identity = fresh_id(random)
        built = _build(policy, places.beside(f"build-{identity}"), salt, progress, limits)
        if stamp_of(source_files(policy.source), salt) != stamp:
            built.unlink()
            shutil.rmtree(built.parent)
            continue
        path = places.beside(f"copy-{identity}")
        publish(built, path)
        write_manifest(places.beside("copy.manifest"), Manifest(FORMAT, version, stamp, tables, path.name))
        _sweep(places, path)
        return Registered(version, path, _shape(path, limits))
    raise BadSource(
        "source changes while it is read.",
        "A copy of half of a change would be of data that never was.",
        "Open it again when nobody writes to it.",
    )


def _sweep(places: Places, current: Path) -> None:
    """Remove what is not the current copy. Who still reads an old one keeps it until they close it."""
    for path in places.copies:
        if path != current:
            path.unlink(missing_ok=True)
    for folder in places.builds:
        shutil.rmtree(folder, ignore_errors=True)


def _build(policy: Policy, folder: Path, salt: bytes, progress: Progress, limits: Limits) -> Path:
    """Build a copy in a folder of its own, which only its owner may enter: what spills to disk is private too."""
    for left in Places(policy.ledger.path or folder).builds:
        shutil.rmtree(left)
    folder.mkdir(mode=0o700)
    try:
        try:
            return _built(policy, folder, salt, progress, limits, {})
        except EngineFailed:
            if policy.source.scheme != "parquet":
                raise
        for name in (COPY, STAGE):
            (folder / name).unlink(missing_ok=True)
        return _built(policy, folder, salt, progress, limits, mended(policy, folder / "mended"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _built(
    policy: Policy, folder: Path, salt: bytes, progress: Progress, limits: Limits, instead: Mapping[str, Files]
) -> Path:
    copy = folder / COPY
    sources = [policy.source.path] if policy.source.path is not None else []
    with closing(closed_connection([folder, *sources], limits, folder / "spill")) as connection:
        for name in (COPY, STAGE):
            execute(connection, f"ATTACH {literal(str(folder / name))} AS {name}")
        attach_source(connection, policy.source)
        found = read_schema(connection, policy, instead)
        build = Build(connection, policy, found, salt, load_tables(connection, policy, found))
        _write_shape(build, [build_table(build, table, progress) for table in policy.tables])
        execute(connection, f"DETACH {COPY}")  # writes everything into the file
    return copy


def _write_shape(build: Build, tables: list[CopiedTable]) -> None:
    shape = f"{COPY}.{_SHAPE}.columns"
    execute(build.connection, f"CREATE SCHEMA {COPY}.{_SHAPE}")
    execute(build.connection, f"CREATE TABLE {shape} (tab VARCHAR, col VARCHAR, kind VARCHAR, unit BOOLEAN)")
    for table in tables:
        for column in table.columns:
            row = [table.name, column.name, column.type, column.name == table.unit]
            execute(build.connection, f"INSERT INTO {shape} VALUES ($1, $2, $3, $4)", row)  # noqa: S608


def _shape(path: Path, limits: Limits) -> tuple[CopiedTable, ...]:
    with closing(open_copy(path, limits)) as connection:
        rows = execute(connection, f"SELECT tab, col, kind, unit FROM {_SHAPE}.columns ORDER BY rowid")  # noqa: S608
    return tuple(
        CopiedTable(
            name,
            tuple(CopiedColumn(column, kind) for table, column, kind, _ in rows if table == name),
            next((column for table, column, _, unit in rows if table == name and unit), None),
        )
        for name in dict.fromkeys(table for table, *_ in rows)
    )
