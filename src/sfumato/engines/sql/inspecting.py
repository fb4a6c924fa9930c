"""Counts what a source loses on its way into the copy, in any engine. Exact numbers, for the owner; stored nowhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.engines.inspection import InspectedCap, InspectedColumn, InspectedTable, SourceReport
from sfumato.engines.sql.builder import select, subquery, union_all
from sfumato.engines.sql.column import Kind, Part, ValueForms, keyed
from sfumato.engines.sql.dialect import Dialect
from sfumato.policy.policy import (
    Column,
    ColumnType,
    OwnerPair,
    Policy,
    Reference,
    RowUnit,
    Table,
    UnitColumn,
    UnitPath,
    fold_name,
)

NULL_WORDS = ("NA", "N/A", "NULL", "null", "None", "NaN", "nan", "-", "?", ".")
"""Common words for missing values in text files."""
_CAPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))
"""Usual values of `rows_per_unit`."""
_MAY_HAVE_PLACES = (Kind.DECIMAL, Kind.FLOATING, Kind.RAW)
_PLACES = 10**6
"""Decimals from a millionth on are noticed."""

Remedies = Callable[[Column, Part, str, str], Mapping[str, int]]
"""Changes of the policy by which more values of a part are read, and how many: from the column, the part, the SQL of
the raw value, and the condition that it was not read."""


def no_remedies(_column: Column, _part: Part, _raw: str, _unread: str) -> Mapping[str, int]:
    """Return nothing: the source has types, so no declaration reads more of it."""
    return {}


@dataclass(frozen=True, slots=True, repr=False)
class Inspection:
    """A source that an engine has opened, and how to count in it."""

    policy: Policy
    dialect: Dialect
    reading: ValueForms
    parts: Callable[[str], Sequence[Part]]
    """The rows of a table of the source, those together that are stored alike."""
    run: Callable[[str], list[tuple[Any, ...]]]
    """The rows of a query."""
    remedies: Remedies = no_remedies
    text_type: Callable[[Table, Column, Part, str], str] = lambda table, column, part, raw: ""
    """What to tell about texts that read as another type than text; empty where the source has types."""

    def rows(self, table: str, columns: Callable[[Part], list[str]]) -> str:
        """Return the query for columns of every row of a table."""
        return union_all(select(columns(part), part.relation) for part in self.parts(table))

    def counts(self, query: str) -> list[int]:
        """Return the one row of counts that a query has."""
        [row] = self.run(query)
        return [int(count or 0) for count in row]

    def report(self) -> SourceReport:
        """Read the whole source, and count what the policy leaves of it."""
        private = [table for table in self.policy.tables if not table.public]
        tables = tuple(_table(self, table) for table in private)
        columns = tuple(found for table in private for found in _columns(self, table))
        return SourceReport(tables, columns)


def _count_if(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def _table(source: Inspection, table: Table) -> InspectedTable:
    [rows] = source.counts(select("count(*)", subquery(source.rows(table.name, lambda _: ["1 AS one"]), "s")))
    if isinstance(table.unit, RowUnit):
        return InspectedTable(table.name, rows, 0, rows, 0, 0, 0)
    if isinstance(table.unit, OwnerPair):
        return _paired(source, table, table.unit, rows)
    unique = [column for column in table.columns if column.unique and table.unit != UnitColumn(column.name)]
    named = _named(source, table, unique)
    most, sole = _rows_that_count(table)
    people, crowded, removed, owned = source.counts(
        select(
            f"count(*), {_count_if(f'n > {most}')}, sum(greatest(n - {most}, 0)), sum(n)",
            subquery(select("u, count(*) AS n", subquery(named, "s"), group_by="u"), "g"),
        )
    )
    repeated = 0
    for at in range(len(unique)):
        groups = select("count(*) AS n", subquery(named, "s"), where=f"c{at} IS NOT NULL", group_by=["u", f"c{at}"])
        repeated += source.counts(select("sum(n - 1)", subquery(groups, "g")))[0]
    caps = () if sole else _caps(source, named, most)
    found = InspectedTable(table.name, rows, max(rows - owned, 0), people, crowded, removed, repeated, caps)
    if isinstance(table.unit, UnitPath):
        owners = select("k", subquery(_pairs(source, table.unit), "s"), group_by="k", having="count(*) > 1")
        [shared] = source.counts(select("count(*)", subquery(owners, "g")))
        return replace(found, shared_keys=shared, key_column=f"{table.unit.table}.{table.unit.there}")
    return found


def _paired(source: Inspection, table: Table, pair: OwnerPair, rows: int) -> InspectedTable:
    """Return the same where rows have two owners: none is cut, and those without one of them are in no answer."""
    keys = [owner.column if isinstance(owner, UnitColumn) else owner.here for owner in pair.owners]
    declared = [_declared(source, table.name, key) for key in keys]
    named = source.rows(
        table.name,
        lambda part: [f"{source.reading.unit(key, part.column(key.name))} AS k{at}" for at, key in enumerate(declared)],
    )
    joined, names, shared, key_column = subquery(named, "r"), list[str](), 0, ""
    for at, owner in enumerate(pair.owners):
        names.append(f"r.k{at}" if isinstance(owner, UnitColumn) else f"p{at}.u")
        if isinstance(owner, UnitPath):
            joined += f" LEFT JOIN {subquery(_pairs(source, owner), f'p{at}')} ON r.k{at} = p{at}.k"
            several = select("k", subquery(_pairs(source, owner), "s"), group_by="k", having="count(*) > 1")
            [found] = source.counts(select("count(*)", subquery(several, "g")))
            shared, key_column = shared + found, f"{owner.table}.{owner.there}" if found else key_column
    both = select([f"{name} AS u{at}" for at, name in enumerate(names)], joined)
    owned = [f"u{at} IS NOT NULL" for at in (0, 1)]
    [kept] = source.counts(select("count(*)", subquery(both, "b"), where=owned))
    kinds = (0, 1) if pair.distinguishes_kinds else (0, 0)
    second = owned if pair.distinguishes_kinds else [*owned, "u0 <> u1"]  # a row with oneself is one row
    sides = [
        select(f"{kind} AS kind, u{at} AS u", subquery(both, "b"), where=tests)
        for at, (kind, tests) in enumerate(zip(kinds, (owned, second), strict=True))
    ]
    each = select("kind, u, count(*) AS n", subquery(union_all(sides), "s"), group_by=["kind", "u"])
    most = table.rows_per_unit or 1
    people, over = source.counts(select(f"count(*), {_count_if(f'n > {most}')}", subquery(each, "g")))
    return InspectedTable(table.name, rows, max(rows - kept, 0), people, over, 0, 0, (), shared, key_column)


def _rows_that_count(table: Table) -> tuple[int, bool]:
    """Return how many rows of a person count, and whether a key of the person allows one only."""
    own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    sole = own is not None and own.unique
    return 1 if sole else table.rows_per_unit or 1, sole


def _pairs(source: Inspection, path: UnitPath) -> str:
    """Return the query for the keys of a path and the people that they lead to, each pair once."""
    owner, key = _declared(source, path.table, path.column), _declared(source, path.table, path.there)
    pairs = source.rows(
        path.table,
        lambda part: [
            f"{source.reading.unit(key, part.column(path.there))} AS k",
            f"{source.reading.unit(owner, part.column(path.column))} AS u",
        ],
    )
    return select("DISTINCT k, u", subquery(pairs, "s"), where=["k IS NOT NULL", "u IS NOT NULL"])


def _caps(source: Inspection, named: str, most: int) -> tuple[InspectedCap, ...]:
    """Return what round caps and the policy's own would leave out, up to the first that leaves out nothing."""
    caps = sorted({*_CAPS, most})
    counts = [f"{_count_if(f'n > {cap}')}, sum(greatest(n - {cap}, 0))" for cap in caps]
    people = subquery(select("count(*) AS n", subquery(named, "s"), group_by="u"), "g")
    found = source.counts(select(counts, people))
    rows = [InspectedCap(*one) for one in zip(caps, found[::2], found[1::2], strict=True)]
    enough = next((row.rows for row in rows if not row.removed), caps[-1])
    return tuple(row for row in rows if row.rows <= max(enough, most))


