"""SQL that brings a number to its grid exactly as `sensitivity.clipping.to_grid` does: round-half-even(clip(v) / step).

Every branch is integer arithmetic of at most 128 bits that cannot overflow, or floating-point arithmetic whose error is
bounded and, where it could matter, decided again by integers. Proof: proofs/bounded_copy.md §6.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from sfumato.engines.sql.dialect import Dialect
from sfumato.language.facts import STORED_LIMIT

_MAX_WIDE_INTEGER = 10**38
"""Everything that is computed in wide integers stays below this, which every engine's hold."""
_MAX_WHOLE_DOUBLE = 2**53
_MAX_QUICK_QUOTIENT = 2**49
"""Below this the floating-point quotient errs by less than a quarter."""


class NotExact(Exception):  # noqa: N818
    """The step and the source's type together need more than 128 bits."""


@dataclass(frozen=True, slots=True)
class Range:
    """The grid integers a column may hold; beyond them a value is clipped, or absent where the owner set no bounds."""

    step: Fraction
    least: int
    greatest: int
    clipped: bool


def unbounded(step: Fraction) -> Range:
    """Return the range of 64 bits, outside of which a value is absent."""
    return Range(step, -STORED_LIMIT, STORED_LIMIT - 1, clipped=False)


def whole(expression: str, scale: int, widest: int, target: Range, dialect: Dialect) -> str:
    """Return SQL for the grid integer of `expression` / 10^scale, a wide integer of magnitude at most `widest`."""
    ratio = 1 / (target.step * 10**scale)
    times, over = ratio.numerator, ratio.denominator
    slack = 0 if target.clipped else 1  # one grid integer more, so that values beyond the bounds remain distinguishable
    low = max(floor((target.least - slack) / ratio), -widest)
    high = min(ceil((target.greatest + slack) / ratio), widest)
    if low > high:  # the whole type lies beyond one bound
        low = high = -widest if low == -widest else widest
    if max(abs(low), abs(high), 1) * times >= _MAX_WIDE_INTEGER or over >= _MAX_WIDE_INTEGER:
        raise NotExact
    # Rounding is monotone: clipping roughly before it and finely after it is clipping exactly.
    near = f"least(greatest({expression}, {_wide(low, dialect)}), {_wide(high, dialect)})"
    rounded = _finish(_nearest(near, times, over, dialect), target, dialect)
    # least and greatest pass over NULL, which is absent and no bound
    return f"CASE WHEN {expression} IS NOT NULL THEN {rounded} END"


def floating(expression: str, target: Range, dialect: Dialect) -> str:
    """Return SQL for the grid integer of a double; NaN and infinities become NULL."""
    times, over = target.step.denominator, target.step.numerator
    if times > _MAX_WHOLE_DOUBLE or over > _MAX_WHOLE_DOUBLE:
        raise NotExact

    def double(number: float) -> str:
        return _double(number, dialect)

    def wide(number: int) -> str:
        return _wide(number, dialect)

    slack = 0 if target.clipped else 1
    low = double(outside((target.least - slack) * target.step, -1))
    high = double(outside((target.greatest + slack) * target.step, 1))

    def rounded(value: str) -> str:
        quotient = f"({value} * {double(float(times))} / {double(float(over))})"
        return dialect.let([quotient], lambda q: decided(value, q))

    def decided(value: str, quotient: str) -> str:
        whole_part = dialect.truncated(quotient)
        rest = f"abs({quotient} - {whole_part})"
        error = f"abs({quotient}) * {double(2.0**-50)} + {double(1e-300)}"
        clear = f"abs({quotient}) < {_MAX_QUICK_QUOTIENT} AND abs({rest} - {double(0.5)}) > {error}"
        away = f"CASE WHEN {quotient} < 0 THEN {wide(-1)} ELSE {wide(1)} END"
        up = f"CASE WHEN {rest} > {double(0.5)} THEN {away} ELSE {wide(0)} END"
        quick = f"({dialect.whole_double(whole_part)} + {up})"
        sign = f"CASE WHEN {value} < 0 THEN {wide(-1)} ELSE {wide(1)} END"
        slow = f"({sign} * {_nearest_double(value, times, over, dialect)})"
        return f"CASE WHEN {clear} THEN {quick} ELSE {slow} END"

    near = dialect.let([f"least(greatest({expression}, {low}), {high})"], rounded)
    return f"CASE WHEN {dialect.is_finite(expression)} THEN {_finish(near, target, dialect)} END"


