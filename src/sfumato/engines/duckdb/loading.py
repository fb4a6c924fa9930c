"""Preparation of a source before its rows are read: CSV and batches become tables, and rows are counted.

The count is taken where nothing is read as a value: by the records of a CSV file, by the footer of a Parquet file, by
the length of each batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.connection import execute, registered, starless
from sfumato.engines.duckdb.csv_records import Malformed, record_batches
from sfumato.engines.duckdb.source import Files, SourceTable, not_csv
from sfumato.engines.duckdb.streamed import StreamedTable, record_batch
from sfumato.engines.duckdb.united_type import united
from sfumato.engines.engine import Progress
from sfumato.engines.sql.builder import create_table_as, select
from sfumato.engines.sql.column import Kind
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Column, ColumnType, CsvFormat, Policy, Reference, Table, fold_name


def load_tables(
    connection: duckdb.DuckDBPyConnection,
    policy: Policy,
    sources: Mapping[str, SourceTable],
    progress: Progress = lambda _phase, _table: None,
) -> dict[str, int]:
    """Make every table readable, and return how many rows each has. The database `stage` is attached."""
    return {table.name: load_table(connection, policy, table, sources[table.name], progress) for table in policy.tables}


def load_table(
    connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, source: SourceTable, progress: Progress
) -> int:
    """Make a table readable, and return how many rows it has."""
    if source.stream is not None or (source.files is not None and source.files.csv):
        progress("load", table.name)
    if source.stream is not None:
        return load_batches(connection, source.relation, source.stream, list(_needed_columns(policy, table, source)))
    if source.files is None:
        ((found,),) = execute(connection, select("count(*)", source.relation))
        return int(found)
    if source.files.csv:
        wanted = _needed_columns(policy, table, source)
        return load_csv(connection, source.relation, Loading(table.name, source.files, wanted, policy.csv))
    paths = ", ".join(literal(starless(path)) for path in source.files.paths)
    ((found,),) = execute(connection, select("sum(num_rows)", f"parquet_file_metadata([{paths}])"))
    return int(found)


class Loading:
    """The records of one table on their way: how many there were, and why they ended early if they did."""

    def __init__(self, table: str, files: Files, wanted: dict[str, int | None], written: CsvFormat) -> None:
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
        folders = {fold_name(key): value for key, value in self._files.partition(path).items()}
        inside = {name: most for name, most in self.wanted.items() if fold_name(name) not in folders}
        for batch, count in record_batches(path, inside, self._written):
            self.count += count
            columns = [
                pa.array([folders[fold_name(name)]] * count, pa.string())
                if fold_name(name) in folders
                else batch.column(name)
                for name in self.wanted
            ]
            yield pa.record_batch(columns, names=list(self.wanted))


def load_batches(
    connection: duckdb.DuckDBPyConnection, relation: str, stream: StreamedTable, wanted: Sequence[str]
) -> int:
    """Write all rows into a table, some at a time, and return how many there are."""
    columns = [column for column in stream.columns if column.name in wanted and column.read]
    names = [column.name for column in columns]
    kept = [
        f"{united(column.name)} AS {quoted(column.name)}" if column.kind is Kind.EACH else quoted(column.name)
        for column in columns
    ]
    empty = record_batch([(column.name, pa.array([], column.type)) for column in columns], 0)
    count = 0
    execute(connection, "BEGIN")
    with registered(connection, pa.Table.from_batches([empty])) as rows:
        execute(connection, create_table_as(relation, select(kept or "*", rows)))
    for batch in stream.batches(names):
        with registered(connection, pa.Table.from_batches([batch])) as rows:
            execute(connection, f"INSERT INTO {relation} {select(kept or '*', rows)}")
        count += batch.num_rows
    execute(connection, "COMMIT")
    return count


def load_csv(connection: duckdb.DuckDBPyConnection, relation: str, loading: Loading) -> int:
    """Write all records into a table, and return how many there are.

    The refusal of a malformed file is made here: what an engine says of it would hold its content.
    """
    schema = pa.schema([(name, pa.string()) for name in loading.wanted])
    columns = [quoted(name) for name in loading.wanted]
    with registered(connection, pa.RecordBatchReader.from_batches(schema, loading.batches())) as records:
        try:
            execute(connection, create_table_as(relation, select(columns, records)))
        except EngineFailed:
            if loading.refusal is None:
                raise
    if loading.refusal is not None:
        raise loading.refusal
    return loading.count


def _needed_columns(policy: Policy, table: Table, source: SourceTable) -> dict[str, int | None]:
    """Return the columns that anybody needs, and of each how much; one character more shows what was too long."""
    if table.public and not table.columns:
        return dict.fromkeys((name for name, _ in source.columns), None)
    declared = {fold_name(column.name): column for column in table.columns}
    keys = {
        fold_name(column.values.column)
        for other in policy.tables
        for column in other.columns
        if isinstance(column.values, Reference) and fold_name(column.values.table) == fold_name(table.name)
    }
    wanted: dict[str, int | None] = {}
    for name, _ in source.columns:
        if fold_name(name) in keys or (fold_name(name) in declared and table.public):
            wanted[name] = None
        elif fold_name(name) in declared:
            wanted[name] = _max_chars(declared[fold_name(name)])
    if wanted or source.stream is not None:
        return wanted
    return {source.columns[0][0]: 0}  # a table of which no column is declared still has rows


def _max_chars(column: Column) -> int | None:
    if column.type is not ColumnType.TEXT:
        return 0
    return None if column.length is None else column.length + 1
