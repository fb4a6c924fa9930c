"""Numbers as plain text, rounded to the safe side."""

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

_DIGITS = 4


def round_down(value: Fraction) -> str:
    """Write what is left with four digits, never above its value.

    >>> round_down(Fraction(2, 3)), round_down(Fraction(3))
    ('0.6666', '3')
    """
    down = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    rounded = down.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(down)
    return f"{rounded:f}" if not rounded or -7 < rounded.adjusted() < 12 else str(rounded).lower().replace("e+", "e")
