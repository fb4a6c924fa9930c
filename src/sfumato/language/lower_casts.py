"""Casts from and to text, dates and timestamps as total scalars: text that cannot be read is NULL."""

from fractions import Fraction

from sfumato.language.calendar import FIRST_DAY, FIRST_MOMENT, LAST_DAY, LAST_MOMENT
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.lower_times import date_of, in_calendar, moment_of
from sfumato.language.numbers import constant, is_null, round_to_places, to_finer_grid
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.expression import Cast
from sfumato.query.position import SourceSpan
from sfumato.query.types import Type

READ_STEP = Fraction(1, 10**9)
"""The grid on which text is read as a decimal; 64 bits hold it to 9.2 billion on either side of zero."""
_MAX_PLACES = 37
_SHOWN_PLACES = 12
"""Of a number whose decimals do not end, or end too far."""
_MAX_DOUBLE_CHARS = 24

_READ = {
    Type.INTEGER: (Operator.READ_INTEGER, Kind.INTEGER, Fraction(1), -STORED_LIMIT, STORED_LIMIT - 1),
    Type.DECIMAL: (Operator.READ_DECIMAL, Kind.INTEGER, READ_STEP, -STORED_LIMIT, STORED_LIMIT - 1),
    Type.BOOLEAN: (Operator.READ_BOOLEAN, Kind.BOOLEAN, Fraction(1), 0, 0),
    Type.DATE: (Operator.READ_DAY, Kind.INTEGER, Fraction(1), FIRST_DAY, LAST_DAY),
    Type.TIMESTAMP: (Operator.READ_MOMENT, Kind.INTEGER, Fraction(1), FIRST_MOMENT, LAST_MOMENT),
}


def lower_cast(cast: Cast, argument: Scalar) -> Scalar:
    """Return the argument as another type, where one of the two is a text, a date or a timestamp."""
    source_type = argument.facts.type
    if source_type is cast.type:
        return argument
    if is_null(argument):
        return constant(None, cast.type)
    match source_type, cast.type:
        case Type.TEXT, _ if cast.type in _READ:
            return _read_text(argument, cast.type)
        case Type.DATE, Type.TIMESTAMP:
            return moment_of(argument)
        case Type.TIMESTAMP, Type.DATE:
            return date_of(argument)
        case _, Type.TEXT if source_type is not Type.INTERVAL:
            return _format_as_text(argument)
    raise SourceSpan(cast.at).unsupported(
        f"a value of type {source_type} cannot be cast to {cast.type}.",
        "There is no form of it that is the same on every engine.",
        "Use EXTRACT(epoch FROM …) to get the seconds of an interval as a number.",
    )


def _read_text(text: Scalar, type: Type) -> Scalar:
    operator, kind, step, low, high = _READ[type]
    bounded = kind is Kind.BOOLEAN
    facts = Facts(type, kind, step=step, low=low, high=high, declared_low=bounded, declared_high=bounded)
    return Scalar(operator, (text,), facts)


def _format_as_text(argument: Scalar) -> Scalar:
    match argument.facts.kind, argument.facts.type:
        case Kind.BOOLEAN, _:
            return _text_scalar(Operator.BOOLEAN_TEXT, argument, 5)
        case Kind.REAL, _:
            return _text_scalar(Operator.REAL_TEXT, argument, _MAX_DOUBLE_CHARS)
        case _, Type.DATE:
            return _text_scalar(Operator.DAY_TEXT, in_calendar(argument), 10)
        case _, Type.TIMESTAMP:
            return _text_scalar(Operator.MOMENT_TEXT, in_calendar(argument), 26)
        case _:
            return _format_number(argument)


def _format_number(argument: Scalar) -> Scalar:
    places = _decimal_places(argument.facts.step)
    number = round_to_places(Operator.ROUNDED, argument, _SHOWN_PLACES, Type.DECIMAL) if places is None else argument
    if number.facts.kind is Kind.INTEGER:
        places = _SHOWN_PLACES if places is None else places
        number = to_finer_grid(number, Fraction(1, 10**places))
    if number.facts.kind is Kind.REAL or places is None:
        return _text_scalar(Operator.REAL_TEXT, number, _MAX_DOUBLE_CHARS)
    digits = max(len(str(abs(side))) for side in (number.facts.low, number.facts.high))
    return _text_scalar(Operator.NUMBER_TEXT, number, max(digits, places + 1) + 2, places)


def _decimal_places(step: Fraction) -> int | None:
    """Return how many decimal places the multiples of a step have, or None if they are too many."""
    return next((places for places in range(_MAX_PLACES + 1) if (step * 10**places).denominator == 1), None)


def _text_scalar(operator: Operator, argument: Scalar, longest: int, places: int | None = None) -> Scalar:
    return Scalar(
        operator, (argument,), Facts(Type.TEXT, Kind.TEXT, argument.facts.nullable, max_chars=longest), places
    )
