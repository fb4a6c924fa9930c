"""How DuckDB reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities, CSV text that is no number, undeclared keys.
"""

import re
from collections.abc import Callable

from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.untyped_columns import MEMBERS, UNITED
from sfumato.engines.sql.column import Kind, Stored, ValueForms, within_days
from sfumato.engines.sql.grid import Range, floating, whole
from sfumato.engines.sql.names import literal
from sfumato.policy.policy import Column, ColumnType

_INTEGERS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), 2**63),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), 2**64),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), 2**127 - 1),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_CLOCKS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
_NULL = '"NULL"'
"""What the engine calls the type of a column without values."""
_TEXT_PLACES = 18
"""Numbers in text are read with this many places, as many as the finest step has; from 10^20 on they are absent."""
_WHOLE = "[ \\t]*([+-]?[0-9]{1,38})([.]0*)?[ \\t]*"
"""An integer in text, in which trailing zeros say nothing: many programs write them as soon as one value is missing."""


def stored(sql: str, type: str, raw: bool = False) -> Stored:
    """Return a value of the source; `raw`: it is text that nobody has read yet."""
    if type == "TIMESTAMPTZ_NS":  # few functions of the engine know it; connections are in UTC
        return Stored(f"TRY_CAST({sql} AS TIMESTAMP_NS)", "TIMESTAMP_NS", Kind.CLOCK)
    return Stored(sql, type, Kind.RAW if raw else _kind(type))


AS_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.DECIMAL: "DOUBLE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
    ColumnType.TEXT: "VARCHAR",
}
"""As what text is read where nobody's rows are at stake."""


def said(sql: str, kind: ColumnType | None) -> Stored:
    """Return text that the source says to be of a type; where it says none, nobody has read it yet."""
    if kind is None:
        return stored(sql, "VARCHAR", raw=True)
    return stored(sql if kind is ColumnType.TEXT else f"TRY_CAST({sql} AS {AS_TYPES[kind]})", AS_TYPES[kind])


def alone(sql: str) -> Stored:
    """Return a value of a column in which each may be stored in another way: see `each_value`."""
    return Stored(sql, UNITED, Kind.EACH)


def _each(stored: Stored, form: Callable[[Stored], str]) -> str:
    """Return the form of the one way in which a value is stored."""
    integer, floating, text = (f"{stored.sql}.{member}" for member in MEMBERS)
    return (
        f"CASE WHEN {integer} IS NOT NULL THEN {form(Stored(integer, 'BIGINT', Kind.INTEGER))} "
        f"WHEN {floating} IS NOT NULL THEN {form(Stored(floating, 'DOUBLE', Kind.FLOATING))} "
        f"ELSE {form(Stored(text, 'VARCHAR', Kind.RAW))} END"
    )


def _kind(type: str) -> Kind:
    if type == _NULL:
        return Kind.NOTHING
    if type in _INTEGERS:
        return Kind.INTEGER
    if _DECIMAL.fullmatch(type):
        return Kind.DECIMAL
    if type in ("FLOAT", "DOUBLE"):
        return Kind.FLOATING
    if type in ("BOOLEAN", "DATE"):
        return Kind(f"{type.lower()}s")
    if type in _CLOCKS:
        return Kind.CLOCK
    return Kind.TEXT if type in ("VARCHAR", "UUID") or type.startswith("ENUM(") else Kind.OTHER


def written_as(column: Column, stored: Stored, comma: bool) -> Stored:
    """Return a value as ISO 8601 and SQL would write it, where the policy says that it is written in another way.

    Each is read by itself; what is not written so is NULL.
    """
    if column.format is not None and stored.kind in (Kind.RAW, Kind.TEXT):
        read = f"try_strptime({_text(stored)}, {literal(column.format)})"
        kind = "DATE" if column.type is ColumnType.DATE else "TIMESTAMP"
        return Stored(f"CAST(CAST({read} AS {kind}) AS VARCHAR)", "VARCHAR", Kind.RAW)
    if comma and stored.kind is Kind.RAW and column.type in (ColumnType.INTEGER, ColumnType.DECIMAL):
        value = f"CASE WHEN NOT contains({stored.sql}, '.') THEN replace({stored.sql}, ',', '.') END"
        return Stored(value, "VARCHAR", Kind.RAW)
    return stored


def _text(stored: Stored) -> str:
    return stored.sql if stored.type == "VARCHAR" else f"CAST({stored.sql} AS VARCHAR)"


def _number(stored: Stored, target: Range) -> str:
    if stored.kind is Kind.FLOATING:
        return floating(f"({stored.sql})::DOUBLE", target, DUCKDB)
    if stored.kind is Kind.RAW:
        kind = f"DECIMAL(38,{_TEXT_PLACES})"
        return _number(Stored(f"TRY_CAST({stored.sql} AS {kind})", kind, Kind.DECIMAL), target)
    match = _DECIMAL.fullmatch(stored.type)
    if match is None:
        return whole(_huge(stored), 0, _INTEGERS[stored.type], target, DUCKDB)
    width, scale = int(match[1]), int(match[2])
    return whole(_digits(stored.sql, width, scale), scale, 10**width, target, DUCKDB)


