"""The bounded copy: of each person at most `rows_per_unit` rows, on the grid, under an opaque id, by a keyed hash.

Theorem: the rows of a person in the copy are a function of the salt and of that person's own rows.
Proof: proofs/bounded_copy.md

Every statement is generated from the policy and the source's schema; the salt is a parameter and never stands in one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.catalog_of import most_removed, most_rows
from sfumato.engines.duckdb.connection import COPY, STAGE, execute
from sfumato.engines.duckdb.dialect import ID
from sfumato.engines.duckdb.source import Part, SourceTable
from sfumato.engines.engine import Progress
from sfumato.engines.sql.column import Stored, check_type, column_sql, keyed, storage, unit_sql
from sfumato.engines.sql.names import LONE, PATH_UNIT, RANK, literal, once_name, quoted
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, ColumnType, Policy, Reference, Table, UnitColumn, UnitPath, fold
from sfumato.policy.tables import REMOVED_ROWS

_PART = 1_000_000
"""Rows are ranked for so many at a time, each person in one part, so that a part fits into little memory."""


@dataclass(frozen=True, slots=True)
class CopiedColumn:
    """A column of the copy, by the name that the policy gives it, and the engine's type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """What is public about a table of the copy: its columns, and which of them is the opaque id."""

    name: str
    columns: tuple[CopiedColumn, ...]
    unit: str | None
    """None in a public table, and where each row is a person."""


@dataclass(frozen=True, slots=True, repr=False)
class Build:
    """One build under way: a connection with `copy` and `stage` attached, the source's schema, the salt."""

    connection: duckdb.DuckDBPyConnection
    policy: Policy
    sources: dict[str, SourceTable]
    salt: bytes
    read: Mapping[str, int]
    """How many rows each table of the source has, by those who count them without reading them: see `loading`."""

    def run(self, statement: str) -> None:
        """Run one statement."""
        execute(self.connection, statement)

    def run_salted(self, statement: str) -> None:
        """Run one statement in which `$salt` is the salt in hexadecimal: 64 characters, one block of SHA-256."""
        execute(self.connection, statement, {"salt": self.salt.hex()})

    def source(self, name: str) -> SourceTable:
        """Return the source's table of this name."""
        return next(source for known, source in self.sources.items() if fold(known) == fold(name))

    def rows(self, table: str, columns: Callable[[Part], list[str]]) -> str:
        """Return the query for columns of every row of a table, each read in the type in which it is stored."""
        return " UNION ALL ".join(
            f"SELECT {', '.join(columns(part))} FROM {part.relation}"  # noqa: S608
            for part in self.source(table).parts
        )

    def count(self, relation: str) -> int:
        """Return how many rows there are: for the invariant, and never shown to anybody."""
        ((found,),) = execute(self.connection, f"SELECT count(*) FROM {relation}")  # noqa: S608
        return int(found)


def build_table(build: Build, table: Table, progress: Progress) -> CopiedTable:
    """Write one table of the copy."""
    if table.public:
        progress("copy", table.name)
        return _public(build, table)
    progress("read", table.name)
    columns = _kept_columns(table)
    _key_tables(build, columns)
    _stage_rows(build, table, columns)
    unit = unit_column(table)
    if unit is not None:
        progress("bound", table.name)
        _choose(build, table, columns)
    progress("sort", table.name)
    _write(build, table, columns)
    if unit is not None:
        _write_removed(build, table, unit)
    _account_for_every_row(build, table)
    staged = ("rows", "found", "units", "pairs", "owners", "crowded", "draws", "chosen", "lost")
    for name in (*staged, *(f"keys{at}" for at in range(len(columns)))):
        build.run(f"DROP TABLE IF EXISTS {STAGE}.{name}")
    named = [CopiedColumn(column.name, storage(column)) for column in columns]
    if unit is not None:
        named.insert(0, CopiedColumn(unit, ID))
    named = named or [CopiedColumn(LONE, "BIGINT")]
    return CopiedTable(table.name, tuple(named), unit)


