"""Builders of total scalars for numbers: exact integers on a public grid while 128 bits hold them, else doubles.

Every builder knows how far its result reaches. A result that may leave 128 bits is computed in doubles instead (kind
REAL), where what is not finite is NULL. A result that can only be one number is that constant.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from math import gcd, lcm

from sfumato.language import intervals
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, STORED_LIMIT, Facts, Kind
from sfumato.language.intervals import RangeLaw, follow, max_magnitude
from sfumato.language.scalar import Constant, Factor, Operator, Scalar, Sides, literal
from sfumato.query.expression import Value
from sfumato.query.types import NUMBERS, Interval, Type

_KINDS = {Type.TEXT: Kind.TEXT, Type.NULL: Kind.TEXT, Type.BOOLEAN: Kind.BOOLEAN}
_EPOCH = date(1970, 1, 1)
_DAY_MICROSECONDS = 86_400_000_000
_MONTH_DAYS = 30  # so PostgreSQL compares an interval that has months
_MAX_STEP_PART = 1 << 512
"""Steps are fractions of integers below this: a double holds them, and their products with what 128 bits hold."""
_PLACES = 12
_MAX_DIVIDED_STEPS = 1 << 120
_MAX_ROOT_STEPS = 1 << 50
"""Roots below this are rounded from doubles that are nearer than the grid is fine."""


def constant(value: Value, type: Type) -> Scalar:
    """Return a value that is spelled out: a number on the coarsest decimal grid it lies on, a time on its own.

    >>> half = constant(Fraction(5, 2), Type.DECIMAL)
    >>> half.constant, half.facts.step
    (5, Fraction(1, 2))
    """
    kind = _KINDS.get(type, Kind.INTEGER)
    match value:
        case None:
            return literal(None, Facts(type, kind, nullable=True))
        case bool():
            return literal(value, Facts(type, kind, nullable=False))
        case str():
            return literal(value, Facts(type, kind, nullable=False, max_chars=len(value)))
        case int() | Fraction():
            return _number_scalar(Fraction(value), type)
        case datetime():
            since = value - datetime(1970, 1, 1)
            return _integer_scalar(
                since.days * _DAY_MICROSECONDS + since.seconds * 1_000_000 + since.microseconds, type
            )
        case date():
            return _integer_scalar((value - _EPOCH).days, type)
        case Interval(months, days, microseconds):
            return _integer_scalar((months * _MONTH_DAYS + days) * _DAY_MICROSECONDS + microseconds, type)


def _integer_scalar(integer: int, type: Type, step: Fraction = Fraction(1)) -> Scalar:
    facts = Facts(type, Kind.INTEGER, nullable=False, step=step, low=integer, high=integer)
    return literal(integer, facts)


def _number_scalar(value: Fraction, type: Type) -> Scalar:
    if abs(value.numerator) < STORED_LIMIT:
        return _integer_scalar(value.numerator, type, Fraction(1, value.denominator))
    return _integer_scalar(-1 if value < 0 else 1, type, abs(value))


def is_null(scalar: Scalar) -> bool:
    """Whether this is NULL as it is spelled out."""
    return scalar.operator is Operator.CONSTANT and scalar.constant is None


def value_of(scalar: Scalar) -> Fraction | None:
    """Return the number that an INTEGER scalar always is, or None if it is NULL or differs from row to row."""
    if scalar.operator is not Operator.CONSTANT or scalar.facts.kind is not Kind.INTEGER:
        return None
    return None if scalar.constant is None else scalar.facts.low * scalar.facts.step


def with_type(scalar: Scalar, type: Type) -> Scalar:
    """Return the same value under another type that is kept in the same way."""
    return scalar if scalar.facts.type is type else _with_facts(scalar, replace(scalar.facts, type=type))


def _with_facts(scalar: Scalar, facts: Facts) -> Scalar:
    return replace(scalar, facts=facts)


def real(scalar: Scalar) -> Scalar:
    """Return a number as a double."""
    facts = scalar.facts
    if facts.kind is not Kind.INTEGER:
        return scalar
    doubled = Facts(facts.type, Kind.REAL, nullable=facts.nullable)
    if scalar.operator is Operator.CONSTANT:
        value = value_of(scalar)
        return literal(None if value is None else float(value), doubled)
    return Scalar(Operator.REAL, (scalar,), doubled, Factor(facts.step.numerator, facts.step.denominator))


def on_doubles(operator: Operator, arguments: Sequence[Scalar], type: Type, extra: Constant = None) -> Scalar:
    """Return an operator over doubles; results that are not finite are NULL."""
    facts = Facts(type, Kind.REAL, nullable=True)
    return Scalar(operator, tuple(real(argument) for argument in arguments), facts, extra)


def on_integers(
    operator: Operator,
    arguments: Sequence[Scalar],
    type: Type,
    law: RangeLaw,
    step: Fraction,
    *,
    extra: Constant = None,
    nullable: bool = False,
) -> Scalar | None:
    """Return an operator over integers, or None where 128 bits cannot hold the result; `nullable` even of no NULL."""
    if not _representable(step):
        return None
    nullable = nullable or any(argument.facts.nullable for argument in arguments)
    plain = Facts(type, Kind.INTEGER, nullable=nullable, step=step)
    facts = follow(plain, law, [argument.facts for argument in arguments])
    if facts is None:
        return None
    return as_constant(Scalar(operator, tuple(arguments), facts, extra))


def as_constant(scalar: Scalar) -> Scalar:
    """Return the constant that the facts leave, if they leave only one value."""
    facts = scalar.facts
    if facts.nullable or facts.low != facts.high or facts.kind is not Kind.INTEGER:
        return scalar
    return literal(facts.low, facts)


def _representable(step: Fraction) -> bool:
    return step.numerator < _MAX_STEP_PART and step.denominator < _MAX_STEP_PART


def to_finer_grid(scalar: Scalar, step: Fraction) -> Scalar:
    """Return the same number on a finer grid, whose step divides its own; as a double if 128 bits cannot hold it."""
    factor = scalar.facts.step / step
    if factor == 1 or is_null(scalar):
        return _with_facts(scalar, replace(scalar.facts, step=step))
    if factor.denominator != 1:
        raise ValueError("a grid is only refined by a step that divides its own")
    if factor >= MAX_INTERMEDIATE_STEPS:
        return real(scalar)
    pair = (scalar, _integer_scalar(int(factor), Type.INTEGER))
    finer = on_integers(Operator.MULTIPLY, pair, scalar.facts.type, intervals.multiply, step)
    return real(scalar) if finer is None else finer


def on_one_grid(scalars: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return numbers on the coarsest grid that holds all, or all as doubles if one is, or if no grid can."""
    if any(scalar.facts.kind is Kind.REAL for scalar in scalars):
        return tuple(real(scalar) for scalar in scalars)
    step = _common_step(scalars)
    if not _representable(step):
        return tuple(real(scalar) for scalar in scalars)
    finer = tuple(
        to_finer_grid(scalar, step) if value_of(scalar) is None else _constant_on(scalar, step) for scalar in scalars
    )
    if any(scalar.facts.kind is Kind.REAL for scalar in finer):
        return tuple(real(scalar) for scalar in scalars)
    return finer


