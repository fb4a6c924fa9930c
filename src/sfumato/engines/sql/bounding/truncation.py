"""Truncation losses of caps and bounds, person by person: a table of the copy that only `budget.truncation` reads.

Theorem: the row of a person is a function of the salt and of that person's own rows.
Proof: proofs/truncation.md
"""

from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.column import number_sql
from sfumato.engines.sql.dialect import ByWindow, Dialect, bounding_of
from sfumato.planning.bounding.truncation import (
    ABOVE,
    BELOW,
    CLIPPED_ROWS,
    MAX_LOSS_STEPS,
    REMOVED_FROM,
    is_clipped,
    sums_can_be_clipped,
)
from sfumato.policy.policy import Column

_HALF_WORD = 1 << 32


def clipped_columns(columns: list[Column]) -> list[tuple[int, Column]]:
    """Return the columns whose values are moved to bounds, by their places."""
    return [(at, column) for at, column in enumerate(columns) if is_clipped(column)]


def tracked(build: Building, columns: list[Column]) -> list[int]:
    """Return the places of the columns of which the stage also holds what they were before their bounds."""
    return [] if build.policy.budget.truncation is None else [at for at, _ in clipped_columns(columns)]


def cut_columns(build: Building, columns: list[Column], unit: str | None) -> list[tuple[str, str]]:
    """Return the columns of the table of losses, and their types."""
    types = [(name, build.dialect.bigint) for name in _losses(build.dialect, columns)]
    return types if unit is None else [(unit, build.dialect.id_type), *types]


def truncation_loss_sql(build: Building, columns: list[Column], unit: str | None, here: str) -> str:
    """Return the query for the losses of each person in one part who lost something, one row each.

    The rows of the stage hold c0, c1, … as they are kept and o0, o1, … as they were before their bounds.
    """
    dialect, clipped = build.dialect, clipped_columns(columns)
    kept = "TRUE" if unit is None else f"(NOT {_is_crowded(build)} OR c.place IS NOT NULL)"
    listed = [
        f"{kept} AS kept",
        *(f"{number_sql(column, f'r.c{at}')} AS c{at}, r.o{at} AS o{at}" for at, column in clipped),
    ]
    joined = ""
    if unit is not None:
        listed.insert(0, "r.id AS id")
        joined = f" LEFT JOIN {build.stage('chosen')} AS c ON r.{bounding_of(dialect, ByWindow).row_locator} = c.place"
    rows = f"SELECT {', '.join(listed)} FROM {build.stage('rows')} AS r{joined} WHERE {here}"  # noqa: S608
    lost = f"SELECT * FROM ({rows}) AS a WHERE NOT kept OR {_moved(clipped)}"  # noqa: S608
    losses = _losses(dialect, columns)
    named = [
        f"{_total(dialect, sql, alone=unit is None)} AS {dialect.quote_identifier(name)}"
        for name, sql in losses.items()
    ]
    if unit is not None:
        named.insert(0, f"id AS {dialect.quote_identifier(unit)}")
    return f"SELECT {', '.join(named)} FROM ({lost}) AS l{'' if unit is None else ' GROUP BY id'}"  # noqa: S608


def sums_of(build: Building, columns: list[Column], rows: int) -> dict[str, str]:
    """Return sums over the rows of a person from which losses follow, by their names; there are at most `rows` rows.

    n: the rows; beyond: those that a bound moved. Of every number within its bounds s: all of it, t: what is below
    zero; and of what bounds moved x: how far from above, y: from below, b: how much more was below zero before.
    """
    dialect, wide, filtered = build.dialect, build.dialect.wide, build.dialect.filtered
    found = {"n": "count(*)", "beyond": filtered("count(*)", _moved(clipped_columns(columns)))}
    for at, column in _lossy(build, columns):
        if column.grid is None:
            raise AssertionError("it has bounds")
        largest = max(abs(column.grid.least), abs(column.grid.greatest))
        # sums of short integers are long ones, which are added quicker than wide ones; here they cannot overflow
        inside = f"({number_sql(column, f'c{at}')})"
        kept = f"CAST({inside} AS integer)" if largest < 1 << 31 and largest * rows < MAX_LOSS_STEPS else inside
        value, moved = f"CAST({_value(column, at)} AS {wide})", f"o{at} IS DISTINCT FROM {inside}"
        found[f"s{at}"] = f"sum({kept})"
        found[f"t{at}"] = f"sum(greatest(-{kept}, 0))" if column.grid.least < 0 else f"CAST(0 AS {dialect.bigint})"
        found[f"x{at}"] = filtered(f"sum(greatest({value} - {inside}, 0))", moved)
        found[f"y{at}"] = filtered(f"sum(greatest({inside} - {value}, 0))", moved)
        found[f"b{at}"] = filtered(f"sum(greatest(-{value}, 0) - greatest(-{inside}, 0))", moved)
    return found


