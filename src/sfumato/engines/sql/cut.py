"""What caps and bounds cut off, person by person: a table of the copy that only `budget.truncation` reads.

Theorem: the row of a person is a function of the salt and of that person's own rows.
Proof: proofs/truncation.md
"""

from sfumato.engines.sql.building import Building
from sfumato.engines.sql.dialect import Dialect
from sfumato.planning.cut_off import ABOVE, BELOW, BEYOND, CUT, MOST_LOST, REMOVED_FROM, is_clipped, is_lossy
from sfumato.policy.policy import Column, Table


def uncut(columns: list[Column]) -> list[tuple[int, Column]]:
    """Return the columns whose values are moved to bounds, by their places."""
    return [(at, column) for at, column in enumerate(columns) if is_clipped(column)]


def write_cut(build: Building, table: Table, columns: list[Column], unit: str | None) -> list[tuple[str, str]]:
    """Write the losses of everybody who lost something, one row each; return the columns and their types.

    The rows of the stage hold c0, c1, … as they are kept and o0, o1, … as they were before their bounds.
    """
    dialect = build.dialect
    clipped = uncut(columns)
    kept = "TRUE" if unit is None else f"(NOT {_is_crowded(build)} OR c.place IS NOT NULL)"
    listed = [f"{kept} AS kept", *(f"r.c{at} AS c{at}, r.o{at} AS o{at}" for at, _ in clipped)]
    joined = ""
    if unit is not None:
        listed.insert(0, "r.id AS id")
        joined = f" LEFT JOIN {build.stage('chosen')} AS c ON r.{dialect.place} = c.place"
    rows = f"SELECT {', '.join(listed)} FROM {build.stage('rows')} AS r{joined}"  # noqa: S608
    moved = " OR ".join(f"o{at} IS DISTINCT FROM c{at}" for at, _ in clipped) or "FALSE"
    amounts = {
        REMOVED_FROM: "CASE WHEN kept THEN 0 ELSE 1 END",
        BEYOND: f"CASE WHEN kept AND ({moved}) THEN 1 ELSE 0 END",
    }
    for at, column in clipped:
        if is_lossy(column):
            amounts |= _amounts(dialect, column, at)
    lost = f"SELECT * FROM ({rows}) AS a WHERE NOT kept OR {moved}"  # noqa: S608
    named = [f"{_total(dialect, sql, alone=unit is None)} AS {dialect.quoted(name)}" for name, sql in amounts.items()]
    target, by = build.kept(table.name + CUT), ""
    if unit is not None:
        named.insert(0, f"id AS {dialect.quoted(unit)}")
        by = f" GROUP BY id {dialect.in_order} id"
    else:
        by = f" {dialect.in_order} {', '.join(str(place + 1) for place in range(len(named)))}"
    build.make(target, f"SELECT {', '.join(named)} FROM ({lost}) AS l{by}")  # noqa: S608
    types = [(name, "BIGINT") for name in amounts]
    return types if unit is None else [(unit, dialect.id_type), *types]


def _is_crowded(build: Building) -> str:
    return f"EXISTS (SELECT 1 FROM {build.stage('crowded')} AS w WHERE w.id = r.id)"  # noqa: S608


def _amounts(dialect: Dialect, column: Column, at: int) -> dict[str, str]:
    """Return what one row loses above and below: of a kept one what its bounds take, of a removed one all of it."""
    grid = column.grid
    if grid is None:
        raise AssertionError("it has bounds")
    farthest = f"CASE WHEN c{at} = {grid.greatest} THEN {MOST_LOST} ELSE {-MOST_LOST} END"  # beyond 64 bits
    value = f"CAST(CASE WHEN o{at} IS NULL AND c{at} IS NOT NULL THEN {farthest} ELSE o{at} END AS {dialect.wide})"
    over = f"{value} - CASE WHEN kept THEN c{at} ELSE 0 END"
    return {
        ABOVE + column.name: f"coalesce(greatest({over}, 0), 0)",
        BELOW + column.name: f"coalesce(greatest(-({over}), 0), 0)",
    }


def _total(dialect: Dialect, sql: str, *, alone: bool) -> str:
    whole = f"CAST({sql} AS {dialect.wide})" if alone else f"sum(CAST({sql} AS {dialect.wide}))"
    return f"CAST(least({whole}, {MOST_LOST}) AS BIGINT)"
