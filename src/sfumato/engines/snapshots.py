"""Snapshots of every engine: found, or taken by one process of many; until one is complete nothing has changed.

A snapshot is a file beside the ledger, which the manifest names. What else an engine keeps, on a server or in a folder,
belongs to that file by its random id: using the file keeps it, and without the file it is swept.
"""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.cohort_set import CohortSet, cohorts_from_json, cohorts_of, cohorts_to_json
from sfumato.engines.engine import Backend, Engine, Limits, Progress
from sfumato.engines.inspection import SourceReport
from sfumato.engines.limits import limits_of
from sfumato.engines.salt import read_or_draw_salt
from sfumato.engines.snapshot_manifest import (
    FORMAT_VERSION,
    MAX_ATTEMPTS,
    Manifest,
    read_manifest,
    source_digest,
    write_manifest,
)
from sfumato.engines.snapshot_paths import SnapshotPaths, has_ledger, places_of
from sfumato.engines.source_catalogue import SourceCatalogue
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.errors import BadSource, EngineFailed, Refusal
from sfumato.policy.canonical import tables_hash
from sfumato.policy.policy import Location, Policy, Refresh
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.secure_files import SharedFileLock, locked, publish, remove_unused, write_atomically


class Built(Protocol):
    """A copy that is complete and lies aside."""

    @property
    def stamp(self) -> str:
        """What the source was, as `Copying.stamp` tells it."""

    @property
    def file(self) -> Path:
        """The file that becomes the copy's."""

    def commit(self) -> None:
        """Make durable what lies elsewhere: the file has its place by now, and the manifest will name it."""

    def discard(self) -> None:
        """Throw away what lies elsewhere, unless it was committed."""


@dataclass(frozen=True, slots=True, repr=False)
class BuildDirectory:
    """Where a copy is built: its random id, a folder of its own, and the copy before it."""

    identity: str
    folder: Path
    before: Path | None = None
    """Of the same tables, the same source and the same salt: what it holds of a person whose rows did not change is
    what another copy would hold. None where there is no such copy."""
    kept_cohorts: Path | None = None
    """Where the cohorts of people are kept that registrations have seen, for those that keep them in a file."""


class Copying(Protocol):
    """How one engine copies the source of one policy."""

    @property
    def stamps_tell_all(self) -> bool:
        """Whether an equal stamp means equal data."""

    def check_place(self) -> None:
        """Refuse a source that is not there."""

    def stamp(self, salt: bytes) -> str:
        """Return what changes when the source does, under the salt; no row is read."""

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> Built:
        """Build a copy aside; its folder does not exist yet, and is removed afterwards, whatever happens."""

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy; None where something of it is gone: then it is built again."""

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Remove what lies elsewhere and belongs to no copy: `kept` are the ids of the files that there are."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A source that can be asked: which snapshot of the data, and what is public about its copy."""

    version: str
    path: Path = field(repr=False)
    tables: tuple[CopiedTable, ...]
    use: SharedFileLock = field(repr=False, compare=False)
    """Keeps the copy where it is."""
    cohorts: CohortSet | None = None
    """The cohorts of the snapshot; None where all people share one budget."""


def identity_of(copy: Path) -> str:
    """Return the random id of a copy, given its file."""
    return copy.name.rpartition("-")[2]


class Snapshot:
    """A snapshot that was found, or one that is complete and becomes the current one when it is kept."""

    def __init__(self, ledger: str, keep: Callable[[str], Registered], refused: Refusal | None = None) -> None:
        self.ledger = ledger
        """The ledger that paid for answers about the snapshot before it; empty where there was none."""
        self.refused = refused
        """Why another snapshot, which the policy asks for, could not be taken: for the data owner alone."""
        self._keep = keep

    def instead_of(self, failure: Refusal | OSError) -> "Snapshot":
        """Return this snapshot with the reason why another one could not take its place."""
        if isinstance(failure, Refusal):
            return Snapshot(self.ledger, self._keep, failure)
        record_engine_failure(failure)  # the system's words hold paths
        return Snapshot(self.ledger, self._keep, EngineFailed())

    def keep(self, ledger: str) -> Registered:
        """Make it the current one; its answers are paid for by this ledger."""
        with _failing_closed():
            return self._keep(ledger)


@contextmanager
def snapshot(
    policy: Policy,
    copying: Copying,
    progress: Progress,
    *,
    again: bool = False,
    first: Callable[[], None] | None = None,
) -> Iterator[Snapshot]:
    """Find the current snapshot, or take one aside. A caller that leaves without keeping it has changed nothing.

    One is taken where there is none, where the policy's words about tables have changed, where the source has changed
    and the policy says so, and if it is to be taken `again`. `first` may refuse before anything is read.
    """
    places = places_of(policy)
    with _failing_closed():
        found = None if again else _find_current(policy, copying, places)
        if found is not None:
            _check_place(policy, copying, places)
    if found is not None and not _is_wanted(policy, copying):
        yield found
        return
    if first is not None:
        first()
    with _build_lock(places, wait=found is None) as ours:
        with _failing_closed():
            if not again:  # another process may have taken one while we waited
                found = _find_current(policy, copying, places) or found
                ours = ours and (found is None or _is_wanted(policy, copying))
            taken = _Taken(policy, copying, places, again) if ours else None
            if taken is not None:
                found = taken.or_before(progress, found)
        if found is None:
            raise AssertionError("who waits for the lock has it")
        try:
            yield found
        finally:
            if taken is not None:
                taken.clean()


