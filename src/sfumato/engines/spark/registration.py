"""How the tables of a Spark source are copied: into a folder of Parquet files of random name, beside the ledger."""

import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.engines.duckdb.beside import write_beside
from sfumato.engines.duckdb.shape import read_shape
from sfumato.engines.duckdb.source import check_place, source_files, source_root
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshots import Places, identity_of, places_of
from sfumato.engines.spark.build import ROWS, SparkBuild, public_rows, view_name
from sfumato.engines.spark.connection import execute, session
from sfumato.engines.spark.source import files_in_catalog, folder_of, is_catalog, read_schema
from sfumato.engines.sql.copy import CopiedTable, bounded_table
from sfumato.engines.versions import keyed, stamp_of, steady, unchanged
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy
from sfumato.private_files import sync_folder

_WHOLE = "whole"
"""The file that is written last: a folder without it is not a copy."""


def rows_folder(places: Places, identity: str) -> Path:
    """Return the folder of a copy, given its random id."""
    return places.beside(f"rows-{identity}")


def is_whole(folder: Path) -> bool:
    """Tell whether the folder of a copy is there, to its end."""
    return (folder / _WHOLE).is_file()


@dataclass(slots=True, repr=False)
class _BuiltFolder:
    """A copy in the folder of its build: if we die, it goes with that."""

    stamp: str
    file: Path
    rows: Path
    place: Path

    def commit(self) -> None:
        """Move the rows to their place."""
        self.rows.replace(self.place)
        sync_folder(self.place.parent)

    def discard(self) -> None:
        """Do nothing: what was not committed goes with the folder of the build."""


@dataclass(frozen=True, slots=True)
class SparkCopying:
    """`snapshots.Copying` of a folder of Parquet files, or of a catalog of Spark's."""

    policy: Policy = field(repr=False)
    limits: Limits

    @property
    def stamps_tell_all(self) -> bool:
        """A catalog says which files there are, and not when they were written."""
        return not is_catalog(self.policy.source)

    def check_place(self) -> None:
        """Refuse a source that is not there."""
        if not is_catalog(self.policy.source):
            check_place(folder_of(self.policy.source))

    def stamp(self, salt: bytes) -> str:
        """Return names, sizes and times of the files; of a catalog, which files its tables have."""
        if is_catalog(self.policy.source):
            return self._files_of_catalog(salt)
        root, files = self._files()
        return stamp_of(root, files(), salt)

    def _files(self) -> tuple[Path, Callable[[], list[Path]]]:
        source = folder_of(self.policy.source)
        return source_root(source), lambda: source_files(source)

    def _files_of_catalog(self, salt: bytes) -> str:
        spark = session(self.limits)
        return keyed(
            salt, "stamp", [files_in_catalog(spark, self.policy.source, table) for table in self.policy.tables]
        )

    def build(self, identity: str, folder: Path, salt: bytes, progress: Progress) -> _BuiltFolder:
        """Build the copy of a source that stays as it is meanwhile."""

        def built() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            spark = session(self.limits)
            folder.mkdir(mode=0o700)
            try:
                self._build(spark, identity, folder, salt, progress)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

        if is_catalog(self.policy.source):
            stamp, _ = unchanged(lambda: (self._files_of_catalog(salt),) * 2, built)
        else:
            stamp, _ = steady(*self._files(), salt, built)
        return _BuiltFolder(stamp, folder / "copy", folder / ROWS, rows_folder(places_of(self.policy), identity))

    def _build(self, spark: Any, identity: str, folder: Path, salt: bytes, progress: Progress) -> None:
        views: set[str] = set()
        sources = read_schema(spark, self.policy, view_name(identity, "s_source"), views)
        counts = {
            name: sum(
                int(execute(f"SELECT count(*) FROM {part.relation}")[0][0])  # noqa: S608
                for part in source.parts
            )
            for name, source in sources.items()
        }
        build = SparkBuild(spark, identity, folder, self.policy, sources, counts, views)
        (folder / ROWS).mkdir(mode=0o700)
        try:
            build.bring_salt(salt)
            copied: list[CopiedTable] = []
            for table in self.policy.tables:
                if table.public:
                    progress("copy", table.name)
                else:
                    copied += bounded_table(build, table, progress)
            build.drop(["salt"])
            write_beside(folder / "copy", copied, public_rows(build), self.limits)
            (folder / ROWS / _WHOLE).touch(mode=0o600)
        finally:
            with suppress(EngineFailed):  # a session that ended has no views
                build.forget()

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy; None where its folder is gone."""
        folder = rows_folder(places_of(self.policy), identity_of(file))
        return read_shape(file, self.limits) if is_whole(folder) else None

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Remove the folders whose copies are gone."""
        places = places_of(self.policy)
        begins = f"{places.ledger.name}.rows-"
        for path in places.ledger.parent.iterdir():
            if path.name.startswith(begins) and path.name.removeprefix(begins) not in kept:
                shutil.rmtree(path, ignore_errors=True)
