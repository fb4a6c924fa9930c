"""Opening a source: its snapshot is found, or taken by one process; until it is complete nothing has changed."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE, closed_connection, execute, open_copy
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.parquet_mending import mended
from sfumato.engines.duckdb.source import Files, attach_source, check_place, read_schema, source_files, source_root
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.salt import read_or_draw_salt
from sfumato.engines.sql.copy import CopiedColumn, CopiedTable
from sfumato.engines.sql.names import literal
from sfumato.engines.versions import (
    FORMAT,
    Manifest,
    place_of,
    read_manifest,
    stamp_of,
    watch_of,
    write_manifest,
)
from sfumato.errors import BadSource, EngineFailed, Refusal
from sfumato.policy.canonical import tables_hash
from sfumato.policy.policy import Policy, Refresh
from sfumato.private_files import Use, locked, publish, remove_unused, write_whole
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_ATTEMPTS = 3
_SHAPE = "sfumato_shape"
"""The schema of the copy in which its public shape is written down."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A source that can be asked: which snapshot of the data, and what is public about its copy."""

    version: str
    path: Path = field(repr=False)
    tables: tuple[CopiedTable, ...]
    use: Use = field(repr=False, compare=False)
    """Keeps the copy where it is."""


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

    @property
    def manifest(self) -> Path:
        """The file that says which copy is current."""
        return self.beside("copy.manifest")


class Snapshot:
    """A snapshot that was found, or one that is complete and becomes the current one when it is kept."""

    def __init__(self, ledger: str, keep: Callable[[str], Registered]) -> None:
        self.ledger = ledger
        """The ledger that paid for answers about the snapshot before it; empty where there was none."""
        self._keep = keep

    def keep(self, ledger: str) -> Registered:
        """Make it the current one; its answers are paid for by this ledger."""
        with _failing_closed():
            return self._keep(ledger)


def register(policy: Policy, progress: Progress, limits: Limits | None = None, *, again: bool = False) -> Registered:
    """Return the current snapshot, or take one: for those who open no ledger."""
    with snapshot(policy, progress, limits, again=again) as taken:
        return taken.keep(taken.ledger)


@contextmanager
def snapshot(
    policy: Policy,
    progress: Progress,
    limits: Limits | None = None,
    *,
    again: bool = False,
    first: Callable[[], None] | None = None,
) -> Iterator[Snapshot]:
    """Find the current snapshot, or take one aside. Whoever leaves without keeping it has changed nothing.

    One is taken where there is none, where the policy's words about tables have changed, where the source has changed
    and the policy says so, and if it is to be taken `again`. `first` may refuse before anything is read.
    """
    places, limits = places_of(policy), limits or Limits()
    with _failing_closed():
        found = None if again else _found(policy, places, limits)
        if found is not None:
            _check_place(policy, places)
    if found is not None and not _is_wanted(policy):
        yield found
        return
    if first is not None:
        first()
    with _build_lock(places, wait=found is None) as ours:
        with _failing_closed():
            if not again:  # somebody else may have taken one while we waited
                found = _found(policy, places, limits) or found
                ours = ours and (found is None or _is_wanted(policy))
            taken = _Taken(policy, places, limits, again) if ours else None
            if taken is not None:
                found = taken.or_before(progress, found)
        if found is None:
            raise AssertionError("who waits for the lock has it")
        try:
            yield found
        finally:
            if taken is not None:
                taken.clean()


def has_changed(policy: Policy) -> bool:
    """Tell the owner whether the source has changed since its snapshot was taken, by names, sizes and times alone."""
    places = places_of(policy)
    known = read_manifest(places.manifest)
    try:
        return known is not None and _stamp(policy, places) != known.stamp
    except (OSError, BadSource):
        return True  # it is not there any more


def was_paid_for(policy: Policy) -> bool:
    """Tell whether there is a snapshot that a ledger belongs to."""
    places = places_of(policy)
    known = read_manifest(places.manifest)
    return bool(places.copies) if known is None else bool(known.ledger)


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


def _found(policy: Policy, places: Places, limits: Limits) -> Snapshot | None:
    """Return the current snapshot if it is of these tables. No lock is needed: a manifest appears whole."""
    for _ in range(_ATTEMPTS):
        known = read_manifest(places.manifest)
        if known is None or known.tables != tables_hash(policy):
            return None
        path = places.ledger.with_name(known.copy)
        try:
            use = Use(path)
        except OSError:
            continue  # another one has just taken its place, or somebody removed it
        read_or_draw_salt(places.beside("copy.salt"), system_source())  # one that others can read is refused
        return _same(known.ledger, Registered(known.version, path, _shape(path, limits), use))
    return None


