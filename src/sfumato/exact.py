"""Read numbers as exact integers and fractions, or refuse them.

`rational` reads numbers that decide privacy inside the library: it refuses floats, because the float 0.1 is not one
tenth. `decimal_rational` reads a float as its shortest decimal text, so 0.1 means one tenth. `typed_rational` does the
same for prices and margins of queries, and limits the number of digits.
"""

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from operator import index

from sfumato.errors import BadParameter, quote_value

# Four digits of exponent are more than any parameter needs and keep 1e999999999 from filling the memory.
_TEXT = re.compile(r"[+-]?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?)", re.ASCII)
_MAX_NUMBER_CHARS = 2000
# No parameter of privacy needs more than some two thousand digits, and Python refuses to print more than 4300.
_MAX_INTEGER_BITS = 8192
TYPED_DIGITS = 40
"""Maximum number of digits in numerator and denominator of an epsilon, a delta or a margin, as in a policy."""
_MAX_TYPED_INTEGER = 10**TYPED_DIGITS


def rational(value: object, name: str) -> Fraction:
    """Read an exact number; floats are refused.

    >>> rational("0.1", "epsilon"), rational(3, "epsilon")
    (Fraction(1, 10), Fraction(3, 1))
    """
    if isinstance(value, Fraction):
        return value  # internal sums of fractions stay exact, however long they grow
    if isinstance(value, Rational) and _is_count(value):
        return _check_bits(Fraction(int(value.numerator), int(value.denominator)), name)
    if isinstance(value, Decimal | str):
        return _from_text(value, name)
    if _is_float(value):
        raise BadParameter(
            f"{name} = {quote_value(value)} is a binary floating-point number.",
            "It is not the decimal that was typed, and privacy is decided by exact numbers only.",
            f"Write a fraction or decimal text, for example Fraction({_example_number(value)!r}).",
        )
    raise BadParameter(
        f"{name} = {quote_value(value)} is not a number.",
        f"{name} takes an integer, a Fraction, a Decimal or decimal text.",
        "Write for example Fraction(1, 10) or '0.1'.",
    )


def decimal_rational(value: object, name: str) -> Fraction:
    """Read a number as a person means it: a float is its decimal text.

    >>> decimal_rational(0.1, "epsilon")
    Fraction(1, 10)
    """
    if _is_float(value):
        return _from_text(repr(float(value)), name)  # type: ignore[arg-type]
    return rational(value, name)


def typed_rational(value: object, name: str) -> Fraction:
    """Read an epsilon, a delta or a margin with at most 40 digits in numerator and denominator.

    A lower limit would refuse plausible numbers; a higher one would make prices slow to compute and sums grow with
    every query.

    >>> typed_rational("1/3", "epsilon"), typed_rational(1e-9, "delta")
    (Fraction(1, 3), Fraction(1, 1000000000))
    """
    number = decimal_rational(value, name)
    if abs(number.numerator) <= _MAX_TYPED_INTEGER and number.denominator <= _MAX_TYPED_INTEGER:
        return number
    raise BadParameter(
        f"{name} = {quote_value(value)} has more than {TYPED_DIGITS} digits.",
        f"As a fraction it has more than {TYPED_DIGITS} digits above or below the line; no price or margin needs them.",
        f"Give {name} with fewer digits, neither that small nor that large.",
    )


def typed_share(value: object, name: str) -> Fraction:
    """Read a share: a percentage such as "2%", or a number above 0 and at most 1.

    >>> typed_share("2%", "share"), typed_share("1/50", "share"), typed_share(0.02, "share")
    (Fraction(1, 50), Fraction(1, 50), Fraction(1, 50))
    """
    text = value.strip() if isinstance(value, str) else ""
    share = typed_rational(text[:-1].rstrip(), name) / 100 if text.endswith("%") else typed_rational(value, name)
    if 0 < share <= 1:
        return share
    raise BadParameter(
        f"{name} = {quote_value(value)} is not a share.",
        "It is above 0 and at most 1, or a percentage of at most 100 %.",
        f"Give {name} as a percentage such as '2%', or as 0.02 or 1/50.",
    )


