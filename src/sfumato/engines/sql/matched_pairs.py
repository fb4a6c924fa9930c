"""The pairs of people and values that a count of distinct values has to look at: the others are served in any case.

The number of rows of a person is bounded. So values of many rows have many owners, and can all be served, whatever
serves the rest: they are only counted. Most columns have no other values, and then no pair is formed.
Proof: proofs/matching.md, 3
"""

from collections.abc import Sequence

from sfumato.engines.sql.builder import select, subquery, union_all, with_tables
from sfumato.engines.sql.dialect import Dialect


def matched_pairs_sql(
    rows: str, keys: Sequence[str], owner: str, max_rows: int, dialect: Dialect, *, once: bool
) -> str:
    """Return the statement of values that are matched to people: keys, person, value, own, how many.

    `rows` is a query for keys, `owner` and `val`, none of them NULL; one person has at most `max_rows` of them. It is
    read twice, or `once` if it is costly.

    A row without a person stands for a number of values that are always served (own = 0), or for a number of people who
    each have `own` values that no other person has. A row with a person says that this person has this value, which
    others have too, and `own` more values. Person and value are given as numbers.
    """
    cell = f"PARTITION BY {', '.join(keys)} " if keys else ""
    number = dialect.row_number([], [])  # merely distinct, and shorter than what it stands for
    source = "seen" if once else subquery(rows, "seen")

    def joined(left: str, right: str, *names: str, alias: str = "") -> str:
        same = " AND ".join(f"{alias or left}.{name} = {right}.{name}" for name in (*keys, *names))
        return f"{left} JOIN {right} ON {same or 'TRUE'}"

    def of(table: str, *columns: str) -> list[str]:
        return [*(f"{table}.{key}" for key in keys), *columns]

    def below(column: str) -> str:
        """How many values are in an earlier row of the cell."""
        return f"sum(times) OVER ({cell}ORDER BY {column}) - times AS before"

    room = dialect.floor_divide("count(*)", f"CAST({max_rows} AS {dialect.bigint})")
    # the values from here on are served, whatever serves the others: by their owners one after the other, or by Hall
    first = f"coalesce(min(CASE WHEN owners >= {max_rows} + before THEN owners - 1 END), max(owners))"
    few = f"least(max(CASE WHEN owners < before + times THEN owners ELSE 0 END), {first}) AS few"
    own = "sum(CASE WHEN owners = 1 THEN 1 ELSE 0 END) AS own"
    tables = {
        "rated": select([*keys, "val", f"{room} AS room"], source, group_by=[*keys, "val"]),
        "sizes": select([*keys, "room", "count(*) AS times"], "rated", group_by=[*keys, "room"]),
        "ordered": select([*keys, "room", below("room")], "sizes"),
        "bar": select([*keys, "min(CASE WHEN room > before THEN room END) AS bar"], "ordered", group_by=keys),
        "rest": select(
            of("rated", "rated.val"), joined("rated", "bar"), where="(bar.bar IS NULL OR rated.room < bar.bar)"
        ),
        "pairs": select(
            f"DISTINCT {', '.join(of('rest', owner, 'rest.val'))}", joined(source, "rest", "val", alias="seen")
        ),
        "owned": select([*keys, "val", "count(*) AS owners"], "pairs", group_by=[*keys, "val"]),
        "counts": select([*keys, "owners", "count(*) AS times"], "owned", group_by=[*keys, "owners"]),
        "placed": select([*keys, "owners", "times", below("owners")], "counts"),
        "least_owners": select([*keys, few], "placed", group_by=keys),
        "rare": select(
            of("owned", "owned.val", "owned.owners", f"{number} AS number"),
            joined("owned", "least_owners"),
            where="owned.owners <= least_owners.few",
        ),
        "scarce": select(of("pairs", f"pairs.{owner}", "rare.number", "rare.owners"), joined("pairs", "rare", "val")),
        "people": select([*keys, owner, own, "max(owners) AS farthest"], "scarce", group_by=[*keys, owner]),
        "several": select([*keys, owner, "own", f"{number} AS person"], "people", where="farthest > 1"),
        "shared": select(
            of("scarce", "several.person", "scarce.number AS val", "several.own"),
            joined("scarce", "several", owner),
            where="scarce.owners > 1",
        ),
    }

    def always_served(table: str, beside: str, condition: str) -> str:
        counted = of(table, "NULL", "NULL", "0", f"sum({table}.times)")
        return select(counted, joined(table, beside), where=condition, group_by=of(table))

    counted = [
        select([*keys, "person", "val", "own", "1 AS times"], "shared"),
        select([*keys, "NULL", "NULL", "own", "count(*)"], "people", where="own > 0", group_by=[*keys, "own"]),
        always_served("counts", "least_owners", "counts.owners > least_owners.few"),
        always_served("sizes", "bar", "sizes.room >= bar.bar"),
    ]
    return with_tables({"seen": rows, **tables} if once else tables, union_all(counted))
