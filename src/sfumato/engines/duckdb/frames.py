"""Frames that were handed over: Arrow tables, pandas and polars frames, read as they are and never changed.

The type of a column says how it is read; a column of Python objects has none, so there each value is read alone.
Nothing is inferred from what people's rows hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from sfumato.engines.duckdb.arrow_values import converted, is_said_alone, plain_type
from sfumato.engines.duckdb.streamed import BATCH_ROWS, StreamedColumn, record_batch, repeated, untyped
from sfumato.engines.duckdb.untyped_columns import numbers, texts
from sfumato.engines.sql.column import Kind
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, Location, Table, fold_name

_WIDE = ("Object", "Int128", "UInt128")
"""Types of polars that Arrow has not."""


class _Frame(Protocol):
    names: list[object]

    def __len__(self) -> int: ...

    def values(self, at: int, start: int, stop: int) -> Any:
        """Return some values of the column in this place: an array, or a list where each says itself what it is."""


class _ArrowFrame:
    def __init__(self, frame: Any) -> None:
        self._frame = frame if isinstance(frame, pa.Table) else pa.table(frame)
        self.names: list[object] = list(self._frame.column_names)

    def __len__(self) -> int:
        return int(self._frame.num_rows)

    def values(self, at: int, start: int, stop: int) -> Any:
        return _combine_chunks(self._frame.column(at).slice(start, stop - start))


class _PolarsFrame:
    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names: list[object] = list(frame.columns)

    def __len__(self) -> int:
        return int(self._frame.height)

    def values(self, at: int, start: int, stop: int) -> Any:
        column = self._frame.to_series(at)[start:stop]
        return list(column) if str(column.dtype).startswith(_WIDE) else column.to_arrow()


class _PandasFrame:
    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names: list[object] = list(frame.columns)  # an index is no column

    def __len__(self) -> int:
        return len(self._frame)

    def values(self, at: int, start: int, stop: int) -> Any:
        column = self._frame.iloc[start:stop, at]
        if str(column.dtype).startswith("Sparse"):
            column = column.sparse.to_dense()
        categories = getattr(column.dtype, "categories", None)
        if column.dtype == object or (categories is not None and categories.dtype == object):
            return list(column)
        try:
            return _combine_chunks(pa.array(column, from_pandas=True))
        except UnicodeError:  # a text that UTF-8 cannot write
            return texts(list(column))


def _frame(frame: Any) -> _Frame | None:
    kinds = {kind.__module__.partition(".")[0] for kind in type(frame).__mro__ if kind.__name__ == "DataFrame"}
    if "pandas" in kinds:
        return _PandasFrame(frame)
    if "polars" in kinds:
        return _PolarsFrame(frame)
    known = hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "__len__")  # what comes once is no table
    return _ArrowFrame(frame) if known else None


class FrameTable:
    """`streamed.StreamedTable` of a frame."""

    def __init__(self, frame: _Frame, table: Table) -> None:
        self._frame, self._table = frame, table.name
        self._places = {name: at for at, name in enumerate(frame.names) if isinstance(name, str) and _can_be_read(name)}
        self.columns = tuple(self._column(name, at, table.column(name)) for name, at in self._places.items())

    def _column(self, name: str, at: int, declared: Column | None) -> StreamedColumn:
        try:
            first = self._frame.values(at, 0, 0)
        except (pa.ArrowException, TypeError, ValueError):
            return StreamedColumn(name, pa.null(), Kind.OTHER)
        if isinstance(first, list):
            return untyped(name, declared)
        kind = plain_type(first.type)
        if kind is None and is_said_alone(first.type):
            return untyped(name, declared)
        return StreamedColumn(name, pa.null(), Kind.OTHER) if kind is None else StreamedColumn(name, kind)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give all rows, each value as it is, or NULL where nothing holds it."""
        columns = {column.name: column for column in self.columns}
        count = len(self._frame)
        for start in range(0, count, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, count)
            yield record_batch([(name, self._values(columns[name], start, stop)) for name in names], stop - start)

    def _values(self, column: StreamedColumn, start: int, stop: int) -> pa.Array:
        try:
            return self._read(column, start, stop)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            pass  # what the libraries say may hold a value
        raise BadSource(
            f"tables.{self._table}.columns.{column.name} cannot be read from its frame.",
            "Its values do not match the type of the column, or it changed while it was read.",
            "Check the frame, or hand over a copy of it.",
        )

    def _read(self, column: StreamedColumn, start: int, stop: int) -> pa.Array:
        values = self._frame.values(self._places[column.name], start, stop)
        if column.kind is None and not isinstance(values, list):
            return converted(values, column.type)
        alone = values if isinstance(values, list) else values.to_pylist()
        return numbers(alone) if column.kind is Kind.EACH else texts(alone)


class Frames:
    """`streamed.StreamedSource` of frames: as they are when they are read."""

    def __init__(self, location: Location) -> None:
        self._frames: Mapping[str, object] = location.frames

    def table(self, table: Table) -> FrameTable:
        """Return a table of the policy, or refuse."""
        frame = self._find_frame(table)
        names = [name for name in frame.names if isinstance(name, str)]
        if repeated(names):
            raise BadSource(
                f"tables.{table.name} is a frame with two columns of the same name.",
                "Names are not case-sensitive, so the two cannot be distinguished.",
                "Rename one of them, or leave it out.",
            )
        return FrameTable(frame, table)

    def shapes(self) -> list[object]:
        """Return the public side of every frame: names and number of columns and rows. No value is looked at."""
        frames = {fold_name(name): _frame(frame) for name, frame in self._frames.items()}
        return [
            [name, [str(level) for level in frame.names], len(frame)] for name, frame in sorted(frames.items()) if frame
        ]

    def _find_frame(self, table: Table) -> _Frame:
        wanted = fold_name(table.stored or table.name)
        frames = [frame for name, frame in self._frames.items() if fold_name(name) == wanted]
        if not frames:
            raise BadSource(
                f"tables.{table.name} is not in source.",
                'A source of frames names the frame of every table: source = {"TABLE": frame}.',
                "Add it, correct the name, or remove the table from the policy.",
            )
        found = _frame(frames[0])
        if found is None:
            raise BadSource(
                f"tables.{table.name} is not a frame in source.",
                (
                    "A frame is an Arrow table, or a DataFrame of pandas or polars; objects that can be read only "
                    "once are not supported."
                ),
                "Hand over such a frame; collect() a lazy one, read_all() a reader.",
            )
        return found


def _can_be_read(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _combine_chunks(values: Any) -> pa.Array:
    """Return one array."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
