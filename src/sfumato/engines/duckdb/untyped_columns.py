"""Values of columns that have no type of their own: each is read alone, so that none decides how another is read.

A column of Python objects, or of a SQLite table, may hold numbers and text in one. Where the policy declares a number,
each value goes its own way into the engine: integers and floating-point numbers as they are, everything else as text
that is read as CSV is. Where it declares something else, every value is text.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

TEXT = pa.large_string()
"""Offsets of 64 bits: a few long texts must not end the rest."""
NUMBER = pa.struct([("integer", pa.int64()), ("floating", pa.float64()), ("text", TEXT)])
"""One value of a column of numbers: at most one of the three is there."""
_DIGITS = 10**40
"""No policy writes a greater number, and printing one takes time in the square of its length."""
_PLAIN = {str, type(None), float}


def texts(values: Sequence[object]) -> pa.Array:
    """Return every value as text."""
    if set(map(type, values)) <= _PLAIN:
        try:
            return pa.array(values, TEXT, from_pandas=True)  # NaN is absent, as None is
        except (pa.ArrowException, UnicodeError):
            pass  # a number among them, or a text that UTF-8 cannot write
    return pa.array([_text(value) for value in values], TEXT)


def numbers(values: Sequence[Any]) -> pa.Array:
    """Return every value as a number where it is one, else as text."""
    kinds = set(map(type, values))
    members = [pa.nulls(len(values), field.type) for field in NUMBER]
    if kinds <= {int, type(None)} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        members[0] = pa.array(values, pa.int64())
    elif kinds <= {float, type(None)}:
        members[1] = pa.array(values, pa.float64(), from_pandas=True)  # NaN is absent, as None is
    else:
        parts = zip(*map(_number, values), strict=True)
        members = [pa.array(part, field.type) for part, field in zip(parts, NUMBER, strict=True)]
    return pa.StructArray.from_arrays(members, fields=list(NUMBER))


def text_of(value: str | bytes, most: int) -> str | None:
    """Return the beginning of a text; None where UTF-8 does not write it."""
    text = _text(value)
    return None if text is None else text[:most]


def _number(value: object) -> tuple[int | None, float | None, str | None]:
    value = _python(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return int(value), None, None
    if isinstance(value, float):
        return None, None if value != value else float(value), None
    return None, None, _text(value)


def _text(value: object) -> str | None:
    value = _python(value)
    match value:
        case str():
            return _as_written(value)
        case bytes() | bytearray():
            return _decode(bytes(value))
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value)) if abs(value) < _DIGITS else None
        case float():
            return None if value != value else repr(float(value))
        case Decimal():
            return f"{value:f}" if value.is_finite() and abs(value.adjusted()) < 40 else None
        case datetime():
            return _instant(value)
        case date():
            return value.isoformat()
        case UUID():
            return str(value)
    return None


def _python(value: object) -> Any:
    """Return a value of numpy as Python's own; None where that would be a number which means something else."""
    if isinstance(value, np.datetime64):
        instant = value.astype("datetime64[us]").item()
        return instant if isinstance(instant, datetime) else None
    if isinstance(value, np.timedelta64):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _as_written(value: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return str(value)


def _decode(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _instant(value: datetime) -> str | None:
    """Return a time as ISO 8601 writes it, in UTC; pandas' NaT is a datetime that is not itself."""
    if value != value:
        return None
    try:
        plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, ValueError):
        return None
    return plain.isoformat(sep=" ")
