"""Types of catalogue queries: their names, and how a value of one becomes one of another."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from sfumato.query.array_text import array_items
from sfumato.server.wire import oids
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

INTEGERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.XID8})
NUMBERS = INTEGERS | {oids.FLOAT4, oids.FLOAT8, oids.NUMERIC}
NAMED_OID_TYPES = frozenset(
    {oids.REGCLASS, oids.REGTYPE, oids.REGPROC, oids.REGNAMESPACE, oids.REGROLE, oids.REGPROCEDURE}
)
NAMED_OID_TYPES |= {oids.REGOPER, oids.REGCOLLATION}
TEXTS = frozenset({oids.TEXT, oids.NAME, oids.VARCHAR, oids.BPCHAR, oids.CHAR, oids.UNKNOWN})
TYPE_NAMES = {
    "bool": oids.BOOL,
    "boolean": oids.BOOL,
    "bytea": oids.BYTEA,
    '"char"': oids.CHAR,
    "name": oids.NAME,
    "int8": oids.INT8,
    "bigint": oids.INT8,
    "int2": oids.INT2,
    "smallint": oids.INT2,
    "int4": oids.INT4,
    "int": oids.INT4,
    "integer": oids.INT4,
    "int2vector": oids.INT2VECTOR,
    "oidvector": oids.OIDVECTOR,
    "text": oids.TEXT,
    "oid": oids.OID,
    "xid": oids.XID,
    "json": oids.JSON,
    "jsonb": oids.JSONB,
    "float4": oids.FLOAT4,
    "real": oids.FLOAT4,
    "float8": oids.FLOAT8,
    "float": oids.FLOAT8,
    "double precision": oids.FLOAT8,
    "unknown": oids.UNKNOWN,
    "bpchar": oids.BPCHAR,
    "character": oids.BPCHAR,
    "char": oids.BPCHAR,
    "varchar": oids.VARCHAR,
    "character varying": oids.VARCHAR,
    "date": oids.DATE,
    "timestamp": oids.TIMESTAMP,
    "timestamp without time zone": oids.TIMESTAMP,
    "timestamptz": oids.TIMESTAMPTZ,
    "timestamp with time zone": oids.TIMESTAMPTZ,
    "interval": oids.INTERVAL,
    "numeric": oids.NUMERIC,
    "decimal": oids.NUMERIC,
    "regclass": oids.REGCLASS,
    "regtype": oids.REGTYPE,
    "regproc": oids.REGPROC,
    "regprocedure": oids.REGPROCEDURE,
    "regnamespace": oids.REGNAMESPACE,
    "regrole": oids.REGROLE,
    "regoper": oids.REGOPER,
    "regcollation": oids.REGCOLLATION,
    "uuid": oids.UUID,
    "cstring": oids.CSTRING,
    "void": oids.VOID,
    "trigger": oids.TRIGGER,
    # of information_schema
    "sql_identifier": oids.NAME,
    "character_data": oids.VARCHAR,
    "yes_or_no": oids.VARCHAR,
    "cardinal_number": oids.INT4,
    "time_stamp": oids.TIMESTAMPTZ,
}
_DEFAULTS = {oids.INT2: 5, oids.INT4: 6, oids.INT8: 7}
_INTEGER = re.compile(r"\s*[+-]?\d{1,20}\s*", re.ASCII)


def type_number(name: str) -> int:
    """Return the number of a type by its name, or refuse it."""
    plain = " ".join(name.lower().split()).removeprefix("pg_catalog.").removeprefix("information_schema.")
    array = plain.endswith("[]") or (plain.startswith("_") and plain[1:] in TYPE_NAMES)
    inner = re.sub(r"\s*\(\s*\d+(\s*,\s*\d+)?\s*\)", "", plain.removesuffix("[]").removeprefix("_" if array else ""))
    found = TYPE_NAMES.get(inner)
    if found is None:
        raise WireError("42704", f'type "{name[:63]}" does not exist')
    return oids.ARRAYS.get(found, oids.ARRAYS[oids.TEXT]) if array else found


def is_array(oid: int) -> bool:
    """Whether a value of this type is a list."""
    return oid in oids.ELEMENTS


def cast_value(value: Any, source: int, target: int, numbers: Callable[[int, str], int | None]) -> Any:
    """Return a value as another type; `numbers` looks up names such as those of tables."""
    if value is None or source == target:
        return value
    try:
        return _cast(value, source, target, numbers)
    except (ValueError, InvalidOperation, OverflowError, TypeError):
        raise WireError("22P02", "A value cannot be read as the type that it is cast to.") from None


def _cast(value: Any, source: int, target: int, numbers: Callable[[int, str], int | None]) -> Any:
    if is_array(target):
        return _as_array(value, target, numbers)
    if target in NAMED_OID_TYPES:
        return _as_named(value, target, numbers)
    if target in INTEGERS:
        if isinstance(value, str) and not _INTEGER.fullmatch(value):
            raise ValueError
        return int(value)
    if target in (oids.FLOAT4, oids.FLOAT8):
        return float(value)
    if target == oids.NUMERIC:
        return value if isinstance(value, int) and not isinstance(value, bool) else _as_numeric(str(value))
    if target == oids.BOOL:
        return _as_bool(value)
    if target == oids.DATE:
        return (
            value.date()
            if isinstance(value, datetime)
            else value
            if isinstance(value, date)
            else date.fromisoformat(value)
        )
    if target in (oids.TIMESTAMP, oids.TIMESTAMPTZ):
        return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if target == oids.INTERVAL:
        return value if isinstance(value, timedelta) else timedelta(0)
    if source == oids.BOOL:
        return "true" if value else "false"
    text = value if isinstance(value, str) else (text_of(value, source) or b"").decode()
    return text[:63] if target == oids.NAME else text[:1] if target == oids.CHAR else text


def _as_numeric(text: str) -> Decimal:
    value = Decimal(text[:100])
    if not value.is_finite() or abs(value.adjusted()) > 1000:
        raise ValueError
    return value


def _as_bool(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("t", "true", "y", "yes", "on", "1"):
            return True
        if word in ("f", "false", "n", "no", "off", "0"):
            return False
        raise ValueError
    return bool(value)


def _as_array(value: Any, target: int, numbers: Callable[[int, str], int | None]) -> list[Any]:
    element = oids.ELEMENTS[target]
    if isinstance(value, str):
        text = value.strip()
        if target in (oids.INT2VECTOR, oids.OIDVECTOR):
            return [int(word) for word in text.split()]
        if not (text.startswith("{") and text.endswith("}")):
            raise ValueError
        value = array_items(text)
    return [None if item is None else cast_value(item, oids.UNKNOWN, element, numbers) for item in value]


def _as_named(value: Any, target: int, numbers: Callable[[int, str], int | None]) -> int:
    if not isinstance(value, str):
        return int(value)
    if value.isascii() and value.isdigit():
        return int(value)
    if value == "-":
        return 0
    found = numbers(target, value)
    if found is None:
        kind = {oids.REGCLASS: "relation", oids.REGTYPE: "type", oids.REGNAMESPACE: "schema", oids.REGROLE: "role"}
        state = {oids.REGCLASS: "42P01", oids.REGTYPE: "42704", oids.REGNAMESPACE: "3F000"}.get(target, "42883")
        raise WireError(state, f'{kind.get(target, "object")} "{value[:63]}" does not exist')
    return found
