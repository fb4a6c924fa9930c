"""Values that become NULL, written so that nesting them costs no more than their number.

The engine writes `nullif(x, y)` out with x twice. Nested, the work would double at every step: 30 of them, which anyone
may type, would never end. What holds such a form already is named once instead.
"""

_ONCE = "named_once"
"""The name inside a form. Columns of generated statements are qualified or named otherwise."""


def null_if(sql: str, unwanted: str) -> str:
    """Return a value, or NULL where it equals another."""
    if _is_nested(sql):
        return _named(sql, f"CASE WHEN {_ONCE} = {unwanted} THEN NULL ELSE {_ONCE} END")
    return f"nullif({sql}, {unwanted})"


def finite(sql: str) -> str:
    """Return a double, or NULL where it is infinite or no number."""
    if _is_nested(sql):
        return _named(sql, f"CASE WHEN isfinite({_ONCE}) THEN {_ONCE} END")
    return f"nullif(nullif(nullif({sql}, 'inf'::DOUBLE), '-inf'::DOUBLE), 'nan'::DOUBLE)"


def _is_nested(sql: str) -> bool:
    return "nullif(" in sql or _ONCE in sql


def _named(sql: str, form: str) -> str:
    return f"list_transform([{sql}], lambda {_ONCE}: {form})[1]"