def _columns(source: Inspection, table: Table) -> Iterator[InspectedColumn]:
    """Give what becomes of each column, and of the sum of each bounded number."""
    sums = [column for column in table.columns if _is_clipped(table, column)]
    lost = dict(zip([column.name for column in sums], _lost_sums(source, table, sums), strict=True))
    for column in table.columns:
        found = _column(source, table, column)
        total, clipped, capped = lost.get(column.name, (0, 0, 0))
        yield replace(found, total=total, clipped=clipped, capped=capped)


def _is_clipped(table: Table, column: Column) -> bool:
    summed = column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) and column.values is None
    return summed and column.bounds is not None and not table.names_people(column.name)


def _lost_sums(source: Inspection, table: Table, columns: list[Column]) -> Iterator[tuple[int, int, int]]:
    """Give for each number its sum without signs, what bounds take from it, and then the cap, on average."""
    if not columns:
        return
    free = [replace(column, bounds=None) for column in columns]
    dialect, (most, _) = source.dialect, _rows_that_count(table)
    alone = isinstance(table.unit, RowUnit) or table.has_two_owners  # nothing of a person is cut here
    sums, lost = [], []
    for at, column in enumerate(columns):
        grid = column.grid
        if grid is None:
            raise AssertionError("it has bounds")
        value = f"CAST(c{at} AS {dialect.wide})"
        clipped = f"greatest(least({value}, {grid.greatest}), {grid.least})"
        clipped = f"CASE WHEN c{at} IS NOT NULL THEN {clipped} END"  # engines differ in what greatest says of NULL
        added = {f"t{at}": f"abs({value})", f"b{at}": f"abs({clipped} - {value})", f"k{at}": f"abs({clipped})"}
        sums += [f"{size if alone else f'sum({size})'} AS {name}" for name, size in added.items()]
        # k·(n − most) / n in two terms, neither of which is beyond k
        wide = f"CAST(n AS {dialect.wide})"
        whole, rest = dialect.quotient(f"k{at}", wide), dialect.remainder(f"k{at}", wide)
        capped = f"{whole} * (n - {most}) + {dialect.quotient(f'({rest} * (n - {most}))', wide)}"
        lost += [f"sum(t{at})", f"sum(b{at})", f"sum(CASE WHEN n > {most} THEN {capped} ELSE 0 END)"]
    if alone:
        named = source.rows(table.name, lambda part: _read(source, free, part))
        people = select(["1 AS n", *sums], subquery(named, "s"))
    else:
        people = select(["count(*) AS n", *sums], subquery(_named(source, table, free), "s"), group_by="u")
    found = source.counts(select(lost, subquery(people, "g")))
    yield from zip(found[::3], found[1::3], found[2::3], strict=True)


