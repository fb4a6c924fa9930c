"""Counts what a source of files or DuckDB tables loses on its way into the copy. Nothing of it is written down."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import duckdb

from sfumato.engines.duckdb.column import column_sql, unit_sql
from sfumato.engines.duckdb.connection import STAGE, closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.source import SourceTable, attached, read_schema
from sfumato.engines.engine import Limits
from sfumato.engines.inspection import InspectedCap, InspectedColumn, InspectedTable, SourceReport
from sfumato.engines.snapshots import places_of
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.builder import select, subquery, union_all
from sfumato.engines.sql.column import Kind, Part, keyed
from sfumato.engines.sql.names import literal, quoted
from sfumato.policy.policy import Column, ColumnType, Policy, Reference, RowUnit, Table, UnitColumn, UnitPath, fold_name
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

_DATES = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%d.%m.%y", "%m/%d/%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
_TIMES = tuple(f"{date} {time}" for date in _DATES for time in ("%H:%M:%S", "%H:%M", "%I:%M %p"))
_NULLS = ("NA", "N/A", "NULL", "null", "None", "NaN", "nan", "-", "?", ".")
_COMMA = "[+-]?[0-9]+,[0-9]+"
_CAPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))
"""What people write for `rows_per_unit`."""
_WHENS = {ColumnType.DATE: _DATES, ColumnType.TIMESTAMP: (*_TIMES, *_DATES)}


@dataclass(frozen=True, slots=True)
class _Source:
    connection: duckdb.DuckDBPyConnection
    policy: Policy
    sources: dict[str, SourceTable]

    def parts(self, table: str) -> tuple[Part, ...]:
        return source_table(self.sources, table).parts

    def rows(self, table: str, columns: Callable[[Part], list[str]]) -> str:
        """Return the query for columns of every row of a table."""
        return union_all(select(columns(part), part.relation) for part in self.parts(table))

    def counts(self, query: str) -> list[int]:
        [row] = execute(self.connection, query)
        return [int(count or 0) for count in row]


def inspect(policy: Policy) -> SourceReport:
    """Read the whole source once, and count what the policy leaves of it."""
    with _opened(policy) as source:
        private = [table for table in policy.tables if not table.public]
        tables = tuple(_table(source, table) for table in private)
        columns = tuple(found for table in private for found in _columns(source, table))
    return SourceReport(tables, columns)


@contextmanager
def _opened(policy: Policy) -> Iterator[_Source]:
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
            yield _Source(connection, policy, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _table(source: _Source, table: Table) -> InspectedTable:
    [rows] = source.counts(select("count(*)", subquery(source.rows(table.name, lambda _: ["1"]))))
    if isinstance(table.unit, RowUnit):
        return InspectedTable(table.name, rows, 0, rows, 0, 0, 0)
    unique = [column for column in table.columns if column.unique and table.unit != UnitColumn(column.name)]
    keys = [f"c{at}" for at in range(len(unique))]
    named = _named(source, table, unique)
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    sole = own is not None and own.unique
    most = 1 if sole else table.rows_per_unit or 1
    people, crowded, removed, owned = source.counts(
        select(
            f"count(*), count_if(n > {most}), sum(greatest(n - {most}, 0)), sum(n)",
            subquery(select("u, count(*) AS n", subquery(named), group_by="u")),
        )
    )
    repeated = 0
    for key in keys:
        groups = select("count(*) AS n", subquery(named), where=f"{key} IS NOT NULL", group_by=["u", key])
        repeated += source.counts(select("sum(n - 1)", subquery(groups)))[0]
    caps = () if sole else _caps(source, named, most)
    found = InspectedTable(table.name, rows, max(rows - owned, 0), people, crowded, removed, repeated, caps)
    if isinstance(table.unit, UnitPath):
        owners = select("k", subquery(_pairs(source, table.unit)), group_by="k", having="count(*) > 1")
        [shared] = source.counts(select("count(*)", subquery(owners)))
        return replace(found, shared_keys=shared, key_column=f"{table.unit.table}.{table.unit.there}")
    return found


def _pairs(source: _Source, path: UnitPath) -> str:
    """Return the query for the keys of a path and the people that they lead to, each pair once."""
    owner, key = _declared(source, path.table, path.column), _declared(source, path.table, path.there)
    pairs = source.rows(
        path.table,
        lambda part: [
            f"{unit_sql(key, part.column(path.there))} AS k",
            f"{unit_sql(owner, part.column(path.column))} AS u",
        ],
    )
    return select("DISTINCT k, u", subquery(pairs), where=["k IS NOT NULL", "u IS NOT NULL"])


def _caps(source: _Source, named: str, most: int) -> tuple[InspectedCap, ...]:
    """Return what round caps and the policy's own would leave out, up to the first that leaves out nothing."""
    caps = sorted({*_CAPS, most})
    counts = [f"count_if(n > {cap}), sum(greatest(n - {cap}, 0))" for cap in caps]
    people = subquery(select("count(*) AS n", subquery(named), group_by="u"))
    found = source.counts(select(counts, people))
    rows = [InspectedCap(*one) for one in zip(caps, found[::2], found[1::2], strict=True)]
    enough = next((one.rows for one in rows if not one.removed), caps[-1])
    return tuple(one for one in rows if one.rows <= max(enough, most))


