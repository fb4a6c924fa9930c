"""What PostgreSQL calls a column that has no alias."""

from sqlglot import exp

from sfumato.server.wire.pg_catalog.casting import type_number
from sfumato.server.wire.pg_catalog.trees import identifier, type_name
from sfumato.server.wire.pg_catalog.types import types

_KINDS = {
    "Case": "case",
    "Exists": "exists",
    "Array": "array",
    "Coalesce": "coalesce",
    "CurrentUser": "current_user",
    "SessionUser": "session_user",
    "CurrentSchema": "current_schema",
    "CurrentCatalog": "current_catalog",
    "CurrentRole": "current_role",
    "CurrentDate": "current_date",
    "CurrentTimestamp": "current_timestamp",
    "Localtimestamp": "localtimestamp",
    "Substring": "substring",
    "StrPosition": "position",
    "Trim": "btrim",
    "Extract": "extract",
    "Unnest": "unnest",
    "Boolean": "bool",
}


def output_name(node: exp.Expr) -> str:
    """Return the name of an item of a SELECT."""
    match node:
        case exp.Alias():
            return identifier(node.args["alias"])
        case exp.Column():
            return identifier(node.this)
        case exp.Anonymous():
            return str(node.this).lower()
        case exp.Dot():
            return output_name(node.expression) if not isinstance(node.expression, exp.Identifier) else identifier(
                node.expression
            )  # fmt: skip
        case exp.Cast():
            inner = node.this.unnest()
            if isinstance(inner, exp.Cast | exp.Case) or output_name(inner) in ("?column?", "bool"):
                return _type(node.args["to"])
            return output_name(inner)
        case exp.Paren() | exp.Collate() | exp.Bracket() | exp.Window() | exp.Filter():
            return output_name(node.this)
        case exp.Subquery():
            return _of_query(node.this)
    return _KINDS.get(type(node).__name__, "?column?")


def _type(node: exp.Expr) -> str:
    number = type_number(type_name(node))
    return next((str(row["typname"]) for row in types() if row["oid"] == number), "?column?")


def _of_query(node: exp.Expr) -> str:
    return output_name(node.expressions[0]) if isinstance(node, exp.Select) and node.expressions else "?column?"


def alias_of(node: exp.Expr) -> tuple[str, list[str]]:
    """Return the alias of a table, and those of its columns."""
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return "", []
    columns = alias.args.get("columns") or []
    names = [identifier(part.this if isinstance(part, exp.ColumnDef) else part) for part in columns]
    return (identifier(alias.this) if alias.this is not None else ""), names
