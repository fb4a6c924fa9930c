"""Dates, timestamps and durations as total scalars: integers, and the calendar where integers do not do.

A result outside of the years 1 to 9999 is NULL. Parts of a date that come again (month, hour) reach as far as they ever
do, or less where the whole range lies within one period; what only grows with time (year) reaches as its argument does.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sfumato.language import calendar
from sfumato.language.calendar import DAY_MICROSECONDS, FIRST_DAY, FIRST_MOMENT, LAST_DAY, LAST_MOMENT
from sfumato.language.intervals import RangeLaw, StepRange
from sfumato.language.numbers import (
    add_scalars,
    as_constant,
    constant,
    modulo,
    on_integers,
    quotient,
    round_to_places,
    shifted,
    subtract_scalars,
    to_finer_grid,
    with_type,
)
from sfumato.language.scalar import Operator, Scalar, Sides
from sfumato.query.expression import Call, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Interval, Type

_SECOND_MICROSECONDS = 1_000_000
_MINUTE_MICROSECONDS = 60 * _SECOND_MICROSECONDS
_HOUR_MICROSECONDS = 60 * _MINUTE_MICROSECONDS
_CLOCK = {
    "hour": (DAY_MICROSECONDS, _HOUR_MICROSECONDS),
    "minute": (_HOUR_MICROSECONDS, _MINUTE_MICROSECONDS),
    "second": (_MINUTE_MICROSECONDS, 1),
}
"""Parts of the clock: after how long they come again, and how long one is."""
_EQUAL = {
    "day": DAY_MICROSECONDS,
    "hour": _HOUR_MICROSECONDS,
    "minute": _MINUTE_MICROSECONDS,
    "second": _SECOND_MICROSECONDS,
}
"""Units that are all equally long."""
_MONDAY_OFFSET_DAYS = 3  # days from a Monday to 1970-01-01
_SUNDAY_OFFSET_DAYS = 4


def null_beyond(scalar: Scalar, low: int, high: int) -> Scalar:
    """Return an INTEGER scalar where it lies in [low, high], and NULL beyond."""
    facts = scalar.facts
    if low <= facts.low and facts.high <= high:
        return scalar
    if facts.high < low or high < facts.low:
        return constant(None, facts.type)
    narrow = replace(facts, nullable=True, low=max(low, facts.low), high=min(high, facts.high))
    return Scalar(Operator.WITHIN, (scalar,), narrow, Sides(low, high))


def in_calendar(scalar: Scalar) -> Scalar:
    """Return a date or timestamp, or NULL outside of the years 1 to 9999."""
    if scalar.facts.type is Type.DATE:
        return null_beyond(scalar, FIRST_DAY, LAST_DAY)
    return null_beyond(scalar, FIRST_MOMENT, LAST_MOMENT)


def moment_of(day: Scalar) -> Scalar:
    """Return the timestamp at which a date begins."""
    return _multiply(in_calendar(day), DAY_MICROSECONDS, Type.TIMESTAMP)


def date_of(moment: Scalar) -> Scalar:
    """Return the date of a timestamp."""
    return _floor(in_calendar(moment), DAY_MICROSECONDS, Type.DATE)


def _multiply(scalar: Scalar, factor: int, type: Type) -> Scalar:
    return to_finer_grid(_on_step(scalar, Fraction(factor), type), Fraction(1))


def _floor(scalar: Scalar, unit: int, type: Type) -> Scalar:
    """Return how many units there are, rounded down."""
    return round_to_places(Operator.FLOORED, _on_step(scalar, Fraction(1, unit), type), 0, type)


def _since(scalar: Scalar, unit: int) -> Scalar:
    """Return the remainder of rounding down to units, from 0 to unit - 1."""
    low, high = scalar.facts.low, scalar.facts.high
    start = low // unit * unit
    rest = modulo(shifted(scalar, start), constant(unit, Type.INTEGER), Type.INTEGER)
    if low // unit != high // unit:
        return rest
    return as_constant(replace(rest, facts=replace(rest.facts, low=low % unit, high=high % unit)))


def _on_step(scalar: Scalar, step: Fraction, type: Type) -> Scalar:
    """Return the same integers as numbers of another step."""
    return replace(scalar, facts=replace(scalar.facts, step=step, type=type))


def _on_days(operator: Operator, day: Scalar, law: RangeLaw, type: Type, extra: str | int) -> Scalar:
    scalar = on_integers(operator, (day,), type, law, Fraction(1), extra=extra)
    if scalar is None:
        raise ValueError("a day of the calendar led beyond 128 bits")
    return scalar


def _monotone_law(function: Callable[[int], int]) -> RangeLaw:
    def law(only: StepRange) -> StepRange:
        return function(only[0]), function(only[1])

    return law


def _lower_date_trunc(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    unit, time = str(_spelled_argument(call, 0)), in_calendar(arguments[1])
    if unit in _EQUAL:
        if time.facts.type is Type.DATE:
            return moment_of(time)
        return _multiply(_floor(time, _EQUAL[unit], call.type), _EQUAL[unit], call.type)
    day = time if time.facts.type is Type.DATE else date_of(time)
    if unit == "week":
        weeks = _floor(shifted(day, -_MONDAY_OFFSET_DAYS), 7, Type.DATE)
        start = shifted(_multiply(weeks, 7, Type.DATE), _MONDAY_OFFSET_DAYS)
    else:
        law = _monotone_law(lambda day: calendar.period_start(day, unit))
        start = _on_days(Operator.PERIOD_START, day, law, Type.DATE, unit)
    return moment_of(start)


def _lower_extract(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    part, time = str(_spelled_argument(call, 0)), arguments[1]
    if time.facts.type is Type.INTERVAL:
        return with_type(_of_interval(part, time), call.type)
    return with_type(_of_time(part, in_calendar(time)), call.type)


def _of_time(part: str, time: Scalar) -> Scalar:
    dated = time.facts.type is Type.DATE
    if part == "epoch":
        return _on_step(
            time,
            Fraction(DAY_MICROSECONDS, _SECOND_MICROSECONDS) if dated else Fraction(1, _SECOND_MICROSECONDS),
            Type.DECIMAL,
        )
    if part in _CLOCK:
        return _clock(part, time)
    day = time if dated else date_of(time)
    match part:
        case "dow":
            return _since(shifted(day, -_SUNDAY_OFFSET_DAYS), 7)
        case "isodow":
            return shifted(_since(shifted(day, -_MONDAY_OFFSET_DAYS), 7), -1)
        case "year":
            law = _monotone_law(lambda day: calendar.civil(day)[0])
        case _:
            law = _recurring_law(part)
    return _on_days(Operator.DAY_PART, day, law, Type.INTEGER, part)


def _recurring_law(part: str) -> RangeLaw:
    def law(only: StepRange) -> StepRange:
        return calendar.part_range(part, *only)

    return law


def _clock(part: str, moment: Scalar) -> Scalar:
    again, unit = _CLOCK[part]
    rest = _since(moment, again)
    if part == "second":
        return _on_step(rest, Fraction(1, _SECOND_MICROSECONDS), Type.DECIMAL)
    return _floor(rest, unit, Type.INTEGER)


def _of_interval(part: str, span: Scalar) -> Scalar:
    """Return a part of a difference: whole days, then what is left of the clock, all of one sign."""
    if part == "epoch":
        return _on_step(span, Fraction(1, _SECOND_MICROSECONDS), Type.DECIMAL)
    if part == "day":
        return quotient(span, constant(DAY_MICROSECONDS, Type.INTEGER), Type.INTEGER)
    again, unit = _CLOCK[part]
    rest = modulo(span, constant(again, Type.INTEGER), Type.INTEGER)
    if part == "second":
        return _on_step(rest, Fraction(1, _SECOND_MICROSECONDS), Type.DECIMAL)
    return quotient(rest, constant(unit, Type.INTEGER), Type.INTEGER)


def _lower_date_shift(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    time, by = in_calendar(arguments[0]), arguments[1]
    if by.facts.type is Type.INTERVAL:
        span = _spelled_argument(call, 1)
        return _by_interval(time, span) if isinstance(span, Interval) else constant(None, call.type)
    reach = LAST_DAY - FIRST_DAY  # no date is farther from another
    return in_calendar(add_scalars(time, null_beyond(with_type(by, Type.DATE), -reach, reach), call.type))


def _by_interval(time: Scalar, span: Interval) -> Scalar:
    """Return the timestamp after months, days and microseconds, in this order, as PostgreSQL adds them."""
    dated = time.facts.type is Type.DATE
    if span.months:
        time = _stays_in_calendar(time, span.months)
        if time.operator is Operator.CONSTANT and time.constant is None:
            return constant(None, Type.TIMESTAMP)
    if dated:
        day = time
        if span.months:
            law = _monotone_law(lambda day: calendar.months_later(day, span.months))
            day = _on_days(Operator.DAY_LATER, time, law, Type.DATE, span.months)
        moment = _multiply(day, DAY_MICROSECONDS, Type.TIMESTAMP)
    elif span.months:
        law = _moments_later(span.months)
        moment = _on_days(Operator.MOMENT_LATER, time, law, Type.TIMESTAMP, span.months)
    else:
        moment = time
    offset = span.days * DAY_MICROSECONDS + span.microseconds
    return in_calendar(shifted(moment, -offset) if offset else moment)


def _stays_in_calendar(time: Scalar, months: int) -> Scalar:
    """Return a date or timestamp, or NULL where the months lead out of the years 1 to 9999.

    Engines know other years than these and fail beyond them, by the value of one row: none may be asked to go there.
    """
    low, after = (calendar.months_later(day, -months) for day in (FIRST_DAY, LAST_DAY + 1))  # first days of months
    unit = 1 if time.facts.type is Type.DATE else DAY_MICROSECONDS
    return null_beyond(time, low * unit, after * unit - 1)


def _moments_later(months: int) -> RangeLaw:
    """Return the law of MOMENT_LATER: days that fall together keep their clocks, so that it does not only rise."""

    def law(only: StepRange) -> StepRange:
        (low_day, low_clock), (high_day, high_clock) = (divmod(side, DAY_MICROSECONDS) for side in only)
        low, high = calendar.months_later(low_day, months), calendar.months_later(high_day, months)
        if low_day < high_day:
            low_clock = 0 if calendar.months_later(low_day + 1, months) == low else low_clock
            high_clock = DAY_MICROSECONDS - 1 if calendar.months_later(high_day - 1, months) == high else high_clock
        return low * DAY_MICROSECONDS + low_clock, high * DAY_MICROSECONDS + high_clock

    return law


def _lower_date_difference(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    first, second = (in_calendar(argument) for argument in arguments)
    return subtract_scalars(first, second, call.type)


def _spelled_argument(call: Call, place: int) -> object:
    argument = call.arguments[place]
    return argument.value if isinstance(argument, Literal) else None


TIMES: dict[Function, Callable[[Call, tuple[Scalar, ...]], Scalar]] = {
    Function.DATE_TRUNC: _lower_date_trunc,
    Function.EXTRACT: _lower_extract,
    Function.SHIFT: _lower_date_shift,
    Function.ELAPSED: _lower_date_difference,
}
"""How each function of times is lowered."""
