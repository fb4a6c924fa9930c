"""The bounded copy: of each person at most `rows_per_unit` rows, on the grid, under an opaque id, by a keyed hash.

Theorem: the rows of a person in the copy are a function of the salt and of that person's own rows.
Proof: proofs/bounded_copy.md

Every statement is generated from the policy and the source's schema; the salt never stands in one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.catalog_of import facts_of, most_removed, most_rows, numbered_keys
from sfumato.engines.engine import Progress
from sfumato.engines.sql.building import Building
from sfumato.engines.sql.column import Part, check_type, keyed
from sfumato.engines.sql.cut import uncut, write_cut
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.drawing import draw_again, drawn, first_draw
from sfumato.engines.sql.names import LONE, NUMBER, PATH_UNIT, RANK, cell_name, once_name
from sfumato.errors import BadSource
from sfumato.language.facts import Kind
from sfumato.planning.cut_off import CUT
from sfumato.policy.policy import Column, ColumnType, Reference, Table, UnitColumn, UnitPath, fold
from sfumato.policy.tables import REMOVED_ROWS


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


def bounded_table(build: Building, table: Table, progress: Progress) -> list[CopiedTable]:
    """Write one private table of the copy, and where the policy spends on it the table of what that cuts off."""
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
    lost = write_cut(build, table, columns, unit) if build.policy.budget.truncation is not None else []
    staged = ("rows", "found", "units", "pairs", "owners", "crowded", "chosen", "lost")
    build.drop([*staged, *(f"keys{at}" for at in range(len(columns)))])
    named = [CopiedColumn(column.name, build.reading.storage(column)) for column in columns]
    if unit is not None:
        named.insert(0, CopiedColumn(unit, build.dialect.id_type))
    named = named or [CopiedColumn(LONE, "BIGINT")]
    copied = [CopiedTable(table.name, tuple(named), unit)]
    if lost:
        copied.append(CopiedTable(table.name + CUT, tuple(CopiedColumn(*one) for one in lost), unit))
    return copied


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


def _rows(build: Building, table: str, columns: Callable[[Part], list[str]]) -> str:
    """Return the query for columns of every row of a table, each read in the type in which it is stored."""
    return " UNION ALL ".join(
        f"SELECT {', '.join(columns(part))} FROM {part.relation}"  # noqa: S608
        for part in build.parts(table)
    )


def _declared(build: Building, table: str, column: str) -> Column:
    found = build.policy.table(table)
    declared = None if found is None else found.column(column)
    if declared is None:  # checked by the policy
        raise BadSource(f"tables.{table}.columns.{column} is not declared.", "It is needed.", "Declare it.")
    return declared


def _key_tables(build: Building, columns: list[Column]) -> None:
    """Write down the keys that columns take from a public table, on the column's own grid."""
    for at, column in enumerate(columns):
        if isinstance(column.values, Reference):
            keys = _keys(build, column, column.values)
            build.make(build.stage(f"keys{at}"), f"SELECT DISTINCT k FROM ({keys}) AS p")  # noqa: S608


def _keys(build: Building, column: Column, values: Reference) -> str:
    for part in build.parts(values.table):
        check_type(values.table, Column(values.column, column.type), part.column(values.column))
    return _rows(build, values.table, lambda part: [f"{build.reading.column(column, part.column(values.column))} AS k"])


def _stage_rows(build: Building, table: Table, columns: list[Column]) -> None:
    """Bring every row that has an owner to the grid, with the owner's opaque id before it."""
    kept = [f"{_domain(build, column, at)} AS c{at}" for at, column in enumerate(columns)]
    kept = kept or ["CAST(0 AS BIGINT) AS c0"]
    free = uncut(columns) if build.policy.budget.truncation is not None else []
    kept += [f"p.o{at} AS o{at}" for at, _ in free]
    reading, key, joined = build.reading, None, ""
    match table.unit:
        case UnitColumn(name):
            key = _declared(build, table.name, name)
            _opaque(build, _counted(build, table, key))
            kept, joined = ["units.id AS id", *kept], f"JOIN {build.stage('units')} AS units ON p.u = units.u"
        case UnitPath(target, name, here, there):
            key = _declared(build, table.name, here)
            build.make(build.stage("found"), _counted(build, table, key))
            _owners(build, target, name, there)
            kept, joined = ["owners.id AS id", *kept], f"JOIN {build.stage('owners')} AS owners ON p.u = owners.k"
    if build.dialect.numbered is not None:
        kept.append(f"{build.dialect.numbered} AS {build.dialect.place}")

    def values(part: Part) -> list[str]:
        own = [] if key is None else [f"{reading.unit(key, part.column(key.name))} AS u"]
        listed = [f"{reading.column(column, part.column(column.name))} AS c{at}" for at, column in enumerate(columns)]
        listed += [
            f"{reading.column(replace(column, bounds=None), part.column(column.name))} AS o{at}" for at, column in free
        ]
        return own + listed or ["0 AS c0"]

    build.make(
        build.stage("rows"),
        f"SELECT {', '.join(kept)} FROM ({_rows(build, table.name, values)}) AS p {joined}",  # noqa: S608
    )


