"""Parquet files with a value that the engine refuses to read, written anew with NULL in its place.

The engine ends at a text that is not UTF-8, or at a time that it cannot hold, and with it all other rows. Arrow reads
both as they are, so that each is judged by itself. This takes longer than reading, and happens only after that failed.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.engines.duckdb.source import Files, files_of
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Policy, Table, fold

_ROWS = 65_536
_LAST = 2**63 // 1000 - 1000
"""Up to this millisecond, and down to its opposite, 64 bits hold a time in microseconds."""


def mended(policy: Policy, folder: Path) -> dict[str, Files]:
    """Write every Parquet file of a source anew below the folder, each value as it is or NULL."""
    found = {}
    for at, table in enumerate(policy.tables):
        if not files_of(policy.source, table).csv:
            found[table.name] = _table(policy, table, folder / str(at))
    return found


def _table(policy: Policy, table: Table, folder: Path) -> Files:
    files = files_of(policy.source, table)
    names = {fold(column.name) for column in table.columns} if table.columns else None
    paths = []
    for path in files.paths:
        target = folder / path.relative_to(files.root)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            _file(path, target, lambda name: names is None or fold(name) in names)
        except (pa.ArrowException, OSError, ValueError):
            target.unlink(missing_ok=True)
            refusal: BadSource | None = BadSource(
                f"tables.{table.name}: the file {files.name(path)} cannot be read as Parquet.",
                "It is damaged, or of another format.",
                "Write the file again, and check that it can be read.",
            )
        else:
            refusal = None
        if refusal is not None:
            raise refusal
        paths.append(target)
    return Files(folder, tuple(paths))


def _file(path: Path, target: Path, wanted: Callable[[str], bool]) -> None:
    # the old INT96 reaches beyond the nanoseconds that Arrow would make of it: what goes further would come round again
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as source:
        flat = [field for field in source.schema_arrow if wanted(field.name) and not pa.types.is_nested(field.type)]
        if not flat:
            raise EngineFailed()
        schema = pa.schema([pa.field(field.name, _kept_type(field.type)) for field in flat])
        with pq.ParquetWriter(target, schema, compression="none") as writer:
            for batch in source.iter_batches(_ROWS, columns=[field.name for field in flat]):
                columns = [_mended(batch.column(field.name)) for field in flat]
                writer.write_batch(pa.record_batch(columns, schema=schema))


def _kept_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _kept_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", kind.tz)
    return kind


def _mended(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = _kept_type(values.type)
    if kind == pa.string():
        return _texts(values)
    if kind != values.type:
        return _times(values, kind)
    return values


def _texts(values: pa.Array) -> pa.Array:
    raw = values.cast(pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in raw.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _times(values: pa.Array, kind: pa.DataType) -> pa.Array:
    steps = 1 if values.type.unit == "ms" else 1000
    count = values.cast(pa.int64())
    near = pc.and_(pc.greater_equal(count, -_LAST // steps), pc.less_equal(count, _LAST // steps))
    held = pc.multiply(pc.if_else(near, count, None), 1000 * steps)
    return held.cast(kind)
