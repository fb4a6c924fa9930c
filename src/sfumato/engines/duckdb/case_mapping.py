"""The other case of every letter, one character for one: the table that every engine follows."""

from functools import cache

import duckdb

from sfumato.engines.sql.builder import select, subquery


@cache
def letters(name: str) -> tuple[str, str]:
    """Return every letter beyond ASCII whose other case is another one, and those: as DuckDB knows them."""
    codes = "(FROM range(128, 55296) UNION ALL FROM range(57344, 1114112))"
    every = subquery(select("chr(CAST(range AS INTEGER)) AS c", codes))
    query = select(f"c, {name}(c)", every, where=f"c <> {name}(c)")
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchall()
    return "".join(letter for letter, _ in found), "".join(other for _, other in found)