def _same(ledger: str, registered: Registered) -> Snapshot:
    return Snapshot(ledger, lambda _ledger: registered)


def _is_wanted(policy: Policy) -> bool:
    """Tell whether another snapshot is to be taken although there is one."""
    return policy.refresh is Refresh.ON_CHANGE and has_changed(policy)


def _check_place(policy: Policy, places: Places) -> None:
    """Refuse another source that does not exist: a slip of the keyboard must not put the rest of a policy in force."""
    known, secret = read_manifest(places.manifest), places.beside("copy.salt")
    if known is None or not secret.exists():
        return
    if known.place != place_of(policy.source, read_or_draw_salt(secret, system_source())):
        check_place(policy.source)


def _stamp(policy: Policy, places: Places) -> str:
    salt = read_or_draw_salt(places.beside("copy.salt"), system_source())
    return stamp_of(source_root(policy.source), source_files(policy.source), salt)


@contextmanager
def _build_lock(places: Places, wait: bool) -> Iterator[bool]:
    """Hold the lock of builds. Where there is no snapshot afterwards, nothing stays behind."""
    path = places.beside("copy.lock")
    with _failing_closed():
        lock = locked(path, wait)
        ours = lock.__enter__()
    try:
        yield ours
    finally:
        if ours and not places.manifest.exists():
            path.unlink(missing_ok=True)
        lock.__exit__(None, None, None)


@contextmanager
def _failing_closed() -> Iterator[None]:
    """Turn what the system says into one sentence: a disk that is full, a folder that cannot be written."""
    try:
        yield
        return
    except OSError:
        pass  # the system's words hold paths
    raise EngineFailed()


class _Taken:
    """A snapshot that is being taken. The lock is held, so whatever is unfinished was left by a dead process."""

    def __init__(self, policy: Policy, places: Places, limits: Limits, anew: bool) -> None:
        self._policy, self._places, self._limits, self._anew = policy, places, limits, anew
        self._random = system_source()
        self._identity = fresh_id(self._random)
        self._folder = places.beside(f"build-{self._identity}")
        self._salt = read_or_draw_salt(places.beside("copy.salt"), self._random)
        self._known = read_manifest(places.manifest)

    def or_before(self, progress: Progress, before: Snapshot | None) -> Snapshot:
        """Return the snapshot when it is complete; the one before where there is one and this cannot be taken."""
        try:
            stamp, built = self._complete(progress)
        except (Refusal, OSError):
            if before is None:
                raise
            return before
        ledger = "" if self._known is None else self._known.ledger
        return Snapshot(ledger, lambda ledger: self._kept(stamp, built, ledger))

    def _complete(self, progress: Progress) -> tuple[str, Path]:
        """Build the copy of a source that stays as it is meanwhile."""
        source = self._policy.source
        for left in self._places.builds:
            shutil.rmtree(left, ignore_errors=True)
        for _ in range(_ATTEMPTS):
            files = source_files(source)
            watched, stamp = watch_of(files), stamp_of(source_root(source), files, self._salt)
            built = _build(self._policy, self._folder, self._salt, progress, self._limits)
            if watch_of(source_files(source)) == watched:
                return stamp, built
            self.clean()
        raise BadSource(
            "source changes while it is read.",
            "A copy of half of a change would be of data that never was.",
            "Take the snapshot again when nobody writes to it.",
        )

    def _kept(self, stamp: str, built: Path, ledger: str) -> Registered:
        places, known = self._places, self._known
        same_data = known is not None and known.stamp == stamp and not self._anew
        version = known.version if known is not None and same_data else fresh_id(self._random)
        secret = places.beside("copy.salt")
        if not secret.exists():
            write_whole(secret, self._salt)
        path = places.beside(f"copy-{self._identity}")
        publish(built, path)
        use = Use(path)
        tables, place = tables_hash(self._policy), place_of(self._policy.source, self._salt)
        registered = Registered(version, path, _shape(path, self._limits), use)
        write_manifest(places.manifest, Manifest(FORMAT, version, stamp, place, tables, path.name, ledger))
        for other in places.copies:
            if other != path:
                remove_unused(other)
        return registered

    def clean(self) -> None:
        """Remove what was not kept."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _build(policy: Policy, folder: Path, salt: bytes, progress: Progress, limits: Limits) -> Path:
    """Build a copy in a folder of its own, which only its owner may enter: what spills to disk is private too."""
    folder.mkdir(mode=0o700)
    try:
        try:
            return _built(policy, folder, salt, progress, limits, {})
        except EngineFailed:
            if policy.source.scheme not in ("parquet", "files"):
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
