"""Counts what a source of files or DuckDB tables loses on its way into the copy. Nothing of it is written down."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial

import duckdb

from sfumato.engines.duckdb.column import READING
from sfumato.engines.duckdb.connection import STAGE, closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.source import SourceTable, attached, read_schema
from sfumato.engines.engine import Limits
from sfumato.engines.inspection import SourceReport
from sfumato.engines.snapshots import places_of
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Part
from sfumato.engines.sql.inspecting import NULL_WORDS, Inspection
from sfumato.engines.sql.names import literal
from sfumato.policy.policy import Column, ColumnType, Policy
from sfumato.policy.schemes import reads_csv
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_DATES = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%d.%m.%y", "%m/%d/%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
_TIMES = tuple(f"{date} {time}" for date in _DATES for time in ("%H:%M:%S", "%H:%M", "%I:%M %p"))
_COMMA = "[+-]?[0-9]+,[0-9]+"
_WHENS = {ColumnType.DATE: _DATES, ColumnType.TIMESTAMP: (*_TIMES, *_DATES)}


def inspect(policy: Policy) -> SourceReport:
    """Read the whole source once, and count what the policy leaves of it."""
    with _opened(policy) as (connection, sources):
        run = partial(execute, connection)
        return Inspection(
            policy,
            DUCKDB,
            READING,
            lambda name: source_table(sources, name).parts,
            run,
            lambda column, part, raw, unread: _remedies(connection, policy, column, part, raw, unread),
        ).report()


@contextmanager
def _opened(policy: Policy) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, SourceTable]]]:
    """Open the source with a folder aside, which a dead process leaves for the next build to remove."""
    folder = places_of(policy).sidecar(f"build-{fresh_id(system_source())}")
    folder.mkdir(mode=0o700)
    try:
        sources = [policy.source.path] if policy.source.path is not None else []
        with closing(closed_connection([folder, *sources], Limits(), folder / "spill")) as connection:
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
    tried = {
        f'format = "{form}"': f"count(try_strptime({text}, {literal(form)}))" for form in _WHENS.get(column.type, ())
    }
    if reads_csv(policy.source.scheme):
        tried |= {f'[csv] null = ["{word}"]': f"count_if({text} = {literal(word)})" for word in NULL_WORDS}
        if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) and policy.csv.decimal == ".":
            tried['[csv] decimal = ","'] = f"count_if(regexp_full_match({text}, {literal(_COMMA)}))"
    if not tried:
        return {}
    [counts] = execute(connection, select(tried.values(), part.relation, where=unread))
    return {remedy: count for remedy, count in zip(tried, counts, strict=True) if count}
