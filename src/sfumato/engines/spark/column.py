"""How Spark reads a column of the source: an integer on the grid, text, or NULL where it has no meaning.

Each expression looks at one value, never raises, and depends on the policy and the source's type alone. A value that
the declared type cannot hold is absent, as NULL is: NaN, infinities, names of partitions that are no number.
"""

import re

from sfumato.engines.spark.dialect import SPARK
from sfumato.engines.spark.numbers import DOUBLE, NARROW, TYPES, WIDE, given, seldom
from sfumato.engines.spark.texts import cut_out, day_of, moment_of, truth_sql
from sfumato.engines.spark.times import day_sql
from sfumato.engines.sql.column import Kind, Stored, ValueForms, within_days
from sfumato.engines.sql.grid import Range, floating, outside, whole
from sfumato.engines.sql.texts import DECIMAL, INTEGER
from sfumato.policy.policy import Column

NANOSECONDS = "nanoseconds"
"""Our name for the type of timestamps that Spark reads as integers: it has none so fine."""
_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("float", "double"), Kind.FLOATING),
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    **dict.fromkeys(("timestamp", "timestamp_ntz", NANOSECONDS), Kind.CLOCK),
    "string": Kind.TEXT,
    "void": Kind.NOTHING,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MAX_QUICK_PRODUCT = 2**46
"""Below this a quotient errs by less than a sixteenth, and half a step times the step's numerator is exact."""
_SPLIT_FACTOR = 2.0**27 + 1
"""The factor that splits a double into two halves of 26 bits."""
_TEXT_PLACES = 18
"""Numbers in names of partitions are read with this many places, as many as the finest step has."""


def stored(sql: str, type: str, raw: bool = False) -> Stored:
    """Return a value of the source; `raw`: it is text that has not been parsed yet."""
    if raw:
        return Stored(sql, "string", Kind.RAW)
    if _DECIMAL.fullmatch(type):
        return Stored(sql, type, Kind.DECIMAL)
    return Stored(sql, type, _KINDS.get(type, Kind.TEXT if type.startswith(("char(", "varchar(")) else Kind.OTHER))


def _text(stored: Stored) -> str:
    """Bytes that are no text are absent."""
    text = stored.sql if stored.type == "string" else f"CAST({stored.sql} AS STRING)"
    return f"try_validate_utf8({text})" if stored.kind is Kind.TEXT else text


def _number(stored: Stored, target: Range) -> str:
    value = stored.sql
    match stored.kind:
        case Kind.FLOATING:
            return _floating(f"CAST({value} AS {DOUBLE})", target)
        case Kind.INTEGER if target.step == 1:  # without going through wide integers
            narrow = f"CAST({value} AS {NARROW})"
            if not target.clipped:
                return narrow
            least, greatest = (TYPES.integer(side, NARROW) for side in (target.least, target.greatest))
            return f"CASE WHEN {value} IS NOT NULL THEN least(greatest({narrow}, {least}), {greatest}) END"
        case Kind.INTEGER:
            return given([f"CAST({value} AS {WIDE})"], lambda v: whole(v, 0, 2**63, target, SPARK))
        case Kind.RAW:
            text = f"try_cast({cut_out(value, DECIMAL)} AS DECIMAL(38,{_TEXT_PLACES}))"
            return _number(Stored(text, f"decimal(38,{_TEXT_PLACES})", Kind.DECIMAL), target)
        case _:
            digits, places = _places(stored)
            return given([_digits(value, places)], lambda v: whole(v, places, 10**digits, target, SPARK))