def _read(source: Inspection, columns: Sequence[Column], part: Part) -> list[str]:
    """Return the values of columns on their grids, as c0, c1, …"""
    return [f"{source.reading.column(column, part.column(column.name))} AS c{at}" for at, column in enumerate(columns)]


def _named(source: Inspection, table: Table, columns: list[Column]) -> str:
    """Return the query for the rows that have an owner, `u`, with values of columns: c0, c1, …"""
    names = [f"c{at}" for at in range(len(columns))]

    def values(key: Column) -> Callable[[Part], list[str]]:
        return lambda part: [
            f"{source.reading.unit(key, part.column(key.name))} AS k",
            *_read(source, columns, part),
        ]

    match table.unit:
        case UnitPath(here=here) as path:
            rows = source.rows(table.name, values(_declared(source, table.name, here)))
            joined = f"{subquery(rows, 'r')} JOIN {subquery(_pairs(source, path), 'p')} ON r.k = p.k"
            return select(["p.u AS u", *(f"r.{name} AS {name}" for name in names)], joined)
        case UnitColumn(name):
            rows = source.rows(table.name, values(_declared(source, table.name, name)))
            return select(["k AS u", *names], subquery(rows, "r"), where="k IS NOT NULL")
    raise AssertionError("each row is a person")


def _declared(source: Inspection, table: str, column: str) -> Column:
    found = source.policy.table(table)
    declared = None if found is None else found.column(column)
    if declared is None:
        raise AssertionError("checked by the policy")
    return declared