def cut_by_sums(build: Building, columns: list[Column], unit: str, people: str, kept: str) -> str:
    """Return the query for the losses of each person who lost something, one row each.

    `people` and `kept` are relations of ids and `sums_of` all rows and the kept ones. The losses are what all rows
    have and kept ones have not, on either side of zero, and what bounds took from kept ones.
    """
    quoted = build.dialect.quote_identifier
    losses = {REMOVED_FROM: "p.n - k.n", CLIPPED_ROWS: "k.beyond"}
    for at, column in _lossy(build, columns):
        all_above, kept_above = _above(f"p.{{}}{at}"), _above(f"k.{{}}{at}")
        all_below, kept_below = _below(f"p.{{}}{at}"), _below(f"k.{{}}{at}")
        losses[ABOVE + column.name] = f"{all_above} - ({kept_above}) + coalesce(k.x{at}, 0)"
        losses[BELOW + column.name] = f"{all_below} - ({kept_below}) + coalesce(k.y{at}, 0)"
    named = [f"{_at_most(build.dialect, sql)} AS {quoted(name)}" for name, sql in losses.items()]
    return (
        f"SELECT p.id AS {quoted(unit)}, {', '.join(named)} FROM {people} AS p JOIN {kept} AS k ON p.id = k.id "  # noqa: S608
        f"WHERE p.n > k.n OR k.beyond > 0"
    )


def _below(name: str) -> str:
    """Return how much some rows have below zero before bounds: `name` is how one of their sums is named."""
    return " + ".join(f"coalesce({name.format(letter)}, 0)" for letter in "tb")


def _above(name: str) -> str:
    """Return how much they have above zero: all of it, and what is below."""
    whole = " + ".join(f"coalesce({name.format(letter)}, 0)" for letter in "sx")
    return f"{_below(name)} + {whole} - coalesce({name.format('y')}, 0)"


def lost_of_all(build: Building, columns: list[Column]) -> dict[str, str]:
    """Return the sums over a person's rows that are lost if none of these is kept: a0, b0, … above and below zero.

    Empty where no losses are kept.
    """
    found: dict[str, str] = {}
    for at, column in _lossy(build, columns):
        value = _value(column, at)
        found[f"a{at}"] = _wide_sum(build.dialect, f"greatest({value}, 0)")
        found[f"b{at}"] = f"-({_wide_sum(build.dialect, f'least({value}, 0)')})"
    return found


def losses_avoided(build: Building, columns: list[Column], most: int, key: str) -> dict[str, str]:
    """Return what the kept rows `r` of a person `key`, at most `most`, spare them, by the names of losses.

    And how many of them were moved to a bound. Empty where no losses are kept.
    """
    if build.policy.budget.truncation is None:
        return {}
    found = {CLIPPED_ROWS: (f"CASE WHEN {_moved(clipped_columns(columns))} THEN 1 ELSE 0 END", build.dialect.bigint)}
    for at, column in _lossy(build, columns):
        grid, value = column.grid, _value(column, at)
        if grid is None:
            raise AssertionError("it has bounds")
        narrow = max(abs(grid.least), abs(grid.greatest)) * max(most, 2) < MAX_LOSS_STEPS
        # a kept row spares no more than its value within bounds
        kind = build.dialect.bigint if narrow else build.dialect.wide
        value, inside = f"CAST({value} AS {kind})", f"({number_sql(column, f'c{at}')})"
        found[ABOVE + column.name] = (f"greatest({value}, 0) - greatest({value}, {inside}) + {inside}", kind)
        found[BELOW + column.name] = (f"least({value}, {inside}) - least({value}, 0) - {inside}", kind)
    return {
        name: f"CAST(sum(CAST(coalesce({sql}, 0) AS {kind})) OVER (PARTITION BY r.{key}) AS {kind})"
        for name, (sql, kind) in found.items()
    }


