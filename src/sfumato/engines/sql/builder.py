"""SQL statements from their clauses. Names and values in them are quoted by the dialect: nothing here quotes."""

from collections.abc import Iterable, Mapping

Pieces = str | Iterable[str]
"""One piece of SQL, or several: what a clause lists."""


def select(
    columns: Pieces,
    source: str = "",
    *,
    where: Pieces = (),
    group_by: Pieces = (),
    having: str = "",
    order_by: Pieces = (),
    limit: int | None = None,
    offset: int | None = None,
) -> str:
    """Return a SELECT of columns from what stands after FROM; a clause that lists nothing is left out.

    Conditions are joined by AND: one with OR stands alone, or in parentheses.

    >>> select(["dept", "count(*) AS n"], "visits", where=["age > 3", "dept IS NOT NULL"], group_by="dept")
    'SELECT dept, count(*) AS n FROM visits WHERE age > 3 AND dept IS NOT NULL GROUP BY dept'
    """
    conditions = _pieces(where)
    clauses = {
        "SELECT": ", ".join(_pieces(columns)),
        "FROM": source,
        "WHERE": " AND ".join(conditions),
        "GROUP BY": ", ".join(_pieces(group_by)),
        "HAVING": having,
        "ORDER BY": ", ".join(_pieces(order_by)),
        "LIMIT": "" if limit is None else str(limit),
        "OFFSET": "" if offset is None else str(offset),
    }
    # DuckDB would read a statement that begins with FROM as one of all columns
    if not clauses["SELECT"] or not all(conditions):
        raise AssertionError("a SELECT lists what it selects, and a condition says something")
    return " ".join(f"{keyword} {clause}" for keyword, clause in clauses.items() if clause)


def subquery(query: str, alias: str = "") -> str:
    """Return a query as it stands after FROM, under a name.

    >>> select("count(*)", subquery(select("id", "visits"), "v"))
    'SELECT count(*) FROM (SELECT id FROM visits) AS v'
    """
    return f"({query}) AS {alias}" if alias else f"({query})"


def with_tables(tables: Mapping[str, str], query: str) -> str:
    """Return a query over named ones, each of which may read those before it.

    >>> with_tables({"few": select("id", "visits", limit=3)}, select("count(*)", "few"))
    'WITH few AS (SELECT id FROM visits LIMIT 3) SELECT count(*) FROM few'
    """
    return f"WITH {', '.join(f'{name} AS ({table})' for name, table in tables.items())} {query}"


def exists(source: str, *where: str) -> str:
    """Return whether there is a row of `source` that meets conditions."""
    return f"EXISTS ({select('1', source, where=where)})"


def union_all(queries: Iterable[str]) -> str:
    """Return the rows of all queries."""
    return " UNION ALL ".join(queries)


def aliased(columns: Mapping[str, str]) -> list[str]:
    """Return columns under names: SQL by name."""
    return [f"{sql} AS {name}" for name, sql in columns.items()]


def create_table_as(relation: str, query: str) -> str:
    """Return the statement that writes the rows of a query into a new table."""
    return f"CREATE TABLE {relation} AS {query}"


def insert(relation: str, values: Iterable[str]) -> str:
    """Return the statement that adds one row."""
    return f"INSERT INTO {relation} VALUES ({', '.join(values)})"  # noqa: S608


def insert_select(relation: str, query: str) -> str:
    """Return the statement that adds the rows of a query."""
    return f"INSERT INTO {relation} {query}"


def delete(relation: str, where: str) -> str:
    """Return the statement that removes the rows which meet a condition."""
    return f"DELETE FROM {relation} WHERE {where}"  # noqa: S608


def _pieces(listed: Pieces) -> tuple[str, ...]:
    return (listed,) if isinstance(listed, str) else tuple(listed)
