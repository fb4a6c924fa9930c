"""The rows of a private table on their way into the copy: on the grid, under the opaque id of each owner.

Where rows only arrived since the copy before, the people who have such rows are bounded again, from all their rows; and
what the earlier copy has of all other people stays (proofs/bounded_copy.md §5d).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sfumato.engines.sql.bounding.person_numbers import (
    STAGED_NUMBER,
    had_rows,
    number_of_unit,
    numbers_people,
    stage_numbers,
)
from sfumato.engines.sql.bounding.truncation import lost_of_all, sums_of, tracked
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import aliased, exists, select, subquery, union_all
from sfumato.engines.sql.column import Part, beyond, check_type, keyed
from sfumato.engines.sql.dialect import ByTwoScans, ByWindow, bounding_of
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, Reference, Table, UnitColumn, UnitPath


def stage_rows(build: Building, table: Table, columns: list[Column]) -> int:
    """Bring every row that has an owner to the grid, with the owner's opaque id before it; return the number of parts.

    The rows of one part lie together, so that each part is read alone. A person is in one part. Where rows are read
    again, there is one part, and only its people are written down.
    """
    stage_key_tables(build, columns)
    dialect, arrived = build.dialect, build.new_files(table.name)
    key, kept, joined, parts, order = None, _values(build, columns), "", 1, ""
    numbered = numbers_people(dialect, table)
    match table.unit:
        case UnitColumn(name):
            key = declared_column(build, table.name, name)
            if are_read_again(build, table, columns):
                lossy = build.policy.budget.truncation is not None
                _opaque(build, _summed(build, table, columns, key) if lossy else _counted(build, table, key))
                return 1
            _opaque(build, _counted(build, table, key))
            kept, joined = ["units.id AS id", *kept], f"JOIN {build.stage('units')} AS units ON p.u = units.u"
            kept += [number_of_unit(build)] if numbered and arrived is None else []
        case UnitPath(here=here) as path:
            key = declared_column(build, table.name, here)
            build.create_table_as(build.stage("found"), _counted(build, table, key))
            _owners(build, table, path)
            kept, joined = ["owners.id AS id", *kept], f"JOIN {build.stage('owners')} AS owners ON p.u = owners.k"
            kept += [f"owners.{STAGED_NUMBER} AS {STAGED_NUMBER}"] if numbered and arrived is None else []
    if numbered and arrived is not None:
        joined += f" JOIN {stage_numbers(build, table)} AS numbers ON numbers.id = units.id"
        kept.append(f"numbers.{STAGED_NUMBER} AS {STAGED_NUMBER}")
    parted = None if key is None else bounding_of(dialect, ByWindow).rank_partitions
    if parted is not None:
        parts = max(-(-rows_with_owners(build, table) // parted.rows), 1)
        if parts > 1:
            kept.append(f"{parted.part('id', parts)} AS part")
            order = "part"
    read, among = build.parts(table.name), None
    if arrived is not None and key is None:  # each row is a person, and those that were there stay as they are
        read = arrived
    elif arrived is not None and key is not None:
        read, among = _concerned(build, table, key)
    values = _read(build, table, columns, key)
    source = f"{subquery(part_rows(read, values, among), 'p')} {joined}"
    build.create_table_as(build.stage("rows"), select(kept, source, order_by=order))
    return parts


def are_read_again(build: Building, table: Table, columns: list[Column]) -> bool:
    """Tell whether rows are read from the source for those who have too many and for the others, never written down."""
    return isinstance(build.dialect.bounding, ByTwoScans) and are_needed_once(build, table, columns)


def are_needed_once(build: Building, table: Table, columns: Sequence[Column]) -> bool:
    """Tell whether nothing asks for the same row twice, which needs a place where it lies.

    Unique keys do, units through foreign keys, and rows that arrived beside others.
    """
    alone = build.new_files(table.name) is None
    return alone and isinstance(table.unit, UnitColumn) and not any(column.unique for column in columns)


def rows_of(build: Building, table: Table, columns: list[Column], people: str, along: Sequence[str] = ()) -> str:
    """Return the query for the rows of some people on the grid: `people` is a relation of names u, ids, and `along`."""
    read, fence = read_rows(build, table, columns), bounding_of(build.dialect, ByTwoScans).optimizer_fence
    return owned_rows(build, columns, read, people, ["id", *along], fence)


def _values(build: Building, columns: list[Column]) -> list[str]:
    """Return what is selected of a row `p`: its values, and those that bounds moved as they were before."""
    kept = [f"{key_domain(build, column, at)} AS c{at}" for at, column in enumerate(columns)]
    kept = kept or [f"CAST(0 AS {build.dialect.bigint}) AS c0"]
    return [*kept, *(f"p.o{at} AS o{at}" for at in tracked(build, columns))]


def _read(build: Building, table: Table, columns: list[Column], key: Column | None) -> Callable[[Part], list[str]]:
    """Return how the columns of a part are read: the name of the owner if there is one, and the values on the grid."""
    reading, free = build.reading, [(at, columns[at]) for at in tracked(build, columns)]

    def values(part: Part) -> list[str]:
        own = [] if key is None else [f"{_name(build, table, key, part)} AS u"]
        listed = [
            f"{reading.column(beyond(column), part.column(column.name))} AS c{at}" for at, column in enumerate(columns)
        ]
        listed += [
            f"{reading.column(replace(column, bounds=None), part.column(column.name))} AS o{at}" for at, column in free
        ]
        return own + listed or ["0 AS c0"]

    return values


def _name(build: Building, table: Table, key: Column, part: Part) -> str:
    """Return what names a person in a row: a text; or where each row names one by an integer, that integer."""
    short = [build.reading.short_name(key, one.column(key.name)) for one in build.parts(table.name)]
    if isinstance(table.unit, UnitColumn) and build.new_files(table.name) is None and None not in short:
        return build.reading.short_name(key, part.column(key.name)) or ""
    return build.reading.unit(key, part.column(key.name))


def count_people(build: Building, table: Table, columns: list[Column]) -> None:
    """Write down the people of a table by id and number of rows, who owns which, and what reading its columns needs.

    Where losses are kept, with what each would lose if none of their rows were kept.
    """
    stage_key_tables(build, columns)
    key, sums = _owner_column(build, table), lost_of_all(build, columns)
    read = _read(build, table, columns, key) if sums else None
    counted = _counted(build, table, key, read, aliased(sums))
    if not isinstance(table.unit, UnitPath):
        _opaque(build, counted)
        return
    build.create_table_as(build.stage("found"), counted)
    _owners(build, table, table.unit)
    added = ["o.id AS id", *(f"sum(f.{name}) AS {name}" for name in ["n", *sums])]
    source = f"{build.stage('found')} AS f JOIN {build.stage('owners')} AS o ON f.u = o.k"
    build.create_table_as(build.stage("people"), select(added, source, group_by="o.id"))


def read_rows(build: Building, table: Table, columns: list[Column]) -> str:
    """Return the query for every row of a table by the name of its owner, or what leads there, before keys are known.

    Where rows were only added, every row of the people with new rows.
    """
    key = _owner_column(build, table)
    parts, among = build.parts(table.name), None
    if build.new_files(table.name) is not None:
        parts, among = _concerned(build, table, key)
    return part_rows(parts, _read(build, table, columns, key), among)


def owned_rows(
    build: Building, columns: list[Column], read: str, people: str, along: Sequence[str], fence: str | None = None
) -> str:
    """Return the query for rows that were read on the grid: `people` is a relation of names u and of `along`."""
    kept = [*(f"units.{name} AS {name}" for name in along), *_values(build, columns), *([fence] if fence else [])]
    return select(kept, f"{subquery(read, 'p')} JOIN {people} AS units ON p.u = units.u")


def rows_with_owners(build: Building, table: Table) -> int:
    """Return how many rows have been staged or will be: those that have an owner."""
    own = f"{build.stage('units')} AS f WHERE u IS NOT NULL"
    if isinstance(table.unit, UnitPath):
        own = f"{build.stage('found')} AS f JOIN {build.stage('owners')} AS o ON f.u = o.k"
    ((owned,),) = build.rows(select("coalesce(sum(f.n), 0)", own))
    return int(owned)


def rows_named(build: Building, table: Table) -> int:
    """Return how many rows were read, by the names in them: as many as there are unless a row has several owners."""
    if build.new_files(table.name) is not None:
        names = f"{build.stage('arrived')} AS f"
    elif isinstance(table.unit, UnitPath):
        names = f"{build.stage('found')} AS f LEFT JOIN {build.stage('owners')} AS o ON f.u = o.k"
    else:
        names = f"{build.stage('units')} AS f"
    ((named,),) = build.rows(select("coalesce(sum(f.n), 0)", names))
    return int(named)


def part_rows(
    parts: Sequence[Part], columns: Callable[[Part], list[str]], among: Callable[[Part], str] | None = None
) -> str:
    """Return the query for columns of every row of some parts, each read in the type in which it is stored."""
    return union_all(select(columns(part), part.relation, where=() if among is None else among(part)) for part in parts)


def _owner_column(build: Building, table: Table) -> Column:
    """Return the column that names the owner of a row, or the key that leads there."""
    match table.unit:
        case UnitColumn(name) | UnitPath(here=name):
            return declared_column(build, table.name, name)
    raise AssertionError("its rows have no owners")


def declared_column(build: Building, table: str, column: str) -> Column:
    found = build.policy.table(table)
    declared = None if found is None else found.column(column)
    if declared is None:  # checked by the policy
        raise BadSource(f"tables.{table}.columns.{column} is not declared.", "It is needed.", "Declare it.")
    return declared


def stage_key_tables(build: Building, columns: list[Column]) -> None:
    """Write down the keys that columns take from a public table, on the column's own grid."""
    for at, column in enumerate(columns):
        if isinstance(column.values, Reference):
            keys = _keys(build, column, column.values)
            build.create_table_as(build.stage(f"keys{at}"), select("DISTINCT k", subquery(keys, "p")))


