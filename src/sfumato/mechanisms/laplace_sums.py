"""The margin of a sum of independent Laplace noises."""

from fractions import Fraction
from functools import lru_cache
from math import exp, factorial, floor

from sfumato.caches import remembered

_TAIL_DIVISOR = 1.04
"""The tail is asked for with so much to spare, as `quantile_of_sum` of the released intervals does."""
_HALVINGS = 60


@remembered(256)
def margin_of_sum(scale: Fraction, count: int, confidence: Fraction) -> int:
    """Return how far the sum of `count` integer Laplace noises of a scale reaches, at a level: floats, for a quote.

    >>> margin_of_sum(Fraction(100), 1, Fraction(95, 100)), margin_of_sum(Fraction(100), 2, Fraction(95, 100))
    (303, 416)
    """
    return floor(_reach(count, confidence) * float(scale) + 0.5)  # sums are whole numbers


@lru_cache(maxsize=64)
def _reach(count: int, confidence: Fraction) -> float:
    """Return how far the sum of `count` real Laplace noises of scale 1 reaches."""
    tail = float(1 - confidence) / _TAIL_DIVISOR
    low, high = 0.0, 64.0 * count
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, count) > tail else (low, middle)
    return high


@remembered(256)
def margin_of_two(one: Fraction, other: Fraction, confidence: Fraction) -> int:
    """Return how far the sum of two integer Laplace noises of different scales reaches: floats, for a quote.

    >>> margin_of_two(Fraction(100), Fraction(1), Fraction(95, 100))
    304
    >>> margin_of_two(Fraction(100), Fraction(90), Fraction(95, 100))
    396
    """
    tail = float(1 - confidence) / _TAIL_DIVISOR
    large = float(max(one, other))
    ratio = float(min(one, other)) / large
    low, high = 0.0, 128.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = (exp(-middle) - ratio**2 * exp(-middle / ratio)) / (1 - ratio**2)
        low, high = (middle, high) if beyond > tail else (low, middle)
    return floor(high * large + 0.5)


def _tail(distance: float, count: int) -> float:
    """Return how often the sum of `count` real Laplace noises of scale 1 lies beyond a distance, on either side."""
    found = 0.0
    for power in range(count):
        order = count - 1 - power
        weight = factorial(count - 1 + power) / (factorial(power) * factorial(order) * 2.0**power)
        # the integral of x^order e^-x beyond the distance
        found += weight * factorial(order) * sum(distance**place / factorial(place) for place in range(order + 1))
    return 2 * found * exp(-distance) / (factorial(count - 1) * 2.0**count)
