"""Bounds, keys and rows per person taken from the data itself: only where the owner says `--look`, and at their risk.

These values are not differentially private. A greatest value is one person's; so everything is rounded
outwards and rare keys are left out, which blurs that and does not mend it.
"""

from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

from sfumato.engines.duckdb.connection import STAGE, Connection, execute
from sfumato.engines.duckdb.loading import Loading, load_batches, load_csv
from sfumato.engines.duckdb.source import SourceTable
from sfumato.engines.sql.column import Kind, Stored
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import ColumnType, CsvFormat
from sfumato.policy.schemes import reads_csv
from sfumato.policy_draft.draft import Draft, DraftColumn, DraftTable, default_step
from sfumato.policy_draft.literals import decimal_text, quoted_text
from sfumato.policy_draft.schema import open_source
from sfumato.policy_draft.unit_options import ROWS, Unit

WARNING = (
    "Bounds, keys and rows per person are taken from the data. That is not private: a maximum is one person's "
    "value, and no budget pays for revealing it. Each such line is marked; replace it by what you know from "
    "elsewhere."
)
MAX_DRAFT_KEYS = 50
MIN_PEOPLE_PER_KEY = 20
"""A key that fewer people (or rows, in a table without a unit) have is left out."""
_READ_AS = {
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.INTEGER: "BIGINT",
    ColumnType.DECIMAL: "DOUBLE",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}
"""In this order CSV text is tried."""
"""Sources with files that say no types."""


@dataclass(frozen=True, slots=True)
class _SourceReader:
    connection: Connection
    source: SourceTable
    unit: str | None
    """SQL of what names the person, or None where each row is one."""
    decimal: str

    def value(self, stored: Stored, kind: ColumnType) -> str:
        """Return a value as this type, or NULL."""
        comma = self.decimal == "," and stored.kind is Kind.RAW and kind in (ColumnType.INTEGER, ColumnType.DECIMAL)
        text = f"replace({stored.sql}, ',', '.')" if comma else stored.sql
        return f"TRY_CAST({text} AS {_READ_AS[kind]})"

    def one(self, columns: str, where: str = "TRUE") -> tuple[object, ...]:
        return execute(self.connection, f"SELECT {columns} FROM {self.source.relation} WHERE {where}")[0]  # noqa: S608


def infer_from_data(draft: Draft, path: Path) -> Draft:
    """Return the draft with everything that is still unknown taken from the data."""
    with open_source(path, csv_keys(draft)) as (_, connection, sources):
        execute(connection, f"ATTACH ':memory:' AS {STAGE}")
        for name, source in sources.items():
            load(connection, name, source, draft.csv)
        tables = tuple(_infer_table(table, connection, sources[table.name], draft.csv) for table in draft.tables)
        return replace(draft, tables=tables)


def with_public_types(draft: Draft, path: Path) -> Draft:
    """Return the draft with the types of public CSV tables, which declare none: their values are public."""
    if not reads_csv(draft.scheme) or not any(table.public for table in draft.tables):
        return draft
    with open_source(path, csv_keys(draft)) as (_, connection, sources):
        execute(connection, f"ATTACH ':memory:' AS {STAGE}")
        tables = tuple(_infer_types(table, connection, sources[table.name], draft.csv) for table in draft.tables)
        return replace(draft, tables=tables)


def csv_keys(draft: Draft) -> dict[str, object]:
    """Return how the CSV files of a draft are written, by key."""
    return {key: value for key, value in asdict(draft.csv).items() if value} if reads_csv(draft.scheme) else {}


def _infer_types(table: DraftTable, connection: Connection, source: SourceTable, form: CsvFormat) -> DraftTable:
    if not table.public or source.files is None or not source.files.csv:
        return table
    load(connection, table.name, source, form)
    reader = _SourceReader(connection, source, None, form.decimal)
    columns = []
    for column in table.columns:
        stored = source.column(column.name)
        kind = column.type if stored is None else _infer_type(stored, reader)
        columns.append(replace(column, type=kind, untyped=False, inferred=True))
    return replace(table, columns=tuple(columns))


def _infer_table(table: DraftTable, connection: Connection, source: SourceTable, form: CsvFormat) -> DraftTable:
    if not table.private:
        return table
    whole = table.unit == ROWS or Unit(table.unit or "").path  # whose row it is, another table says
    unit = None if whole else quoted(table.unit or "")
    reader = _SourceReader(connection, source, unit, form.decimal)
    columns = tuple(
        column
        if column.name == table.unit or column.personal
        else _infer_column(column, source.column(column.name), reader)
        for column in table.columns
    )
    table = replace(table, columns=columns)
    counted = table.needs_rows and unit is not None
    return replace(table, rows_per_unit=_infer_rows_per_unit(reader), inferred=True) if counted else table


