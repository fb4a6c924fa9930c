"""The bounded copy: of each person at most `rows_per_unit` rows, on the grid, under an opaque id, by a keyed hash.

Theorem: the rows of a person in the copy are a function of the salt and of that person's own rows.
Proof: proofs/bounded_copy.md

Every statement is generated from the policy and the source's schema; the salt never stands in one.
"""

from dataclasses import dataclass

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.build_catalog import most_removed, most_rows, rows_in_sampling_order
from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounding.by_shuffle import (
    all_accounted_for,
    bound_in_one_pass,
    cut_in_one_pass,
    in_one_pass,
    lost_in_one_pass,
    together_in_one_pass,
)
from sfumato.engines.sql.bounding.by_two_scans import (
    choose_again,
    cut_of_people,
    removed_of_people,
    stage_units_over_bound,
)
from sfumato.engines.sql.bounding.person_numbers import had_rows
from sfumato.engines.sql.bounding.row_ranks import in_order_of, kind_of, numbered_rows, numbers, sortable
from sfumato.engines.sql.bounding.selection import has_totals, total_columns, write_totals
from sfumato.engines.sql.bounding.truncation import cut_columns, tracked, truncation_loss_sql
from sfumato.engines.sql.bounding.value_repeats import (
    joined_repeats,
    repeat_places,
    repeat_tables,
    repeats_of_chosen,
    repeats_of_rows,
    stage_repeats,
)
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import exists, select, subquery, union_all
from sfumato.engines.sql.column import number_sql
from sfumato.engines.sql.dialect import ByWindow, Dialect, bounding_of
from sfumato.engines.sql.names import LONE, NUMBER, PATH_UNIT, RANK, TOTALS
from sfumato.engines.sql.sampling_order import rehash_duplicate, row_hash
from sfumato.engines.sql.staging import are_read_again, rows_named, rows_of, rows_with_owners, stage_rows
from sfumato.errors import BadSource
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.policy import Column, ColumnType, OwnerPair, Table, UnitColumn, UnitPath, fold_name
from sfumato.policy.tables import REMOVED_ROWS

_STAGED = (
    "rows",
    "found",
    "units",
    "pairs",
    "owners",
    "crowded",
    "chosen",
    "lost",
    "arrived",
    "known",
    "people",
    "numbered",
    "numbers",
)
"""Every intermediate table that there may be, but the keys of columns and those of parts."""
_IN_PARTS = ("bounded", "counts", "cut")
"""Intermediate tables of which there is one for each part, where there are several."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """The queries to run now: for kept rows, for how many each unit over its bound keeps, and for what was cut off."""

    rows: str | None = None
    counts: str | None = None
    cut: str | None = None
    lost: str | None = None
    """For how many rows each person lost, where that is known without counting kept ones."""
    is_written: bool = False
    """Whether the rows are in the copy already, part by part."""


@dataclass(frozen=True, slots=True)
class CopiedColumn:
    """A column of the copy, by the name that the policy gives it, and the engine's type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The public description of a table of the copy: its columns, and which of them is the opaque id."""

    name: str
    columns: tuple[CopiedColumn, ...]
    unit: str | None
    """None in a public table, and where each row is a person."""


def bounded_table(build: Building, table: Table, progress: Progress) -> list[CopiedTable]:
    """Write one private table of the copy, and where the policy spends on it the table of what that cuts off."""
    columns, unit, sources, parts = _kept_columns(table), unit_column(table), _Sources(), 1
    cuts = None if build.policy.budget.truncation is None else cut_columns(build, columns, unit)
    if build.new_files(table.name) != ():  # something did, or everything is read
        progress("read", table.name)
        if unit is not None and in_one_pass(build, table):
            rows = bound_in_one_pass(build, table, columns, unit, progress)
            lost, cut = (look(build, table, columns, unit) for look in (lost_in_one_pass, cut_in_one_pass))
            sources = _Sources(rows, cut=cut, lost=lost)
        else:
            parts = stage_rows(build, table, columns)
            if unit is not None:
                progress("bound", table.name)
            sources = _bounded(build, table, columns, parts, progress)
    if not sources.is_written:
        progress("sort", table.name)
        _write(build, table, columns, sources.rows)
    if unit is not None:
        _write_removed(build, table, unit, sources)
    if cuts is not None:
        order = [build.dialect.quote_identifier(name) for name, _ in cuts]
        _put_of_parts(build, table, table.name + CUT, sources.cut, order, order if unit is None else order[:1])
    _account_for_every_row(build, table)
    if has_totals(table):
        write_totals(build, table)
    in_parts = [f"{name}{part}" for name in _IN_PARTS for part in range(parts)]
    in_parts += repeat_tables(repeat_places(build.dialect, table, columns))
    build.drop([*_STAGED, *in_parts, *(f"keys{at}" for at in range(len(columns)))])
    named = [CopiedColumn(column.name, build.reading.storage(column)) for column in columns]
    if unit is not None:
        named.insert(0, CopiedColumn(unit, build.dialect.id_type))
    named = named or [CopiedColumn(LONE, build.dialect.bigint)]
    copied = [CopiedTable(table.name, tuple(named), unit)]
    if cuts is not None:
        copied.append(CopiedTable(table.name + CUT, tuple(CopiedColumn(*one) for one in cuts), unit))
    if has_totals(table):
        totals = tuple(CopiedColumn(*one) for one in total_columns(build.dialect))
        copied.append(CopiedTable(table.name + TOTALS, totals, None))
    return copied


