"""The numbers that a row of the copy has within its person, each a function of that person's rows alone.

They let a statement keep to the bounds that it was priced for without counting; proofs/lineage.md §6.
"""

from sfumato.engines.catalog_of import counted_columns, facts_of, numbered_keys
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.drawing import drawn
from sfumato.engines.sql.names import OWN, RANK, alike_name, cell_name, once_name, rows_name
from sfumato.language.facts import Kind
from sfumato.policy.policy import Column, Table


def kind_of(column: Column) -> Kind:
    """Return the kind of a column in the copy, where truth values are integers."""
    kind = facts_of(column).kind
    return Kind.INTEGER if kind is Kind.BOOLEAN else kind


def in_order_of(dialect: Dialect, columns: list[Column]) -> list[str]:
    """Return the order of rows by all their values."""
    return [sortable(dialect, column, f"c{at}") for at, column in enumerate(columns)]


def named_columns(
    dialect: Dialect, table: Table, columns: list[Column], unit: str | None, key: str = "id"
) -> tuple[str, str]:
    """Return what is selected of rows `r` to be named as the copy has it, and what that is computed of, within them.

    `key` is the column that tells people apart; `nth`, the rank of a row, is added to the second.
    """
    quoted, within = dialect.quoted, in_order_of(dialect, columns)
    names = [f"id AS {quoted(unit or '')}"]
    names += [f"c{at} AS {quoted(column.name)}" for at, column in enumerate(columns)]
    names += [f"{sql} AS {quoted(name)}" for name, sql in numbers(dialect, table, columns, within, key).items()]
    found = [f"r.{name}" for name in dict.fromkeys([key, "id", *(f"c{at}" for at in range(len(columns)))])]
    counted = [at for at, column in enumerate(columns) if column in counted_columns(table)]
    found += [f"{_rows_with(dialect, f'r.c{at}', key)} AS n{at}" for at in counted]
    if numbered_keys(table):
        found += [f"{_rows_with(dialect, '*', key)} AS own"]
        found += [f"{_cell_draw(dialect, f'r.c{at}', columns[at])} AS d{at}" for at in _places(table, columns)]
    return ", ".join(names), ", ".join(found)


def numbers(
    dialect: Dialect, table: Table, columns: list[Column], within: list[str], key: str = "id"
) -> dict[str, str]:
    """Return the hidden columns of a row, by their names."""
    found = {RANK: "nth"}
    for at, column in enumerate(columns):
        if column.unique:
            found[once_name(column.name)] = _once(dialect, f"c{at}", within, key)
        if column in numbered_keys(table):
            found[cell_name(column.name)], found[alike_name(column.name)] = _cell(dialect, at, column, key)
        if column in counted_columns(table):
            found[rows_name(column.name)] = f"n{at}"
    if numbered_keys(table):
        found[OWN] = "own"
    return found


def _places(table: Table, columns: list[Column]) -> list[int]:
    """Return the places of the columns whose values are numbered."""
    keys = numbered_keys(table)
    return [at for at, column in enumerate(columns) if column in keys]


def sortable(dialect: Dialect, column: Column, sql: str) -> str:
    """Return a value of a column as rows are ordered by it."""
    return f"{dialect.sortable(sql, kind_of(column))} NULLS LAST"


def _rows_with(dialect: Dialect, value: str, key: str) -> str:
    """Return in how many rows of the same person a value is not NULL."""
    return f"CAST(count({value}) OVER (PARTITION BY r.{key}) AS {dialect.rank_type})"


def _once(dialect: Dialect, column: str, within: list[str], key: str) -> str:
    """Return the number of a row among those of one person that hold the same value; a NULL is nobody's like."""
    number = dialect.row_number([key, column], within)
    return f"CAST(CASE WHEN {column} IS NULL THEN 1 ELSE {number} END AS {dialect.rank_type})"


def _cell_draw(dialect: Dialect, value: str, column: Column) -> str:
    """Return what the cells of one person are ordered by, before the values themselves."""
    draw, *_ = drawn("r.id", [(value, facts_of(column).kind)], dialect)
    return f"CASE WHEN {value} IS NOT NULL THEN {draw} END"


def _cell(dialect: Dialect, at: int, column: Column, key: str) -> tuple[str, str]:
    """Return the number of a value among those of one person, in the order that questions keep them; of NULL, NULL.

    And in how many rows the person has it, if this is the first of them, else 0.
    """
    value = f"c{at}"
    order = f"PARTITION BY {key} ORDER BY d{at} NULLS LAST, {sortable(dialect, column, value)}"
    number = f"CASE WHEN {value} IS NOT NULL THEN dense_rank() OVER ({order}) END"
    first = f"row_number() OVER ({order}, nth) = rank() OVER ({order})"
    alike = f"count(*) OVER ({order} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"
    alike = f"CASE WHEN {first} THEN {alike} ELSE 0 END"
    return f"CAST({number} AS {dialect.rank_type})", f"CAST({alike} AS {dialect.rank_type})"
