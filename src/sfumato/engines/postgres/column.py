"""How PostgreSQL reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities (numbers, dates and timestamps have them here).

Values are mentioned as often as they are needed, not named in a subselect (`numbers.let`): they are columns, which cost
nothing to mention, and what refers to a row from a subselect is never computed by the server's parallel workers.
"""

from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.numbers import DOUBLE, NARROW, TYPES, WIDE, let
from sfumato.engines.sql.column import Kind, Stored, ValueForms, within_days
from sfumato.engines.sql.grid import NotExact, Range, outside, whole
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
            return _clip(f"CAST({stored.sql} AS {NARROW})", target)
        found = whole(f"CAST({stored.sql} AS {WIDE})", 0, 2**63, target, POSTGRES)  # or it refuses the step
        return found if target.clipped else _numeric(stored.sql, target)
    return _numeric(stored.sql, target)


def _clip(value: str, target: Range) -> str:
    """Return an integer of 64 bits that is on its grid already, within its bounds."""
    if not target.clipped:
        return value
    least, greatest = (POSTGRES.integer(end, NARROW) for end in (target.least, target.greatest))
    return f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {least}), {greatest}) END"


def _floating(value: str, target: Range) -> str:
    """Return the grid integer of a double: by 64-bit integers where that is clear, as `grid.floating` says when."""
    times, over = (TYPES.double_sql(float(part)) for part in (target.step.denominator, target.step.numerator))
    quotient = f"({value} * {times})" if target.step.numerator == 1 else f"({value} * {times} / {over})"
    # half minus that error is not above a distance from 2^49 on; rounding and casting both go to the nearest, then even
    clear = f"abs({quotient} - round({quotient})) < 0.5 - (abs({quotient}) * {2.0**-50!r} + 1e-300)"
    near = f"CAST({quotient} AS {NARROW})"
    if target.clipped:
        near = f"least(greatest({near}, {target.least}), {target.greatest})"
    # dividing what is nearly nothing would raise, and its grid integer is that of 0
    nothing = min(max(0, target.least), target.greatest)
    exact = f"WHEN {POSTGRES.is_finite(value)} AND abs({value}) >= 1e-200 THEN {_by_integers(value, target)}"
    exact = f"CASE {exact} WHEN {POSTGRES.is_finite(value)} THEN {nothing} END"
    safe = f"CASE WHEN {value} = 0 OR abs({value}) BETWEEN 1e-200 AND 1e100 THEN {clear} ELSE false END"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {safe} THEN {near} ELSE {exact} END"


def _by_integers(value: str, target: Range) -> str:
    """Return the grid integer of a finite double that is not nearly nothing, in integers of any size.

    Proof: proofs/bounded_copy.md §6
    """
    times, over, slack = target.step.denominator, target.step.numerator, 0 if target.clipped else 1
    if max(times, over) > 2**53:
        raise NotExact
    low = TYPES.double_sql(outside((target.least - slack) * target.step, -1))
    high = TYPES.double_sql(outside((target.greatest + slack) * target.step, 1))
    near = f"least(greatest({value}, {low}), {high})"
    size, far = f"abs({near})", repr(2.0**60)
    integer = f"CAST(CAST(trunc({size} / {far}) AS {NARROW}) AS {WIDE}) * {2**60}"
    integer += f" + CAST(trunc({size}) - trunc({size} / {far}) * {far} AS {NARROW})"
    upper = f"(({size} - trunc({size})) * {2.0**53!r})"  # powers of two: exact
    lower = f"(({upper} - trunc({upper})) * {2.0**55!r})"
    scaled = f"(({integer}) * {2**108} + CAST(trunc({upper}) AS {NARROW}) * {WIDE} '{2**55}'"
    scaled += f" + CAST(trunc({lower}) AS {NARROW}))"
    sign = f"CASE WHEN {near} < 0 THEN -1 ELSE 1 END"
    return _to_bigint(f"({sign} * {_nearest(f'({scaled} * {times})', over << 108)})", target)


def _nearest(size: str, over: int) -> str:
    """Return the quotient of a numeric that is not negative and an integer, rounded half to even."""
    quotient, rest = f"div({size}, {over})", f"mod({size}, {over})"
    up = f"2 * {rest} > {over} OR 2 * {rest} = {over} AND mod({quotient}, 2) = 1"
    return f"({quotient} + CASE WHEN {up} THEN 1 ELSE 0 END)"