def unit_column(table: Table) -> str | None:
    """Return the name of the column that holds the opaque id."""
    match table.unit:
        case UnitColumn(column):
            return column
        case UnitPath():
            return PATH_UNIT
        case OwnerPair():
            raise AssertionError("rows with two owners are not bounded owner by owner")
    return None


def _kept_columns(table: Table) -> list[Column]:
    """Return the declared columns but the unit's, in the one order that all spellings of a policy share."""
    own = fold_name(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    return sorted(
        (column for column in table.columns if fold_name(column.name) != own), key=lambda column: fold_name(column.name)
    )


def _bounded(build: Building, table: Table, columns: list[Column], parts: int, progress: Progress) -> _Sources:
    """Choose rows of units over their bound, and number the rows of all people, part by part: a part fits into memory.

    Where there are several parts, each is written into the copy when it is ready, in an order of its own: no statement
    needs memory for more than one part, and the time that is left follows from the parts that are done.
    """
    unit, lossy = unit_column(table), build.policy.budget.truncation is not None
    if unit is None:
        lost = truncation_loss_sql(build, columns, None, "TRUE") if lossy else None
        return _Sources(_each_row(build, columns), None, lost)
    if are_read_again(build, table, columns):
        stage_units_over_bound(build, table)
        choose_again(build, table, columns)
        cut = cut_of_people(build, table, columns, unit) if lossy else None
        return _Sources(_numbered(build, table, columns, "TRUE"), cut=cut, lost=removed_of_people(build, table))
    _find_crowded(build, table, columns, parts)
    found, repeated = dict[str, str](), repeat_places(build.dialect, table, columns)
    for part in range(parts):
        build.drop(["chosen"])
        here = "TRUE" if parts == 1 else f"r.part = {part}"
        build.create_table_as(build.stage("chosen"), _chosen(build, table, columns, part, here))
        build.drop(repeat_tables(repeated))
        # where all rows are drawn, all are chosen
        drawn = "FALSE" if rows_in_sampling_order(table) else here
        stage_repeats(build, repeated, in_order_of(build.dialect, columns), drawn, f"NOT {_crowded(build)}")
        found["bounded"] = _numbered(build, table, columns, here)
        found["counts"] = select("id, count(*) AS n", build.stage("chosen"), group_by="id")
        if lossy:
            found["cut"] = truncation_loss_sql(build, columns, unit, here)
        if parts > 1:
            progress(f"sort {100 * part // parts} %", table.name)
            _write(build, table, columns, found.pop("bounded"), append=part > 0)
            for name, query in found.items():
                build.create_table_as(build.stage(f"{name}{part}"), query)
    if parts > 1:
        found = {name: union_all(select("*", build.stage(f"{name}{part}")) for part in range(parts)) for name in found}
    return _Sources(found.get("bounded"), found["counts"], found.get("cut"), is_written=parts > 1)


def _find_crowded(build: Building, table: Table, columns: list[Column], parts: int) -> None:
    """Write down who has too many rows; who has depends on their own rows alone."""
    unique = [number_sql(column, f"c{at}") for at, column in enumerate(columns) if column.unique]
    most, rows, dialect = most_rows(table), build.stage("rows"), build.dialect
    crowds = [select("id", rows, group_by="id", having=f"count(*) > {most}")]
    if isinstance(table.unit, UnitColumn):  # their rows have been counted
        crowds = [select("id", build.stage("units"), where=f"u IS NOT NULL AND n > {most}")]
    if rows_in_sampling_order(table):  # each question keeps fewer, so the order of all people's rows is drawn
        crowds = [select("DISTINCT id", rows)]
    crowds += [
        select("id", rows, where=f"{key} IS NOT NULL", group_by=f"id, {key}", having="count(*) > 1") for key in unique
    ]
    # what a person's draws begin with is written once for all their rows
    parted = bounding_of(dialect, ByWindow).rank_partitions
    part = "0" if parts == 1 or parted is None else parted.part("id", parts)
    own = ["id", f"{dialect.id_text('id')} || '#' AS own", f"{part} AS part"]
    build.create_table_as(build.stage("crowded"), select(own, subquery(" UNION ".join(crowds), "c")))


def _crowded(build: Building) -> str:
    """Return the condition that a row `r` belongs to a unit over its bound."""
    return exists(f"{build.stage('crowded')} AS c", "c.id = r.id")


def _chosen(build: Building, table: Table, columns: list[Column], part: int, here: str) -> str:
    """Return the query for the places of the rows that are kept and their ranks, among the people of one part."""
    unique = [f"c{at}" for at, column in enumerate(columns) if column.unique]
    dialect, most, place = build.dialect, most_rows(table), bounding_of(build.dialect, ByWindow).row_locator
    values = [(f"r.c{at}", kind_of(column)) for at, column in enumerate(columns)]
    names = ["place", "id", *unique]
    listed = [f"r.{place} AS place", "r.id AS id", *(f"r.{name} AS {name}" for name in unique)]
    # Equal rows are told apart by a number, so that each of n rows has the same chance; which of them has which number
    # does not matter, because they are equal. Where losses are kept, what bounds took from them may differ: it decides.
    lost = [f"o{at}" for at in tracked(build, columns)]
    listed += [f"r.{name} AS {name}" for name in lost]
    draws = select(
        [*listed, f"{row_hash('c.own', values, dialect)} AS first"],
        f"{build.stage('rows')} AS r JOIN {build.stage('crowded')} AS c ON c.id = r.id",
        where=[f"c.part = {part}", here],
    )
    number = dialect.row_number(["id", "first"], [f"{name} NULLS LAST" for name in lost])
    chosen = select([*names, "first", f"{number} AS nth"], subquery(draws, "d"))
    chosen = select([*names, f"{rehash_duplicate('first', 'nth', dialect)} AS draw"], subquery(chosen, "d"))
    for key in (number_sql(column, f"c{at}") for at, column in enumerate(columns) if column.unique):
        once = dialect.row_number(["id", key], ["draw"])
        chosen = select([*names, "draw", f"{once} AS once"], subquery(chosen, "d"))
        chosen = select([*names, "draw"], subquery(chosen, "o"), where=f"{key} IS NULL OR once = 1")
    rank = dialect.row_number(["id"], ["draw"])
    ranked = select(f"place, id, CAST({rank} AS {dialect.rank_type}) AS nth", subquery(chosen, "d"))
    return select("place, id, nth", subquery(ranked, "n"), where=f"nth <= {most}")


def _numbered(build: Building, table: Table, columns: list[Column], here: str) -> str:
    """Return the query for the rows of one part that are kept, with their numbers within a person.

    Hidden columns number them, so that a statement can keep to the bound that it was priced for without counting: RANK,
    and for each unique column the rows that hold the same value. Where only some groups of a person count, the values
    of each key are numbered, too, and the first row with a value says how many have it; and beside columns that
    quantiles are asked of stands in how many rows of the person they have a value. Where questions choose caps, a row
    says at which of them it counts. A row's numbers depend on the same person's rows alone.
    """
    dialect = build.dialect
    repeated = repeat_places(dialect, table, columns)
    within = [*in_order_of(dialect, columns), *([_place(dialect)] if repeated else [])]  # as firsts were found
    order = f" ORDER BY {', '.join(within)}" if within else ""
    over = f"PARTITION BY r.id{order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    number = f"row_number() OVER ({over})"
    if are_read_again(build, table, columns):
        chosen = f"{build.stage('chosen')} AS r"
        few = "FALSE" if rows_in_sampling_order(table) else f"n <= {most_rows(table)}"  # all units within their bound
        people = subquery(select("u, id", build.stage("units"), where=["u IS NOT NULL", few]))
        others = subquery(rows_of(build, table, columns, people), "r")
    else:
        rows = build.stage("rows")
        chosen = f"{rows} AS r JOIN {build.stage('chosen')} AS c ON {_place(dialect)} = c.place WHERE {here}"
        others = f"{rows} AS r{joined_repeats(build, repeated)} WHERE {here} AND NOT {_crowded(build)}"
    # those who had too many rows were ranked when they were chosen
    ranked = [(others, f"CAST({number} AS {dialect.rank_type})"), (chosen, "nth")]
    repeats = [repeats_of_rows(dialect, repeated), repeats_of_chosen(dialect, repeated)]
    return numbered_rows(dialect, table, columns, unit_column(table), ranked, over=over, repeats=repeats)


def _place(dialect: Dialect) -> str:
    """Return what tells rows r apart that are written down."""
    return f"r.{bounding_of(dialect, ByWindow).row_locator}"


def _each_row(build: Building, columns: list[Column]) -> str:
    """Return the query for rows each of which is a person."""
    names = [f"c{at} AS {build.dialect.quote_identifier(column.name)}" for at, column in enumerate(columns)]
    return select(names or f"c0 AS {build.dialect.quote_identifier(LONE)}", f"{build.stage('rows')} AS r")


def hidden_columns(dialect: Dialect, table: Table) -> list[str]:
    """Return the columns of a private table of the copy that number its rows within a person."""
    return [] if unit_column(table) is None else list(numbers(dialect, table, _kept_columns(table), []))


def _written_names(build: Building, table: Table, columns: list[Column]) -> list[str]:
    """Return the columns of a table of the copy in their order, hidden ones last."""
    dialect, unit = build.dialect, unit_column(table)
    names = [column.name for column in columns]
    if unit is not None:
        hidden = [*hidden_columns(dialect, table), *together_in_one_pass(build, table, columns)]
        names = [unit, *names, *hidden]
    return [dialect.quote_identifier(name) for name in names or [LONE]]


def _write(build: Building, table: Table, columns: list[Column], rows: str | None, *, append: bool = False) -> None:
    """Write the rows in an order that tells nothing but what they hold.

    Declared keys come first, then people; the rank tells the rows of one person apart, so no other value is compared.
    Where each row is a person, rows are in the order of all their columns.
    """
    dialect, unit = build.dialect, unit_column(table)
    names = [dialect.quote_identifier(column.name) for column in columns]
    first = _sort_keys(columns)
    order = [sortable(dialect, columns[at], names[at]) for at in first]
    if unit is None:
        order += [sortable(dialect, column, names[at]) for at, column in enumerate(columns) if at not in first]
    elif dialect.stored_by_unit:  # the rows of one person were sorted when they were numbered
        order = [dialect.quote_identifier(unit)]
    else:
        order += map(dialect.quote_identifier, (unit, RANK))
    number = None
    if unit is None and dialect.numbers_rows:
        number = f"{dialect.row_number([], order)} AS {dialect.quote_identifier(NUMBER)}"
    names = _written_names(build, table, columns)
    if append and rows is not None:
        build.append_rows(build.copy_relation(table.name), _in_order(build, rows, names, order))
    else:
        _put_of_parts(build, table, table.name, rows, names, order, number)


def _put_of_parts(
    build: Building,
    table: Table,
    name: str,
    rows: str | None,
    names: list[str],
    order: list[str],
    number: str | None = None,
) -> None:
    """Write a table of the copy in order: the rows computed now, and the earlier copy's rows of all other people.

    Where the table was carried over, only the rows of people with new rows are written, after the others.
    """
    if build.is_carried_over(target := build.copy_relation(name)):
        if (unit := unit_column(table)) is not None and build.new_files(table.name) and had_rows(build, table):
            build.delete_rows(target, _is_read_again(build, f"{target}.{build.dialect.quote_identifier(unit)}"))
        if rows is not None:
            build.append_rows(target, _in_order(build, rows, names, order))
        return
    found = [] if rows is None else [select(names, subquery(rows, "n"))]
    if build.new_files(table.name) is not None:
        found.append(select(names, _carried(build, table, name)))
    by = f" {build.dialect.order_by_clause} {', '.join(order)}" if order else ""
    written = select(names if number is None else [*names, number], subquery(union_all(found), "kept") + by)
    build.create_table_as(target, written)


def _in_order(build: Building, rows: str, names: list[str], order: list[str]) -> str:
    """Return the query for rows in the order in which they are written."""
    by = f" {build.dialect.order_by_clause} {', '.join(order)}" if order else ""
    return select(names, subquery(rows, "kept") + by)


def _carried(build: Building, table: Table, name: str) -> str:
    """Return the FROM items for the rows of the earlier copy that stay: those of people without new rows."""
    unit, before = unit_column(table), f"{build.before(name)} AS b"
    if unit is None or not build.new_files(table.name) or not had_rows(build, table):
        return before
    return f"{before} WHERE NOT {_is_read_again(build, f'b.{build.dialect.quote_identifier(unit)}')}"


def _is_read_again(build: Building, person: str) -> str:
    """Return the condition that a person has new rows."""
    return exists(f"{build.stage('units')} AS u", f"u.id = {person}")


def _write_removed(build: Building, table: Table, unit: str, sources: _Sources) -> None:
    """Write down for each person who has too many rows how many were left out: it can be asked like any other table.

    A person's number is a function of that person's rows, as the rows are that were chosen.
    """
    rows, quoted, found = build.stage("rows"), build.dialect.quote_identifier, sources.lost
    if sources.counts is not None:
        had = select("r.id AS id, count(*) AS n", f"{rows} AS r", where=_crowded(build), group_by="r.id")
        if isinstance(table.unit, UnitColumn):  # their rows have been counted
            had = select("r.id AS id, r.n AS n", f"{build.stage('units')} AS r", where=_crowded(build))
        both = f"{subquery(had, 'h')} LEFT JOIN {subquery(sources.counts, 'k')} ON h.id = k.id"
        build.create_table_as(build.stage("lost"), select("h.id AS id, h.n - coalesce(k.n, 0) AS n", both))
        found = select("id, n", build.stage("lost"))
    lost = None
    if found is not None:
        count = f"CAST(least(n, {most_removed(table)}) AS {build.dialect.bigint})"
        listed = [f"id AS {quoted(unit)}", f"{count} AS {quoted(REMOVED_ROWS)}"]
        lost = select(listed, subquery(found, "f"), where="n > 0")
    names = [quoted(unit), quoted(REMOVED_ROWS)]
    _put_of_parts(build, table, table.name + REMOVED, lost, names, names[:1])


def _account_for_every_row(build: Building, table: Table) -> None:
    """Refuse a copy in which a row got lost: rows read = rows kept + rows removed + rows without an owner.

    A row that had several owners would be counted for each of them, and the sums differ. Where rows only arrived, these
    are the rows of the people concerned, and the others of the copy before are all there.
    """
    read, kept, unit = build.read[table.name], count_rows(build, build.copy_relation(table.name)), unit_column(table)
    arrived = build.new_files(table.name)
    if arrived is not None:
        kept -= count_rows(build, _carried(build, table, table.name))
    if arrived == ():
        require_all(table, read == kept == 0)
        return
    if unit is None:
        require_all(table, read == count_rows(build, build.stage("rows")) == kept)
        return
    if in_one_pass(build, table):
        require_all(table, all_accounted_for(build, table, _kept_columns(table), unit, kept))
        return
    owned = staged = rows_with_owners(build, table)
    lost = select("*", build.stage("lost"))
    if are_read_again(build, table, _kept_columns(table)):
        lost = removed_of_people(build, table)
    else:
        staged = count_rows(build, build.stage("rows"))
    ((removed,),) = build.rows(select("coalesce(sum(n), 0)", subquery(lost, "l")))
    require_all(table, read == rows_named(build, table) and owned == staged == kept + removed)


def count_rows(build: Building, relation: str) -> int:
    """Return how many rows there are: for the invariant, and never shown to anybody."""
    ((found,),) = build.rows(select("count(*)", relation))
    return int(found)


def require_all(table: Table, whole: bool) -> None:
    """Refuse a table of which not every row is accounted for."""
    if not whole:
        raise BadSource(
            f"tables.{table.name}: not every row of the source was accounted for.",
            "Every row must be kept, removed by rows_per_unit, or without a person; here the sums differ.",
            (
                "Take the snapshot again when no program is writing to the source. If it happens again, report it as "
                "a defect."
            ),
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
