"""Bounding that reads rows from the source twice instead of storing them: for units over their bound, and for others.

A unit over its bound keeps the rows with the least draws. Most of its other rows are dropped where they are read. A
person with n rows has enough draws below a known share of all draws, so the least ones are among them. The statements
use groups, not windows, and divide the people into parts: the server gives each part to another process.

Proof: proofs/bounded_copy.md §3
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from sfumato.engines.build_catalog import most_rows, rows_in_sampling_order
from sfumato.engines.sql.bounding.row_ranks import kind_of
from sfumato.engines.sql.bounding.truncation import cut_by_sums, sums_of, tracked
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.column import beyond
from sfumato.engines.sql.dialect import ByTwoScans, bounding_of
from sfumato.engines.sql.sampling_order import rehash_duplicate, row_hash
from sfumato.engines.sql.staging import rows_of
from sfumato.policy.policy import Column, Table

PARTS = 3
"""Number of parts of the people in which rows are drawn: the server's default number of processes per query."""
MIN_ROWS_IN_PARTS = 200_000
"""With fewer rows, starting processes takes longer than they save."""


def expected_hashes_needed(most: int) -> int:
    """Return below how many of a person's draws, on average, as many as are kept are missing next to never.

    The number of draws there is binomial; that fewer than `most` are has probability below 10^-7 [Chernoff]. Were it
    so, the rows would be chosen again without this.
    """
    return most + 6 * isqrt(most) + 16


def stage_units_over_bound(build: Building, table: Table) -> None:
    """Write down who has too many rows, with a number in the order of ids, and below which draw theirs are enough."""
    dialect, most = build.dialect, most_rows(table)
    many = "u IS NOT NULL" if rows_in_sampling_order(table) else f"u IS NOT NULL AND n > {most}"
    moved = "FALSE" if build.policy.budget.truncation is None else "beyond > 0"
    listed = [
        *("u", "id", "n", f"{dialect.id_text('id')} || '#' AS own"),
        f"CAST({dialect.row_number([], ['id'])} AS {dialect.rank_type}) AS number",
        f"{bounding_of(dialect, ByTwoScans).hash_cutoff(expected_hashes_needed(most), 'n')} AS below",
        f"{moved} AS moved",
    ]
    found = f"SELECT {', '.join(listed)} FROM {build.stage('units')} WHERE {many}"  # noqa: S608
    build.create_table_as(build.stage("crowded"), f"SELECT *, number % {PARTS} AS part FROM ({found}) AS c")  # noqa: S608


def choose_again(build: Building, table: Table, columns: list[Column]) -> None:
    """Write down the rows that units over their bound keep, with their ranks, and what they were before clipping."""
    crowded, chosen = build.stage("crowded"), build.stage("chosen")
    ((expected, rows, moved),) = build.rows(
        f"SELECT coalesce(sum(least(n, {most_rows(table)})), 0), coalesce(sum(n), 0), "  # noqa: S608
        f"coalesce(sum(CASE WHEN moved THEN n END), 0) FROM {crowded}"
    )
    groups = _groups(tracked(build, columns), int(rows), int(moved))
    build.create_table_as(chosen, _chosen(build, table, columns, groups, "below"))
    ((found,),) = build.rows(f"SELECT count(*) FROM {chosen}")  # noqa: S608
    if found != expected:  # a person has fewer draws below the share than rows to keep
        build.drop(["chosen"])
        build.create_table_as(chosen, _chosen(build, table, columns, groups, None))


@dataclass(frozen=True, slots=True)
class _Group:
    """People whose rows are drawn together: `who` they are, in how many parts, and whose values before bounds matter.

    If bounds moved no value of a person, all values are as they were before, so nothing tells equal rows apart.
    """

    who: str
    parts: int
    free: Sequence[int]


def _groups(free: Sequence[int], rows: int, moved: int) -> list[_Group]:
    """Return groups of units over their bound, by numbers of rows, and by whether some value of theirs was clipped."""
    if not free or moved == 0:
        return [_Group("TRUE", _parts(rows), ())]
    if 2 * moved > rows:  # every part reads all of the source
        return [_Group("TRUE", _parts(rows), free)]
    return [_Group("NOT moved", _parts(rows - moved), ()), _Group("moved", _parts(moved), free)]


def removed_of_people(build: Building, table: Table) -> str:
    """Return the query for how many rows each person loses: `choose_again` has seen that the others keep as many."""
    most = most_rows(table)
    return f"SELECT id, n - {most} AS n FROM {build.stage('units')} WHERE u IS NOT NULL AND n > {most}"  # noqa: S608