def _huge(stored: Stored) -> str:
    if stored.type == "UHUGEINT":
        most = f"({2**127 - 1})::UHUGEINT"
        return f"(CASE WHEN {stored.sql} > {most} THEN {most} ELSE {stored.sql} END)::HUGEINT"
    return f"({stored.sql})::HUGEINT"


def _digits(expression: str, width: int, scale: int) -> str:
    """Return a DECIMAL(width, scale) times 10^scale as an integer, exactly."""
    if width + scale < 38:
        return f"(({expression})::DECIMAL(38,{scale}) * {10**scale}::DECIMAL({scale + 1},0))::HUGEINT"
    # the engine prints exactly `scale` digits after the point
    return f"replace(({expression})::VARCHAR, '.', '')::HUGEINT"


def _double(stored: Stored) -> str:
    """Return a finite double; adding zero makes −0.0 and 0.0 one value."""
    value = f"TRY_CAST({stored.sql} AS DOUBLE)"
    return f"CASE WHEN isfinite({value}) THEN {value} + 0.0::DOUBLE END"


def _boolean(stored: Stored) -> str:
    value = stored.sql
    if stored.kind is Kind.INTEGER:
        return f"CASE WHEN {value} IN (0, 1) THEN ({value})::BIGINT END"
    return f"(TRY_CAST({value} AS BOOLEAN))::BIGINT"


def _clipped_days(column: Column, stored: Stored) -> str:
    day = f"TRY_CAST({stored.sql} AS DATE)"
    days = f"({day} - DATE '1970-01-01')::BIGINT"
    return f"CASE WHEN isfinite({day}) THEN {within_days(days, column, DUCKDB)} END"


def _microseconds(stored: Stored, target: Range) -> str:
    if stored.type == "TIMESTAMP_NS":
        clock = whole(f"epoch_ns({stored.sql})::HUGEINT", 3, 2**63, target, DUCKDB)
    else:
        instant = stored.sql if stored.type.endswith("ZONE") else f"TRY_CAST({stored.sql} AS TIMESTAMP)"
        clock = whole(f"epoch_us({instant})::HUGEINT", 0, 2**63, target, DUCKDB)
        stored = Stored(instant, "TIMESTAMP", Kind.CLOCK)
    if not target.clipped:
        clock = f"CASE WHEN {clock} BETWEEN {target.least} AND {target.greatest} THEN {clock} END"
    return f"CASE WHEN isfinite({stored.sql}) THEN {clock} END"


def _exact_integer(stored: Stored) -> str:
    value = stored.sql
    match stored.kind:
        case Kind.RAW:  # 7, 007 and 7.0 are the integer seven; the engine's own cast would make 7.4 one too
            whole_number = f"TRY_CAST(regexp_extract({value}, '{_WHOLE}', 1) AS HUGEINT)"
            return f"CASE WHEN regexp_full_match({value}, '{_WHOLE}') THEN CAST({whole_number} AS VARCHAR) END"
        case Kind.FLOATING:
            double = f"({value})::DOUBLE"
            exact = f"isfinite({double}) AND {double} = trunc({double}) AND abs({double}) < {2**53}"
            return f"CASE WHEN {exact} THEN CAST(CAST({double} AS BIGINT) AS VARCHAR) END"
        case Kind.DECIMAL:
            width, scale = (int(part) for part in _DECIMAL.fullmatch(stored.type).groups())  # type: ignore[union-attr]
            digits, one = _digits(value, width, scale), f"({10**scale})::HUGEINT"
            return f"CASE WHEN {digits} % {one} = 0 THEN CAST({digits} // {one} AS VARCHAR) END"
        case _:
            return f"CAST({value} AS VARCHAR)"  # also beyond 64 bits


def _is_a_day(stored: Stored) -> str | None:
    if stored.kind is Kind.DATE:
        return None
    instant = f"TRY_CAST({stored.sql} AS TIMESTAMP)"
    return f"{instant} = TRY_CAST(TRY_CAST({stored.sql} AS DATE) AS TIMESTAMP)"


def _is_of_microseconds(stored: Stored) -> str | None:
    if stored.type == "TIMESTAMP_NS":
        return f"epoch_ns({stored.sql}) % 1000 = 0"
    if stored.kind is Kind.RAW:
        return f"NOT regexp_matches({stored.sql}, '[.][0-9]{{7,}}')"
    return None


READING = ValueForms(
    "BIGINT",
    "DOUBLE",
    "VARCHAR",
    text=_text,
    number=_number,
    double=_double,
    boolean=_boolean,
    days=_clipped_days,
    microseconds=_microseconds,
    exact_integer=_exact_integer,
    is_a_day=_is_a_day,
    is_of_microseconds=_is_of_microseconds,
    each=_each,
)
column_sql, unit_sql, check_range = READING.column, READING.unit, READING.check_range