def cut_in_all(build: Building, columns: list[Column], unit: str, people: str, firsts: str) -> str:
    """Return the query for the losses of each person who lost something, one row each.

    They are what a person would lose if no row were kept, minus what the kept rows avoid. `people` is a relation
    of ids, numbers of rows n and `lost_of_all`; `firsts` one of ids, numbers of kept rows and `losses_avoided`.
    """
    quoted = build.dialect.quote_identifier
    losses = {REMOVED_FROM: "p.n - k.kept", CLIPPED_ROWS: f"k.{quoted(CLIPPED_ROWS)}"}
    for at, column in _lossy(build, columns):
        for letter, name in (("a", ABOVE + column.name), ("b", BELOW + column.name)):
            losses[name] = f"p.{letter}{at} - k.{quoted(name)}"
    named = [f"{_at_most(build.dialect, sql)} AS {quoted(name)}" for name, sql in losses.items()]
    return (
        f"SELECT p.id AS {quoted(unit)}, {', '.join(named)} FROM {people} AS p JOIN {firsts} AS k ON p.id = k.id "  # noqa: S608
        f"WHERE p.n > k.kept OR k.{quoted(CLIPPED_ROWS)} > 0"
    )


def _losses(dialect: Dialect, columns: list[Column]) -> dict[str, str]:
    """Return what one row loses, by the name of the column that it is written to."""
    clipped = clipped_columns(columns)
    amounts = {
        REMOVED_FROM: "CASE WHEN kept THEN 0 ELSE 1 END",
        CLIPPED_ROWS: f"CASE WHEN kept AND ({_moved(clipped)}) THEN 1 ELSE 0 END",
    }
    for at, column in clipped:
        if sums_can_be_clipped(column):
            amounts |= _amounts(dialect, column, at)
    return amounts


def _moved(clipped: list[tuple[int, Column]]) -> str:
    """Return whether bounds moved a value of a row."""
    return " OR ".join(f"o{at} IS DISTINCT FROM ({number_sql(column, f'c{at}')})" for at, column in clipped) or "FALSE"


def _is_crowded(build: Building) -> str:
    return f"EXISTS (SELECT 1 FROM {build.stage('crowded')} AS w WHERE w.id = r.id)"  # noqa: S608


def _lossy(build: Building, columns: list[Column]) -> list[tuple[int, Column]]:
    """Return the columns of which losses are kept, by their places."""
    return [(at, columns[at]) for at in tracked(build, columns) if sums_can_be_clipped(columns[at])]


def _value(column: Column, at: int) -> str:
    """Return a value before its bounds; values beyond 64 bits count as the farthest ones."""
    if column.grid is None:
        raise AssertionError("it has bounds")
    inside = number_sql(column, f"c{at}")
    farthest = f"CASE WHEN ({inside}) = {column.grid.greatest} THEN {MAX_LOSS_STEPS} ELSE {-MAX_LOSS_STEPS} END"
    return f"CASE WHEN o{at} IS NULL AND c{at} IS NOT NULL THEN {farthest} ELSE o{at} END"


def _amounts(dialect: Dialect, column: Column, at: int) -> dict[str, str]:
    """Return what one row loses above and below: of a kept one what its bounds take, of a removed one all of it."""
    over = f"CAST({_value(column, at)} AS {dialect.wide}) - CASE WHEN kept THEN c{at} ELSE 0 END"
    return {
        ABOVE + column.name: f"coalesce(greatest({over}, 0), 0)",
        BELOW + column.name: f"coalesce(greatest(-({over}), 0), 0)",
    }


def _wide_sum(dialect: Dialect, value: str) -> str:
    """Return the sum of 64-bit integers: of their halves, because adding wide integers one by one takes long."""
    high, low = dialect.floor_divide(f"({value})", str(_HALF_WORD)), f"({value}) % {_HALF_WORD}"
    return f"CAST(sum({high}) AS {dialect.wide}) * {_HALF_WORD} + sum({low})"


def _total(dialect: Dialect, sql: str, *, alone: bool) -> str:
    whole = f"CAST({sql} AS {dialect.wide})" if alone else f"sum(CAST({sql} AS {dialect.wide}))"
    return _at_most(dialect, whole)


def _at_most(dialect: Dialect, sql: str) -> str:
    return f"CAST(least({sql}, {MAX_LOSS_STEPS}) AS {dialect.bigint})"
