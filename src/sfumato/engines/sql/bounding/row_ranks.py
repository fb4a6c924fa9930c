"""The numbers that a row of the copy has within its person, each a function of that person's rows alone.

They let a statement keep to the bounds that it was priced for without counting; proofs/lineage.md §6.
"""

from collections.abc import Mapping, Sequence

from sfumato.engines.build_catalog import (
    counted_columns,
    facts_of,
    levelled_columns,
    most_rows,
    numbered_keys,
    stores_bound_index,
    sum_of,
    summed_columns,
)
from sfumato.engines.sql.bounding.person_numbers import STAGED_NUMBER, numbers_people
from sfumato.engines.sql.bounding.value_repeats import repeat_places
from sfumato.engines.sql.column import key_sql, number_sql
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import (
    LEVEL,
    OWN,
    PERSON,
    RANK,
    duplicate_rank_column,
    first_bound_column,
    last_bound_column,
    level_name,
    running_total_column,
    value_count_column,
    value_multiplicity_column,
    value_rank_column,
)
from sfumato.engines.sql.sampling_order import sampling_order_sql
from sfumato.language.facts import Kind
from sfumato.planning.bounding.candidates import candidate_thresholds
from sfumato.policy.policy import Column, Table


def kind_of(column: Column) -> Kind:
    """Return the kind of a column in the copy, where truth values are integers."""
    kind = facts_of(column).kind
    return Kind.INTEGER if kind is Kind.BOOLEAN else kind


def in_order_of(dialect: Dialect, columns: list[Column]) -> list[str]:
    """Return the order of rows by all their values."""
    return [sortable(dialect, column, f"c{at}") for at, column in enumerate(columns)]


def numbered_rows(
    dialect: Dialect,
    table: Table,
    columns: list[Column],
    unit: str | None,
    ranked: Sequence[tuple[str, str]],
    key: str = "id",
    over: str | None = None,
    together: Mapping[str, str] | None = None,
    repeats: Sequence[Sequence[str]] = (),
) -> str:
    """Return the query for rows as the copy has them, with their numbers within a person.

    `ranked` holds what stands after FROM, rows `r`, and the rank of each of them; `key` tells people apart. `over` is
    the window of the first rank, if it takes all rows of a person: then these are counted in it, too, in one go.
    `together` are numbers that all rows of a person have in common: the first of them holds these, by their names.
    `repeats` are columns of each of the ranked rows: see `value_repeats`.
    """
    together = together or {}
    quoted, within = dialect.quote_identifier, in_order_of(dialect, columns)
    names = [f"id AS {quoted(unit or '')}"]
    names += [f"c{at} AS {quoted(column.name)}" for at, column in enumerate(columns)]
    names += [f"{sql} AS {quoted(name)}" for name, sql in numbers(dialect, table, columns, within, key).items()]
    names += [f"CASE WHEN nth = 1 THEN t{at} END AS {quoted(name)}" for at, name in enumerate(together)]
    found = [f"r.{name}" for name in dict.fromkeys([key, "id", *(f"c{at}" for at in range(len(columns)))])]
    found += [f"r.{STAGED_NUMBER}"] if numbers_people(dialect, table) else []
    found += [f"{sql} AS t{at}" for at, sql in enumerate(together.values())]
    if numbered_keys(table):
        found += [
            f"{_cell_draw(dialect, key_sql(columns[at], f'r.c{at}'), columns[at])} AS d{at}"
            for at in _places(table, columns)
        ]
    own = f"PARTITION BY r.{key}"
    counted = [_counts(dialect, table, columns, own if at or over is None else over) for at in range(len(ranked))]
    counted = [[*counts, *some] for counts, some in zip(counted, repeats or [()] * len(ranked), strict=True)]
    rows = " UNION ALL ".join(
        f"SELECT {', '.join([*found, *counts])}, {rank} AS nth FROM {source}"  # noqa: S608
        for counts, (source, rank) in zip(counted, ranked, strict=True)
    )
    if running := _running(dialect, table, columns, key):
        rows = f"SELECT *, {', '.join(running)} FROM ({rows}) AS numbered"  # noqa: S608
    return f"SELECT {', '.join(names)} FROM ({rows}) AS kept"  # noqa: S608


def _running(dialect: Dialect, table: Table, columns: list[Column], key: str) -> list[str]:
    """Return what a person has of columns up to and with each row, in the order of their ranks."""
    frame, found = f"OVER (PARTITION BY {key} ORDER BY nth ROWS UNBOUNDED PRECEDING)", []
    levelled, summed = _names(levelled_columns(table)), _names(summed_columns(table))
    for at, column in enumerate(columns):
        found += [f"count(c{at}) {frame} AS m{at}"] if column.name in levelled else []
        found += (
            [f"CAST(sum({number_sql(column, f'c{at}')}) {frame} AS {dialect.bigint}) AS s{at}"]
            if column.name in summed
            else []
        )
    return found