def _keys(build: Building, column: Column, values: Reference) -> str:
    parts = build.parts(values.table)
    for part in parts:
        check_type(values.table, Column(values.column, column.type), part.column(values.column))
    return part_rows(parts, lambda part: [f"{build.reading.column(column, part.column(values.column))} AS k"])


def _counted(
    build: Building,
    table: Table,
    key: Column,
    read: Callable[[Part], list[str]] | None = None,
    sums: Sequence[str] = (),
) -> str:
    """Return the query for the names that occur, and in how many rows each: rows without a name belong to no person.

    Where rows were only added, these are the names in the new rows, and NULL; all rows of these names are counted.
    `sums` are added up over the columns that are `read`.
    """

    def name(part: Part) -> list[str]:
        return [f"{_name(build, table, key, part)} AS u"]

    arrived, parts, among = build.new_files(table.name), build.parts(table.name), None
    if arrived is not None:
        found = select("u, count(*) AS n", subquery(part_rows(arrived, name), "p"), group_by="u")
        _opaque(build, found, "arrived")
        _known_people(build, table)
        parts, among = _concerned(build, table, key)
    names = part_rows(parts, read or name, among)
    return select(["u", "count(*) AS n", *sums], subquery(names, "p"), group_by="u")


def _summed(build: Building, table: Table, columns: list[Column], key: Column) -> str:
    """Return the query for the names that occur, in how many rows each, and `sums_of` these rows.

    A value before clipping is computed only where the clipped value lies on a bound: elsewhere both are equal.
    """
    reading, fence = build.reading, bounding_of(build.dialect, ByTwoScans).optimizer_fence
    free, found = tracked(build, columns), []
    for part in build.parts(table.name):
        stored = [part.column(columns[at].name) for at in free]
        listed = [f"{_name(build, table, key, part)} AS u"]
        named = ["t.u AS u"]
        for at, value in zip(free, stored, strict=True):
            copied = beyond(columns[at])
            grid, before = copied.grid, replace(value, sql=f"t.r{at}")
            if grid is None:
                raise AssertionError("it has bounds")
            listed += [f"{reading.column(copied, value)} AS c{at}", f"{value.sql} AS r{at}"]
            free_value = reading.column(replace(columns[at], bounds=None), before)
            on_bound = f"t.c{at} IN ({grid.least}, {grid.greatest})"
            named += [f"t.c{at} AS c{at}", f"CASE WHEN {on_bound} THEN {free_value} ELSE t.c{at} END AS o{at}"]
        found.append(select([*named, fence], subquery(select([*listed, fence], part.relation), "t")))
    sums = aliased(sums_of(build, columns, build.read[table.name]))
    return select(["u", *sums], subquery(union_all(found), "p"), group_by="u")


