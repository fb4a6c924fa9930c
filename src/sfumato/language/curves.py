"""Logarithms and powers in integers: what they are by definition, so that every engine gives the same.

A few exact divisions bring an integer to a small rest, constants that are computed here with certainty hold the larger
part, and a short polynomial the rest. Engines compute the same integers in SQL (`engines/sql/curves.py`).
Theorem: a logarithm is within 0.6 steps of the true one, and a power within 0.55 steps and 7·10^-12 of its size, for
the steps that `lower_curves` chooses.  Proof: proofs/curves.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose
from sfumato.language.scalar import LogarithmCurve, PowerCurve

BITS = 40
"""Rests and what is computed of them are in units of 2^-BITS."""
PARTS = 512
"""Number of parts of a doubling, or of a factor of e; a remainder is below 1 / PARTS."""
PART_BITS = 9
SPARE_BITS = 6
"""Number of bits that constants have beyond those of the result."""
MAX_POWER_STEPS = 1 << 78
"""A power in steps stays below this, so that 126 bits hold what is multiplied on the way."""
_MAX_ARGUMENT_BITS = 72
"""Maximum number of bits of the argument of a power."""
_DIGITS = (30, 60, 120, 240)


def round_enclosed(compute: Callable[[int], Enclosure]) -> int:
    """Return the integer nearest to a number that can be enclosed as narrowly as needed.

    A number that the most digits cannot tell from a tie counts as one: the result is that of one certain number.
    """
    for digits in _DIGITS:
        enclosure = compute(digits)
        ends = {int(end.to_integral_value(ROUND_HALF_UP)) for end in (enclosure.low, enclosure.high)}
        if len(ends) == 1:
            break
    return max(ends)


@lru_cache(maxsize=4096)
def natural(value: Fraction, digits: int) -> Enclosure:
    """Enclose the natural logarithm of a positive number."""
    return enclose(value, digits).ln()


def per_base(base: Fraction | None, digits: int) -> Enclosure:
    """Enclose the natural logarithm of a base."""
    return enclose(1, digits) if base is None else natural(base, digits)


@dataclass(frozen=True, slots=True)
class LogarithmTables:
    """The constants of one logarithm; results are in 2^-SPARE of its steps."""

    least: int
    """Of the bits of an argument, less one."""
    doublings: tuple[int, ...]
    """The logarithm of 2^n steps, for n from `least` on."""
    parts: tuple[int, ...]
    """The logarithm of 1 + n / PARTS."""
    factor: int
    shift: int
    """A rest times factor / 2^shift is its logarithm, in such units."""

    def __call__(self, argument: int) -> int:
        """Return the logarithm of a positive integer, in steps."""
        doubling = argument.bit_length() - 1
        spare = BITS + PART_BITS - doubling
        value = argument << spare if spare >= 0 else argument >> -spare
        part, rest = value >> BITS, value & ((1 << BITS) - 1)
        total = self.doublings[doubling - self.least] + self.parts[part - PARTS]
        total += (_logarithm_of_rest(rest // part) * self.factor) >> self.shift
        return (total + (1 << SPARE_BITS >> 1)) >> SPARE_BITS


def _logarithm_of_rest(z: int) -> int:
    """Return ln(1 + z) for z < 1 / PARTS, in units of 2^-BITS."""
    square = (z * z) >> BITS
    return z - (square >> 1) + (square * z) // (3 << BITS) - ((square * square) >> (BITS + 2))


@lru_cache(maxsize=64)
def _units(base: Fraction | None, grain: Fraction, digits: int) -> Enclosure:
    """Enclose how many units of 2^-SPARE steps a natural logarithm of 1 is."""
    return (enclose(1, digits) * (1 << SPARE_BITS)) / (per_base(base, digits) * grain)


def _in_units(value: Fraction, base: Fraction | None, grain: Fraction) -> int:
    return round_enclosed(lambda digits: natural(value, digits) * _units(base, grain, digits))


@lru_cache(maxsize=64)
def _parts_of_doubling(base: Fraction | None, grain: Fraction) -> tuple[int, ...]:
    return tuple(_in_units(Fraction(n, PARTS), base, grain) for n in range(PARTS, 2 * PARTS))


@remembered(1024)
def logarithm(of: LogarithmCurve, low: int, high: int) -> LogarithmTables | None:
    """Return the logarithm of integers in [low, high], both above 0, or None if 64 bits cannot hold it."""
    least, most = low.bit_length() - 1, high.bit_length() - 1
    size = round_enclosed(lambda digits: _units(of.base, of.grain, digits))
    shift = min(2 * BITS - PART_BITS - size.bit_length(), 60)  # rest and factor have 31 bits each
    far = abs(_in_units(of.step, of.base, of.grain)) // max(size, 1)
    if shift < 0 or (most + 1 + far) * size >= 1 << 61:
        return None
    return LogarithmTables(
        least,
        tuple(_in_units(of.step * (1 << n), of.base, of.grain) for n in range(least, most + 1)),
        _parts_of_doubling(of.base, of.grain),
        round_enclosed(lambda digits: _units(of.base, of.grain, digits) * Fraction(1 << shift, 1 << BITS)),
        shift,
    )


@dataclass(frozen=True, slots=True)
class ExponentialTables:
    """The constants of one power; `wholes` are in 2^-SPARE of its steps."""

    first: int
    """Below this, the result is that of it: 0, or the least argument."""
    factor: int
    shift: int
    """The argument above `first`, times factor / 2^shift, is the exponent of e in units of 2^-BITS."""
    wholes: tuple[int, ...]
    """The result at `first` times e^n."""
    parts: tuple[int, ...]
    """e^(n / PARTS) in units of 2^-BITS."""

    def __call__(self, argument: int) -> int:
        """Return the power of an integer, in steps."""
        exponent = (max(argument - self.first, 0) * self.factor) >> self.shift
        whole, rest = exponent >> BITS, exponent & ((1 << (BITS - PART_BITS)) - 1)
        part = self.parts[(exponent >> (BITS - PART_BITS)) & (PARTS - 1)]
        near = part + (((part >> 10) * _growth_of_rest(rest)) >> (BITS - 10))
        return (near * self.wholes[whole] + (1 << (BITS + SPARE_BITS - 1))) >> (BITS + SPARE_BITS)


def _growth_of_rest(r: int) -> int:
    """Return e^r - 1 for r < 1 / PARTS, in units of 2^-BITS."""
    square = r * r
    return r + (square >> (BITS + 1)) + ((square >> BITS) * r) // (6 << BITS)


@remembered(1024)
def exponential(of: PowerCurve, low: int, high: int) -> ExponentialTables | None:
    """Return the power of integers in [low, high], or None if it may leave what 126 bits can hold."""

    def slope(digits: int) -> Enclosure:
        return per_base(of.base, digits) * of.step

    digits = _DIGITS[-1]
    if (slope(digits) * high - natural(of.grain, digits) - natural(Fraction(MAX_POWER_STEPS), digits)).high >= 0:
        return None
    vanishing = floor(Fraction(((natural(of.grain / 4, digits)) / slope(digits)).low))
    first = min(max(low, vanishing), high)
    span = high - first
    if span.bit_length() > _MAX_ARGUMENT_BITS:
        return None
    shift = span.bit_length() + 3
    most = ceil(Fraction((slope(digits) * span).high)) + 1

    def whole(n: int) -> int:
        return round_enclosed(
            lambda digits: (slope(digits) * first + n).exp() * (Fraction(1 << SPARE_BITS) / of.grain)  # at most 2^84
        )

    return ExponentialTables(
        first,
        round_enclosed(lambda digits: slope(digits) * (1 << (BITS + shift))),
        shift,
        tuple(whole(n) for n in range(most + 1)),
        _parts_of_e(),
    )


@lru_cache(maxsize=1)
def _parts_of_e() -> tuple[int, ...]:
    return tuple(
        round_enclosed(lambda digits, n=n: enclose(Fraction(n, PARTS), digits).exp() * (1 << BITS))  # type: ignore[misc]
        for n in range(PARTS)
    )