def cut_of_people(build: Building, table: Table, columns: list[Column], unit: str) -> str:
    """Return the query for what each person loses: sums over all rows were taken when people were counted.

    A person within the bound keeps all rows, so these sums are also those of the kept rows.
    """
    sums, most = sums_of(build, columns, build.read[table.name]), most_rows(table)
    people, names = f"SELECT * FROM {build.stage('units')} WHERE u IS NOT NULL", ", ".join(sums)  # noqa: S608
    many = f"SELECT r.* FROM {build.stage('chosen')} AS r JOIN {build.stage('crowded')} AS c ON r.id = c.id"  # noqa: S608
    named = ", ".join(f"{sql} AS {name}" for name, sql in sums.items())
    kept = (
        f"SELECT id, {named} FROM ({many} WHERE c.n > {most}) AS r GROUP BY id "  # noqa: S608
        f"UNION ALL SELECT id, {names} FROM ({people}) AS f WHERE n <= {most} AND beyond > 0"
    )
    return cut_by_sums(build, columns, unit, f"({people})", f"({kept})")


def _parts(rows: int) -> int:
    return PARTS if rows >= MIN_ROWS_IN_PARTS else 1


def _chosen(build: Building, table: Table, columns: list[Column], groups: Sequence[_Group], below: str | None) -> str:
    """Return the query for the rows that are kept and their ranks; without `below`, of all draws."""
    dialect, most = build.dialect, most_rows(table)
    names = [f"c{at}" for at in range(max(len(columns), 1))] + [f"o{at}" for at in tracked(build, columns)]
    listed = ", ".join(["number", *names])
    found = " UNION ALL ".join(_drawn(build, table, columns, group, below) for group in groups)
    among = "TRUE" if below is None else f"draw <= {below}"
    rank = dialect.row_number(["number"], ["draw"])
    ranked = f"SELECT {listed}, {rank} AS nth FROM ({found}) AS l WHERE {among}"  # noqa: S608
    kept = ", ".join(["c.id AS id", *(f"n.{name} AS {name}" for name in names)])
    kept += f", CAST(n.nth AS {dialect.rank_type}) AS nth"
    return (
        f"SELECT {kept} FROM ({ranked}) AS n JOIN {build.stage('crowded')} AS c ON n.number = c.number "  # noqa: S608
        f"WHERE n.nth <= {most}"
    )


def _drawn(build: Building, table: Table, columns: list[Column], group: _Group, below: str | None) -> str:
    """Return the query for the rows of a group of people that may be kept, with their draws."""
    values, lost = [f"c{at}" for at in range(max(len(columns), 1))], [f"o{at}" for at in group.free]
    names = ", ".join(["number", "below", *values, *lost])
    found = " UNION ALL ".join(_different(build, table, columns, group, part, below) for part in range(group.parts))
    # each of equal rows has a draw of its own, so that each of n rows has the same chance
    nth = bounding_of(build.dialect, ByTwoScans).repeat_row("m")
    rows = f"SELECT {names}, first, {nth} AS nth FROM ({found}) AS g"  # noqa: S608
    if lost:  # equal rows may differ before their bounds, which is kept: that order decides
        number = build.dialect.row_number(["number", "first"], [f"{name} NULLS LAST" for name in lost])
        rows = f"SELECT {names}, first, {number} AS nth FROM ({rows}) AS e"  # noqa: S608
    same = [f"c{at} AS o{at}" for at in tracked(build, columns) if at not in group.free]
    listed = ", ".join([names, *same, f"{rehash_duplicate('first', 'nth', build.dialect)} AS draw"])
    return f"SELECT {listed} FROM ({rows}) AS d"  # noqa: S608


def _different(
    build: Building, table: Table, columns: list[Column], group: _Group, part: int, below: str | None
) -> str:
    """Return the query for the different rows of people of a part, m of each, that may be kept.

    Those may that come first, and those of which there are several, because the others have draws of their own. What
    was before bounds tells equal rows apart here, so that those on a bound are all let through. Rows are sorted by
    their draws first: the server compares those by their first bytes, and need not look at the rows.
    """
    dialect, who = build.dialect, group.who if group.parts == 1 else f"{group.who} AND part = {part}"
    people = f"(SELECT * FROM {build.stage('crowded')} WHERE {who})"  # noqa: S608
    values = [(f"r.c{at}", kind_of(column)) for at, column in enumerate(columns)]
    named, lost = [f"c{at}" for at in range(max(len(columns), 1))], [f"o{at}" for at in group.free]
    read = rows_of(build, table, columns, people, ["own", "number", "below"])
    keys = ", ".join(["first", "number", "below", *lost])
    first = f"{row_hash('r.own', values, dialect)} AS first"
    listed = ", ".join(["r.number", "r.below", first, *named, *lost])
    may = ["TRUE"] if below is None else [f"first <= {below}", "count(*) > 1"]
    for at in group.free:
        grid = beyond(columns[at]).grid
        if grid is None:
            raise AssertionError("it has bounds")
        may.append(f"min(c{at}) IN ({grid.least}, {grid.greatest})")
    found = ", ".join([keys, "count(*) AS m", *(f"min({name}) AS {name}" for name in named)])
    drawn = f"SELECT {listed} FROM ({read}) AS r"  # noqa: S608
    return f"SELECT {found} FROM ({drawn}) AS d GROUP BY {keys} HAVING {' OR '.join(may)}"  # noqa: S608
