"""Answers as columns of other programs: Arrow, pandas, polars. Each library is asked for only where it is used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any

from sfumato.errors import BadParameter
from sfumato.language.facts import Facts
from sfumato.query.types import Type
from sfumato.release.decode import Value

_INT64_VALUES = 1 << 63
_DECIMAL_38_VALUES = 10**38
_PANDAS = {
    Type.INTEGER: "int64",
    Type.DECIMAL: "float64",
    Type.BOOLEAN: "bool",
    Type.TIMESTAMP: "datetime64[us]",
    Type.INTERVAL: "timedelta64[us]",
}


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
    try:
        return import_module("pyarrow")
    except ImportError:
        raise BadParameter(
            "pyarrow is not installed.",
            "This client was installed without it.",
            "Run: pip install pyarrow. `to_pandas`, `to_polars` and `rows` need none.",
        ) from None


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A typed column. Integers beyond 64 bits are decimals of up to 38 digits (`is_wide`), and beyond that doubles."""

    name: str
    type: Type
    values: Sequence[Value | Decimal]
    is_wide: bool = False


def export_column(name: str, values: Sequence[Value], facts: Facts) -> ExportColumn:
    """Return a column as other programs can hold it."""
    largest = max((abs(value) for value in values if isinstance(value, int)), default=0)
    if facts.type is Type.INTEGER and largest >= _INT64_VALUES:
        if largest < _DECIMAL_38_VALUES:
            wide = [Decimal(value) if isinstance(value, int) else None for value in values]
            return ExportColumn(name, Type.INTEGER, wide, is_wide=True)
        return ExportColumn(name, Type.DECIMAL, _doubles(values))
    return ExportColumn(name, facts.type, _doubles(values) if facts.type is Type.DECIMAL else values)


def export_ends(name: str, ends: Sequence[Value], facts: Facts) -> ExportColumn:
    """Return the ends of a column's intervals, which are numbers also where the column shows them as text."""
    if facts.type is Type.TEXT:
        whole = all(isinstance(end, int) for end in ends if end is not None)
        facts = replace(facts, type=Type.INTEGER if whole else Type.DECIMAL)
    return export_column(name, ends, facts)


def marked_columns(names: Sequence[str], marks: Sequence[Sequence[bool] | None]) -> list[ExportColumn]:
    """Return for each column with intervals whether its values are marked."""
    pairs = zip(names, marks, strict=True)
    return [ExportColumn(f"{name}_marked", Type.BOOLEAN, list(found)) for name, found in pairs if found is not None]


def _doubles(values: Sequence[Value]) -> list[Value]:
    return [float(value) if isinstance(value, int | float) else value for value in values]


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


def arrow_table(columns: Sequence[ExportColumn]) -> Any:
    """Return the columns as an Arrow table."""
    pa = arrow()
    arrays = [
        pa.array(column.values, type=pa.decimal128(38, 0) if column.is_wide else _arrow_types()[column.type])
        for column in columns
    ]
    return pa.table(arrays, names=[column.name for column in columns])


def pandas_frame(columns: Sequence[ExportColumn]) -> Any:
    """Return the columns as a pandas data frame: the same with and without pyarrow."""
    pd = optional("pandas", "pandas")
    if _has_arrow():
        return arrow_table(columns).to_pandas()
    return pd.DataFrame({column.name: _pandas_series(pd, column) for column in columns})


def _has_arrow() -> bool:
    try:
        arrow()
    except BadParameter:
        return False
    return True


def _pandas_series(pd: Any, column: ExportColumn) -> Any:
    has_null = any(value is None for value in column.values)
    kind = None if column.is_wide else _PANDAS.get(column.type)
    if has_null and column.type in (Type.INTEGER, Type.BOOLEAN) and not column.is_wide:
        is_empty = all(value is None for value in column.values)
        kind = "float64" if column.type is Type.INTEGER else None if is_empty else "object"
    if column.type is Type.TEXT:
        return pd.Series(column.values, dtype="object" if pd.__version__.startswith("2.") else "str")
    return pd.Series(column.values, dtype=kind or "object")


def polars_frame(columns: Sequence[ExportColumn]) -> Any:
    """Return the columns as a polars data frame; polars needs no pyarrow."""
    pl = optional("polars", "polars")
    types = {
        Type.INTEGER: pl.Int64,
        Type.DECIMAL: pl.Float64,
        Type.BOOLEAN: pl.Boolean,
        Type.DATE: pl.Date,
        Type.TIMESTAMP: pl.Datetime("us"),
        Type.TEXT: pl.String,
        Type.INTERVAL: pl.Duration("us"),
        Type.NULL: pl.Null,
    }
    return pl.DataFrame(
        [
            pl.Series(column.name, column.values, pl.Decimal(38, 0) if column.is_wide else types[column.type])
            for column in columns
        ]
    )
