"""The other case of every letter, one character for one: the table that every engine follows."""

from functools import cache

import duckdb


@cache
def letters(name: str) -> tuple[str, str]:
    """Return every letter beyond ASCII whose other case is another one, and those: as DuckDB knows them."""
    codes = "(FROM range(128, 55296) UNION ALL FROM range(57344, 1114112))"
    every = f"SELECT chr(CAST(range AS INTEGER)) AS c FROM {codes}"  # noqa: S608
    query = f"SELECT c, {name}(c) FROM ({every}) WHERE c <> {name}(c)"  # noqa: S608
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchall()
    return "".join(one for one, _ in found), "".join(other for _, other in found)