def _floating(v: str, target: Range) -> str:
    """Return the grid integer of a double: as `grid.floating` does, and where the quotient is clear, by that alone.

    It is written out, and short: a lambda is interpreted for every row, and Java does not compile what is long.
    """
    times, over = target.step.denominator, target.step.numerator
    slow = seldom(v, lambda value: floating(value, target, SPARK))  # refuses what is not exact
    if target.clipped:
        low, high = (outside(side * target.step, way) for side, way in ((target.least, -1), (target.greatest, 1)))
        if max(abs(low), abs(high)) * times < _MAX_QUICK_PRODUCT:
            bounded = f"least(greatest({v}, {TYPES.double_sql(low)}), {TYPES.double_sql(high)})"
            rounded = given([bounded], lambda value: _nearest(value, times, over))
            slow = f"CASE WHEN {SPARK.is_finite(v)} THEN {_clip(rounded, target)} END"
    quotient = f"({v} * {TYPES.double_sql(float(times))} / {TYPES.double_sql(float(over))})"
    error = f"(abs({quotient}) * {TYPES.double_sql(2.0**-50)} + {TYPES.double_sql(1e-300)})"
    clear = f"abs({quotient} - rint({quotient})) < {TYPES.double_sql(0.5)} - {error}"
    return f"CASE WHEN {clear} THEN {_clip(f'CAST(rint({quotient}) AS {NARROW})', target)} ELSE {slow} END"


def _clip(grid: str, target: Range) -> str:
    return f"least(greatest({grid}, {target.least}L), {target.greatest}L)" if target.clipped else grid


def _nearest(v: str, times: int, over: int) -> str:
    """Round v · times / over half to even, where |v| · times is below `_MAX_QUICK_PRODUCT`.

    |v| · times is the sum of two doubles [Dek71], and so are the ties: whether it lies beyond the tie in its own unit
    interval is a comparison of doubles.  Proof: proofs/bounded_copy.md §6
    """
    double, size = TYPES.double_sql, f"abs({v})"
    product = f"({size} * {double(float(times))})"
    whole_part = f"floor({product} / {double(float(over))})"
    beyond = f"({product} - ({whole_part} + {double(0.5)}) * {double(float(over))})"
    spread = f"({size} * {double(_SPLIT_FACTOR)})"
    upper = f"({spread} - ({spread} - {size}))"
    lower = f"({size} - {upper})"
    first = float(times) * _SPLIT_FACTOR - (float(times) * _SPLIT_FACTOR - float(times))
    high, low = double(first), double(float(times) - first)
    rest = f"({upper} * {high} - {product} + {upper} * {low} + {lower} * {high} + {lower} * {low})"
    up = f"CASE WHEN {beyond} > -{rest} THEN 1L WHEN {beyond} = -{rest} THEN {whole_part} % 2L ELSE 0L END"
    return f"({whole_part} + {up}) * CASE WHEN {v} < {double(0.0)} THEN -1L ELSE 1L END"


def _places(stored: Stored) -> tuple[int, int]:
    match = _DECIMAL.fullmatch(stored.type)
    if match is None:
        raise AssertionError("a decimal says how many digits it has")
    return int(match[1]), int(match[2])


def _digits(sql: str, places: int) -> str:
    """Return a decimal times 10^places as a wide integer: its digits, which Spark prints without an exponent."""
    return f"CAST(replace(CAST({sql} AS STRING), '.', '') AS {WIDE})" if places else f"CAST({sql} AS {WIDE})"


def _double(stored: Stored) -> str:
    """Return a finite double; adding zero makes −0.0 and 0.0 one value."""
    value = stored.sql
    if stored.kind is Kind.RAW:
        value = f"try_cast({cut_out(value, DECIMAL)} AS {DOUBLE})"
    zero = TYPES.double_sql(0.0)
    return given([f"CAST({value} AS {DOUBLE})"], lambda v: f"CASE WHEN {SPARK.is_finite(v)} THEN {v} + {zero} END")


def _boolean(stored: Stored) -> str:
    value = stored.sql
    match stored.kind:
        case Kind.INTEGER:
            return f"CASE WHEN {value} IN (0, 1) THEN CAST({value} AS {NARROW}) END"
        case Kind.RAW:
            return f"CAST({truth_sql(value)} AS {NARROW})"
        case _:
            return f"CAST({value} AS {NARROW})"