def _counted(build: Building, table: Table, key: Column) -> str:
    """Return the query for the names that occur, and in how many rows each: the rows without one belong to nobody."""
    names = _rows(build, table.name, lambda part: [f"{build.reading.unit(key, part.column(key.name))} AS u"])
    return f"SELECT u, count(*) AS n FROM ({names}) AS p GROUP BY u"  # noqa: S608


def _domain(build: Building, column: Column, at: int) -> str:
    if isinstance(column.values, Reference):
        keys = f"SELECT k FROM {build.stage(f'keys{at}')} WHERE k IS NOT NULL"  # noqa: S608
        return f"CASE WHEN p.c{at} IN ({keys}) THEN p.c{at} END"
    return keyed(column, f"p.c{at}", build.dialect)


def _opaque(build: Building, people: str) -> None:
    """Give each person 128 bits of a keyed hash of their own name: nobody's id depends on who else is there."""
    named = f"CASE WHEN u IS NOT NULL THEN {_hash(build, 'unit', 'u')} END AS id"
    build.make(build.stage("units"), f"SELECT u, n, {named} FROM ({people}) AS p{build.salt_join}", salted=True)  # noqa: S608


def _owners(build: Building, target: str, column: str, there: str) -> None:
    """Write down which keys lead to whom. A key of several owners leads to each of them.

    Leaving it out, or giving it to one, would let one person's row take rows from another (proofs/bounded_copy.md §4).
    """
    key, owner, reading = _declared(build, target, there), _declared(build, target, column), build.reading
    pairs = _rows(
        build,
        target,
        lambda part: [
            f"{reading.unit(key, part.column(there))} AS k",
            f"{reading.unit(owner, part.column(column))} AS u",
        ],
    )
    build.make(build.stage("pairs"), f"SELECT DISTINCT k, u FROM ({pairs}) AS p")  # noqa: S608
    _opaque(build, f"SELECT u, count(*) AS n FROM {build.stage('pairs')} GROUP BY u")  # noqa: S608
    build.make(
        build.stage("owners"),
        f"SELECT p.k AS k, units.id AS id FROM {build.stage('pairs')} AS p "  # noqa: S608
        f"JOIN {build.stage('units')} AS units ON p.u = units.u WHERE p.k IS NOT NULL",
    )


def _choose(build: Building, table: Table, columns: list[Column]) -> None:
    """Choose the rows of those who have too many; who has, and which, depends on their own rows alone."""
    unique = [f"c{at}" for at, column in enumerate(columns) if column.unique]
    most, rows, dialect = most_rows(table), build.stage("rows"), build.dialect
    crowds = [f"SELECT id FROM {rows} GROUP BY id HAVING count(*) > {most}"]  # noqa: S608
    if isinstance(table.unit, UnitColumn):  # their rows have been counted
        crowds = [f"SELECT id FROM {build.stage('units')} WHERE u IS NOT NULL AND n > {most}"]  # noqa: S608
    if table.rows_chosen:  # each question keeps fewer, so the order of everybody's rows is drawn
        crowds = [f"SELECT DISTINCT id FROM {rows}"]  # noqa: S608
    crowds += [
        f"SELECT id FROM {rows} WHERE {key} IS NOT NULL GROUP BY id, {key} HAVING count(*) > 1"  # noqa: S608
        for key in unique
    ]
    parts = 1 + count_rows(build, rows) // dialect.ranked_at_once
    # what a person's draws begin with is written once for all their rows
    own = [f"{dialect.id_text('id')} || '#' AS own", f"{dialect.part('id', parts) if parts > 1 else 0} AS part"]
    build.make(build.stage("crowded"), f"SELECT id, {', '.join(own)} FROM ({' UNION '.join(crowds)}) AS c")  # noqa: S608
    for part in range(parts):
        write = build.append if part else build.make
        write(build.stage("chosen"), _chosen(build, columns, most, part))


def _kind(column: Column) -> Kind:
    """Return the kind of a column in the copy, where truth values are integers."""
    kind = facts_of(column).kind
    return Kind.INTEGER if kind is Kind.BOOLEAN else kind