def _common_step(scalars: Sequence[Scalar]) -> Fraction:
    if any(scalar.facts.type not in NUMBERS for scalar in scalars):
        return Fraction(1)  # days and microseconds
    grains = [_grain(scalar) for scalar in scalars]
    over = lcm(*(grain.denominator for grain in grains))
    return Fraction(gcd(*(int(grain * over) for grain in grains)), over) or Fraction(1)


def _grain(scalar: Scalar) -> Fraction:
    """Return the step of the coarsest grid; a constant lies on every grid that divides it, NULL on all."""
    if is_null(scalar):
        return Fraction(0)
    value = value_of(scalar)
    return scalar.facts.step if value is None else abs(value)


def _constant_on(scalar: Scalar, step: Fraction) -> Scalar:
    """Return a constant that is a whole number of steps; as a double if 128 bits cannot hold it."""
    steps = int((value_of(scalar) or 0) / step)
    return _integer_scalar(steps, scalar.facts.type, step) if abs(steps) < MAX_INTERMEDIATE_STEPS else real(scalar)


def shifted(scalar: Scalar, offset: int) -> Scalar:
    """Return x - offset, both in steps."""
    step = scalar.facts.step
    pair = (scalar, _integer_scalar(offset, scalar.facts.type, step))
    moved = on_integers(Operator.SUBTRACT, pair, scalar.facts.type, intervals.subtract, step)
    return on_doubles(Operator.SUBTRACT, pair, scalar.facts.type) if moved is None else moved


def squared(scalar: Scalar) -> Scalar:
    """Return x², on the grid of the squared step; as a double if 128 bits cannot hold it."""
    return integer_power(scalar, 2, scalar.facts.type)


