"""What happens to the files of a source before their rows are read: CSV becomes tables of text, and rows are counted.

The count is taken where nothing is read as a value: by the records of a CSV file, by the footer of a Parquet file.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.connection import execute, starless
from sfumato.engines.duckdb.csv_records import Malformed, record_batches
from sfumato.engines.duckdb.source import Files, SourceTable, not_csv
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Column, ColumnType, CsvForm, Policy, Reference, Table, fold

_RECORDS = "records"


def load_tables(
    connection: duckdb.DuckDBPyConnection, policy: Policy, sources: Mapping[str, SourceTable]
) -> dict[str, int]:
    """Make every table readable, and return how many rows each has. The database `stage` is attached."""
    return {table.name: _loaded(connection, policy, table, sources[table.name]) for table in policy.tables}


def _loaded(connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, source: SourceTable) -> int:
    if source.files is None:
        ((found,),) = execute(connection, f"SELECT count(*) FROM {source.relation}")  # noqa: S608
        return int(found)
    if source.files.csv:
        wanted = _wanted(policy, table, source)
        return load_csv(connection, source.relation, Loading(table.name, source.files, wanted, policy.csv))
    paths = ", ".join(literal(starless(path)) for path in source.files.paths)
    ((found,),) = execute(connection, f"SELECT sum(num_rows) FROM parquet_file_metadata([{paths}])")  # noqa: S608
    return int(found)


class Loading:
    """The records of one table on their way: how many there were, and why they ended early if they did."""

    def __init__(self, table: str, files: Files, wanted: dict[str, int | None], written: CsvForm) -> None:
        self._table, self._files, self.wanted, self._written = table, files, wanted, written
        self.count = 0
        self.refusal: BadSource | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        for path in self._files.paths:
            try:
                yield from self._file(path)
            except Malformed as malformed:
                self.refusal = not_csv(self._table, self._files, path, malformed)
                raise

    def _file(self, path: Path) -> Iterator[pa.RecordBatch]:
        folders = {fold(key): value for key, value in self._files.partition(path).items()}
        inside = {name: most for name, most in self.wanted.items() if fold(name) not in folders}
        for batch, count in record_batches(path, inside, self._written):
            self.count += count
            columns = [
                pa.array([folders[fold(name)]] * count, pa.string()) if fold(name) in folders else batch.column(name)
                for name in self.wanted
            ]
            yield pa.record_batch(columns, names=list(self.wanted))


def load_csv(connection: duckdb.DuckDBPyConnection, relation: str, loading: Loading) -> int:
    """Write all records into a table, and return how many there are.

    The refusal of a malformed file is made here: what an engine says of it would hold its content.
    """
    schema = pa.schema([(name, pa.string()) for name in loading.wanted])
    connection.register(_RECORDS, pa.RecordBatchReader.from_batches(schema, loading.batches()))
    columns = ", ".join(quoted(name) for name in loading.wanted)
    try:
        execute(connection, f"CREATE TABLE {relation} AS SELECT {columns} FROM {_RECORDS}")  # noqa: S608
    except EngineFailed:
        if loading.refusal is None:
            raise
    finally:
        connection.unregister(_RECORDS)
    if loading.refusal is not None:
        raise loading.refusal
    return loading.count


def _wanted(policy: Policy, table: Table, source: SourceTable) -> dict[str, int | None]:
    """Return the columns that anybody needs, and of each how much; one character more shows what was too long."""
    if table.public and not table.columns:
        return dict.fromkeys((name for name, _ in source.columns), None)
    declared = {fold(column.name): column for column in table.columns}
    keys = {
        fold(column.values.column)
        for other in policy.tables
        for column in other.columns
        if isinstance(column.values, Reference) and fold(column.values.table) == fold(table.name)
    }
    wanted: dict[str, int | None] = {}
    for name, _ in source.columns:
        if fold(name) in keys or (fold(name) in declared and table.public):
            wanted[name] = None
        elif fold(name) in declared:
            wanted[name] = _most(declared[fold(name)])
    return wanted or {source.columns[0][0]: 0}  # a table of which no column is declared still has rows


def _most(column: Column) -> int | None:
    if column.type is not ColumnType.TEXT:
        return 0
    return None if column.length is None else column.length + 1