def positive(value: Fraction, name: str) -> Fraction:
    """Return `value` if it is above zero."""
    if value.numerator > 0:
        return value
    raise BadParameter(
        f"{name} = {quote_value(value)} is not positive.",
        "It must be above zero.",
        f"Give {name} > 0.",
    )


def positive_rational(value: object, name: str) -> Fraction:
    """Read an exact number above zero, of a length that a person could have written."""
    if type(value) is Fraction and value.numerator > 0:
        return _check_bits(value, name)
    return _check_bits(positive(rational(value, name), name), name)


def integer(value: object, name: str, least: int | None) -> int:
    """Read an integer that is at least `least`, if there is a least; booleans and floats are refused."""
    if type(value) is int and (least is None or value >= least) and value.bit_length() <= _MAX_INTEGER_BITS:
        return value
    if isinstance(value, Integral) and _is_count(value):
        number = _check_bits(Fraction(index(value)), name).numerator
    elif isinstance(value, Fraction) and value.denominator == 1:
        number = value.numerator
    else:
        raise BadParameter(
            f"{name} = {quote_value(value)} is not an integer.",
            f"{name} is counted in whole units of a public grid.",
            "Give an integer." if least is None else f"Give an integer of at least {least}.",
        )
    if least is not None and number < least:
        raise BadParameter(
            f"{name} = {quote_value(number)} is below {least}.",
            "Smaller values are not allowed.",
            f"Give an integer of at least {least}.",
        )
    return number


def probability(value: object, name: str) -> Fraction:
    """Read a number strictly between 0 and 1, floats by their decimal text."""
    number = decimal_rational(value, name)
    if 0 < number < 1:
        return _check_bits(number, name)
    raise BadParameter(
        f"{name} = {quote_value(value)} is not between 0 and 1.",
        f"{name} is a probability; 0 and 1 themselves are not allowed.",
        f"Give a {name} such as {'1e-6' if name == 'delta' else '0.95'}.",
    )


def power_of_two_below(value: Fraction) -> Fraction:
    """Return the largest power of two that is not above a positive number.

    >>> power_of_two_below(Fraction(1, 10)), power_of_two_below(Fraction(5)), power_of_two_below(Fraction(1, 4))
    (Fraction(1, 16), Fraction(4, 1), Fraction(1, 4))
    """
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    return power if power <= value else power / 2


def _check_bits(number: Fraction, name: str) -> Fraction:
    if number.numerator.bit_length() <= _MAX_INTEGER_BITS >= number.denominator.bit_length():
        return number
    raise BadParameter(
        f"{name} is a number of more than {_MAX_INTEGER_BITS} bits.",
        "The size of numbers is limited, which keeps exact arithmetic fast.",
        f"Give {name} with fewer digits.",
    )


def _is_count(value: object) -> bool:
    # to Python, True is 1 and numpy's durations are integers; to a person neither is a number
    return not isinstance(value, bool) and type(value).__name__ != "timedelta64"


def _is_float(value: object) -> bool:
    # numpy's float64 is a float; its other widths are recognised without importing numpy for every number
    return isinstance(value, float) or type(value).__name__ in {"float16", "float32", "longdouble"}


def _example_number(value: object) -> str:
    text = repr(float(value))  # type: ignore[arg-type]
    return text if text not in {"nan", "inf", "-inf"} else "0.1"


def _from_text(value: Decimal | str, name: str) -> Fraction:
    text = str(value).strip()
    if len(text) <= _MAX_NUMBER_CHARS and _TEXT.fullmatch(text) and not re.search(r"/0+$", text):
        return _check_bits(Fraction(text), name)
    raise BadParameter(
        f"{name} = {quote_value(text)} is not a finite number.",
        f"{name} is a decimal or a fraction of two integers; NaN and infinities are not allowed.",
        "Write for example 0.1 or 1/10.",
    )
