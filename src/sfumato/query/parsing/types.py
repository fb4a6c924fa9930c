"""The type names of a CAST become our types; a length or scale becomes what it does."""

from dataclasses import replace

from sqlglot import exp

from sfumato.query.expression import Call, Expression, Literal
from sfumato.query.functions import MAX_SCALE_DIGITS, Function
from sfumato.query.parsing.desugar.time_zones import at_time_zone, zoned_timestamp
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.parsing.tree import ARRAY_REFUSAL
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import cast
from sfumato.query.types import NUMBERS, NumberType, Type

_KIND = exp.DType

TYPES = {
    _KIND.TINYINT: (Type.INTEGER, "int2"),
    _KIND.SMALLINT: (Type.INTEGER, "int2"),
    _KIND.INT: (Type.INTEGER, "int4"),
    _KIND.BIGINT: (Type.INTEGER, "int8"),
    _KIND.INT128: (Type.INTEGER, "int8"),
    _KIND.DECIMAL: (Type.DECIMAL, "numeric"),
    _KIND.FLOAT: (Type.DECIMAL, "float4"),
    _KIND.DOUBLE: (Type.DECIMAL, "float8"),
    _KIND.BOOLEAN: (Type.BOOLEAN, "bool"),
    _KIND.DATE: (Type.DATE, "date"),
    _KIND.TIMESTAMP: (Type.TIMESTAMP, "timestamp"),
    _KIND.TIMESTAMPNTZ: (Type.TIMESTAMP, "timestamp"),
    _KIND.TIMESTAMPTZ: (Type.TIMESTAMP, "timestamptz"),
    _KIND.TEXT: (Type.TEXT, "text"),
    _KIND.VARCHAR: (Type.TEXT, "varchar"),
    _KIND.INTERVAL: (Type.INTERVAL, "interval"),
}
"""Type of each type name, and PostgreSQL's name for it."""
_OTHER_NAMES = {"int64": _KIND.BIGINT, "float64": _KIND.DOUBLE, "number": _KIND.DECIMAL, "bignumeric": _KIND.DECIMAL}
"""Type names of BigQuery and Snowflake that PostgreSQL does not have."""
_NUMBERS = {
    **dict.fromkeys((_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT), NumberType.INT4),
    **dict.fromkeys((_KIND.BIGINT, _KIND.INT128), NumberType.INT8),
    **dict.fromkeys((_KIND.FLOAT, _KIND.DOUBLE), NumberType.FLOAT8),
}


def cast_to(argument: Expression, to: exp.Expr, reading: ParseContext, place: SourceSpan) -> Expression:
    """Return the argument cast to the type that `to` names."""
    kind = _OTHER_NAMES.get(str(to.args.get("kind")).lower()) or to.this
    if kind is _KIND.ARRAY:
        raise place.unsupported(*ARRAY_REFUSAL)
    if not isinstance(to, exp.DataType) or kind not in TYPES or to.args.get("nested"):
        spelled = kind.value if isinstance(kind, _KIND) else str(kind)
        known = "integer, decimal, boolean, date, timestamp and text"
        raise place.unsupported(
            f"there is no type {spelled.lower()[:40]} here.", f"The types are {known}.", "Cast to one of them."
        )
    reading.only(to, "this", "expressions", "nested", "kind")
    type, _ = TYPES[kind]
    sizes = [_type_size(size) for size in to.expressions]
    result = zoned_timestamp(argument, place) if kind is _KIND.TIMESTAMPTZ else cast(argument, type, place)
    if type in NUMBERS:
        result = replace(result, number=_NUMBERS.get(kind, NumberType.NUMERIC))
    if not sizes:
        return result
    if kind is _KIND.DECIMAL and len(sizes) <= 2 and 1 <= sizes[0] <= 38:
        scale = sizes[1] if len(sizes) == 2 else 0
        if 0 <= scale <= MAX_SCALE_DIGITS:
            return Call(Function.ROUND, (result, Literal(scale, Type.INTEGER)), Type.DECIMAL, place.at)
    if kind is _KIND.VARCHAR and len(sizes) == 1 and sizes[0] >= 1:
        return Call(Function.LEFT, (result, Literal(sizes[0], Type.INTEGER)), Type.TEXT, place.at)
    raise place.unsupported(
        "this size of a type is not supported.",
        f"numeric(p, s) takes p up to 38 and s from 0 to {MAX_SCALE_DIGITS}, varchar(n) takes one n.",
        "Leave the size out, or use ROUND or LEFT.",
    )


def at_zone(argument: Expression, zone: exp.Expr, place: SourceSpan) -> Expression:
    """Return the argument at the time zone that `zone` names."""
    return at_time_zone(argument, zone.name if isinstance(zone, exp.Literal) else None, place)


def _type_size(size: exp.Expr) -> int:
    inner = size.this if isinstance(size, exp.DataTypeParam) else size
    digits = inner.name if isinstance(inner, exp.Literal) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1


_UNITS_WITH_DIGITS = ("year", "month", "day", "hour", "minute")


def interval_unit(interval: exp.Expr) -> str | None:
    """Return the unit beside an interval's amount, "" where the amount names it, or None where it is not spelled out.

    `INTERVAL '90' DAY (3)` is standard SQL for an amount of at most three digits.
    """
    unit, amount = interval.args.get("unit"), interval.this
    if unit is None or type(unit) is exp.Var:
        return "" if unit is None else str(unit.name)
    match unit, amount:
        case (
            exp.Anonymous(this=str(name), expressions=[exp.Literal(is_string=False, this=str(most))]),
            exp.Literal(this=str(text)),
        ) if name.lower() in _UNITS_WITH_DIGITS and most.isdecimal() and len(most) == 1:
            digits = text.strip().lstrip("+-")
            return name if digits.isdecimal() and len(digits) <= int(most) else None
    return None
