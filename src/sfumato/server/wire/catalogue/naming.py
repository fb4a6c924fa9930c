"""What PostgreSQL calls a column that has no alias."""

from sqlglot import exp

from sfumato.server.wire.catalogue.trees import identifier, type_name

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
            inner = output_name(node.this)
            return type_name(node.args["to"]).split(".")[-1].split("(")[0] if inner == "?column?" else inner
        case exp.Paren() | exp.Collate() | exp.Bracket() | exp.Window() | exp.Filter():
            return output_name(node.this)
        case exp.Subquery():
            return _of_query(node.this)
    return _KINDS.get(type(node).__name__, "?column?")


def _of_query(node: exp.Expr) -> str:
    return output_name(node.expressions[0]) if isinstance(node, exp.Select) and node.expressions else "?column?"
