"""Calls in the spelling of BigQuery and Snowflake, as the calls here that mean the same."""

from sqlglot import exp

from sfumato.query.functions import UNITS
from sfumato.query.parsing.other_systems import PER_ROW

_OTHER_NAMES = {"anon_count": "count", "anon_sum": "sum"}
TRUNCATIONS = frozenset({"date_trunc", "datetime_trunc", "timestamp_trunc"})
"""Functions that take a unit of time as a bare word."""
_ISO = {"isoweek": "week"}
SUNDAY_WEEKS = frozenset({"week", "isoyear"})
"""Units whose beginning is another one in BigQuery."""


def write_other_names(tree: exp.Expr) -> None:
    """Write the calls of other systems in a tree as ours, in place."""
    for node in list(tree.find_all(exp.Anonymous)):
        name = str(node.this).lower() if not isinstance(node.this, exp.Expr) else ""
        if name in _OTHER_NAMES:
            node.set("this", _OTHER_NAMES[name])
        if name in TRUNCATIONS:
            _truncation(node)
        _bounds_per_row(node)


def unit_name(node: exp.Expr | None) -> str | None:
    """Return the unit of time that a bare word spells; of WEEK(MONDAY), `isoweek`."""
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "week" and len(node.expressions) == 1:
        day = _bare_word(node.expressions[0])
        return "isoweek" if day == "monday" else "week"
    word = _bare_word(node)
    return word if word in {*UNITS, "isoweek", "isoyear"} else None


def _bare_word(node: exp.Expr | None) -> str | None:
    if not isinstance(node, exp.Column) or node.args.get("table") is not None or node.this.args.get("quoted"):
        return None
    return str(node.name).lower()


def _truncation(node: exp.Anonymous) -> None:
    """DATE_TRUNC(x, MONTH) of BigQuery and DATE_TRUNC(MONTH, x) of Snowflake are date_trunc('month', x)."""
    if len(node.expressions) != 2:
        return
    first, second = node.expressions
    if (unit := unit_name(second)) is not None and not isinstance(first, exp.Literal):
        if unit in SUNDAY_WEEKS:
            return  # refused by name
        value = first
    elif (unit := unit_name(first)) is not None and unit not in _ISO and unit != "isoyear":
        value = second
    else:
        return
    spelled = exp.Literal.string(_ISO.get(unit, unit))
    spelled.meta.update(node.meta)
    node.set("this", "date_trunc")
    node.set("expressions", [spelled, value])


def _bounds_per_row(node: exp.Anonymous) -> None:
    """SUM(x, contribution_bounds_per_row => (0, 10)) is SUM(LEAST(GREATEST(x, 0), 10))."""
    ends = bounds_of(node, PER_ROW)
    if ends is None or len(node.expressions) != 2 or isinstance(node.expressions[0], exp.Star | exp.Distinct):
        return
    clipped = _call("least", [_call("greatest", [node.expressions[0], ends[0]]), ends[1]])
    for part in clipped.walk(prune=lambda part: "last" in part.meta):
        part.meta.update({key: value for key, value in node.meta.items() if key not in part.meta})
    node.set("expressions", [clipped])


def bounds_of(node: exp.Expr, name: str) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the two ends of a call's named argument."""
    for part in node.expressions:
        if isinstance(part, exp.Kwarg) and str(part.this.name).lower() == name:
            ends = part.expression
            if isinstance(ends, exp.Tuple) and len(ends.expressions) == 2:
                return ends.expressions[0], ends.expressions[1]
    return None


def _call(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=arguments)
