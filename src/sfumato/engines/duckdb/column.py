"""How DuckDB reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities, CSV text that is no number, undeclared keys.
"""

import re
from collections.abc import Callable

from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.united_type import MEMBERS, UNITED
from sfumato.engines.sql.column import Kind, Stored, ValueForms, within_days
from sfumato.engines.sql.grid import Range, floating, whole
from sfumato.engines.sql.names import literal
from sfumato.policy.policy import Column, ColumnType, CsvFormat

_INTEGERS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), 2**63),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), 2**64),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), 2**127 - 1),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_CLOCKS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
_NULL = '"NULL"'
"""The engine's name for the type of a column without values."""
_TEXT_PLACES = 18
"""Numbers in text are read with this many places, as many as the finest step has; from 10^20 on they are absent."""
_WHOLE_NUMBER = "[ \\t]*([+-]?[0-9]{1,38})([.]0*)?[ \\t]*"
"""An integer in text, in which trailing zeros say nothing: many programs write them as soon as one value is missing."""
_FIXED_BLANKS = "\u00a0\u202f"
"""Spaces at which no line breaks, as they stand in numbers."""
_BLANKS = f"[ \\t{_FIXED_BLANKS}]*"


def stored(sql: str, type: str, raw: bool = False) -> Stored:
    """Return a value of the source; `raw`: it is text that has not been parsed yet."""
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
"""The types as which text is read where no person's rows are affected."""


def said(sql: str, kind: ColumnType | None) -> Stored:
    """Return text that the source says to be of a type; where it says none, the text has not been parsed yet."""
    if kind is None:
        return stored(sql, "VARCHAR", raw=True)
    return stored(sql if kind is ColumnType.TEXT else f"TRY_CAST({sql} AS {AS_TYPES[kind]})", AS_TYPES[kind])


def alone(sql: str) -> Stored:
    """Return a value of a column in which each may be stored in another way: see `each_value`."""
    return Stored(sql, UNITED, Kind.EACH)


def _by_stored_type(stored: Stored, form: Callable[[Stored], str]) -> str:
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


def written_as(column: Column, stored: Stored, form: CsvFormat) -> Stored:
    """Return a value as ISO 8601 and SQL would write it, where the policy says that it is written in another way.

    Each value is read separately. A value in another format is NULL.
    """
    if column.format is not None and stored.kind in (Kind.RAW, Kind.TEXT):
        read = f"try_strptime({_text(stored)}, {literal(column.format)})"
        kind = "DATE" if column.type is ColumnType.DATE else "TIMESTAMP"
        return Stored(f"CAST(CAST({read} AS {kind}) AS VARCHAR)", "VARCHAR", Kind.RAW)
    if stored.kind is not Kind.RAW:
        return stored
    if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL):
        return Stored(plain_number(stored.sql, form), "VARCHAR", Kind.RAW)
    if column.type is ColumnType.BOOLEAN and (form.true or form.false):
        return Stored(_truth_word(stored.sql, form), "VARCHAR", Kind.RAW)
    return stored


def plain_number(text: str, form: CsvFormat) -> str:
    """Return the text of a number as SQL writes it; text that is not written as the policy says is NULL.

    Groups have three digits each, and a sign of the policy stands once before or after the number. Everything else that
    SQL would read stays as it is where the policy says nothing.
    """
    if form.thousands or form.symbols:
        text = f"CASE WHEN regexp_full_match({text}, {literal(number_pattern(form))}) THEN {_bare(text, form)} END"
    elif form.decimal == ",":
        return f"CASE WHEN NOT contains({text}, '.') THEN replace({text}, ',', '.') END"
    else:
        return text
    return f"replace({text}, ',', '.')" if form.decimal == "," else text


def _bare(text: str, form: CsvFormat) -> str:
    """Return a number of the policy's form without its symbols and separators."""
    bare = f"regexp_replace({text}, {literal(f'^{number_pattern(form)}$')}, '\\1\\2\\3')"
    return f"regexp_replace({bare}, {literal(_group(form))}, '', 'g')" if form.thousands else bare


def _group(form: CsvFormat) -> str:
    """Return the pattern of the separator of thousands; a space may be one that does not break a line."""
    return f"[ {_FIXED_BLANKS}]" if form.thousands == " " else re.escape(form.thousands)


def number_pattern(form: CsvFormat) -> str:
    """Return the pattern of a number in this form: sign, symbol, sign, digits, symbol; at most one sign reads."""
    point, group = re.escape(form.decimal), _group(form)
    places = f"(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    grouped = f"[0-9]{{1,3}}(?:{group}[0-9]{{3}})+(?:{point}[0-9]*)?|" if form.thousands else ""
    number = f"({grouped}[0-9]+{places}|{point}[0-9]+)"
    symbol = f"(?:(?:{'|'.join(map(re.escape, form.symbols))}){_BLANKS})?" if form.symbols else ""
    after = f"{_BLANKS}(?:{'|'.join(map(re.escape, form.symbols))})?" if form.symbols else ""
    return f"{_BLANKS}([+-]?){symbol}([+-]?){number}{after}{_BLANKS}"


def _truth_word(text: str, form: CsvFormat) -> str:
    """Return true or false for the policy's words in any case; SQL's own words stay."""
    said = [(form.true, "true"), (form.false, "false")]
    cases = " ".join(
        f"WHEN lower(trim({text})) IN ({', '.join(literal(word.lower()) for word in words)}) THEN '{value}'"
        for words, value in said
        if words
    )
    return f"CASE {cases} ELSE {text} END"


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
            whole_number = f"TRY_CAST(regexp_extract({value}, '{_WHOLE_NUMBER}', 1) AS HUGEINT)"
            return f"CASE WHEN regexp_full_match({value}, '{_WHOLE_NUMBER}') THEN CAST({whole_number} AS VARCHAR) END"
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
    each=_by_stored_type,
)
column_sql, unit_sql, check_range = READING.column, READING.unit, READING.check_range