def _known_people(build: Building, table: Table) -> None:
    """Write down whose rows arrived and who had some before: of everybody who had, the copy before keeps at least one.

    Whose row is whose may have changed where a path leads there; then everybody may have had some.
    """
    known = select("u", f"{build.stage('arrived')} AS a")
    if isinstance(table.unit, UnitColumn):
        unit = build.dialect.quote_identifier(table.unit.column)
        known = f"{known} WHERE {exists(f'{build.before(table.name)} AS b', f'b.{unit} = a.id')}"
    build.create_table_as(build.stage("known"), known)


def _concerned(build: Building, table: Table, key: Column) -> tuple[Sequence[Part], Callable[[Part], str]]:
    """Return which rows of the source belong to people who have rows that arrived, and in which parts they are.

    If none of these people had rows before, no other file is read.
    """
    arrived, parts = build.new_files(table.name) or (), build.parts(table.name)
    apart = all(part in parts for part in arrived)
    if apart and not had_rows(build, table):
        parts = arrived

    def among(part: Part) -> str:
        people = build.stage("known" if apart and part not in arrived else "arrived")
        return f"{build.reading.unit(key, part.column(key.name))} IN ({select('u', people, where='u IS NOT NULL')})"

    return parts, among


def key_domain(build: Building, column: Column, at: int) -> str:
    if isinstance(column.values, Reference):
        keys = select("k", build.stage(f"keys{at}"), where="k IS NOT NULL")
        return f"CASE WHEN p.c{at} IN ({keys}) THEN p.c{at} END"
    return keyed(column, f"p.c{at}", build.dialect)