def _infer_rows_per_unit(reader: _SourceReader) -> int:
    """Return a round number of rows that all but about one in a hundred people keep whole."""
    counts = (
        f"SELECT COUNT(*) AS n FROM {reader.source.relation} WHERE {reader.unit} IS NOT NULL GROUP BY {reader.unit}"  # noqa: S608
    )
    [[most]] = execute(reader.connection, f"SELECT quantile_disc(n, 0.99) FROM ({counts})")  # noqa: S608
    unit = _magnitude(Fraction(most or 1))
    return int(unit * ceil((most or 1) / unit))


def load(connection: Connection, name: str, source: SourceTable, form: CsvFormat) -> None:
    """Load a table whose rows are not in the engine yet."""
    if source.stream is not None:
        load_batches(connection, source.relation, source.stream, [known for known, _ in source.columns])
    elif source.files is not None and source.files.csv:
        wanted: dict[str, int | None] = dict.fromkeys((known for known, _ in source.columns), None)
        load_csv(connection, source.relation, Loading(name, source.files, wanted, form))


def _infer_column(column: DraftColumn, stored: Stored | None, reader: _SourceReader) -> DraftColumn:
    if stored is None or column.bounds is not None or column.keyed:
        return column
    if column.untyped:
        column = replace(column, type=_infer_type(stored, reader), untyped=False, inferred=True)
    if column.type is ColumnType.TEXT:
        keys = _infer_keys(stored, reader)
        return replace(column, values=keys, inferred=True) if keys else column
    if column.type is ColumnType.BOOLEAN:
        return column
    value = reader.value(stored, column.type)
    low, high = reader.one(
        f"MIN({value}), MAX({value})", "TRUE" if column.type is ColumnType.INTEGER else f"isfinite({value})"
    )
    if low is None or high is None:
        return column
    ends = _infer_bounds(low, high)
    if column.type is ColumnType.DECIMAL and column.step is None:
        return replace(column, bounds=ends, step=default_step(ends), default_step=True, inferred=True)
    return replace(column, bounds=ends, inferred=True)


def _infer_type(stored: Stored, reader: _SourceReader) -> ColumnType:
    """Return the first type as which every value reads."""
    tried = ", ".join(f"COUNT_IF({_reads_as(stored, kind, reader)})" for kind in _READ_AS)
    present, *read = reader.one(f"COUNT({stored.sql}), {tried}")
    return next((kind for kind, count in zip(_READ_AS, read, strict=True) if count == present), ColumnType.TEXT)


def _reads_as(stored: Stored, kind: ColumnType, reader: _SourceReader) -> str:
    """Return the condition that nothing is lost: the engine would round 2.5 to an integer, and a time to its day."""
    read = reader.value(stored, kind)
    whole = {ColumnType.INTEGER: ColumnType.DECIMAL, ColumnType.DATE: ColumnType.TIMESTAMP}.get(kind)
    return f"{read} = {reader.value(stored, whole)}" if whole else f"{read} IS NOT NULL"


def _infer_keys(stored: Stored, reader: _SourceReader) -> tuple[str, ...] | None:
    people = "COUNT(*)" if reader.unit is None else f"COUNT(DISTINCT {reader.unit})"
    rows = execute(
        reader.connection,
        f"SELECT CAST({stored.sql} AS VARCHAR) AS k FROM {reader.source.relation} WHERE k IS NOT NULL "  # noqa: S608
        f"GROUP BY k HAVING {people} >= {MIN_PEOPLE_PER_KEY} ORDER BY k LIMIT {MAX_DRAFT_KEYS + 1}",
    )
    return tuple(quoted_text(key) for (key,) in rows) if 0 < len(rows) <= MAX_DRAFT_KEYS else None


def _infer_bounds(low: object, high: object) -> tuple[str, str]:
    if isinstance(low, datetime) and isinstance(high, datetime):
        return f"{low.year:04}-01-01T00:00:00", f"{high.year:04}-12-31T23:59:59"
    if isinstance(low, date) and isinstance(high, date):
        return f"{low.year:04}-01-01", f"{high.year:04}-12-31"
    least, greatest = (Fraction(Decimal(str(end))) for end in (low, high))
    unit = _magnitude(greatest - least)
    return decimal_text(unit * floor(least / unit)), decimal_text(unit * ceil(greatest / unit))


def _magnitude(value: Fraction) -> Fraction:
    """Return the largest power of ten, from 1, that is not above a value: bounds are rounded to it.

    >>> [int(_magnitude(Fraction(value))) for value in (0, 7, 97, 27964)]
    [1, 1, 10, 10000]
    """
    unit = Fraction(1)
    while value >= 10 * unit:
        unit *= 10
    return unit
