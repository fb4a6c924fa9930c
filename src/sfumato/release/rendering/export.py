"""Answers as Arrow tables. pandas, polars and Altair are asked for only where they are used."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from sfumato.errors import BadParameter
from sfumato.language.facts import Facts
from sfumato.query.types import Type
from sfumato.release.decode import Value

_FITS = 1 << 63
_WIDE = 10**38


def optional(module: str, extra: str) -> Any:
    """Return a module that not every installation has."""
    try:
        return import_module(module)
    except ImportError:
        raise BadParameter(
            f"{module} is not installed.",
            "It is an optional extra.",
            f"Run: pip install 'sfumato[{extra}]'.",
        ) from None


def arrow() -> Any:
    """Return pyarrow, which a client without an engine may do without."""
    return optional("pyarrow", "all")


@cache
def _arrow_types() -> dict[Type, Any]:
    pa = arrow()
    return {
        Type.INTEGER: pa.int64(),
        Type.DECIMAL: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.DATE: pa.date32(),
        Type.TIMESTAMP: pa.timestamp("us"),
        Type.TEXT: pa.string(),
        Type.INTERVAL: pa.duration("us"),
        Type.NULL: pa.null(),
    }


def arrow_column(values: Sequence[Value], facts: Facts) -> Any:
    """Return a typed column; integers beyond 64 bits make it a decimal of 38 digits, and beyond that one of doubles."""
    pa = arrow()
    largest = max((abs(value) for value in values if isinstance(value, int)), default=0)
    if facts.type is not Type.INTEGER or largest < _FITS:
        return pa.array(values, type=_arrow_types()[facts.type])
    if largest < _WIDE:
        return pa.array(values, type=pa.decimal128(38, 0))
    return pa.array([float(value) if isinstance(value, int) else None for value in values], type=pa.float64())


def arrow_ends(ends: Sequence[Value], facts: Facts) -> Any:
    """Return the ends of a column's intervals, which are numbers also where the column shows them as text."""
    if facts.type is Type.TEXT:
        whole = all(isinstance(end, int) for end in ends if end is not None)
        facts = replace(facts, type=Type.INTEGER if whole else Type.DECIMAL)
    return arrow_column(ends, facts)