def clip_scalar(scalar: Scalar, low: int | None, high: int | None) -> Scalar:
    """Return an INTEGER scalar brought into [low, high], in its steps; None leaves a side as it is."""
    inner, facts = scalar, scalar.facts
    bottom = facts.low if low is None else low
    top = facts.high if high is None else high
    law = intervals.clip(
        -intervals.INFINITY_STEPS if low is None else bottom, intervals.INFINITY_STEPS if high is None else top
    )
    narrow = follow(facts, law, [facts])
    if narrow is None or (low is not None and high is not None and low > high):
        raise ValueError("the range to clip to is empty, or 128 bits cannot hold it")
    if (narrow.low, narrow.high) == (facts.low, facts.high):
        return _with_facts(scalar, narrow)
    if scalar.operator is Operator.CLIPPED and bottom <= facts.high and top >= facts.low:
        (inner,) = scalar.arguments  # [bottom, top] meets what it was clipped to, so that clipping once is enough
    sides = Sides(
        narrow.low if narrow.low > inner.facts.low else None,
        narrow.high if narrow.high < inner.facts.high else None,
    )
    return as_constant(Scalar(Operator.CLIPPED, (inner,), narrow, sides))


def add_scalars(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return a + b."""
    return _linear_scalar(Operator.ADD, intervals.add_ranges, first, second, type)


def subtract_scalars(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return a - b."""
    return _linear_scalar(Operator.SUBTRACT, intervals.subtract, first, second, type)


def _linear_scalar(operator: Operator, law: RangeLaw, first: Scalar, second: Scalar, type: Type) -> Scalar:
    pair = on_one_grid((first, second))
    step = pair[0].facts.step
    if pair[0].facts.kind is Kind.INTEGER:
        exact = on_integers(operator, pair, type, law, step)
        if exact is not None:
            return exact
    return on_doubles(operator, pair, type)


def negate_scalar(scalar: Scalar, type: Type) -> Scalar:
    """Return -a."""
    return _unary(Operator.NEGATE, intervals.negate, scalar, type, scalar.facts.step)


def absolute(scalar: Scalar, type: Type) -> Scalar:
    """Return |a|."""
    return _unary(Operator.ABS, intervals.absolute, scalar, type, scalar.facts.step)


def sign_scalar(scalar: Scalar, type: Type) -> Scalar:
    """Return -1, 0 or 1."""
    if scalar.facts.kind is Kind.REAL:
        facts = Facts(type, Kind.INTEGER, nullable=scalar.facts.nullable, low=-1, high=1)
        return Scalar(Operator.SIGN, (scalar,), facts)
    return _unary(Operator.SIGN, intervals.sign, scalar, type, Fraction(1))


def _unary(
    operator: Operator, law: RangeLaw, scalar: Scalar, type: Type, step: Fraction, extra: Constant = None
) -> Scalar:
    if scalar.facts.kind is Kind.INTEGER:
        exact = on_integers(operator, (scalar,), type, law, step, extra=extra)
        if exact is not None:
            return exact
    return on_doubles(operator, (scalar,), type, extra)


def multiplied(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return a · b; with a constant only the step changes."""
    for scalar, factor in ((first, value_of(second)), (second, value_of(first))):
        if factor and scalar.facts.kind is Kind.INTEGER:
            return _scale_by_factor(scalar, factor, type)
    if first == second:
        return integer_power(first, 2, type)
    if first.facts.kind is second.facts.kind is Kind.INTEGER:
        step = first.facts.step * second.facts.step
        exact = on_integers(Operator.MULTIPLY, (first, second), type, intervals.multiply, step)
        if exact is not None:
            return exact
    return on_doubles(Operator.MULTIPLY, (first, second), type)


def _scale_by_factor(scalar: Scalar, factor: Fraction, type: Type) -> Scalar:
    step = scalar.facts.step * abs(factor)
    if not _representable(step):
        return on_doubles(Operator.MULTIPLY, (scalar, _number_scalar(factor, Type.DECIMAL)), type)
    longer = _with_facts(scalar, replace(scalar.facts, type=type, step=step))
    return negate_scalar(longer, type) if factor < 0 else longer


def integer_power(scalar: Scalar, exponent: int, type: Type) -> Scalar:
    """Return a to a whole exponent of at least 0."""
    if exponent == 0:
        zero = multiplied(scalar, _integer_scalar(0, Type.INTEGER), type)
        return add_scalars(zero, _integer_scalar(1, type), type)
    if exponent == 1:
        return with_type(scalar, type)
    step = scalar.facts.step**exponent
    return _unary(Operator.POWER, intervals.power(exponent), scalar, type, step, exponent)


def divide_scalars(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return a / b: exact for a constant b, else rounded to as many places as 128 bits allow. NULL where b is 0."""
    value = value_of(second)
    if value == 0:
        return constant(None, type)
    if value is not None and first.facts.kind is Kind.INTEGER:
        return _scale_by_factor(first, 1 / value, type)
    if first.facts.kind is second.facts.kind is Kind.INTEGER:
        exact = _divide_exactly(first, second, type)
        if exact is not None:
            return exact
    return on_doubles(Operator.DIVIDE, (first, second), type)


def _divide_exactly(first: Scalar, second: Scalar, type: Type) -> Scalar | None:
    for places in range(_PLACES, -1, -1):
        ratio = first.facts.step / second.facts.step * 10**places
        times, over = ratio.numerator, ratio.denominator
        if max(max_magnitude(first.facts) * times, max_magnitude(second.facts) * over, over) < _MAX_DIVIDED_STEPS:
            return on_integers(
                Operator.DIVIDE,
                (first, second),
                type,
                intervals.division_law(intervals.nearest, times, over),
                Fraction(1, 10**places),
                extra=Factor(times, over),
                nullable=_may_be_zero(second),
            )
    return None


def quotient(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return a / b towards zero; NULL where b is 0."""
    value = value_of(second)
    if value == 0:
        return constant(None, type)
    if value is not None and first.facts.kind is Kind.INTEGER:
        return round_to_places(Operator.TRUNCATED, _scale_by_factor(first, 1 / value, type), 0, type)
    return _leaving(Operator.QUOTIENT, intervals.division_law(intervals.truncate), first, second, type, Fraction(1))


def modulo(first: Scalar, second: Scalar, type: Type) -> Scalar:
    """Return the remainder of the quotient, with the sign of a; NULL where b is 0."""
    if value_of(second) == 0:
        return constant(None, type)
    return _leaving(Operator.MODULO, intervals.modulo, first, second, type, None)


def _leaving(
    operator: Operator, law: RangeLaw, first: Scalar, second: Scalar, type: Type, step: Fraction | None
) -> Scalar:
    pair = on_one_grid((first, second))
    if pair[0].facts.kind is Kind.INTEGER:
        grid = pair[0].facts.step if step is None else step
        exact = on_integers(operator, pair, type, law, grid, nullable=_may_be_zero(second))
        if exact is not None:
            return exact
    return on_doubles(operator, pair, type)


def _may_be_zero(scalar: Scalar) -> bool:
    return scalar.facts.low <= 0 <= scalar.facts.high


_ROUNDINGS = {
    Operator.FLOORED: intervals.floor,
    Operator.CEILED: intervals.ceil,
    Operator.ROUNDED: intervals.nearest,
    Operator.TRUNCATED: intervals.truncate,
}


def round_to_places(operator: Operator, scalar: Scalar, places: int, type: Type) -> Scalar:
    """Return a number with the given decimal places (negative: tens, hundreds …), rounded as the operator says."""
    if scalar.facts.kind is Kind.REAL:
        return on_doubles(operator, (scalar,), type, places)
    step = Fraction(1, 10**places) if places >= 0 else Fraction(10**-places)
    ratio = scalar.facts.step / step
    times, over = ratio.numerator, ratio.denominator
    if over == 1:
        return with_type(scalar, type)  # it has no more places
    if 2 * (max_magnitude(scalar.facts) * times + over) >= MAX_INTERMEDIATE_STEPS:
        return on_doubles(operator, (scalar,), type, places)
    law = intervals.scaling_law(_ROUNDINGS[operator], times, over)
    return _unary(operator, law, scalar, type, step, Factor(times, over))


def to_integer(scalar: Scalar) -> Scalar:
    """Return a number as an integer, rounded half away from zero; a double beyond 64 bits is NULL."""
    if scalar.facts.kind is Kind.REAL:
        unbounded = Facts(
            Type.INTEGER,
            Kind.INTEGER,
            low=-STORED_LIMIT,
            high=STORED_LIMIT - 1,
            declared_low=False,
            declared_high=False,
        )
        return Scalar(Operator.WHOLE, (scalar,), unbounded)
    rounded = round_to_places(Operator.ROUNDED, scalar, 0, Type.INTEGER)
    return to_integer(rounded) if rounded.facts.kind is Kind.REAL else rounded


def square_root(scalar: Scalar, type: Type) -> Scalar:
    """Return √a, rounded to as many places as doubles are good for; NULL where a is negative."""
    if scalar.facts.kind is Kind.REAL:
        return on_doubles(Operator.SQRT, (scalar,), type)
    places = next((places for places in range(_PLACES, 0, -1) if _root_at(scalar, places)[1] < _MAX_ROOT_STEPS), 0)
    ratio = scalar.facts.step * 10 ** (2 * places)
    exact = on_integers(
        Operator.SQRT,
        (scalar,),
        type,
        intervals.root(ratio.numerator, ratio.denominator),
        Fraction(1, 10**places),
        extra=Factor(ratio.numerator, ratio.denominator),
        nullable=scalar.facts.low < 0,
    )
    return on_doubles(Operator.SQRT, (scalar,), type) if exact is None else exact


def _root_at(scalar: Scalar, places: int) -> intervals.StepRange:
    ratio = scalar.facts.step * 10 ** (2 * places)
    return intervals.root(ratio.numerator, ratio.denominator)((scalar.facts.low, scalar.facts.high))