def _to_bigint(rounded: str, target: Range) -> str:
    if target.clipped:
        return f"CAST(least(greatest({rounded}, {target.least}), {target.greatest}) AS {NARROW})"
    return f"CASE WHEN {rounded} BETWEEN {target.least} AND {target.greatest} THEN CAST({rounded} AS {NARROW}) END"


def _is_number(name: str) -> str:
    return f"{name} NOT IN ('NaN', 'Infinity', '-Infinity')"


def _numeric(sql: str, target: Range) -> str:
    """Return the grid integer of a numeric of any number of places: its arithmetic is exact."""
    times, over = target.step.denominator, target.step.numerator
    slack = 0 if target.clipped else 1
    low, high = ((side * over) for side in (target.least - slack, target.greatest + slack))
    value = f"CAST({sql} AS {WIDE})"
    near = f"least(greatest({value} * {times}, {low}), {high})"  # in units of 1/times of a step
    if over == 1:  # its rounding goes away from zero, which at a tie is twice the rounded half
        rounded = f"CASE WHEN abs({near} - trunc({near})) = 0.5 THEN 2 * round({near} * 0.5) ELSE round({near}) END"
    else:
        rounded = f"(CASE WHEN {near} < 0 THEN -1 ELSE 1 END * {_nearest(f'abs({near})', over)})"
    return f"CASE WHEN {_is_number(value)} THEN {_to_bigint(rounded, target)} END"


def _double(stored: Stored) -> str:
    """Return a finite double; adding zero makes −0.0 and 0.0 one value."""
    if stored.kind is Kind.DECIMAL:  # beyond the largest double, and below the least, a cast raises
        value = f"CAST({stored.sql} AS {WIDE})"
        size = f"abs({value}) < 1.7e308 AND (abs({value}) > 1e-307 OR {value} = 0)"
        inner = f"CASE WHEN {value} = 0 THEN 0 WHEN {size} THEN CAST({value} AS {DOUBLE}) + 0 END"
        return f"CASE WHEN {_is_number(value)} THEN {inner} END"
    value = f"CAST({stored.sql} AS {DOUBLE})"
    return f"CASE WHEN {POSTGRES.is_finite(value)} THEN {value} + 0 END"


def _boolean(stored: Stored) -> str:
    value = stored.sql
    if stored.kind is Kind.INTEGER:
        return f"CASE WHEN {value} IN (0, 1) THEN CAST({value} AS {NARROW}) END"
    return f"CAST(CAST({value} AS integer) AS {NARROW})"


def _instant(stored: Stored) -> str:
    """Return a timestamp without zone; values with a zone are read in UTC."""
    return f"({stored.sql} AT TIME ZONE 'UTC')" if stored.type.endswith("with time zone") else stored.sql


def _clipped_days(column: Column, stored: Stored) -> str:
    value = stored.sql if stored.kind is Kind.DATE else f"CAST({_instant(stored)} AS date)"
    days = f"CAST({value} - {_EPOCH} AS {NARROW})"
    return f"CASE WHEN isfinite({value}) THEN {within_days(days, column, POSTGRES)} END"


def _microseconds(stored: Stored, target: Range) -> str:
    if stored.kind is Kind.DATE:  # not every date is a timestamp
        value = stored.sql
        clock = f"CAST({value} - {_EPOCH} AS {WIDE}) * 86400000000"
    else:
        value = _instant(stored)
        clock = f"trunc(extract(epoch FROM {value}) * 1000000)"
    if target.step == 1:
        return f"CASE WHEN isfinite({value}) THEN {_to_bigint(f'({clock})', target)} END"
    inner = let(whole("w", 0, 2**80, target, POSTGRES), w=clock)
    if not target.clipped:
        inner = let(f"CASE WHEN w BETWEEN {target.least} AND {target.greatest} THEN w END", w=inner)
    return f"CASE WHEN isfinite({value}) THEN {inner} END"


def _exact_integer(stored: Stored) -> str:
    match stored.kind:
        case Kind.FLOATING:
            value = f"CAST({stored.sql} AS {DOUBLE})"
            exact = f"abs({value}) < {2.0**53!r} AND {value} = trunc({value})"
            return f"CASE WHEN {exact} THEN CAST(CAST({value} AS {NARROW}) AS text) END"
        case Kind.DECIMAL:
            value = f"CAST({stored.sql} AS {WIDE})"
            inner = f"CASE WHEN {value} = trunc({value}) THEN CAST(trunc({value}) AS text) END"
            return f"CASE WHEN {_is_number(value)} THEN {inner} END"
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
