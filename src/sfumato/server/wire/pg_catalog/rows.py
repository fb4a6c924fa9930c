"""Functions of catalogue queries that give rows."""

from typing import Any

from sfumato.server.wire.pg_catalog.compiled import CatalogRow, Execution
from sfumato.server.wire.sqlstates import WireError

MAX_SERIES = 100_000
"""Maximum number of rows of a function that gives rows."""
_KEYWORDS: tuple[str, ...] = (
    "analyse",
    "analyze",
    "asc",
    "deferrable",
    "desc",
    "do",
    "freeze",
    "ilike",
    "initially",
    "isnull",
    "limit",
)
_KEYWORDS += ("notnull", "offset", "placing", "returning", "variadic", "verbose")
_PAIR = ("option_name", "option_value")
EMPTY_SETS = frozenset({"aclexplode", "pg_partition_ancestors"})
"""Functions that give no rows: no relation here has a list of rights, or is a partition."""
LISTS: dict[str, tuple[tuple[str, ...], list[CatalogRow]]] = {
    "pg_get_keywords": (("word", "catcode", "catdesc"), [(word, "R", "reserved") for word in _KEYWORDS]),
    "pg_options_to_table": (_PAIR, []),
    "pg_listening_channels": (("pg_listening_channels",), []),
    "pg_get_publication_tables": (("relid",), []),
    "aclexplode": (("grantor", "grantee", "privilege_type", "is_grantable"), []),
}
"""Functions that give rows which never differ."""


def series(name: str, values: list[Any], run: Execution) -> list[Any]:
    """Return the rows of a function that gives several."""
    if name in EMPTY_SETS or any(value is None for value in values):
        return []
    if name in ("unnest", "generate_subscripts"):
        if not values or not isinstance(values[0], list):
            raise WireError("42883", f"{name} needs an array")
        if name == "unnest":
            return list(values[0])
        return list(range(1, len(values[0]) + 1)) if len(values) < 2 or values[1] == 1 else []
    if len(values) not in (2, 3) or not all(isinstance(value, int) for value in values):
        raise WireError("42883", "generate_series needs two or three integers")
    step = values[2] if len(values) > 2 else 1
    series = range(values[0], values[1] + (1 if step > 0 else -1), step or 1)
    if len(series) > MAX_SERIES:
        raise WireError("54000", "A series has too many values.", f"The limit is {MAX_SERIES:,}.", "Use fewer.")
    run.spend(len(series))
    return list(run.made(list(series)))
