"""How the engine keeps one value of a column of numbers without a type of its own, until it is read."""

from sfumato.engines.sql.names import quoted

UNITED = "UNION(integer BIGINT, floating DOUBLE, text VARCHAR)"
"""An integer, a floating-point number, or a text that is read as CSV is."""
MEMBERS = ("integer", "floating", "text")


def united(name: str) -> str:
    """Return the SQL that makes one value of the three of `NUMBER`; none is NULL."""
    column = quoted(name)
    members = (
        f"WHEN {column}.{member} IS NOT NULL THEN union_value({member} := {column}.{member})::{UNITED}"
        for member in MEMBERS
    )
    return f"CASE {' '.join(members)} END"