def _column(source: Inspection, table: Table, column: Column) -> InspectedColumn:
    names_people = table.names_people(column.name)
    found = InspectedColumn(table.name, column.name, column.type, 0)
    unread: dict[str, int] = {}
    quote = source.dialect.quote_identifier
    for part in source.parts(table.name):
        raw = next((quote(name) for name, _ in part.columns if fold_name(name) == fold_name(column.name)), None)
        if raw is None or part.column(column.name).kind is Kind.NOTHING:
            continue
        counted = _counted(source, column, part, raw, names_people)
        found = replace(found, **{key: getattr(found, key) + count for key, count in counted.items()})
        if counted["unreadable"] or counted.get("marked"):
            absent = f"{_value(source, column, part, names_people)} IS NULL"
            condition = f"{raw} IS NOT NULL" if names_people else f"{raw} IS NOT NULL AND {absent}"
            for remedy, count in source.remedies(column, part, raw, condition).items():
                unread[remedy] = unread.get(remedy, 0) + count
        found = replace(found, reads_as=found.reads_as or source.text_type(table, column, part, raw))
    best = max(unread.values(), default=0)
    remedies = [f"{remedy} reads {count:,}" for remedy, count in unread.items() if count == best]
    return replace(found, remedy=", ".join(remedies[:2]) if best else "")


def _counted(source: Inspection, column: Column, part: Part, raw: str, names_people: bool) -> dict[str, int]:
    stored, reading, dialect = part.column(column.name), source.reading, source.dialect
    value = _value(source, column, part, names_people)
    read = value if names_people else reading.column(replace(column, values=None), stored)
    counts = {"present": f"count({raw})", "unreadable": _count_if(f"{raw} IS NOT NULL AND {read} IS NULL")}
    grid = column.grid
    if not names_people and grid is not None and column.type is not ColumnType.BOOLEAN:
        counts |= {"below": _count_if(f"{value} < {grid.least}"), "above": _count_if(f"{value} > {grid.greatest}")}
    if not names_people and column.type is ColumnType.INTEGER and stored.kind in _MAY_HAVE_PLACES:
        fine = replace(column, type=ColumnType.DECIMAL, bounds=None, values=None, step=Fraction(1, _PLACES))
        counts["rounded"] = _count_if(f"mod({reading.column(fine, stored)}, {_PLACES}) <> 0")
    if column.type is ColumnType.TEXT and column.length is not None and not isinstance(column.values, tuple):
        counts["cut"] = _count_if(f"length(CAST({raw} AS {reading.text_type})) > {column.length}")
    if not names_people and isinstance(column.values, tuple):
        counts["undeclared"] = _count_if(f"{read} IS NOT NULL AND {keyed(column, read, dialect)} IS NULL")
    if names_people and column.type is ColumnType.TEXT and stored.kind is Kind.RAW:
        counts["marked"] = _count_if(f"{raw} IN ({', '.join(map(dialect.text_literal, NULL_WORDS))})")
    found = dict(zip(counts, source.counts(select(counts.values(), part.relation)), strict=True))
    if not names_people and isinstance(column.values, Reference):
        found["undeclared"] = _absent(source, column, column.values, part, read)
    return found


def _value(source: Inspection, column: Column, part: Part, names_people: bool) -> str:
    """Return a value as it would be without bounds and keys: then NULL means that it is not of its type."""
    stored = part.column(column.name)
    if names_people:
        return source.reading.unit(column, stored)
    return source.reading.column(replace(column, bounds=None, values=None), stored)


def _absent(source: Inspection, column: Column, reference: Reference, part: Part, value: str) -> int:
    """Return how many values are no key of a public table."""
    keys = source.rows(
        reference.table, lambda one: [f"{source.reading.column(column, one.column(reference.column))} AS k"]
    )
    known = select("k", subquery(keys, "p"), where="k IS NOT NULL")
    rows = subquery(select(f"{value} AS v", part.relation), "s")
    return source.counts(select("count(*)", rows, where=["v IS NOT NULL", f"v NOT IN ({known})"]))[0]
