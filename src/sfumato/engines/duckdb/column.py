"""How DuckDB reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities, CSV text that is no number, undeclared keys.
"""

import re
from collections.abc import Callable
from datetime import date

from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.each_value import MEMBERS, UNITED
from sfumato.engines.sql.column import Kind, Stored, ValueForms, range_of
from sfumato.engines.sql.grid import NotExact, Range, floating, whole
from sfumato.engines.sql.names import literal
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, ColumnType, position

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


_FIRST, _LAST = date(1, 1, 1), date(9999, 12, 31)
"""The days that a policy can write; others are absent unless bounds clip them."""


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


def check_range(table: str, column: Column, stored: Stored) -> None:
    """Refuse a step that 128-bit integers cannot apply to the source's type exactly."""
    try:
        column_sql(column, stored)
    except NotExact:
        raise BadSource(
            f"tables.{table}.columns.{column.name}.step cannot be applied exactly to the {stored.kind} of the source.",
            "Rounding is exact, in 128-bit integers; with floating-point numbers the step has at most 15 digits.",
            "Choose a step with fewer digits, for example 0.01.",
        ) from None


def storage(column: Column) -> str:
    """Return the engine's type of this column in the copy."""
    if column.type is ColumnType.TEXT:
        return "VARCHAR"
    return "DOUBLE" if column.type is ColumnType.DECIMAL and column.step is None else "BIGINT"


def column_sql(column: Column, stored: Stored) -> str:
    """Return the SQL of the column's value in the copy, of the type `storage`; keys are checked by `keyed`."""
    if stored.kind is Kind.NOTHING:
        return f"CAST(NULL AS {storage(column)})"
    if stored.kind is Kind.EACH:
        return _each(stored, lambda one: column_sql(column, one))
    match column.type:
        case ColumnType.TEXT:
            text = _text(stored)
            if column.length is None or isinstance(column.values, tuple):  # a longer text is none of the listed keys
                return text
            return f"left({text}, {column.length})"  # counted in characters
        case ColumnType.BOOLEAN:
            return _boolean(stored)
        case ColumnType.DATE:
            return _clipped_days(column, stored)
        case ColumnType.TIMESTAMP:
            return _microseconds(stored, range_of(column))
        case ColumnType.DECIMAL if column.step is None:
            return _double(stored)
        case _:
            return _number(stored, range_of(column))


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
    low, high = (column.bounds.low, column.bounds.high) if column.bounds else (_FIRST, _LAST)
    if column.bounds:
        days = f"least(greatest({days}, {position(low)}::BIGINT), {position(high)}::BIGINT)"
    else:
        days = f"CASE WHEN {days} BETWEEN {position(low)} AND {position(high)} THEN {days} END"
    return f"CASE WHEN isfinite({day}) THEN {days} END"


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


def unit_sql(column: Column, stored: Stored) -> str:
    """Return the text that names a person: equal for equal people, however each table stores them; NULL for nobody.

    Nothing is rounded, cut or clipped here, because that would make one person of two: what is not exactly of the
    declared type names nobody. So does a floating-point number from 2^53 on, which may stand for several integers.
    """
    if stored.kind is Kind.NOTHING:
        return "CAST(NULL AS VARCHAR)"
    if stored.kind is Kind.EACH:
        return _each(stored, lambda one: unit_sql(column, one))
    match column.type:
        case ColumnType.INTEGER:
            return _exact_integer(stored)
        case ColumnType.TEXT:
            text = _text(stored)
            return text if column.length is None else f"CASE WHEN length({text}) <= {column.length} THEN {text} END"
        case ColumnType.DATE:
            return _exact(_clipped_days(Column(column.name, column.type), stored), _is_a_day(stored))
        case ColumnType.TIMESTAMP:
            plain = Column(column.name, column.type)
            return _exact(_microseconds(stored, range_of(plain)), _is_of_microseconds(stored))
        case _:  # a key of a path; no person is named by one
            return f"CAST({column_sql(Column(column.name, column.type), stored)} AS VARCHAR)"


def _exact(value: str, condition: str | None) -> str:
    text = f"CAST({value} AS VARCHAR)"
    return text if condition is None else f"CASE WHEN {condition} THEN {text} END"


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


READING = ValueForms(storage, column_sql, unit_sql)