def source_changed(policy: Policy, copying: Copying) -> bool:
    """Tell the owner whether the source has changed since its snapshot was taken, and no row is read."""
    places = places_of(policy)
    known = read_manifest(places.manifest)
    try:
        return known is not None and _stamp(copying, places) != known.stamp
    except (OSError, BadSource, EngineFailed):
        return True  # it is not there any more


def _find_current(policy: Policy, copying: Copying, places: SnapshotPaths) -> Snapshot | None:
    """Return the current snapshot if it is of these tables. No lock is needed: a manifest appears whole."""
    for _ in range(MAX_ATTEMPTS):
        known = read_manifest(places.manifest)
        if known is None or known.tables != tables_hash(policy):
            return None
        path = places.ledger.with_name(known.copy)
        try:
            use = SharedFileLock(path)
        except OSError:
            continue  # another one has just taken its place, or it was removed
        read_or_draw_salt(places.sidecar("copy.salt"), system_source())  # one that others can read is refused
        tables = copying.shape(path)
        return None if tables is None else _same(known.ledger, _register(known, path, tables, use))
    return None


def _register(known: Manifest, path: Path, tables: tuple[CopiedTable, ...], use: SharedFileLock) -> Registered:
    return Registered(known.version, path, tables, use, cohorts_from_json(known.cohorts))


def _same(ledger: str, registered: Registered) -> Snapshot:
    return Snapshot(ledger, lambda _ledger: registered)


def _assignment(cohorts: CohortSet | None) -> str:
    """Return which people a cohort's name stands for: under another assignment answers are about others."""
    return "" if cohorts is None else cohorts.kept


def _is_wanted(policy: Policy, copying: Copying) -> bool:
    """Tell whether another snapshot is to be taken although there is one."""
    return policy.refresh is Refresh.ON_CHANGE and source_changed(policy, copying)


def _check_place(policy: Policy, copying: Copying, places: SnapshotPaths) -> None:
    """Refuse another source that does not exist: a slip of the keyboard must not put the rest of a policy in force."""
    known, secret = read_manifest(places.manifest), places.sidecar("copy.salt")
    if known is None or not secret.exists():
        return
    if known.place != source_digest(policy.source, read_or_draw_salt(secret, system_source())):
        copying.check_place()


def _stamp(copying: Copying, places: SnapshotPaths) -> str:
    return copying.stamp(read_or_draw_salt(places.sidecar("copy.salt"), system_source()))


@contextmanager
def _build_lock(places: SnapshotPaths, wait: bool) -> Iterator[bool]:
    """Hold the lock of builds. Where there is no snapshot afterwards, nothing stays behind."""
    path = places.sidecar("copy.lock")
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
    except OSError as error:
        record_engine_failure(error)  # the system's words hold paths
    raise EngineFailed() from None


