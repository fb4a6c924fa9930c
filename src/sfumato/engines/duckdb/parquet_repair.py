"""Parquet files with a value that the engine refuses to read, written anew with NULL in its place.

The engine ends at a text that is not UTF-8, or at a time that it cannot hold, and with it all other rows. Arrow reads
both as they are, so that each value is judged separately. This takes longer than reading, and happens only after that
failed.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.arrow_values import converted, plain_type
from sfumato.engines.duckdb.source import Files, files_of
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Policy, Table, fold_name

_ROWS = 65_536


def mended(policy: Policy, folder: Path) -> dict[str, Files]:
    """Write every Parquet file of a source anew below the folder, each value as it is or NULL."""
    found = {}
    for at, table in enumerate(policy.tables):
        if not files_of(policy.source, table).csv:
            found[table.name] = _table(policy, table, folder / str(at))
    return found


def _table(policy: Policy, table: Table, folder: Path) -> Files:
    files = files_of(policy.source, table)
    names = {fold_name(column.name) for column in table.columns} if table.columns else None
    paths = []
    for path in files.paths:
        target = folder / path.relative_to(files.root)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            _file(path, target, lambda name: names is None or fold_name(name) in names)
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
            record_engine_failure("A Parquet file has no column that can be read.")
            raise EngineFailed()
        kinds = [plain_type(field.type) or field.type for field in flat]
        schema = pa.schema([pa.field(field.name, kind) for field, kind in zip(flat, kinds, strict=True)])
        with pq.ParquetWriter(target, schema, compression="none") as writer:
            for batch in source.iter_batches(_ROWS, columns=[field.name for field in flat]):
                columns = [converted(batch.column(field.name), field.type) for field in schema]
                writer.write_batch(pa.record_batch(columns, schema=schema))