def _columns(source: _Source, table: Table) -> Iterator[InspectedColumn]:
    """Give what becomes of each column, and of the sum of each bounded number."""
    sums = [column for column in table.columns if _is_clipped(table, column)]
    lost = dict(zip([column.name for column in sums], _lost_sums(source, table, sums), strict=True))
    for column in table.columns:
        found = _column(source, table, column)
        total, clipped, capped = lost.get(column.name, (0, 0, 0))
        yield replace(found, total=total, clipped=clipped, capped=capped)


def _is_clipped(table: Table, column: Column) -> bool:
    summed = column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) and column.values is None
    return summed and column.bounds is not None and table.unit != UnitColumn(column.name)


def _lost_sums(source: _Source, table: Table, columns: list[Column]) -> Iterator[tuple[int, int, int]]:
    """Give for each number its sum without signs, what bounds take from it, and then the cap, on average."""
    if not columns:
        return
    free = [replace(column, bounds=None) for column in columns]
    if isinstance(table.unit, RowUnit):
        listed = [f"c{at}" for at in range(len(free))]
        rows = source.rows(
            table.name,
            lambda part: [f"{column_sql(one, part.column(one.name))} AS c{at}" for at, one in enumerate(free)],
        )
        named = select(["row_number() OVER () AS u", *listed], subquery(rows))
    else:
        named = _named(source, table, free)
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    most = 1 if own is not None and own.unique else table.rows_per_unit or 1
    sums, lost = [], []
    for at, column in enumerate(columns):
        grid = column.grid
        if grid is None:
            raise AssertionError("it has bounds")
        clipped = f"greatest(least(c{at}, {grid.greatest}), {grid.least})"
        sums += [f"sum(abs(c{at}::HUGEINT)) AS t{at}", f"sum(abs({clipped} - c{at}::HUGEINT)) AS b{at}"]
        sums.append(f"sum(abs({clipped}::HUGEINT)) AS k{at}")
        lost += [f"sum(t{at})", f"sum(b{at})", f"sum(CASE WHEN n > {most} THEN k{at} * (n - {most}) // n ELSE 0 END)"]
    people = select(["count(*) AS n", *sums], subquery(named), group_by="u")
    found = source.counts(select(lost, subquery(people)))
    yield from zip(found[::3], found[1::3], found[2::3], strict=True)


def _named(source: _Source, table: Table, unique: list[Column]) -> str:
    """Return the query for the rows that have an owner, `u`, with their unique keys."""

    def values(key: Column) -> Callable[[Part], list[str]]:
        return lambda part: [
            f"{unit_sql(key, part.column(key.name))} AS k",
            *(f"{column_sql(column, part.column(column.name))} AS c{at}" for at, column in enumerate(unique)),
        ]

    match table.unit:
        case UnitPath(here=here) as path:
            rows = source.rows(table.name, values(_declared(source, table.name, here)))
            joined = f"{subquery(rows, 'r')} JOIN {subquery(_pairs(source, path), 'p')} USING (k)"
            return select("p.u, r.* EXCLUDE (k)", joined)
        case UnitColumn(name):
            rows = source.rows(table.name, values(_declared(source, table.name, name)))
            return select("k AS u, * EXCLUDE (k)", subquery(rows), where="k IS NOT NULL")
    raise AssertionError("each row is a person")