def _nearest(expression: str, times: int, over: int, dialect: Dialect) -> str:
    """Round expression · times / over half to even; division truncates, so that the sign is put aside."""

    def wide(number: int) -> str:
        return _wide(number, dialect)

    product = expression if times == 1 else f"({expression} * {wide(times)})"
    if over == 1:
        return product
    size = f"abs({product})"
    quotient, rest = dialect.quotient(size, wide(over)), dialect.remainder(size, wide(over))
    odd = f"{dialect.remainder(quotient, wide(2))} = 1"
    return (
        f"(CASE WHEN {expression} < 0 THEN {wide(-1)} ELSE {wide(1)} END * ({quotient} + CASE WHEN "
        f"{rest} > {wide(over)} - {rest} OR ({rest} = {wide(over)} - {rest} AND {odd}) "
        f"THEN {wide(1)} ELSE {wide(0)} END))"
    )


def _nearest_double(value: str, times: int, over: int, dialect: Dialect) -> str:
    """Round |value| · times / over half to even by integers: |value| = I + (G + H) / 2^53 with 0 ≤ H < 1."""

    def wide(number: int) -> str:
        return _wide(number, dialect)

    integer_part, whole_over, far = dialect.whole_double, wide(over * 2**53), wide(2**55)

    def parts(size: str) -> str:
        scaled = f"(({size} - {dialect.truncated(size)}) * {_double(2.0**53, dialect)})"  # a power of two: exact
        return dialect.let([scaled], lambda scaled: integers(size, scaled))

    def integers(size: str, scaled: str) -> str:
        integer = f"({integer_part(dialect.truncated(size))} * {wide(times)})"
        upper = integer_part(dialect.truncated(scaled))
        below = f"(({scaled} - {dialect.truncated(scaled)}) * {_double(2.0**55, dialect)})"
        return dialect.let([integer, upper, integer_part(dialect.truncated(below))], divided)

    def divided(integer: str, upper: str, lower: str) -> str:
        carried = f"({dialect.remainder(integer, wide(over))} * {wide(2**53)} + {upper} * {wide(times)})"
        quotient = f"({dialect.quotient(integer, wide(over))} + {dialect.quotient(carried, whole_over)})"
        missing = f"({whole_over} - 2 * {dialect.remainder(carried, whole_over)})"  # below the tie, in halves of 2^-53
        return dialect.let([quotient, missing, f"(2 * {wide(times)} * {lower})"], nearest)

    def nearest(quotient: str, missing: str, excess: str) -> str:
        return (
            f"({quotient} + CASE WHEN {missing} >= {wide(2 * times)} THEN {wide(0)} WHEN {missing} < 0 THEN {wide(1)} "
            f"WHEN {excess} > {missing} * {far} THEN {wide(1)} "
            f"WHEN {excess} = {missing} * {far} THEN {dialect.remainder(quotient, wide(2))} ELSE {wide(0)} END)"
        )

    return dialect.let([f"abs({value})"], parts)


def _finish(rounded: str, target: Range, dialect: Dialect) -> str:
    if target.clipped:
        least, greatest = _wide(target.least, dialect), _wide(target.greatest, dialect)
        return f"CAST(least(greatest({rounded}, {least}), {greatest}) AS {dialect.bigint})"
    return dialect.to_bigint_or_null(rounded)


def _wide(number: int, dialect: Dialect) -> str:
    return dialect.integer(number, dialect.wide)


def _double(number: float, dialect: Dialect) -> str:
    return f"CAST({number!r} AS {dialect.double})"


def outside(bound: Fraction, direction: int) -> float:
    """Return a double at or beyond the bound: clipping here only keeps the integers small."""
    nearest = float(bound)
    if (Fraction(nearest) - bound) * direction < 0:
        nearest *= 1 + 2.0**-52 if (nearest > 0) == (direction > 0) else 1 - 2.0**-52
    return nearest