def _opaque(build: Building, people: str, name: str = "units") -> None:
    """Give each person 128 bits of a keyed hash of their own name: no id depends on which other people are there."""
    text = f"CAST(u AS {build.dialect.text_type})"  # it is a text, or an integer
    named = f"CASE WHEN u IS NOT NULL THEN {keyed_hash(build, 'unit', text)} END AS id"
    opaque = select(f"p.*, {named}", subquery(people, "p") + build.salt_join)
    build.create_table_as(build.stage(name), opaque, salted=True)


def keyed_hash(build: Building, purpose: str, text: str) -> str:
    """Return 128 bits of SHA-256 keyed by its first block [BCK96]: the salt, then what it is for, then the text."""
    return build.dialect.hash128(f"{build.salt_sql} || {build.dialect.text_literal(purpose + ':')} || {text}")


def _owners(build: Building, table: Table, path: UnitPath) -> None:
    """Write down which key leads to which person: each key occurs once, so that a row has at most one owner.

    A snapshot in which a key leads to several people is refused: a row that counted for each of them would move an
    answer by as many rows, and one that counted for none or one of them would be taken away by others' rows
    (proofs/bounded_copy.md §4). NULL is no key, and names no person.
    """
    pairs = build.stage("pairs")
    stage_path_keys(build, table, path, pairs)
    _opaque(build, select("u, count(*) AS n", pairs, group_by="u"))
    source = f"{pairs} AS p JOIN {build.stage('units')} AS units ON p.u = units.u"
    own = ["p.k AS k", "units.id AS id"]
    own += [number_of_unit(build)] if numbers_people(build.dialect, table) else []
    build.create_table_as(build.stage("owners"), select(own, source, where="p.u = p.other"))


def stage_path_keys(build: Building, table: Table, path: UnitPath, pairs: str) -> None:
    """Write down each key of a path with the name of its person, or refuse a key that leads to several people."""
    key, owner = declared_column(build, path.table, path.there), declared_column(build, path.table, path.column)
    reading = build.reading
    found = part_rows(
        build.parts(path.table),
        lambda part: [
            f"{reading.unit(key, part.column(path.there))} AS k",
            f"{reading.unit(owner, part.column(path.column))} AS u",
        ],
    )
    present = ["k IS NOT NULL", "u IS NOT NULL"]
    owners = select("k, min(u) AS u, max(u) AS other", subquery(found, "p"), where=present, group_by="k")
    build.create_table_as(pairs, owners)
    ((shared,),) = build.rows(select("count(*)", pairs, where="u <> other"))
    if shared:
        raise shared_key(table, path)


def shared_key(table: Table, path: UnitPath) -> BadSource:
    """Return the refusal of a snapshot in which a key of a path leads to several people; it is the data owner's."""
    column = f"{path.table}.{path.there}"
    return BadSource(
        f"A value of {column} leads to more than one person, and tables.{table.name}.unit finds people by it.",
        "Each row belongs to one person at most. A row of several people would count once for each of them, so one "
        "person could change an answer by more than its noise hides.",
        f"Give each value of {column} one {path.table}.{path.column}, or set shared values to NULL: rows with a "
        "NULL key belong to no person.",
    )