def unit_column(table: Table) -> str | None:
    """Return the name of the column that holds the opaque id."""
    match table.unit:
        case UnitColumn(column):
            return column
        case UnitPath():
            return PATH_UNIT
    return None


def _kept_columns(table: Table) -> list[Column]:
    """Return the declared columns but the unit's, in the one order that all spellings of a policy share."""
    own = fold(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    return sorted(
        (column for column in table.columns if fold(column.name) != own), key=lambda column: fold(column.name)
    )


def _declared(build: Build, table: str, column: str) -> Column:
    found = build.policy.table(table)
    declared = None if found is None else found.column(column)
    if declared is None:  # checked by the policy
        raise BadSource(f"tables.{table}.columns.{column} is not declared.", "It is needed.", "Declare it.")
    return declared


def _key_tables(build: Build, columns: list[Column]) -> None:
    """Write down the keys that columns take from a public table, on the column's own grid."""
    for at, column in enumerate(columns):
        if isinstance(column.values, Reference):
            keys = _keys(build, column, column.values)
            build.run(f"CREATE TABLE {STAGE}.keys{at} AS SELECT DISTINCT k FROM ({keys}) AS p(k)")  # noqa: S608


def _keys(build: Build, column: Column, values: Reference) -> str:
    for part in build.source(values.table).parts:
        check_type(values.table, Column(values.column, column.type), part.column(values.column))
    return build.rows(values.table, lambda part: [column_sql(column, part.column(values.column))])


def _stage_rows(build: Build, table: Table, columns: list[Column]) -> None:
    """Bring every row that has an owner to the grid, with the owner's opaque id before it."""
    kept = [f"{_domain(column, at)} AS c{at}" for at, column in enumerate(columns)] or ["0::BIGINT AS c0"]
    key, joined = None, ""
    match table.unit:
        case UnitColumn(name):
            key = _declared(build, table.name, name)
            _opaque(build, _counted(build, table, key))
            kept, joined = ["units.id AS id", *kept], f"JOIN {STAGE}.units AS units ON p.u = units.u"
        case UnitPath(target, name, here, there):
            key = _declared(build, table.name, here)
            build.run(f"CREATE TABLE {STAGE}.found AS {_counted(build, table, key)}")
            _owners(build, target, name, there)
            kept, joined = ["owners.id AS id", *kept], f"JOIN {STAGE}.owners AS owners ON p.u = owners.k"

    def values(part: Part) -> list[str]:
        own = [] if key is None else [f"{unit_sql(key, part.column(key.name))} AS u"]
        return own + [
            f"{column_sql(column, part.column(column.name))} AS c{at}" for at, column in enumerate(columns)
        ] or ["0 AS c0"]

    build.run(
        f"CREATE TABLE {STAGE}.rows AS SELECT {', '.join(kept)} FROM ({build.rows(table.name, values)}) AS p {joined}"  # noqa: S608
    )


def _counted(build: Build, table: Table, key: Column) -> str:
    """Return the query for the names that occur, and in how many rows each: the rows without one belong to nobody."""
    names = build.rows(table.name, lambda part: [f"{unit_sql(key, part.column(key.name))} AS u"])
    return f"SELECT u, count(*) AS n FROM ({names}) GROUP BY u"  # noqa: S608


def _domain(column: Column, at: int) -> str:
    if isinstance(column.values, Reference):
        return f"CASE WHEN p.c{at} IN (SELECT k FROM {STAGE}.keys{at} WHERE k IS NOT NULL) THEN p.c{at} END"  # noqa: S608
    return keyed(column, f"p.c{at}")


def _opaque(build: Build, people: str) -> None:
    """Give each person 128 bits of a keyed hash of their own name: nobody's id depends on who else is there."""
    build.run_salted(
        f"CREATE TABLE {STAGE}.units AS SELECT u, n, CASE WHEN u IS NOT NULL THEN {_hash('unit', 'u')} END AS id "  # noqa: S608
        f"FROM ({people})"
    )


def _owners(build: Build, target: str, column: str, there: str) -> None:
    """Write down which keys lead to whom. A key of several owners leads to each of them.

    Leaving it out, or giving it to one, would let one person's row take rows from another (proofs/bounded_copy.md §4).
    """
    key, owner = _declared(build, target, there), _declared(build, target, column)
    pairs = build.rows(
        target,
        lambda part: [f"{unit_sql(key, part.column(there))} AS k", f"{unit_sql(owner, part.column(column))} AS u"],
    )
    build.run(f"CREATE TABLE {STAGE}.pairs AS SELECT DISTINCT k, u FROM ({pairs})")  # noqa: S608
    _opaque(build, f"SELECT u, count(*) AS n FROM {STAGE}.pairs GROUP BY u")  # noqa: S608
    build.run(
        f"CREATE TABLE {STAGE}.owners AS SELECT p.k AS k, units.id AS id FROM {STAGE}.pairs AS p "  # noqa: S608
        f"JOIN {STAGE}.units AS units ON p.u = units.u WHERE p.k IS NOT NULL"
    )


def _choose(build: Build, table: Table, columns: list[Column]) -> None:
    """Choose the rows of those who have too many; who has, and which, depends on their own rows alone."""
    unique = [f"c{at}" for at, column in enumerate(columns) if column.unique]
    most = most_rows(table)
    crowds = [f"SELECT id FROM {STAGE}.rows GROUP BY id HAVING count(*) > {most}"]  # noqa: S608
    if isinstance(table.unit, UnitColumn):  # their rows have been counted
        crowds = [f"SELECT id FROM {STAGE}.units WHERE u IS NOT NULL AND n > {most}"]  # noqa: S608
    crowds += [
        f"SELECT id FROM {STAGE}.rows WHERE {key} IS NOT NULL GROUP BY id, {key} HAVING count(*) > 1"  # noqa: S608
        for key in unique
    ]
    build.run(f"CREATE TABLE {STAGE}.crowded AS {' UNION '.join(crowds)}")
    ((crowded,),) = execute(
        build.connection,
        f"SELECT count(*) FROM {STAGE}.rows SEMI JOIN {STAGE}.crowded USING (id)",  # noqa: S608
    )
    parts = 1 + crowded // _PART
    first = _hash("row", _content(table, columns))
    build.run_salted(
        f"CREATE TABLE {STAGE}.draws AS SELECT {', '.join(['rows.rowid AS place', 'id', *unique])}, {first} AS first, "  # noqa: S608
        f"(hash(id) % {parts})::UINTEGER AS part FROM {STAGE}.rows AS rows SEMI JOIN {STAGE}.crowded AS c USING (id)"
    )
    build.run(f"CREATE TABLE {STAGE}.chosen (place BIGINT, nth UINTEGER)")
    for part in range(parts):
        build.run_salted(f"INSERT INTO {STAGE}.chosen {_chosen(unique, most, part)}")


def _chosen(unique: list[str], most: int, part: int) -> str:
    """Return the query for the places of the rows that are kept and their ranks, among the people of one part."""
    names = ", ".join(["place", "id", *unique])
    # Equal rows are told apart by a number, so that each of n rows has the same chance; which of them has which number
    # does not matter, because they are equal.
    chosen = (
        f"SELECT {names}, first, row_number() OVER (PARTITION BY id, first) AS nth "  # noqa: S608
        f"FROM {STAGE}.draws WHERE part = {part}"
    )
    again = _hash("again", "hex(first) || ':' || nth::VARCHAR")
    chosen = f"SELECT {names}, CASE WHEN nth = 1 THEN first ELSE {again} END AS draw FROM ({chosen})"  # noqa: S608
    for key in unique:
        once = f"row_number() OVER (PARTITION BY id, {key} ORDER BY draw) = 1"
        chosen = f"SELECT * FROM ({chosen}) QUALIFY {key} IS NULL OR {once}"  # noqa: S608
    rank = "row_number() OVER (PARTITION BY id ORDER BY draw)"
    return f"SELECT place, {rank} AS nth FROM ({chosen}) QUALIFY nth <= {most}"  # noqa: S608


def _content(table: Table, columns: list[Column]) -> str:
    """Return a text that no two different rows share: every part says how long it is, or that it is NULL."""
    parts = [_part(literal(fold(table.name))), _part("hex(id)")]
    parts += [f"CASE WHEN c{at} IS NULL THEN '-' ELSE {_part(f'c{at}::VARCHAR')} END" for at in range(len(columns))]
    return " || ".join(parts)


def _part(text: str) -> str:
    return f"(strlen({text})::VARCHAR || ':' || {text})"


def _hash(purpose: str, text: str) -> str:
    """Return 128 bits of SHA-256 keyed by its first block [BCK96]: the salt, then what it is for, then the text."""
    return f"('0x' || left(sha256($salt || {literal(purpose + ':')} || {text}), 32))::{ID}"


def _write(build: Build, table: Table, columns: list[Column]) -> None:
    """Write the rows in the order of all their columns, so that their order tells nothing but what they hold.

    Where people have rows, hidden columns number them within a person, so that a statement can keep to the bound that
    it was priced for without counting: RANK, and for each unique column the rows that hold the same value. A row's
    numbers depend on the same person's rows alone.
    """
    unit = unit_column(table)
    values = [f"c{at}" for at in range(len(columns))]
    names = [f"c{at} AS {quoted(column.name)}" for at, column in enumerate(columns)]
    order = [f"c{at}" for at in _sort_keys(columns)]
    source = f"FROM {STAGE}.rows"
    if unit is not None:
        within = f" ORDER BY {', '.join(values)}" if values else ""
        unique = [(f"c{at}", column.name) for at, column in enumerate(columns) if column.unique]
        names = [f"id AS {quoted(unit)}", *names, f"nth AS {quoted(RANK)}"]
        names += [f"{_once(value, within)} AS {quoted(once_name(name))}" for value, name in unique]
        order.append("id")
        listed = ", ".join(["id", *values])
        source = (  # those who had too many rows were ranked when they were chosen
            f"(SELECT {listed}, row_number() OVER (PARTITION BY id{within})::UINTEGER AS nth FROM {STAGE}.rows "  # noqa: S608
            f"ANTI JOIN {STAGE}.crowded USING (id)) UNION ALL "
            f"(SELECT {listed}, c.nth FROM {STAGE}.rows AS r JOIN {STAGE}.chosen AS c ON r.rowid = c.place)"
        )
    order += [value for value in values if value not in order]
    selected = ", ".join(names or [f"c0 AS {quoted(LONE)}"])
    ordered = f"ORDER BY {', '.join(order)}" if order else ""
    build.run(f"CREATE TABLE {COPY}.main.{quoted(table.name)} AS SELECT {selected} FROM ({source}) {ordered}")  # noqa: S608


def _once(column: str, within: str) -> str:
    """Return the number of a row among those of one person that hold the same value; a NULL is nobody's like."""
    number = f"row_number() OVER (PARTITION BY id, {column}{within})"
    return f"(CASE WHEN {column} IS NULL THEN 1 ELSE {number} END)::UINTEGER"


def _write_removed(build: Build, table: Table, unit: str) -> None:
    """Write down for each person who has too many rows how many were left out: it can be asked like any other table.

    A person's number is a function of that person's rows, as the rows are that were chosen.
    """
    had = f"SELECT id, count(*) AS n FROM {STAGE}.rows SEMI JOIN {STAGE}.crowded USING (id) GROUP BY id"  # noqa: S608
    kept = (
        f"SELECT id, count(*) AS n FROM {STAGE}.rows AS r SEMI JOIN {STAGE}.chosen AS c ON r.rowid = c.place "  # noqa: S608
        "GROUP BY id"
    )
    build.run(
        f"CREATE TABLE {STAGE}.lost AS SELECT h.id AS id, h.n - coalesce(k.n, 0) AS n "  # noqa: S608
        f"FROM ({had}) AS h LEFT JOIN ({kept}) AS k USING (id)"
    )
    build.run(
        f"CREATE TABLE {COPY}.main.{quoted(table.name + REMOVED)} AS SELECT id AS {quoted(unit)}, "  # noqa: S608
        f"least(n, {most_removed(table)})::BIGINT AS {quoted(REMOVED_ROWS)} FROM {STAGE}.lost ORDER BY id"
    )


def _account_for_every_row(build: Build, table: Table) -> None:
    """Refuse a copy in which a row got lost: rows read = rows kept + rows removed + rows without an owner.

    A row that leads to several people counts once for each of them.
    """
    staged, kept = build.count(f"{STAGE}.rows"), build.count(f"{COPY}.main.{quoted(table.name)}")
    if unit_column(table) is None:
        _require_all(table, build.read[table.name] == staged == kept)
        return
    found, own = f"{STAGE}.units", f"{STAGE}.units AS f WHERE u IS NOT NULL"
    if isinstance(table.unit, UnitPath):
        found, own = f"{STAGE}.found", f"{STAGE}.found AS f JOIN {STAGE}.owners AS o ON f.u = o.k"
    ((read, owned),) = execute(
        build.connection,
        f"SELECT (SELECT coalesce(sum(n), 0) FROM {found}), (SELECT coalesce(sum(f.n), 0) FROM {own})",  # noqa: S608
    )
    ((removed,),) = execute(build.connection, f"SELECT coalesce(sum(n), 0) FROM {STAGE}.lost")  # noqa: S608
    _require_all(table, build.read[table.name] == read and owned == staged == kept + removed)


def _require_all(table: Table, whole: bool) -> None:
    if not whole:
        raise BadSource(
            f"tables.{table.name}: not every row of the source was accounted for.",
            "Each row that is read is kept, removed by rows_per_unit, or without an owner; here the sums differ.",
            "Take the snapshot again when nobody writes to the source; if it stays so, report it: it is a defect.",
        )


def _sort_keys(columns: list[Column]) -> list[int]:
    """Return the columns with declared keys, coarsest first: groups lie together, then each person's rows."""
    cells = {}
    for at, column in enumerate(columns):
        if column.type is ColumnType.BOOLEAN:
            cells[at] = 2
        elif column.values is not None:
            cells[at] = len(column.values) if isinstance(column.values, tuple) else 10**6
    return sorted(cells, key=lambda at: (cells[at], at))


def _public(build: Build, table: Table) -> CopiedTable:
    source = build.source(table.name)
    stored_columns = {fold(name): stored for name, stored in source.columns}
    columns = [(name, stored.sql) for name, stored in source.columns]
    if table.columns:
        columns = [(column.name, _as_declared(column, stored_columns[fold(column.name)])) for column in table.columns]
    names = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns)
    target = f"{COPY}.main.{quoted(table.name)}"
    build.run(f"CREATE TABLE {target} AS SELECT {names} FROM {source.relation}")  # noqa: S608
    _require_all(table, build.read[table.name] == build.count(target))
    described = execute(build.connection, f"DESCRIBE {target}")
    return CopiedTable(table.name, tuple(CopiedColumn(name, kind) for name, kind, *_ in described), None)


_PUBLIC_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
    ColumnType.TEXT: "VARCHAR",
}


def _as_declared(column: Column, stored: Stored) -> str:
    """Return a public value as it is; text of a CSV file is read as what it was declared."""
    if not stored.raw:
        return stored.sql
    return f"TRY_CAST({stored.sql} AS {_PUBLIC_TYPES.get(column.type, 'DOUBLE')})"
