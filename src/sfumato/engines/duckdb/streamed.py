"""Tables whose rows come as Arrow batches: frames, and tables of SQLite. They are written down before they are read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sfumato.engines.duckdb.untyped_columns import NUMBER, TEXT
from sfumato.engines.sql.column import Kind
from sfumato.policy.policy import Column, ColumnType, Table, fold_name

BATCH_ROWS = 65_536
"""Rows that are in memory as Python objects at one time."""


@dataclass(frozen=True, slots=True)
class StreamedColumn:
    """A column as it comes: of an Arrow type that the engine reads, or of none."""

    name: str
    type: pa.DataType
    kind: Kind | None = None
    """Its kind where its type does not say it: values that are read one by one, or nothing that can be read."""
    said: ColumnType | None = None
    """Its type according to the source, where the policy declares none, and values are read one by one."""

    @property
    def read(self) -> bool:
        """Whether there is anything to read."""
        return self.kind is not Kind.OTHER and not pa.types.is_null(self.type)


class StreamedTable(Protocol):
    """The rows of one table of the source."""

    @property
    def columns(self) -> tuple[StreamedColumn, ...]:
        """Its columns, with names that differ in more than their case."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give all rows once; where no column is named, of one that holds nothing."""


class StreamedSource(Protocol):
    """A source whose tables come as batches, all of one moment."""

    def table(self, table: Table) -> StreamedTable:
        """Return a table of the policy, or refuse."""


def untyped(name: str, declared: Column | None) -> StreamedColumn:
    """Return a column whose values each say their type. The declared type says how they are read."""
    if declared is not None and declared.type in (ColumnType.INTEGER, ColumnType.DECIMAL):
        return StreamedColumn(name, NUMBER, Kind.EACH)
    return StreamedColumn(name, TEXT, Kind.RAW)


def record_batch(columns: Sequence[tuple[str, pa.Array]], count: int) -> pa.RecordBatch:
    """Return a batch; one without columns still says how many rows there are."""
    columns = columns or [("row", pa.nulls(count, pa.bool_()))]
    return pa.record_batch([values for _, values in columns], names=[name for name, _ in columns])


def repeated(names: Sequence[str]) -> bool:
    """Tell whether two names are the same, whatever their case."""
    return len({fold_name(name) for name in names}) != len(names)
