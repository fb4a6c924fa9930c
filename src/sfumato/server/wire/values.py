"""Values as PostgreSQL writes them, as text and in binary, in both directions."""

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any
from uuid import UUID

from sfumato.query.array_text import array_items
from sfumato.server.wire import oids
from sfumato.server.wire.sqlstates import WireError

_DAY = date(2000, 1, 1).toordinal()
_INSTANT = datetime(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MAX_DIGITS = 200
_INTEGER = re.compile(r"[+-]?\d{1,25}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d{1,60}(\.\d{0,60})?|\.\d{1,60})([eE][+-]?\d{1,3})?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_./:+-]+", re.ASCII)
_ZONE = re.compile(r"(?<=\d) ?(?:[+-]\d\d(?::?\d\d)?|Z)$(?<!^....-..-..)", re.ASCII)
"""A time zone at the end, which a time without one ignores, as in PostgreSQL."""
_TRUE = frozenset({"t", "true", "y", "yes", "on", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "off", "0"})
_INTEGERS = {oids.INT2: ">h", oids.INT4: ">i", oids.INT8: ">q", oids.OID: ">I"}
_UNSIGNED = (oids.REGPROC, oids.REGCLASS, oids.REGTYPE, oids.REGNAMESPACE, oids.REGROLE, oids.XID, oids.REGPROCEDURE)
_PACKED = _INTEGERS | dict.fromkeys(_UNSIGNED, ">I")


def text_of(value: Any, oid: int) -> bytes | None:
    """Return a value in the text format; None for NULL."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return _array_text(value, oid).encode("utf-8", "replace")
    if oid == oids.NUMERIC and isinstance(value, float) and isfinite(value):
        value = Decimal(repr(value).removesuffix(".0"))  # a numeric is written without an exponent
    return _text(value).encode()


def _text(value: Any) -> str:
    match value:
        case bool():
            return "t" if value else "f"
        case float():
            return repr(value).removesuffix(".0")
        case datetime():
            return value.isoformat(sep=" ")
        case timedelta():
            return _interval_text(value)
        case Decimal():
            return format(value, "f")
        case Fraction():
            return repr(float(value)).removesuffix(".0")
    return str(value)  # an integer, a date or a text


def _interval_text(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    days, rest = divmod(abs(value), timedelta(days=1))
    seconds, micros = divmod(rest // _MICROSECOND, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    clock += f".{micros:06}".rstrip("0") if micros else ""
    parts = [f"{sign}{days} day{'s' * (days != 1)}"] * bool(days) + [f"{sign}{clock}"] * bool(rest or not days)
    return " ".join(parts)


def _array_text(values: list[Any] | tuple[Any, ...], oid: int) -> str:
    if oid in (oids.INT2VECTOR, oids.OIDVECTOR):
        return " ".join(str(value) for value in values)
    return "{" + ",".join(_element(value, oid) for value in values) + "}"


def _element(value: Any, oid: int) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return _array_text(value, oid)
    text = _text(value)
    if _PLAIN.fullmatch(text) and text.lower() != "null":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def binary_of(value: Any, oid: int) -> bytes | None:
    """Return a value in the binary format; None for NULL."""
    if value is None:
        return None
    if oid in oids.ELEMENTS:
        return _array_binary(value, oid)
    packing = _PACKED.get(oid)
    try:
        if packing is not None:
            return struct.pack(packing, int(value))
        written = _BINARY.get(oid)
        return text_of(value, oid) if written is None else written(value)
    except (struct.error, OverflowError, ValueError):
        raise WireError(
            "22003",
            "A number of the answer does not fit into the binary format of its type.",
            "An integer has 32 bits, a bigint 64.",
            "Ask for the answer in the text format; the same question costs nothing again.",
        ) from None


def _array_binary(value: Any, oid: int) -> bytes:
    element = oids.ELEMENTS[oid]
    values = list(value) if isinstance(value, list | tuple) else []
    if not values and oid not in (oids.INT2VECTOR, oids.OIDVECTOR):
        return struct.pack(">iiI", 0, 0, element)
    first = 0 if oid in (oids.INT2VECTOR, oids.OIDVECTOR) else 1
    head = struct.pack(">iiIii", 1, int(any(item is None for item in values)), element, len(values), first)
    parts = [head]
    for item in values:
        packed = binary_of(item, element)
        parts.append(b"\xff\xff\xff\xff" if packed is None else struct.pack(">i", len(packed)) + packed)
    return b"".join(parts)


def _interval_binary(value: timedelta) -> bytes:
    days, rest = divmod(value, timedelta(days=1))
    return struct.pack(">qii", rest // _MICROSECOND, days, 0)


def numeric_binary(value: Any) -> bytes:
    """Return a number in the binary format of numeric: groups of four decimal digits.

    >>> numeric_binary(Decimal("-12345.678")).hex()
    '0003000140000003000109291a7c'
    """
    exact = Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
    sign, digits, exponent = exact.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(value)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, fraction = (text[:-scale] or "0", text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole) + len(fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups = groups[:-1]
    head = struct.pack(">hhHH", len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return head + b"".join(struct.pack(">h", group) for group in groups)


_BINARY: dict[int, Callable[[Any], bytes]] = {
    oids.BOOL: lambda value: b"\x01" if value else b"\x00",
    oids.FLOAT8: lambda value: struct.pack(">d", float(value)),
    oids.FLOAT4: lambda value: struct.pack(">f", float(value)),
    oids.DATE: lambda value: struct.pack(">i", value.toordinal() - _DAY),
    oids.TIMESTAMP: lambda value: struct.pack(">q", (value - _INSTANT) // _MICROSECOND),
    oids.TIMESTAMPTZ: lambda value: struct.pack(">q", (value - _INSTANT) // _MICROSECOND),
    oids.INTERVAL: _interval_binary,
    oids.NUMERIC: numeric_binary,
    oids.JSONB: lambda value: b"\x01" + str(value).encode(),
    oids.VOID: lambda _: b"",
}


def read_value(data: bytes, oid: int, binary: bool, name: str) -> object:
    """Return the Python value of a parameter, or refuse it; it goes on as a literal, never as text."""
    try:
        if oid in oids.ELEMENTS:
            return _read_array(data, oid, binary, name)
        if binary and oid not in _WORDS:
            return _BINARY_READERS[oid](data)
        text = data.decode("utf-8")
        return text if oid in _WORDS else _TEXT_READERS[oid](text.strip())
    except KeyError:
        raise WireError(
            "0A000",
            f"The type of {name} is not one that a value may have.",
            "A value is an integer, a decimal, a boolean, a date, a timestamp, a text, or an array of these.",
            f"Leave out the type of {name}, or cast it in the text of the query.",
        ) from None
    except (ValueError, struct.error, OverflowError, ArithmeticError):
        raise WireError(
            "22P03" if binary else "22P02",
            f"The value of {name} cannot be read.",
            "Its bytes are not a value of its type.",
            "Give a value of that type.",
        ) from None


def _read_array(data: bytes, oid: int, binary: bool, name: str) -> list[object]:
    """Read a list, of one dimension: what questions about the catalogue compare with."""
    if not binary:
        items = array_items(data.decode("utf-8").strip())
        element = oids.ELEMENTS[oid]
        return [None if item is None else read_value(item.encode(), element, False, name) for item in items]
    dimensions, _, element = struct.unpack_from(">iiI", data)
    if dimensions == 0:
        return []
    count, _ = struct.unpack_from(">ii", data, 12)
    if dimensions != 1 or not 0 <= count <= len(data) or element in oids.ELEMENTS:
        raise ValueError
    found: list[object] = []
    at = 20
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, at)
        at += 4
        if length > len(data) - at or length < -1:
            raise ValueError
        found.append(None if length < 0 else read_value(data[at : at + length], element, True, name))
        at += max(length, 0)
    return found


_WORDS = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.CHAR, oids.UNKNOWN, 0})


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)


def _number(text: str) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int((match[3] or "e0")[1:])) > _MAX_DIGITS:
        raise ValueError
    return Fraction(text)


def _truth(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError
    return text.lower() in _TRUE


_TEXT_READERS: dict[int, Callable[[str], object]] = {
    **dict.fromkeys((*_INTEGERS,), _integer),
    **dict.fromkeys((oids.FLOAT4, oids.FLOAT8, oids.NUMERIC), _number),
    oids.BOOL: _truth,
    oids.DATE: lambda text: date.fromisoformat(_ZONE.sub("", text)),
    oids.TIMESTAMP: lambda text: datetime.fromisoformat(_ZONE.sub("", text)),
    oids.TIMESTAMPTZ: lambda text: _in_utc(_parse_zoned_time(text)),
    oids.UUID: lambda text: str(UUID(text)),
}


def _parse_zoned_time(text: str) -> datetime:
    """Read a time with a zone; one without is of the session's zone, which is UTC."""
    return datetime.fromisoformat(re.sub(r" (?=[+-]\d\d(:?\d\d)?$|Z$)", "", text, flags=re.ASCII))


def _in_utc(time: datetime) -> datetime:
    """Return a time as the clock of UTC shows it, which all columns have."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _fixed_layout(layout: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(layout, data)[0]


def _bool_binary(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError
    return data == b"\x01"


def read_numeric(data: bytes) -> Fraction:
    """Read the binary format of numeric.

    >>> read_numeric(numeric_binary(Decimal("-12345.678"))) == Fraction("-12345.678")
    True
    """
    count, weight, sign, scale = struct.unpack_from(">hhHH", data)
    groups = struct.unpack(f">{count}h", data[8:])
    far = abs(weight) > _MAX_DIGITS or count > _MAX_DIGITS or scale > _MAX_DIGITS
    if sign not in (0, 0x4000) or far or any(not 0 <= group < 10_000 for group in groups):
        raise ValueError
    total = sum((Fraction(10_000) ** (weight - at) * group for at, group in enumerate(groups)), Fraction(0))
    return -total if sign else total


def _timestamp_binary(data: bytes) -> datetime:
    return _INSTANT + timedelta(microseconds=struct.unpack(">q", data)[0])


_BINARY_READERS: dict[int, Callable[[bytes], object]] = {
    **{oid: _fixed_layout(layout) for oid, layout in _INTEGERS.items()},
    oids.FLOAT4: _fixed_layout(">f"),
    oids.FLOAT8: _fixed_layout(">d"),
    oids.NUMERIC: read_numeric,
    oids.BOOL: _bool_binary,
    oids.DATE: lambda data: date.fromordinal(struct.unpack(">i", data)[0] + _DAY),
    oids.TIMESTAMP: _timestamp_binary,
    oids.TIMESTAMPTZ: _timestamp_binary,
    oids.UUID: lambda data: str(UUID(bytes=data)),
}