def _declared(source: _Source, table: str, column: str) -> Column:
    found = source.policy.table(table)
    declared = None if found is None else found.column(column)
    if declared is None:
        raise AssertionError("checked by the policy")
    return declared


def _column(source: _Source, table: Table, column: Column) -> InspectedColumn:
    names_people = table.unit == UnitColumn(column.name)
    found = InspectedColumn(table.name, column.name, column.type, 0)
    unread: dict[str, int] = {}
    for part in source.parts(table.name):
        raw = next((quoted(name) for name, _ in part.columns if fold_name(name) == fold_name(column.name)), None)
        if raw is None or part.column(column.name).kind is Kind.NOTHING:
            continue
        counted = _counted(source, column, part, raw, names_people)
        found = replace(found, **{key: getattr(found, key) + count for key, count in counted.items()})
        if counted["unreadable"] or counted.get("marked"):
            for remedy, count in _remedies(source, column, part, raw, names_people).items():
                unread[remedy] = unread.get(remedy, 0) + count
    best = max(unread.values(), default=0)
    remedies = [f"{remedy} reads {count:,}" for remedy, count in unread.items() if count == best]
    return replace(found, remedy=", ".join(remedies[:2]) if best else "")


def _counted(source: _Source, column: Column, part: Part, raw: str, names_people: bool) -> dict[str, int]:
    value = _value(column, part, names_people)
    read = value if names_people else column_sql(replace(column, values=None), part.column(column.name))
    counts = {"present": f"count({raw})", "unreadable": f"count_if({raw} IS NOT NULL AND {read} IS NULL)"}
    grid = column.grid
    if not names_people and grid is not None and column.type is not ColumnType.BOOLEAN:
        counts |= {"below": f"count_if({value} < {grid.least})", "above": f"count_if({value} > {grid.greatest})"}
    if column.type is ColumnType.TEXT and column.length is not None and not isinstance(column.values, tuple):
        counts["cut"] = f"count_if(length(CAST({raw} AS VARCHAR)) > {column.length})"
    if not names_people and column.values is not None:
        counts["undeclared"] = f"count_if({read} IS NOT NULL AND ({_absent(source, column, read)}))"
    if names_people and column.type is ColumnType.TEXT and part.column(column.name).kind is Kind.RAW:
        counts["marked"] = f"count_if({raw} IN ({', '.join(map(literal, _NULLS))}))"
    found = source.counts(select(counts.values(), part.relation))
    return dict(zip(counts, found, strict=True))


def _value(column: Column, part: Part, names_people: bool) -> str:
    """Return a value as it would be without bounds and keys: then NULL means that it is not of its type."""
    stored = part.column(column.name)
    if names_people:
        return unit_sql(column, stored)
    return column_sql(replace(column, bounds=None, values=None), stored)


def _absent(source: _Source, column: Column, value: str) -> str:
    if isinstance(column.values, Reference):
        reference = column.values
        keys = source.rows(reference.table, lambda part: [f"{column_sql(column, part.column(reference.column))} AS k"])
        return f"{value} NOT IN ({select('k', subquery(keys), where='k IS NOT NULL')})"
    return f"{keyed(column, value, DUCKDB)} IS NULL"


def _remedies(source: _Source, column: Column, part: Part, raw: str, names_people: bool) -> dict[str, int]:
    """Return what the policy could say so that more values are read, and how many: by forms, never by a value."""
    text = f"CAST({raw} AS VARCHAR)"
    where = f"{raw} IS NOT NULL AND ({_value(column, part, names_people)} IS NULL OR {str(names_people).upper()})"
    tried = {
        f'format = "{form}"': f"count(try_strptime({text}, {literal(form)}))" for form in _WHENS.get(column.type, ())
    }
    if source.policy.source.scheme in ("csv", "files"):
        tried |= {f'[csv] null = ["{word}"]': f"count_if({text} = {literal(word)})" for word in _NULLS}
        if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) and source.policy.csv.decimal == ".":
            tried['[csv] decimal = ","'] = f"count_if(regexp_full_match({text}, {literal(_COMMA)}))"
    if not tried:
        return {}
    counts = source.counts(select(tried.values(), part.relation, where=where))
    return {remedy: count for remedy, count in zip(tried, counts, strict=True) if count}