def _crowded(build: Building) -> str:
    """Return whether a row `r` is of somebody who has too many."""
    return f"EXISTS (SELECT 1 FROM {build.stage('crowded')} AS c WHERE c.id = r.id)"  # noqa: S608


def _chosen(build: Building, columns: list[Column], most: int, part: int) -> str:
    """Return the query for the places of the rows that are kept and their ranks, among the people of one part."""
    unique = [f"c{at}" for at, column in enumerate(columns) if column.unique]
    dialect = build.dialect
    values = [(f"r.c{at}", _kind(column)) for at, column in enumerate(columns)]
    carried = [f"c{at}" for at in range(max(len(columns), 1))] if dialect.carries_rows else []
    along = [*carried, *(key for key in unique if key not in carried)]
    names = ", ".join(["place", "id", *along])
    listed = [f"r.{dialect.place} AS place", "r.id AS id", *(f"r.{name} AS {name}" for name in along)]
    draws = (
        f"SELECT {', '.join(listed)}, {first_draw('c.own', values, dialect)} AS first "  # noqa: S608
        f"FROM {build.stage('rows')} AS r JOIN {build.stage('crowded')} AS c ON c.id = r.id WHERE c.part = {part}"
    )
    # Equal rows are told apart by a number, so that each of n rows has the same chance; which of them has which number
    # does not matter, because they are equal.
    chosen = f"SELECT {names}, first, {dialect.row_number(['id', 'first'], [])} AS nth FROM ({draws}) AS d"  # noqa: S608
    chosen = f"SELECT {names}, {draw_again('first', 'nth', dialect)} AS draw FROM ({chosen}) AS d"  # noqa: S608
    for key in unique:
        once = dialect.row_number(["id", key], ["draw"])
        chosen = f"SELECT {names}, draw, {once} AS once FROM ({chosen}) AS d"  # noqa: S608
        chosen = f"SELECT {names}, draw FROM ({chosen}) AS o WHERE {key} IS NULL OR once = 1"  # noqa: S608
    rank = dialect.row_number(["id"], ["draw"])
    kept = ", ".join(["place", "id", *carried])
    ranked = f"SELECT {kept}, CAST({rank} AS {dialect.rank_type}) AS nth FROM ({chosen}) AS d"  # noqa: S608
    return f"SELECT {kept}, nth FROM ({ranked}) AS n WHERE nth <= {most}"  # noqa: S608


def _hash(build: Building, purpose: str, text: str) -> str:
    """Return 128 bits of SHA-256 keyed by its first block [BCK96]: the salt, then what it is for, then the text."""
    return build.dialect.hash128(f"{build.salt_sql} || {build.dialect.literal(purpose + ':')} || {text}")


def _write(build: Building, table: Table, columns: list[Column]) -> None:
    """Write the rows in the order of all their columns, so that their order tells nothing but what they hold.

    Where people have rows, hidden columns number them within a person, so that a statement can keep to the bound that
    it was priced for without counting: RANK, and for each unique column the rows that hold the same value. Where only
    some groups of a person count, the values of each declared key are numbered, too. A row's numbers depend on the
    same person's rows alone.
    """
    dialect, unit = build.dialect, unit_column(table)
    quoted, rows = dialect.quoted, build.stage("rows")
    values = [f"c{at}" for at in range(len(columns))]
    sorted_by = {f"c{at}": _sortable(dialect, column, at) for at, column in enumerate(columns)}
    names = [f"c{at} AS {quoted(column.name)}" for at, column in enumerate(columns)]
    order = [f"c{at}" for at in _sort_keys(columns)]
    source = rows
    if unit is not None:
        within = list(sorted_by.values())
        unique = [(f"c{at}", column.name) for at, column in enumerate(columns) if column.unique]
        names = [f"id AS {quoted(unit)}", *names, f"nth AS {quoted(RANK)}"]
        names += [f"{_once(dialect, value, within)} AS {quoted(once_name(name))}" for value, name in unique]
        keys = [(f"c{at}", column) for at, column in enumerate(columns) if column in numbered_keys(table)]
        names += [f"{_cell(dialect, value, column)} AS {quoted(cell_name(column.name))}" for value, column in keys]
        order.append("id")
        listed = ", ".join(f"r.{name}" for name in ["id", *values])
        rank = f"CAST({dialect.row_number(['id'], within)} AS {dialect.rank_type})"
        chosen = f"{rows} AS r JOIN {build.stage('chosen')} AS c ON r.{dialect.place} = c.place"
        if dialect.carries_rows:
            chosen = f"{build.stage('chosen')} AS r"
        source = (  # those who had too many rows were ranked when they were chosen
            f"(SELECT {listed}, {rank} AS nth FROM {rows} AS r WHERE NOT {_crowded(build)} UNION ALL "  # noqa: S608
            f"SELECT {listed}, nth FROM {chosen})"
        )
    order += [value for value in values if value not in order]
    ordered = [sorted_by.get(name, name) for name in order]
    names = names or [f"c0 AS {quoted(LONE)}"]
    if unit is None and dialect.numbers_rows:
        names.append(f"{dialect.row_number([], ordered)} AS {quoted(NUMBER)}")
    selected = ", ".join(names)
    by = f" {dialect.in_order} {', '.join(ordered)}" if ordered else ""
    build.make(build.kept(table.name), f"SELECT {selected} FROM {source} AS kept{by}")  # noqa: S608


