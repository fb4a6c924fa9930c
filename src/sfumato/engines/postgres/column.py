"""How PostgreSQL reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities (numbers, dates and timestamps have them here).
"""

from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.numbers import DOUBLE, NARROW, TYPES, WIDE, let
from sfumato.engines.sql.column import Kind, Stored, ValueForms, within_days
from sfumato.engines.sql.grid import Range, floating, whole
from sfumato.policy.policy import Column

_KINDS = {
    **dict.fromkeys(("smallint", "integer", "bigint"), Kind.INTEGER),
    "numeric": Kind.DECIMAL,
    **dict.fromkeys(("real", DOUBLE), Kind.FLOATING),
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    **dict.fromkeys(("timestamp without time zone", "timestamp with time zone"), Kind.CLOCK),
    **dict.fromkeys(("text", "character varying", "character", '"char"', "name", "uuid", "citext"), Kind.TEXT),
}
_EPOCH = "DATE '1970-01-01'"


def stored(sql: str, type: str, is_enum: bool = False) -> Stored:
    """Return a value of the source; the type may have its precision in brackets."""
    return Stored(sql, type, Kind.TEXT if is_enum else _KINDS.get(type.partition("(")[0], Kind.OTHER))


def _text(stored: Stored) -> str:
    return f'(CAST({stored.sql} AS text) COLLATE "C")'


def _number(stored: Stored, target: Range) -> str:
    if stored.kind is Kind.FLOATING:
        return _floating(f"CAST({stored.sql} AS {DOUBLE})", target)
    if stored.kind is Kind.INTEGER:
        if target.step == 1 and -(1 << 63) <= target.least <= target.greatest < 1 << 63:
            return _clipped(f"CAST({stored.sql} AS {NARROW})", target)
        return let(whole(f"CAST(v AS {WIDE})", 0, 2**63, target, POSTGRES), v=stored.sql)
    return _numeric(stored.sql, target)


def _clipped(value: str, target: Range) -> str:
    """Return an integer of 64 bits that is on its grid already, within its bounds."""
    if not target.clipped:
        return value
    least, greatest = (POSTGRES.integer(end, NARROW) for end in (target.least, target.greatest))
    return f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {least}), {greatest}) END"


def _floating(value: str, target: Range) -> str:
    """Return the grid integer of a double: by 64-bit integers where that is clear, as `grid.floating` says when.

    The value is a column, which costs nothing to mention; a nested SELECT costs a microsecond in each row.
    """
    times, over = (TYPES.double_sql(float(part)) for part in (target.step.denominator, target.step.numerator))
    quotient = f"({value} * {times})" if target.step.numerator == 1 else f"({value} * {times} / {over})"
    # half minus that error is not above a distance from 2^49 on; rounding and casting both go to the nearest, then even
    clear = f"abs({quotient} - round({quotient})) < 0.5 - (abs({quotient}) * {2.0**-50!r} + 1e-300)"
    near = f"CAST({quotient} AS {NARROW})"
    if target.clipped:
        near = f"least(greatest({near}, {target.least}), {target.greatest})"
    # dividing what is nearly nothing would raise, and its grid integer is 0
    exact = let(floating("v", target, POSTGRES), v=f"CASE WHEN abs({value}) < 1e-200 THEN 0 ELSE {value} END")
    safe = f"CASE WHEN {value} = 0 OR abs({value}) BETWEEN 1e-200 AND 1e100 THEN {clear} ELSE false END"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {safe} THEN {near} ELSE {exact} END"


def _is_number(name: str) -> str:
    return f"{name} NOT IN ('NaN', 'Infinity', '-Infinity')"


def _numeric(sql: str, target: Range) -> str:
    """Return the grid integer of a numeric of any number of places: its arithmetic is exact."""
    times, over = target.step.denominator, target.step.numerator
    slack = 0 if target.clipped else 1
    low, high = ((side * over) for side in (target.least - slack, target.greatest + slack))
    near = f"least(greatest(v * {times}, {low}), {high})"  # in units of 1/times of a step
    nearest = (
        f"f + CASE WHEN 2 * (p - f * {over}) > {over} OR 2 * (p - f * {over}) = {over} AND mod(f, 2) = 1 "
        "THEN 1 ELSE 0 END"
    )
    rounded = f"(SELECT sign(n) * ({nearest}) FROM (SELECT n, abs(n) AS p, div(abs(n), {over}) AS f OFFSET 0) AS q)"  # noqa: S608
    rounded = f"(SELECT {rounded} FROM (SELECT {near} AS n OFFSET 0) AS r)"  # noqa: S608
    if target.clipped:
        rounded = f"CAST(least(greatest({rounded}, {target.least}), {target.greatest}) AS {NARROW})"
    else:
        rounded = POSTGRES.narrowed(rounded)
    return let(f"CASE WHEN {_is_number('v')} THEN {rounded} END", v=f"CAST({sql} AS {WIDE})")


