"""Arrow's types as the engine is given them, each value as it is: what the engine could not hold is NULL."""

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.duckdb.untyped_columns import TEXT, texts

_MAX_TIMESTAMP_MILLISECONDS = 2**63 // 1000 - 1000
"""Up to this millisecond, and down to its opposite, 64 bits hold a time in microseconds."""
_MAX_DATE_MILLISECONDS = (2**31 - 1) * 86_400_000
"""Up to this millisecond, and down to its opposite, 32 bits hold a day."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1000}


def plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that the engine is given for one of Arrow's; None where it is given none."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return TEXT
    if types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us")  # in UTC
    if types.is_date(kind):
        return pa.date32()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if 0 <= kind.scale <= kind.precision <= 38 else None
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    return kind if plain else None


def is_said_alone(kind: pa.DataType) -> bool:
    """Tell whether values of a type that the engine lacks are still numbers or names."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return is_said_alone(kind.value_type)
    return bool(pa.types.is_decimal(kind)) or getattr(kind, "extension_name", "") == "arrow.uuid"


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in the type that `plain_type` names; values that it cannot hold are NULL."""
    if values.type == kind and kind != TEXT:
        return values
    while pa.types.is_dictionary(values.type) or pa.types.is_run_end_encoded(values.type):
        encoded = pa.types.is_dictionary(values.type)
        values = values.dictionary_decode() if encoded else pc.run_end_decode(values)
    if kind == TEXT:
        return _texts(values)
    if pa.types.is_timestamp(kind):
        return _times(values, kind)
    return _days(values) if pa.types.is_date64(values.type) else values.cast(kind)


def _texts(values: pa.Array) -> pa.Array:
    raw = values.cast(pa.large_binary())
    try:
        return raw.cast(TEXT)
    except pa.ArrowInvalid:  # not UTF-8
        return texts(raw.to_pylist())


def _days(values: pa.Array) -> pa.Array:
    """Return days; one that 32 bits do not hold is absent."""
    count = values.cast(pa.int64())
    near = pc.and_(pc.greater_equal(count, -_MAX_DATE_MILLISECONDS), pc.less_equal(count, _MAX_DATE_MILLISECONDS))
    return pc.if_else(near, count, None).cast(pa.date64(), safe=False).cast(pa.date32(), safe=False)


def _times(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return times in UTC; one that 64 bits do not hold in microseconds is absent."""
    count = values.cast(pa.int64())
    if values.type.unit in _MICROSECONDS:
        steps = _MICROSECONDS[values.type.unit]
        last = _MAX_TIMESTAMP_MILLISECONDS * 1000 // steps
        near = pc.and_(pc.greater_equal(count, -last), pc.less_equal(count, last))
        count = pc.multiply(pc.if_else(near, count, None), steps)
    return count.cast(kind)
