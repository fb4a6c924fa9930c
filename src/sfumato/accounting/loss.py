"""Privacy loss in two numbers: epsilon and delta, exact inside and rounded up for reading."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import inf

from sfumato.accounting.event import Event, Neighbours, NonPrivate, shared_neighbours
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import decimal_rational, integer

_SHOWN_DIGITS = 4
_SHOWN_PERCENT_DIGITS = 3


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """A privacy loss (epsilon, delta) as exact fractions; text shows four digits, rounded up, or down for remainders.

    >>> print(PrivacyLoss(Fraction(1, 3), Fraction(1, 10**6)))
    ε = 0.3334, δ = 0.000001
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    left: bool = field(default=False, repr=False, compare=False)
    """Whether it is a remaining budget: a query at the displayed price must fit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", not_negative(decimal_rational(self.epsilon, "epsilon"), "epsilon"))
        object.__setattr__(self, "delta", delta_or_zero(self.delta))

    def __str__(self) -> str:
        return f"{self:{_SHOWN_DIGITS}}"

    def __format__(self, digits: str) -> str:
        """Format both numbers, rounded up to the given number of significant digits; remainders are rounded down."""
        if not digits.isascii() or not (digits.isdigit() or digits == "") or digits == "0":
            raise BadParameter(
                f"The format {digits!r} is not a number of digits.",
                "A loss is shown with a number of significant digits.",
                "Write for example f'{loss:6}'.",
            )
        shown = int(digits or _SHOWN_DIGITS)
        rounded = round_down if self.left else round_up
        return f"ε = {rounded(self.epsilon, shown)}, δ = {rounded(self.delta, shown)}"


def round_up(value: Fraction, digits: int = _SHOWN_DIGITS) -> str:
    """Write a number that is not negative with `digits` significant digits, never below its value.

    >>> round_up(Fraction(1, 3)), round_up(Fraction(3)), round_up(Fraction(1, 10**12), 2)
    ('0.3334', '3', '1e-12')
    """
    shown = integer(digits, "digits", 1)
    exact = not_negative(decimal_rational(value, "value"), "value")
    up = Context(prec=shown, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    rounded = up.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize(up)
    if -7 < rounded.adjusted() < 12:
        return f"{rounded:f}"
    return str(rounded).replace("E+", "e").replace("E", "e")


def round_down(value: Fraction, digits: int = _SHOWN_DIGITS) -> str:
    """Format a remainder with `digits` significant digits, never above its value.

    >>> round_down(Fraction(2, 3)), round_down(Fraction(3))
    ('0.6666', '3')
    """
    down = Context(prec=digits, rounding=ROUND_FLOOR)
    rounded = down.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(down)
    return f"{rounded:f}" if not rounded or -7 < rounded.adjusted() < 12 else str(rounded).lower().replace("e+", "e")


def percent_up(share: Fraction) -> str:
    """Write a share in per cent with three digits, never below its value.

    >>> percent_up(Fraction(1, 3)), percent_up(Fraction(1))
    ('33.4 %', '100 %')
    """
    return f"{round_up(100 * share, _SHOWN_PERCENT_DIGITS)} %"


def percent_down(share: Fraction) -> str:
    """Write a share in per cent with three digits, never above its value.

    >>> percent_down(Fraction(2, 3)), percent_down(Fraction(1))
    ('66.6 %', '100 %')
    """
    return f"{round_down(100 * share, _SHOWN_PERCENT_DIGITS)} %"


def not_negative(value: Fraction, name: str) -> Fraction:
    """Return `value` if it is not below zero."""
    if value >= 0:
        return value
    raise BadParameter(f"{name} = {quote_value(value)} is negative.", "A loss cannot be negative.", f"Give {name} ≥ 0.")


def delta_or_zero(value: object) -> Fraction:
    """Read a delta in [0, 1]; a float is its decimal text."""
    delta = decimal_rational(value, "delta")
    if 0 <= delta <= 1:
        return delta
    raise BadParameter(
        f"delta = {quote_value(value)} is not between 0 and 1.", "It is a probability.", "Give a delta such as 1e-6."
    )


def one_relation(known: Neighbours | None, event: Event) -> Neighbours | None:
    """Return the common neighbour relation of the accounted events and `event`; refuse different ones."""
    return event.neighbours if known is None else shared_neighbours((NonPrivate(known), event))


def multiply_loss(times: int, loss: Fraction | float) -> Fraction | float:
    """Return times · loss, where a loss is exact or infinite; an integer beyond the floats must not meet infinity."""
    return inf if loss == inf else times * loss


def sum_losses(losses: Iterable[Fraction | float]) -> Fraction | float:
    """Return the sum of losses that are exact or infinite.

    >>> sum_losses([Fraction(10) ** 400, inf])
    inf
    """
    parts = list(losses)
    return inf if inf in parts else sum(parts, Fraction(0))
