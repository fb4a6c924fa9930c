"""In how many rows of a person a value of an undeclared key is, written beside it: so people are counted without ids.

Nearly all pairs of a person and a value occur once, so that only the others are written down and looked up. The first
of such rows, in the order in which a person's rows are numbered, says how many there are, and the others say 0. It is a
function of the person's rows alone, as their numbers are.  Proof: proofs/lineage.md §6
"""

from collections.abc import Sequence

from sfumato.engines.build_catalog import multiplied_keys
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.dialect import ByWindow, Dialect, bounding_of
from sfumato.policy.policy import Column, Table


def repeat_places(dialect: Dialect, table: Table, columns: Sequence[Column]) -> list[int]:
    """Return the places of the columns of which rows say it; none where an engine does not write it down."""
    if not isinstance(dialect.bounding, ByWindow) or dialect.bounding.pair_hash is None:
        return []
    names = {column.name for column in multiplied_keys(table)}
    return [at for at, column in enumerate(columns) if column.name in names]


def repeat_tables(places: Sequence[int]) -> list[str]:
    """Return the names of the intermediate tables of values that a person has several times."""
    return [f"{name}{at}" for at in places for name in ("repeated", "first")]


def stage_repeats(build: Building, places: Sequence[int], order: Sequence[str], here: str, few: str) -> None:
    """Write down the rows r whose value their person has several times: how many the first says, and 0 the others.

    These are the rows of one part, `here`, of people who have not too many rows, `few`. A hash finds the rows that may
    be such, and the values decide: equal ones have equal hashes.
    """
    bounding, rows = bounding_of(build.dialect, ByWindow), f"{build.stage('rows')} AS r"
    if bounding.pair_hash is None:
        return
    for at in places:
        found, place, pair = build.stage(f"repeated{at}"), f"r.{bounding.row_locator}", ["r.id", f"r.c{at}"]
        hashed = bounding.pair_hash(*pair)
        present = [here, f"r.c{at} IS NOT NULL"]
        hashes = select(f"{hashed} AS h", rows, where=present)
        build.create_table_as(found, select("h", subquery(hashes, "p"), group_by="h", having="count(*) > 1"))
        number = build.dialect.row_number(pair, [*order, place])
        times = f"count(*) OVER (PARTITION BY {', '.join(pair)})"
        numbered = select(
            [f"{place} AS place", f"{times} AS n", f"{number} AS nth"],
            f"{rows} JOIN {found} AS d ON d.h = {hashed}",
            where=[*present, few],
        )
        firsts = select("place, CASE WHEN nth = 1 THEN n ELSE 0 END AS n", subquery(numbered, "f"), where="n > 1")
        build.create_table_as(build.stage(f"first{at}"), firsts)


def joined_repeats(build: Building, places: Sequence[int]) -> str:
    """Return what follows rows r in FROM, so that `repeats_of_rows` finds what was written down."""
    place = bounding_of(build.dialect, ByWindow).row_locator
    return "".join(f" LEFT JOIN {build.stage(f'first{at}')} AS f{at} ON f{at}.place = r.{place}" for at in places)


def repeats_of_rows(dialect: Dialect, places: Sequence[int]) -> list[str]:
    """Return the columns of rows r of people who have not too many: a value that is not written down is there once."""
    return [f"CAST(coalesce(f{at}.n, 1) AS {dialect.rank_type}) AS a{at}" for at in places]


def repeats_of_chosen(dialect: Dialect, places: Sequence[int]) -> list[str]:
    """Return the columns of rows r that were chosen, by their ranks `nth`; a NULL equals no other."""
    found = []
    for at in places:
        number = dialect.row_number(["r.id", f"r.c{at}"], ["nth"])
        several = f"CASE WHEN {number} = 1 THEN count(*) OVER (PARTITION BY r.id, r.c{at}) ELSE 0 END"
        found.append(f"CAST(CASE WHEN r.c{at} IS NULL THEN 1 ELSE {several} END AS {dialect.rank_type}) AS a{at}")
    return found