def _double(stored: Stored) -> str:
    """Return a finite double; adding zero makes −0.0 and 0.0 one value."""
    if stored.kind is Kind.DECIMAL:  # beyond the largest double, and below the least, a cast raises
        size = "abs(v) < 1.7e308 AND (abs(v) > 1e-307 OR v = 0)"
        inner = f"CASE WHEN v = 0 THEN 0 WHEN {size} THEN CAST(v AS {DOUBLE}) + 0 END"
        return let(f"CASE WHEN {_is_number('v')} THEN {inner} END", v=f"CAST({stored.sql} AS {WIDE})")
    return let(f"CASE WHEN {POSTGRES.finite('v')} THEN v + 0 END", v=f"CAST({stored.sql} AS {DOUBLE})")


def _boolean(stored: Stored) -> str:
    value = stored.sql
    if stored.kind is Kind.INTEGER:
        return f"CASE WHEN {value} IN (0, 1) THEN CAST({value} AS {NARROW}) END"
    return f"CAST(CAST({value} AS integer) AS {NARROW})"


def _instant(stored: Stored) -> str:
    """Return a timestamp without zone; what has one is read in UTC."""
    return f"({stored.sql} AT TIME ZONE 'UTC')" if stored.type.endswith("with time zone") else stored.sql


def _clipped_days(column: Column, stored: Stored) -> str:
    value = stored.sql if stored.kind is Kind.DATE else f"CAST({_instant(stored)} AS date)"
    days = f"CAST(v - {_EPOCH} AS {NARROW})"
    return let(f"CASE WHEN isfinite(v) THEN {within_days(days, column)} END", v=value)


def _microseconds(stored: Stored, target: Range) -> str:
    if stored.kind is Kind.DATE:  # not every date is a timestamp
        clock, value = f"CAST(v - {_EPOCH} AS {WIDE}) * 86400000000", stored.sql
    else:
        clock, value = "trunc(extract(epoch FROM v) * 1000000)", _instant(stored)
    inner = let(whole("w", 0, 2**80, target, POSTGRES), w=clock)
    if not target.clipped:
        inner = let(f"CASE WHEN w BETWEEN {target.least} AND {target.greatest} THEN w END", w=inner)
    return let(f"CASE WHEN isfinite(v) THEN {inner} END", v=value)


def _exact_integer(stored: Stored) -> str:
    match stored.kind:
        case Kind.FLOATING:
            exact = f"abs(v) < {2.0**53!r} AND v = trunc(v)"
            return let(
                f"CASE WHEN {exact} THEN CAST(CAST(v AS {NARROW}) AS text) END", v=f"CAST({stored.sql} AS {DOUBLE})"
            )
        case Kind.DECIMAL:
            return let(
                f"CASE WHEN {_is_number('v')} THEN CASE WHEN v = trunc(v) THEN CAST(trunc(v) AS text) END END",
                v=f"CAST({stored.sql} AS {WIDE})",
            )
        case _:
            return f"CAST({stored.sql} AS text)"


def _plain_integer(stored: Stored) -> str | None:
    return f"CAST({stored.sql} AS {NARROW})" if stored.kind is Kind.INTEGER else None


def _is_a_day(stored: Stored) -> str | None:
    if stored.kind is Kind.DATE:
        return None
    instant = _instant(stored)
    return f"date_trunc('day', {instant}) = {instant}"


READING = ValueForms(
    NARROW,
    DOUBLE,
    "text",
    text=_text,
    number=_number,
    double=_double,
    boolean=_boolean,
    days=_clipped_days,
    microseconds=_microseconds,
    exact_integer=_exact_integer,
    is_a_day=_is_a_day,
    is_of_microseconds=lambda stored: None,
    plain_integer=_plain_integer,
)
column_sql, unit_sql, check_range = READING.column, READING.unit, READING.check_range
