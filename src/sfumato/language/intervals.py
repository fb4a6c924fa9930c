"""How far results reach when their arguments reach so far: interval arithmetic on integers, exact.

A law takes one interval per argument and returns one that holds every result. It is asked twice: with what storage can
hold, and with undeclared sides moved beyond everything; a side of the result that stays near is declared.
Theorem: each law holds every result, and only grows when its arguments grow.  Proof: proofs/total_scalars.md
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isqrt

from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts

StepRange = tuple[int, int]
RangeLaw = Callable[..., StepRange]

INFINITY_STEPS = 1 << 8192
"""Stands for infinity: no law brings it back near by what it divides by, nor by a root."""
_MAX_FINITE_STEPS = 1 << 2048
"""Bound of the magnitude of any range derived from declared bounds, in steps."""


def follow(result: Facts, law: RangeLaw, arguments: Sequence[Facts]) -> Facts | None:
    """Return `result` with the interval that the law gives, or None if 128 bits cannot hold it."""
    low, high = law(*((facts.low, facts.high) for facts in arguments))
    if max(abs(low), abs(high)) >= MAX_INTERMEDIATE_STEPS:
        return None
    least, greatest = law(*(_declared_range(facts) for facts in arguments))
    return replace(
        result, low=low, high=high, declared_low=least > -_MAX_FINITE_STEPS, declared_high=greatest < _MAX_FINITE_STEPS
    )


def _declared_range(facts: Facts) -> StepRange:
    return (facts.low if facts.declared_low else -INFINITY_STEPS, facts.high if facts.declared_high else INFINITY_STEPS)


def max_magnitude(facts: Facts) -> int:
    """Return the largest magnitude."""
    return max(abs(facts.low), abs(facts.high))


def floor(number: int, over: int) -> int:
    """Return number / over, rounded down."""
    return number // over


def ceil(number: int, over: int) -> int:
    """Return number / over, rounded up."""
    return -(-number // over)


def truncate(number: int, over: int) -> int:
    """Return number / over, rounded towards zero."""
    size = abs(number) // abs(over)
    return size if (number < 0) == (over < 0) else -size


def nearest(number: int, over: int) -> int:
    """Return number / over, rounded half away from zero.

    >>> [nearest(number, 2) for number in (-3, -2, -1, 0, 1, 2, 3)]
    [-2, -1, -1, 0, 1, 1, 2]
    """
    size = (2 * abs(number) + abs(over)) // (2 * abs(over))
    return size if (number < 0) == (over < 0) else -size


def nearest_root(number: int, over: int) -> int:
    """Return the square root of number / over (at least 0, over positive), rounded."""
    return (isqrt(4 * number // over) + 1) // 2


def add_ranges(first: StepRange, second: StepRange) -> StepRange:
    """Return the interval of a + b."""
    return first[0] + second[0], first[1] + second[1]


def subtract(first: StepRange, second: StepRange) -> StepRange:
    """Return the interval of a - b."""
    return first[0] - second[1], first[1] - second[0]


def multiply(first: StepRange, second: StepRange) -> StepRange:
    """Return the interval of a · b: bilinear, so the extremes are at the corners."""
    return _hull([a * b for a in first for b in second])


def negate(only: StepRange) -> StepRange:
    """Return the interval of -a."""
    return -only[1], -only[0]


def absolute(only: StepRange) -> StepRange:
    """Return the interval of |a|."""
    low, high = only
    return (max(low, -high, 0), max(-low, high))


def sign(only: StepRange) -> StepRange:
    """Return the interval of the sign of a."""
    return _sign(only[0]), _sign(only[1])


def power(exponent: int) -> RangeLaw:
    """Return the law of a^exponent, exponent at least 1."""

    def law(only: StepRange) -> StepRange:
        turned = only if exponent % 2 else absolute(only)
        return turned[0] ** exponent, turned[1] ** exponent

    return law


def division_law(rounding: Callable[[int, int], int], times: int = 1, over: int = 1) -> RangeLaw:
    """Return the law of a · times / (b · over), rounded; b = 0 gives no result."""

    def law(first: StepRange, second: StepRange) -> StepRange:
        low, high = second
        parts = [(max(low, 1), high), (low, min(high, -1))]  # on each side of zero it is monotone in a and in b
        divisors = [b for part in parts if part[0] <= part[1] for b in part]
        return _hull([rounding(a * times, b * over) for a in first for b in divisors] or [0])

    return law


def modulo(first: StepRange, second: StepRange) -> StepRange:
    """Return the interval of a % b: the sign of a, nearer to zero than a is and than b is."""
    most = max(abs(second[0]), abs(second[1]), 1) - 1
    low, high = max(first[0], -most), min(first[1], most)
    positive = second[0] if second[0] > 0 else -second[1] if second[1] < 0 else 0
    if max(abs(first[0]), abs(first[1])) < positive:
        return first  # nothing is taken away
    return min(low, 0), max(high, 0)


def scaling_law(rounding: Callable[[int, int], int], times: int, over: int) -> RangeLaw:
    """Return the law of a · times / over, rounded; both are positive."""

    def law(only: StepRange) -> StepRange:
        return rounding(only[0] * times, over), rounding(only[1] * times, over)

    return law


def root(times: int, over: int) -> RangeLaw:
    """Return the law of √(a · times / over), rounded; negatives give no result."""

    def law(only: StepRange) -> StepRange:
        low, high = (nearest_root(max(side, 0) * times, over) for side in only)
        return low, high

    return law


def clip(low: int, high: int) -> RangeLaw:
    """Return the law of a brought into [low, high]."""

    def law(only: StepRange) -> StepRange:
        return min(max(only[0], low), high), min(max(only[1], low), high)

    return law


def union(*ranges: StepRange) -> StepRange:
    """Return the interval of one of them."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def least_law(present: Sequence[bool]) -> RangeLaw:
    """Return the law of the least of those that are there; `present` says which always are."""

    def law(*ranges: StepRange) -> StepRange:
        low, high = union(*ranges)
        certain = [top for (_, top), is_present in zip(ranges, present, strict=True) if is_present]
        return low, min(certain, default=high)

    return law


def greatest_law(present: Sequence[bool]) -> RangeLaw:
    """Return the law of the greatest of those that are there; `present` says which always are."""

    def law(*ranges: StepRange) -> StepRange:
        return negate(least_law(present)(*(negate(range) for range in ranges)))

    return law


def _hull(values: Sequence[int]) -> StepRange:
    return min(values), max(values)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