class _Taken:
    """A snapshot that is being taken. The lock is held, so whatever is unfinished was left by a dead process."""

    def __init__(self, policy: Policy, copying: Copying, places: SnapshotPaths, anew: bool) -> None:
        self._policy, self._copying, self._places, self._anew = policy, copying, places, anew
        self._random = system_source()
        self._identity = fresh_id(self._random)
        self._folder = places.sidecar(f"build-{self._identity}")
        self._salt = read_or_draw_salt(places.sidecar("copy.salt"), self._random)
        self._known = read_manifest(places.manifest)
        self._built: Built | None = None

    def or_before(self, progress: Progress, before: Snapshot | None) -> Snapshot:
        """Return the snapshot when it is complete; the one before where there is one and this cannot be taken."""
        try:
            built = self._complete(progress)
        except (Refusal, OSError) as failure:
            if before is None:
                raise
            return before.instead_of(failure)
        ledger = "" if self._known is None else self._known.ledger
        return Snapshot(ledger, lambda ledger: self._keep_built(built, ledger))

    def _complete(self, progress: Progress) -> Built:
        for left in self._places.builds:
            shutil.rmtree(left, ignore_errors=True)
        self._sweep()
        aside = BuildDirectory(self._identity, self._folder, self._before(), self._places.sidecar("copy.cohorts"))
        self._built = self._copying.build(aside, self._salt, progress)
        return self._built

    def _before(self) -> Path | None:
        """Return the copy before, if it is of the same tables of the same source under the same salt."""
        known, place = self._known, source_digest(self._policy.source, self._salt)
        if known is None or known.tables != tables_hash(self._policy) or known.place != place:
            return None
        path = self._places.ledger.with_name(known.copy)
        return path if path.is_file() and self._copying.shape(path) is not None else None

    def _keep_built(self, built: Built, ledger: str) -> Registered:
        places, known, stamp = self._places, self._known, built.stamp
        same_data = self._copying.stamps_tell_all and known is not None and known.stamp == stamp and not self._anew
        same_people = known is not None and _assignment(cohorts_from_json(known.cohorts)) == _assignment(
            cohorts_of(built)
        )
        version = known.version if known is not None and same_data and same_people else fresh_id(self._random)
        secret = places.sidecar("copy.salt")
        if not secret.exists():
            write_atomically(secret, self._salt)
        path = places.copy(self._identity)
        publish(built.file, path)
        use = SharedFileLock(path)
        built.commit()
        tables, place = tables_hash(self._policy), source_digest(self._policy.source, self._salt)
        shape = self._copying.shape(path)
        if shape is None:
            record_engine_failure("The bounded copy that was just written cannot be opened.")
            raise EngineFailed()
        cohorts = cohorts_to_json(cohorts_of(built))
        current = Manifest(FORMAT_VERSION, version, stamp, place, tables, path.name, ledger, cohorts)
        registered = _register(current, path, shape, use)
        write_manifest(places.manifest, current)
        for other in places.copies:
            if other != path:
                remove_unused(other)
        self._sweep()
        return registered

    def _sweep(self) -> None:
        """Remove what belongs to no copy. A failure here is ignored: the next snapshot does it again."""
        with suppress(EngineFailed, BadSource):
            self._copying.sweep(self._salt, [identity_of(path) for path in self._places.copies])

    def clean(self) -> None:
        """Remove what was not kept."""
        if self._built is not None:
            self._built.discard()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Watching:
    """`engine.SnapshotWatch`: a manifest appears whole, so that a look at its file tells whether to read it."""

    def __init__(self, policy: Policy, copying: Copying, opened: Callable[[Registered], Engine]) -> None:
        self._policy, self._copying, self._opened = policy, copying, opened
        self._places = places_of(policy)
        self._seen: tuple[int, ...] | None = None

    def may_have_changed(self) -> bool:
        return _mark(self._places.manifest) not in (None, self._seen)

    def open_newer(self, version: str, ledger: Callable[[], str]) -> Engine | None:
        mark = _mark(self._places.manifest)
        if mark is None or mark == self._seen:
            return None
        try:
            engine = self._other(version, ledger)
        except (Refusal, OSError):
            return None
        self._seen = mark
        return engine

    def _other(self, version: str, ledger: Callable[[], str]) -> Engine | None:
        known = read_manifest(self._places.manifest)
        if known is None or known.version == version or known.ledger != ledger():
            return None
        found = _find_current(self._policy, self._copying, self._places)
        if found is None or found.ledger != known.ledger:  # of other tables than this policy declares
            return None
        return self._opened(found.keep(found.ledger))


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@dataclass(frozen=True, slots=True)
class _Opening:
    """`engine.Taken`: a snapshot, and the engine over it."""

    snapshot: Snapshot
    opened: Callable[[Registered], Engine]

    @property
    def ledger(self) -> str:
        return self.snapshot.ledger

    @property
    def refused(self) -> Refusal | None:
        return self.snapshot.refused

    def commit(self, ledger: str) -> Engine:
        return self.opened(self.snapshot.keep(ledger))


def backend(
    copying: Callable[[Policy, Limits], Copying],
    engine: Callable[[Policy, Registered, Limits], Engine],
    inspect: Callable[[Policy], SourceReport] | None = None,
    describe: Callable[[Location], SourceCatalogue] | None = None,
) -> Backend:
    """Return the backend of an engine: how it copies a source, opens a copy, and counts what is lost between them."""

    @contextmanager
    def take(
        policy: Policy, progress: Progress, limits: Limits, *, again: bool, first: Callable[[], None] | None
    ) -> Iterator[_Opening]:
        with snapshot(policy, copying(policy, limits), progress, again=again, first=first) as taken:
            yield _Opening(taken, lambda registered: engine(policy, registered, limits))

    def watch(policy: Policy) -> _Watching:
        limits = limits_of(policy)
        return _Watching(policy, copying(policy, limits), lambda registered: engine(policy, registered, limits))

    def changed(policy: Policy) -> bool:
        return source_changed(policy, copying(policy, Limits()))

    def forget(policy: Policy) -> None:
        secret = places_of(policy).sidecar("copy.salt")
        if secret.exists():
            copying(policy, Limits()).sweep(read_or_draw_salt(secret, system_source()), ())

    return Backend(take, changed, has_ledger, watch, forget, inspect, describe)