def _sortable(dialect: Dialect, column: Column, at: int) -> str:
    return f"{dialect.sortable(f'c{at}', _kind(column))} NULLS LAST"


def _once(dialect: Dialect, column: str, within: list[str]) -> str:
    """Return the number of a row among those of one person that hold the same value; a NULL is nobody's like."""
    number = dialect.row_number(["id", column], within)
    return f"CAST(CASE WHEN {column} IS NULL THEN 1 ELSE {number} END AS {dialect.rank_type})"


def _cell(dialect: Dialect, value: str, column: Column) -> str:
    """Return the number of a value among those of one person, in the order that questions keep them; of NULL, NULL."""
    draw, *ties = drawn("id", [(value, facts_of(column).kind)], dialect)
    order = [f"CASE WHEN {value} IS NOT NULL THEN {draw} END NULLS LAST", *ties]
    number = f"dense_rank() OVER (PARTITION BY id ORDER BY {', '.join(order)})"
    return f"CAST(CASE WHEN {value} IS NOT NULL THEN {number} END AS {dialect.rank_type})"


def _write_removed(build: Building, table: Table, unit: str) -> None:
    """Write down for each person who has too many rows how many were left out: it can be asked like any other table.

    A person's number is a function of that person's rows, as the rows are that were chosen.
    """
    rows, quoted = build.stage("rows"), build.dialect.quoted
    had = f"SELECT r.id AS id, count(*) AS n FROM {rows} AS r WHERE {_crowded(build)} GROUP BY r.id"  # noqa: S608
    if isinstance(table.unit, UnitColumn):  # their rows have been counted
        had = f"SELECT r.id AS id, r.n AS n FROM {build.stage('units')} AS r WHERE {_crowded(build)}"  # noqa: S608
    kept = f"SELECT id, count(*) AS n FROM {build.stage('chosen')} GROUP BY id"  # noqa: S608
    build.make(
        build.stage("lost"),
        f"SELECT h.id AS id, h.n - coalesce(k.n, 0) AS n FROM ({had}) AS h LEFT JOIN ({kept}) AS k ON h.id = k.id",  # noqa: S608
    )
    build.make(
        build.kept(table.name + REMOVED),
        f"SELECT id AS {quoted(unit)}, CAST(least(n, {most_removed(table)}) AS BIGINT) AS {quoted(REMOVED_ROWS)} "  # noqa: S608
        f"FROM {build.stage('lost')} WHERE n > 0 {build.dialect.in_order} id",
    )


def _account_for_every_row(build: Building, table: Table) -> None:
    """Refuse a copy in which a row got lost: rows read = rows kept + rows removed + rows without an owner.

    A row that leads to several people counts once for each of them.
    """
    staged, kept = (count_rows(build, name) for name in (build.stage("rows"), build.kept(table.name)))
    if unit_column(table) is None:
        require_all(table, build.read[table.name] == staged == kept)
        return
    found, own = build.stage("units"), f"{build.stage('units')} AS f WHERE u IS NOT NULL"
    if isinstance(table.unit, UnitPath):
        found, own = build.stage("found"), f"{build.stage('found')} AS f JOIN {build.stage('owners')} AS o ON f.u = o.k"
    ((read, owned),) = build.rows(
        f"SELECT (SELECT coalesce(sum(n), 0) FROM {found}) AS a, (SELECT coalesce(sum(f.n), 0) FROM {own}) AS b"  # noqa: S608
    )
    ((removed,),) = build.rows(f"SELECT coalesce(sum(n), 0) FROM {build.stage('lost')}")  # noqa: S608
    require_all(table, build.read[table.name] == read and owned == staged == kept + removed)


def count_rows(build: Building, relation: str) -> int:
    """Return how many rows there are: for the invariant, and never shown to anybody."""
    ((found,),) = build.rows(f"SELECT count(*) FROM {relation}")  # noqa: S608
    return int(found)


def require_all(table: Table, whole: bool) -> None:
    """Refuse a table of which not every row is accounted for."""
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
