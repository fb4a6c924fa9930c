"""Counts what a source of files or DuckDB tables loses on its way into the copy. Nothing of it is written down."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from math import floor

import duckdb

from sfumato.engines.duckdb.column import READING
from sfumato.engines.duckdb.connection import STAGE, closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.source import SourceTable, attached, read_schema
from sfumato.engines.duckdb.text_types import DATE_FORMATS, TIME_FORMATS, column_texts, csv_words
from sfumato.engines.inspection import SourceReport
from sfumato.engines.limits import limits_of
from sfumato.engines.snapshot_paths import places_of
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.column import Kind, Part
from sfumato.engines.sql.inspecting import Inspection
from sfumato.engines.sql.names import literal
from sfumato.policy.policy import Column, ColumnType, Policy, Table
from sfumato.policy.schemes import reads_csv
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_MIN_SHARE = 0.9
"""From this share on, a column of text is said to read as another type."""
_FORMATS = {ColumnType.DATE: DATE_FORMATS, ColumnType.TIMESTAMP: (*TIME_FORMATS, *DATE_FORMATS)}


def inspect(policy: Policy) -> SourceReport:
    """Read the whole source once, and count what the policy leaves of it."""
    with _open_source(policy) as (connection, sources):
        run = partial(execute, connection)
        return Inspection(
            policy,
            DUCKDB,
            READING,
            lambda name: source_table(sources, name).parts,
            run,
            lambda column, part, raw, unread: _remedies(connection, policy, column, part, raw, unread),
            lambda table, column, part, raw: _texts(connection, policy, table, column, part, raw),
        ).report()


@contextmanager
def _open_source(policy: Policy) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, SourceTable]]]:
    """Open the source with a folder aside, which a dead process leaves for the next build to remove."""
    folder = places_of(policy).sidecar(f"build-{fresh_id(system_source())}")
    folder.mkdir(mode=0o700)
    try:
        sources = [policy.source.path] if policy.source.path is not None else []
        with closing(closed_connection([folder, *sources], limits_of(policy), folder / "spill")) as connection:
            execute(connection, f"ATTACH {literal(str(folder / STAGE))} AS {STAGE}")
            with attached(connection, policy.source) as streams:
                found = read_schema(connection, policy, streams)
                load_tables(connection, policy, found)
            yield connection, found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remedies(
    connection: duckdb.DuckDBPyConnection, policy: Policy, column: Column, part: Part, raw: str, unread: str
) -> Mapping[str, int]:
    """Return what the policy could say so that more values are read, and how many: by forms, never by a value."""
    text = f"CAST({raw} AS VARCHAR)"
    formats = _FORMATS.get(column.type, ())
    tried = {f'format = "{form}"': f"count(try_strptime({text}, {literal(form)}))" for form in formats}
    found = {}
    if tried:
        [counts] = execute(connection, select(tried.values(), part.relation, where=unread))
        found = dict(zip(tried, counts, strict=True))
    if reads_csv(policy.source.scheme):
        rows = subquery(select(f"{raw} AS r", part.relation, where=unread), "u")
        texts = column_texts(partial(execute, connection), rows, "r", policy.csv)
        nulls = replace(policy.csv, null=(*policy.csv.null, *texts.nulls))
        found[f"[csv] {csv_words(policy.csv, nulls)}"] = texts.marked
        best = texts.best
        if best is not None and best.csv != policy.csv and _fits(best.type, column.type):
            found[f"[csv] {csv_words(policy.csv, best.csv)}"] = best.count
    return {remedy: count for remedy, count in found.items() if count}


def _fits(found: ColumnType, declared: ColumnType) -> bool:
    numbers = {ColumnType.INTEGER, ColumnType.DECIMAL}
    return found is declared or {found, declared} <= numbers


def _texts(
    connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, column: Column, part: Part, raw: str
) -> str:
    """Return what to tell about a column of text that reads as another type; empty where there is nothing."""
    named = table.names_people(column.name)
    if column.type is not ColumnType.TEXT or column.values is not None or column.unique or named:
        return ""
    if part.column(column.name).kind is not Kind.RAW:
        return ""
    texts = column_texts(partial(execute, connection), part.relation, raw, policy.csv)
    best = texts.best
    if best is None or best.count < _MIN_SHARE * texts.present:
        return ""
    nulls = replace(best.csv, null=(*policy.csv.null, *texts.nulls))
    share = (
        "all values"
        if best.count == texts.present and not texts.nulls
        else _share(best.count, texts.present + texts.marked)
    )
    words = [f'type = "{best.type}"', *([f'format = "{best.format}"'] if best.format else [])]
    if csv := csv_words(policy.csv, nulls):
        words.append(f"[csv] {csv}")
    rest = ", and the others are marks for a missing value" if texts.nulls and best.count == texts.present else ""
    doubt = f"{rest} ({best.doubt})" if best.doubt else rest
    return f"reads as {best.type} in {share}{doubt}: {', '.join(words)}"


def _share(part: int, whole: int) -> str:
    """Return a share that is not rounded up to all."""
    return f"{floor(1000 * part / whole) / 10:.1f} % of values"
