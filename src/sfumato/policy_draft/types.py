"""Types of CSV columns, read from the values: only where the owner says `--types`, and only what leaves no doubt."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import floor
from pathlib import Path

from sfumato.engines.duckdb.connection import STAGE, Connection, execute
from sfumato.engines.duckdb.source import SourceTable
from sfumato.engines.duckdb.text_types import ColumnTexts, TextType, column_texts, csv_words
from sfumato.engines.sql.column import Kind
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import ColumnType, CsvFormat
from sfumato.policy_draft.draft import Draft, DraftColumn, DraftTable, default_step, joined_columns
from sfumato.policy_draft.infer_from_data import csv_keys, load
from sfumato.policy_draft.literals import quoted_text
from sfumato.policy_draft.schema import open_source

Place = tuple[str, str]
"""A table and a column of it."""
_NUMBERS = (ColumnType.INTEGER, ColumnType.DECIMAL)
_TIMES = (ColumnType.DATE, ColumnType.TIMESTAMP)
_MIN_SHARE = 0.5


def with_read_types(draft: Draft, path: Path) -> Draft:
    """Return the draft with the types as which every value of an undeclared CSV column reads."""
    with open_source(path, csv_keys(draft)) as (_, connection, sources):
        execute(connection, f"ATTACH ':memory:' AS {STAGE}")
        for table in draft.tables:
            load(connection, table.name, sources[table.name], draft.csv)
        places = dict(_open_columns(draft, sources))
        form = _common_form(draft.csv, _read(connection, places, draft.csv).values())
        found = _read(connection, places, form)
    used = {
        column: guess.certain
        for column, guess in found.items()
        if guess.certain is not None and guess.certain.csv == form
    }
    plain = {column for column, guess in found.items() if not _looks_typed(guess) and guess.present}
    tables = tuple(_with_types(table, used, plain) for table in draft.tables)
    tables = tuple(_one_type(table, tables, used) for table in tables)
    remarks = [
        *_form_remark(draft.csv, form),
        *(_remark(column, guess) for column, guess in found.items() if column not in used),
    ]
    return replace(draft, tables=tables, csv=form, remarks=(*draft.remarks, *filter(None, remarks)))


def _open_columns(draft: Draft, sources: Mapping[str, SourceTable]) -> Iterator[tuple[Place, SourceTable]]:
    """Give the columns whose type is not known; those that look personal stay text."""
    for table in draft.tables:
        source = sources[table.name]
        for column in table.columns:
            stored = source.column(column.name)
            is_open = (column.untyped or column.type_guessed) and column.personal is None
            if is_open and stored is not None and stored.kind is Kind.RAW:
                yield (table.name, column.name), source


def _read(connection: Connection, places: Mapping[Place, SourceTable], form: CsvFormat) -> dict[Place, ColumnTexts]:
    run = partial(execute, connection)
    return {column: column_texts(run, source.relation, quoted(column[1]), form) for column, source in places.items()}


def _common_form(form: CsvFormat, columns: Iterable[ColumnTexts]) -> CsvFormat:
    """Return the form that the columns without doubt ask for; where they ask for different ones, the one before."""
    found = [column for column in columns if column.certain is not None]
    nulls = {word for guess in found for word in guess.nulls}
    wanted = [guess.certain for guess in found if guess.certain is not None and guess.certain.csv != form]
    form = replace(form, null=tuple(sorted({*form.null, *nulls})))
    truths = [candidate.csv for candidate in wanted if candidate.type is ColumnType.BOOLEAN]
    form = replace(
        form,
        true=tuple(sorted({*form.true, *(word for truth in truths for word in truth.true)})),
        false=tuple(sorted({*form.false, *(word for truth in truths for word in truth.false)})),
    )
    numbers = [candidate.csv for candidate in wanted if candidate.type in _NUMBERS]
    separators = {(number.decimal, number.thousands) for number in numbers}
    symbols = tuple(sorted({*form.symbols, *(symbol for number in numbers for symbol in number.symbols)}))
    form = replace(form, symbols=symbols)
    points = any(
        guess.certain and guess.certain.type is ColumnType.DECIMAL and guess.certain.csv.decimal == "."
        for guess in found
    )
    asked = {separator for separator in separators if separator != (form.decimal, form.thousands)}
    if len({decimal for decimal, _ in asked}) != 1 or len({group for _, group in asked if group}) > 1:
        return form
    [decimal] = {decimal for decimal, _ in asked}
    group = next((group for _, group in asked if group), "")
    return (
        form
        if decimal == form.delimiter or (decimal == "," and points)
        else replace(form, decimal=decimal, thousands=group)
    )


def _looks_typed(found: ColumnTexts) -> bool:
    return found.best is not None and found.best.count >= _MIN_SHARE * found.present


def _with_types(table: DraftTable, used: Mapping[Place, TextType | None], texts: Container[Place]) -> DraftTable:
    columns = []
    for column in table.columns:
        place = (table.name, column.name)
        is_text = place in texts and not column.type_guessed
        columns.append(replace(column, untyped=False) if is_text else _with_type(column, used.get(place)))
    return replace(table, columns=tuple(columns))


def _with_type(column: DraftColumn, found: TextType | None) -> DraftColumn:
    if found is None:
        return column
    form = None if found.format is None else quoted_text(found.format)
    if column.type_guessed and column.type in _TIMES:  # bounds were given: they do not say how dates are written
        return replace(column, format=form, type_read=True) if found.type is column.type else column
    if column.type_guessed:  # bounds and step were given: whole bounds do not make integers of decimals
        if column.type is not ColumnType.INTEGER or found.type not in _NUMBERS:
            return column
        column = replace(column, type=found.type, type_read=True, type_guessed=False)
        if found.type is ColumnType.DECIMAL and column.step is None and column.bounds is not None:
            column = replace(column, step=default_step(column.bounds), default_step=True)
        return column
    return replace(column, type=found.type, format=form, untyped=False, type_read=True)


def _one_type(table: DraftTable, tables: tuple[DraftTable, ...], used: Mapping[Place, object]) -> DraftTable:
    """Return the table in which a column that names people has the type that it has in other tables, or text."""
    if table.unit is None:
        return table
    columns = {column.name: column for column in table.columns}
    for mine, (other_name, theirs) in joined_columns(table, tables):
        other = next((candidate for candidate in tables if candidate.name == other_name), None)
        first, second = columns.get(mine), None if other is None else other.column(theirs)
        if first is not None and second is not None and first.type is not second.type and first.type_read:
            columns[mine] = replace(first, type=ColumnType.TEXT, format=None, type_read=False)
    return replace(table, columns=tuple(columns.values()))


def _form_remark(before: CsvFormat, after: CsvFormat) -> Iterator[str]:
    if words := csv_words(before, after):
        yield f"Read from the values of the CSV files: [csv] {words}."


def _remark(place: Place, found: ColumnTexts) -> str:
    """Say why a column stays text; empty where its values look like nothing else."""
    where, best = ".".join(place), found.best
    if not found.present:
        return f"{where} has no value in any row."
    if best is None or not _looks_typed(found):
        return ""
    share = "all" if best.count == found.present else f"{floor(1000 * best.count / found.present) / 10:.1f} %"
    why = f"; {best.doubt}" if best.doubt else ""
    return (
        f"{where} stays text: {share} of its values read as {best.type}{why}. Set it with --type {where}={best.type}."
    )
