"""SQL that brings a number to its grid exactly as `sensitivity.clipping.to_grid` does: round-half-even(clip(v) / step).

Every branch is integer arithmetic of at most 128 bits that cannot overflow, or floating-point arithmetic whose error is
bounded and, where it could matter, decided again by integers. Proof: proofs/bounded_copy.md §6.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

_INT64 = 2**63
_HUGE = 2**127
"""Everything that is computed in HUGEINT stays below this."""
_DOUBLES = 2**53
_QUICK = 2**49
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
    return Range(step, -_INT64, _INT64 - 1, clipped=False)


def whole(expression: str, scale: int, widest: int, target: Range) -> str:
    """Return SQL for the grid integer of `expression` / 10^scale; it is a HUGEINT of magnitude at most `widest`."""
    ratio = 1 / (target.step * 10**scale)
    times, over = ratio.numerator, ratio.denominator
    slack = 0 if target.clipped else 1  # one grid integer more, so that what is beyond is seen to be beyond
    low = max(floor((target.least - slack) / ratio), -widest)
    high = min(ceil((target.greatest + slack) / ratio), widest)
    if low > high:  # the whole type lies beyond one bound
        low = high = -widest if low == -widest else widest
    if max(abs(low), abs(high), 1) * times >= _HUGE or over >= _HUGE:
        raise NotExact
    # Rounding is monotone: clipping roughly before it and finely after it is clipping exactly.
    near = f"least(greatest({expression}, {_huge(low)}), {_huge(high)})"
    # least and greatest pass over NULL, which is absent and no bound
    return f"CASE WHEN {expression} IS NOT NULL THEN {_finish(_nearest(near, times, over), target)} END"


def floating(expression: str, target: Range) -> str:
    """Return SQL for the grid integer of a DOUBLE; NaN and infinities become NULL."""
    times, over = target.step.denominator, target.step.numerator
    if times > _DOUBLES or over > _DOUBLES:
        raise NotExact
    slack = 0 if target.clipped else 1
    low = _outside((target.least - slack) * target.step, -1)
    high = _outside((target.greatest + slack) * target.step, 1)
    value = f"least(greatest({expression}, {low}), {high})"
    quotient = f"({value} * {float(times)!r}::DOUBLE / {float(over)!r}::DOUBLE)"
    rest = f"abs({quotient} - trunc({quotient}))"
    error = f"abs({quotient}) * {2.0**-50!r}::DOUBLE + 1e-300::DOUBLE"
    clear = f"abs({quotient}) < {_QUICK} AND abs({rest} - 0.5::DOUBLE) > {error}"
    up = f"CASE WHEN {rest} > 0.5::DOUBLE THEN sign({quotient})::HUGEINT ELSE 0::HUGEINT END"
    quick = f"(trunc({quotient})::HUGEINT + {up})"
    slow = f"(CASE WHEN {value} < 0 THEN -1::HUGEINT ELSE 1::HUGEINT END * {_nearest_double(value, times, over)})"
    rounded = f"CASE WHEN {clear} THEN {quick} ELSE {slow} END"
    return f"CASE WHEN isfinite({expression}) THEN {_finish(rounded, target)} END"


def _nearest(expression: str, times: int, over: int) -> str:
    """Round expression · times / over half to even; `//` and `%` truncate, so that the sign is put aside."""
    product = expression if times == 1 else f"({expression} * {_huge(times)})"
    if over == 1:
        return product
    size = f"abs({product})"
    quotient, rest = f"({size} // {_huge(over)})", f"({size} % {_huge(over)})"
    return (
        f"(CASE WHEN {expression} < 0 THEN -1::HUGEINT ELSE 1::HUGEINT END * ({quotient} + CASE WHEN "
        f"{rest} > {_huge(over)} - {rest} OR ({rest} = {_huge(over)} - {rest} AND {quotient} % 2 = 1) "
        "THEN 1::HUGEINT ELSE 0::HUGEINT END))"
    )


def _nearest_double(value: str, times: int, over: int) -> str:
    """Round |value| · times / over half to even by integers: |value| = I + (G + H) / 2^53 with 0 ≤ H < 1."""
    size = f"abs({value})"
    scaled = f"(({size} - trunc({size})) * {2.0**53!r}::DOUBLE)"  # a power of two: exact
    integer, upper = f"(trunc({size})::HUGEINT * {_huge(times)})", f"trunc({scaled})::HUGEINT"
    lower = f"trunc(({scaled} - trunc({scaled})) * {2.0**55!r}::DOUBLE)::HUGEINT"
    whole_over = _huge(over * 2**53)
    carried = f"(({integer} % {_huge(over)}) * {_huge(2**53)} + {upper} * {_huge(times)})"
    quotient = f"({integer} // {_huge(over)} + {carried} // {whole_over})"
    missing = f"({whole_over} - 2 * ({carried} % {whole_over}))"  # how far below the tie, in halves of 2^-53
    excess = f"(2 * {_huge(times)} * {lower})"
    return (
        f"({quotient} + CASE WHEN {missing} >= {_huge(2 * times)} THEN 0::HUGEINT WHEN {missing} < 0 THEN 1::HUGEINT "
        f"WHEN {excess} > {missing} * {_huge(2**55)} THEN 1::HUGEINT "
        f"WHEN {excess} = {missing} * {_huge(2**55)} THEN {quotient} % 2 ELSE 0::HUGEINT END)"
    )


def _finish(rounded: str, target: Range) -> str:
    if target.clipped:
        return f"least(greatest({rounded}, {_huge(target.least)}), {_huge(target.greatest)})::BIGINT"
    return f"TRY_CAST({rounded} AS BIGINT)"


def _huge(number: int) -> str:
    return f"({number})::HUGEINT"


def _outside(bound: Fraction, direction: int) -> str:
    """Return a double at or beyond the bound: clipping here only keeps the integers small."""
    nearest = float(bound)
    if (Fraction(nearest) - bound) * direction < 0:
        nearest *= 1 + 2.0**-52 if (nearest > 0) == (direction > 0) else 1 - 2.0**-52
    return f"({nearest!r})::DOUBLE"