def numbers(
    dialect: Dialect, table: Table, columns: list[Column], within: list[str], key: str = "id"
) -> dict[str, str]:
    """Return the hidden columns of a row, by their names."""
    found, keys = {RANK: "nth"}, _names(numbered_keys(table))
    counted, levelled = _names(counted_columns(table)), _names(levelled_columns(table))
    summed, repeated = _names(summed_columns(table)), repeat_places(dialect, table, columns)
    for at, column in enumerate(columns):
        if column.unique:
            found[duplicate_rank_column(column.name)] = _once(dialect, number_sql(column, f"c{at}"), within, key)
        if column.name in keys:
            found[value_rank_column(column.name)], found[value_multiplicity_column(column.name)] = _cell(
                dialect, at, column, key
            )
        if at in repeated:
            found[value_multiplicity_column(column.name)] = f"a{at}"
        if column.name in counted:
            found[value_count_column(column.name)] = f"n{at}"
        if column.name in levelled:
            index = place_sql(f"m{at}", candidate_thresholds(most_rows(table)))
            found[level_name(column.name)] = f"CASE WHEN c{at} IS NOT NULL THEN {index} END"
        if column.name in summed:
            found |= _summed(column, at, table)
    if numbers_people(dialect, table):
        found[PERSON] = STAGED_NUMBER
    if stores_bound_index(table):
        found[LEVEL] = place_sql("nth", candidate_thresholds(most_rows(table)))
    if keys:
        found[OWN] = "own"
    return found


def _names(columns: Sequence[Column]) -> frozenset[str]:
    """Return the names of columns: looking for one among them takes the same time however many a table has."""
    return frozenset(column.name for column in columns)


def _summed(column: Column, at: int, table: Table) -> dict[str, str]:
    """Return what of its column a person has before a row, and at which bounds of that sum the row's value counts."""
    before = f"s{at} - {number_sql(column, f'c{at}')}"  # NULL where the value is
    found = {running_total_column(column.name): before}
    if table.rows_chosen or column.bounds_chosen:
        amounts = candidate_thresholds(sum_of(column, table))
        first, last = place_sql(f"({before})", amounts, above=True), place_sql(f"s{at}", amounts)
        found[first_bound_column(column.name)] = f"CASE WHEN c{at} IS NOT NULL THEN {first} END"
        found[last_bound_column(column.name)] = f"CASE WHEN c{at} IS NOT NULL THEN {last} END"
    return found


def place_sql(value: str, amounts: Sequence[int], *, above: bool = False) -> str:
    """Return the place of the first of rising amounts that a number does not exceed, or which is `above` it.

    Beyond all of them it is how many they are. A few comparisons decide, however many amounts there are.
    """

    def place(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        test = f"{value} {'<' if above else '<='} {amounts[middle]}"
        return f"CASE WHEN {test} THEN {place(low, middle)} ELSE {place(middle + 1, high)} END"

    return f"CAST({place(0, len(amounts))} AS SMALLINT)"


def _places(table: Table, columns: list[Column]) -> list[int]:
    """Return the places of the columns whose values are numbered."""
    keys = _names(numbered_keys(table))
    return [at for at, column in enumerate(columns) if column.name in keys]


def sortable(dialect: Dialect, column: Column, sql: str) -> str:
    """Return a value of a column as rows are ordered by it."""
    return f"{dialect.sortable(sql, kind_of(column))} NULLS LAST"


def _counts(dialect: Dialect, table: Table, columns: list[Column], over: str) -> list[str]:
    """Return in how many rows of the same person columns have a value, and how many there are where that is needed."""
    counted = _names(counted_columns(table))
    found = [(f"r.c{at}", f"n{at}") for at, column in enumerate(columns) if column.name in counted]
    found += [("*", "own")] if numbered_keys(table) else []
    return [f"{_rows_with(dialect, value, over)} AS {name}" for value, name in found]


def _rows_with(dialect: Dialect, value: str, over: str) -> str:
    """Return in how many rows of the same person a value is not NULL."""
    return f"CAST(count({value}) OVER ({over}) AS {dialect.rank_type})"


def _once(dialect: Dialect, column: str, within: list[str], key: str) -> str:
    """Return the number of a row among those of one person that hold the same value; a NULL equals no other."""
    number = dialect.row_number([key, column], within)
    return f"CAST(CASE WHEN {column} IS NULL THEN 1 ELSE {number} END AS {dialect.rank_type})"


def _cell_draw(dialect: Dialect, value: str, column: Column) -> str:
    """Return what the cells of one person are ordered by, before the values themselves."""
    draw, *_ = sampling_order_sql("r.id", [(value, facts_of(column).kind)], dialect)
    return f"CASE WHEN {value} IS NOT NULL THEN {draw} END"


def _cell(dialect: Dialect, at: int, column: Column, key: str) -> tuple[str, str]:
    """Return the number of a value among those of one person, in the order that questions keep them; of NULL, NULL.

    And in how many rows the person has it, if this is the first of them, else 0.
    """
    value = key_sql(column, f"c{at}")
    order = f"PARTITION BY {key} ORDER BY d{at} NULLS LAST, {sortable(dialect, column, value)}"
    number = f"CASE WHEN {value} IS NOT NULL THEN dense_rank() OVER ({order}) END"
    first = f"row_number() OVER ({order}, nth) = rank() OVER ({order})"
    alike = f"count(*) OVER ({order} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"
    alike = f"CASE WHEN {first} THEN {alike} ELSE 0 END"
    return f"CAST({number} AS {dialect.rank_type})", f"CAST({alike} AS {dialect.rank_type})"