def _instant(stored: Stored) -> str:
    """Return microseconds since 1970 of a timestamp: values with a zone are read in UTC, as in the session."""
    return f"unix_micros(CAST({stored.sql} AS TIMESTAMP))"


def _days(column: Column, stored: Stored) -> str:
    match stored.kind:
        case Kind.DATE:
            days = day_sql(stored.sql)
        case Kind.RAW:
            days = day_of(stored.sql)
        case _ if stored.type == NANOSECONDS:
            days = f"CAST(floor({stored.sql} / CAST('86400000000000' AS DECIMAL(14,0))) AS {NARROW})"
        case _:
            days = day_sql(f"CAST({stored.sql} AS DATE)")
    return given([days], lambda v: f"CASE WHEN {v} IS NOT NULL THEN {within_days(v, column, SPARK)} END")


def _microseconds(stored: Stored, target: Range) -> str:
    places = 0
    match stored.kind:
        case Kind.DATE:
            clock = f"CAST({day_sql(stored.sql)} AS {WIDE}) * CAST('86400000000' AS {WIDE})"
        case Kind.RAW:
            clock = f"CAST({moment_of(stored.sql)} AS {WIDE})"
        case _ if stored.type == NANOSECONDS:
            clock, places = f"CAST({stored.sql} AS {WIDE})", 3
        case _:
            clock = f"CAST({_instant(stored)} AS {WIDE})"
    grid = given([clock], lambda v: whole(v, places, 2**80, target, SPARK))
    if target.clipped:
        return grid
    return given([grid], lambda v: f"CASE WHEN {v} BETWEEN {target.least} AND {target.greatest} THEN {v} END")


def _exact_integer(stored: Stored) -> str:
    match stored.kind:
        case Kind.RAW:  # 7, 007 and 7.0 are the integer seven
            number = cut_out(stored.sql, INTEGER, "(?:[.]0*)?")
            return f"CAST(try_cast({number} AS {WIDE}) AS STRING)"
        case Kind.FLOATING:
            limit = TYPES.double_sql(2.0**53)
            return given(
                [f"CAST({stored.sql} AS {DOUBLE})"],
                lambda v: (
                    f"CASE WHEN abs({v}) < {limit} THEN CASE WHEN {v} = {SPARK.truncated(v)} "
                    f"THEN CAST(CAST({v} AS {NARROW}) AS STRING) END END"
                ),
            )
        case Kind.DECIMAL:
            _, places = _places(stored)
            one = TYPES.integer(10**places, WIDE)
            return given(
                [_digits(stored.sql, places)],
                lambda v: f"CASE WHEN {v} % {one} = 0 THEN CAST({SPARK.quotient(v, one)} AS STRING) END",
            )
        case _:
            return f"CAST({stored.sql} AS STRING)"


def _plain_integer(stored: Stored) -> str | None:
    return f"CAST({stored.sql} AS {NARROW})" if stored.kind is Kind.INTEGER else None


def _is_a_day(stored: Stored) -> str | None:
    match stored.kind:
        case Kind.DATE:
            return None
        case Kind.RAW:
            return f"{moment_of(stored.sql)} % 86400000000 = 0"
        case _ if stored.type == NANOSECONDS:
            return f"{stored.sql} % 86400000000000 = 0"
        case _:
            return f"{_instant(stored)} % 86400000000 = 0"


def _is_of_microseconds(stored: Stored) -> str | None:
    return f"{stored.sql} % 1000 = 0" if stored.type == NANOSECONDS else None


READING = ValueForms(
    NARROW,
    DOUBLE,
    "STRING",
    text=_text,
    number=_number,
    double=_double,
    boolean=_boolean,
    days=_days,
    microseconds=_microseconds,
    exact_integer=_exact_integer,
    is_a_day=_is_a_day,
    is_of_microseconds=_is_of_microseconds,
    plain_integer=_plain_integer,
)
