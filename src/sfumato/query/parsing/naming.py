"""Name output columns without an alias, as PostgreSQL does."""

from sqlglot import exp

from sfumato.query.parsing.reading import name_of
from sfumato.query.parsing.types import TYPES

NAMELESS = "?column?"


def output_name(node: exp.Expr) -> str:
    """Return the name of a column that has no alias."""
    return _name_and_strength(node)[0]


def _name_and_strength(node: exp.Expr) -> tuple[str, bool]:
    """Return a name, and whether it is strong enough to show through a cast or CASE around it."""
    match node:
        case exp.Paren() | exp.Filter() | exp.WithinGroup() | exp.Window():
            return _name_and_strength(node.this)
        case exp.Column():
            return str(name_of(node.this)), True
        case exp.Anonymous():
            return str(node.this.this if isinstance(node.this, exp.Expr) else node.this).lower(), True
        case exp.Cast():
            name, strong = _name_and_strength(node.this)
            kind = TYPES.get(node.args["to"].this)
            return (name, True) if strong or kind is None else (kind[1], False)
        case exp.Case():
            default = node.args.get("default")
            name, strong = _name_and_strength(default) if default is not None else (NAMELESS, False)
            return (name, True) if strong else ("case", False)
        case exp.Trim():
            names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
            return names.get(str(node.args.get("position") or "").upper(), "btrim"), True
    fixed = _FIXED_NAMES.get(type(node))
    return (fixed, fixed not in {"bool", "interval"}) if fixed else (NAMELESS, False)


_FIXED_NAMES: dict[type[exp.Expr], str] = {
    exp.Boolean: "bool",
    exp.Interval: "interval",
    exp.Extract: "extract",
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.If: "if",
}
