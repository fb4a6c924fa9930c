"""Readers of a node of sqlglot's tree: names, types and numbers."""

from decimal import Decimal

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.sqlstates import WireError


def number(text: str) -> tuple[int | Decimal, int]:
    """Return a number as it is written, and its type: an integer where it fits, a bigint, or a numeric."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text), oids.INT4 if int(text) < 1 << 31 else oids.INT8
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise WireError("42601", "a number cannot be read") from None
    if len(text) > 60 or abs(value.adjusted()) > 100:
        raise WireError("22003", "a number is out of range")
    return value, oids.NUMERIC


def identifier(node: exp.Expr) -> str:
    """Return the name that an identifier spells, folded unless it is quoted."""
    name = str(node.this if isinstance(node, exp.Identifier) else node.name)
    return name if isinstance(node, exp.Identifier) and node.args.get("quoted") else name.lower()


def type_name(node: exp.Expr) -> str:
    """Return the name of a type as it is written."""
    if isinstance(node, exp.DataType):
        if node.this == exp.DType.ARRAY and node.expressions:
            return f"{type_name(node.expressions[0])}[]"
        if node.this == exp.DType.USERDEFINED:
            kind = node.args.get("kind")
            return str(kind.sql(dialect="postgres") if isinstance(kind, exp.Expr) else kind)
        value = node.this.value if isinstance(node.this, exp.DType) else str(node.this)
        return {"TIMESTAMPTZ": "timestamptz", "CHAR": "bpchar"}.get(value, value.lower())
    return str(node.this).lower()


def refused(node: exp.Expr) -> WireError:
    """Refuse what is not known here, by name."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(node).__name__).strip()
    return WireError("0A000", f"{words} is not supported in questions about the catalogue.")
