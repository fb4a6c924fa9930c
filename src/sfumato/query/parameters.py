"""Values that come beside the text: `$1` and `:name` stand for literals of our algebra, never for more text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import decimal_rational
from sfumato.query.expression import Literal, Value
from sfumato.query.literal import MAX_EXPONENT, MAX_INTEGER, MAX_NUMBER_CHARS
from sfumato.query.types import Type


@dataclass(frozen=True, slots=True)
class LiteralList:
    """The value of a parameter that stands for an array: `= ANY($1)`."""

    items: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"ARRAY[{', '.join(map(str, self.items))}]" if self.items else "'{}'"


Bindings = Mapping[str, Literal | LiteralList]
"""Value of each parameter, by the name after its $ or colon."""

MAX_PARAMETERS = 1000
MAX_LIST_ITEMS = 1000
"""Maximum number of values in a list of the text, and in an array."""
MAX_VALUE_CHARS = 20_000
_NAME = re.compile(r"[1-9]\d{0,4}|[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def bind(parameters: object) -> Bindings | None:
    """Read the values of a question: a list for $1, $2, …, or a mapping by name; None where there are none."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        values = {str(name) if isinstance(name, int) else name: value for name, value in parameters.items()}
    elif isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
        values = {str(number): value for number, value in enumerate(parameters, 1)}
    else:
        raise _bad_value("parameters", parameters, "They are a list for $1, $2, …, or a dict by name.")
    if len(values) > MAX_PARAMETERS:
        raise _bad_value("parameters", "…", f"A question has at most {MAX_PARAMETERS}.")
    for name in values:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _bad_value("The name of a parameter", name, "It is a number, or letters, digits and underscores.")
    return {name: _bound(value, f"${name}" if name.isdigit() else f":{name}") for name, value in values.items()}


def _bound(value: object, name: str) -> Literal | LiteralList:
    """Return a value as a literal, or a list of values as that of an array."""
    if not _is_list(value):
        return literal_of(value, name)
    items: Any = value
    if len(items) > MAX_LIST_ITEMS:
        raise BadParameter(
            f"{name} has {len(items):,} items.", f"A list may have {MAX_LIST_ITEMS}.", "Join a public table instead."
        )
    return LiteralList(tuple(literal_of(item, f"{name}[{number}]") for number, item in enumerate(items, 1)))


def _is_list(value: object) -> bool:
    """Whether a value holds several: a list or tuple of Python, an array of NumPy, a column of pandas."""
    if isinstance(value, list | tuple):
        return True
    kind: Any = value
    module = type(value).__module__.partition(".")[0]
    return module in {"numpy", "pandas"} and getattr(kind, "ndim", 0) == 1


def literal_of(value: object, name: str) -> Literal:
    """Return a value of Python, NumPy or pandas as a literal: exact, within the limits that one in the text has."""
    value = _python_value(value, name)
    match value:
        case None:
            return Literal(None, Type.NULL)
        case bool():
            return Literal(value, Type.BOOLEAN)
        case int() if abs(value) <= MAX_INTEGER:
            return Literal(value, Type.INTEGER)
        case float() | Decimal() | Fraction():
            return Literal(_exact_decimal(value, name), Type.DECIMAL)
        case datetime() if value.tzinfo is None:
            return Literal(value, Type.TIMESTAMP)
        case datetime():  # timestamps are in UTC
            return Literal(value.astimezone(UTC).replace(tzinfo=None), Type.TIMESTAMP)
        case date():
            return Literal(value, Type.DATE)
        case str() if len(value) <= MAX_VALUE_CHARS and not _STRANGE.search(value):
            return Literal(value, Type.TEXT)
    raise _bad_value(
        name,
        value,
        f"A value is an integer of 64 bits, a decimal, a boolean, a date, a timestamp, or a text of at most "
        f"{MAX_VALUE_CHARS} characters, none of which is a control character.",
    )


def _python_value(value: object, name: str) -> object:
    """Return a value of NumPy or pandas as Python's own; NaT and NA are NULL. Neither library is imported for it."""
    kind = type(value)
    if kind.__name__ in {"NaTType", "NAType"}:
        return None
    if isinstance(value, datetime):
        if getattr(value, "nanosecond", 0):
            raise _bad_value(name, value, "A timestamp has microseconds, and no finer part.")
        return value if kind is datetime else _as_datetime(value)
    given: Any = value
    if kind.__module__ != "numpy" or not hasattr(given, "dtype") or given.ndim:
        return value
    if given.dtype.kind != "M":
        return value if given.dtype.kind in "mVO" else given.item()
    if given != given:
        return None
    unit = str(given.dtype).removeprefix("datetime64[").removesuffix("]")
    converted = given.astype("datetime64[D]" if unit in {"Y", "M", "W", "D"} else "datetime64[us]")
    if converted != given or not isinstance(plain := converted.item(), date):
        raise _bad_value(name, value, "A timestamp has microseconds and no finer part, in the years 1 to 9999.")
    return plain


def _as_datetime(value: datetime) -> datetime:
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return datetime(*parts, tzinfo=value.tzinfo)


def _exact_decimal(value: float | Decimal | Fraction, name: str) -> Fraction:
    exact = decimal_rational(value, name)
    rest, digits = exact.denominator, 0
    for prime in (2, 5):
        while rest % prime == 0 and digits <= MAX_NUMBER_CHARS + MAX_EXPONENT:
            rest, digits = rest // prime, digits + 1
    if rest != 1 or digits > MAX_NUMBER_CHARS + MAX_EXPONENT or abs(exact) > 10**MAX_EXPONENT:
        raise _bad_value(name, value, "A decimal ends, and has at most 38 digits on each side of its point.")
    return exact


def inline_parameters(sql: str, bindings: Bindings | None) -> str:
    """Return the text with each value in its parameter's place, as a person would have written it.

    It is kept in the history, where it can be asked again; what is answered was never this text.

    >>> inline_parameters("SELECT a - $1, '$1' FROM t WHERE b = :b", {"1": Literal(-2, Type.INTEGER),
    ...     "b": Literal("it's", Type.TEXT)})
    "SELECT a - (-2), '$1' FROM t WHERE b = 'it''s'"
    """
    if not bindings:
        return sql

    def value(match: re.Match[str]) -> str:
        literal = bindings.get(match["number"] or match["name"] or "")
        text = match[0] if literal is None else str(literal)
        return f"({text})" if literal is not None and text.startswith("-") else text

    return _PLACES.sub(value, sql)


_PLACES = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|::|"
    r"\$(?P<number>[1-9]\d{0,4})|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)",
    re.ASCII | re.DOTALL,
)


def _bad_value(name: str, value: Value | object, why: str) -> BadParameter:
    return BadParameter(f"{name} = {quote_value(value)} cannot be read.", why, "Give another value.")
