"""Roots, powers and logarithms as total scalars: integers where the argument has a grid and the result is not too far.

Few arguments have each their result, which is listed. More are computed by `curves`. What has no grid, or reaches too
far, is computed on doubles, as the engine does, and people's values are not (`alike`).
"""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from sfumato.certified.enclosure import Enclosure, enclose
from sfumato.language.curves import MAX_POWER_STEPS, exponential, logarithm, natural, per_base, round_enclosed
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, STORED_LIMIT, Facts, Kind
from sfumato.language.lower_logic import case_scalar, compare_scalars
from sfumato.language.numbers import (
    clip_scalar,
    constant,
    divide_scalars,
    integer_power,
    is_null,
    multiplied,
    negate_scalar,
    on_doubles,
    square_root,
    value_of,
)
from sfumato.language.scalar import ListedResults, LogarithmCurve, Operator, PowerCurve, Scalar, literal
from sfumato.query.expression import Call
from sfumato.query.functions import MAX_EXPONENT, Function
from sfumato.query.position import SourceSpan
from sfumato.query.types import Type

MAX_NESTED_ROOTS = 6
"""Maximum nesting of square roots and of powers of doubles."""
MAX_LISTED_ARGUMENTS = 512
"""Maximum number of arguments whose results are listed."""
_PLACES = 10
_CONSTANT_PLACES = 15
_INNER_LOGARITHM_STEP = Fraction(1, 10**12)
"""The step of a logarithm that becomes the exponent of a power."""
_LOGARITHM_ERROR = Fraction(45, 10**12)
"""Ten times the most that a natural logarithm is off before it is rounded."""
_FORTY_DIGITS = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MAX_DECIDED_VALUE, _TIE_FRACTION, _TIE_WIDTH = Decimal(10) ** 20, Decimal("0.5"), Decimal("1e-12")
_UNDECIDED_VALUE = Decimal(10) ** 21
_CLEAR_BASE = Fraction(10_001, 10_000)
_MIN_PLACES = 4
_MAX_EXACT_POWER_STEPS = 10**10
"""Powers below this, in steps, are rounded as the true ones are, but for what is next to a tie."""
_MIN_BASE = Fraction(1, 10**30)
_MAX_BASE = 10**30
"""Bases and steps lie between these."""


@lru_cache(maxsize=64)
def _list_results(
    kind: Operator, of: Fraction | None, step: Fraction, grain: Fraction, low: int, high: int
) -> ListedResults:
    """Return all results: of LOG to a base, of EXP of a base, of POWER with an exponent. None is below one that is."""
    quick = _quick(kind, of, grain)
    results = [(m, _round_result(kind, of, step * m, grain, quick)) for m in range(low, high + 1)]
    known = [(m, result) for m, result in results if result is not None]
    return ListedResults(known[0][0] if known else high + 1, tuple(result for _, result in known))


def _quick(kind: Operator, of: Fraction | None, grain: Fraction) -> Callable[[Fraction], Decimal]:
    """Return the true result in steps, within 10^-15 while it is below 10^20: three roundings at 40 digits."""
    if of is not None and kind is not Operator.POWER and of < _CLEAR_BASE:
        return lambda value: _UNDECIDED_VALUE  # its logarithm has too few digits
    divide, multiply, power_of = _FORTY_DIGITS.divide, _FORTY_DIGITS.multiply, _FORTY_DIGITS.exp
    factor = Decimal(1) if of is None else divide(Decimal(of.numerator), Decimal(of.denominator))
    steps = divide(Decimal(grain.denominator), Decimal(grain.numerator))
    per = Decimal(1) if of is None or kind is Operator.POWER else _quick_natural(of)

    def compute(value: Fraction) -> Decimal:
        if kind is Operator.LOG:
            return multiply(divide(_quick_natural(value), per), steps)
        exact = divide(Decimal(value.numerator), Decimal(value.denominator))
        exponent = multiply(exact, per) if kind is Operator.EXP else multiply(_quick_natural(value), factor)
        return multiply(power_of(exponent), steps)

    return compute


@lru_cache(maxsize=4096)
def _quick_natural(value: Fraction) -> Decimal:
    return _FORTY_DIGITS.ln(_FORTY_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _certain(value: Decimal) -> int | None:
    """Return the integer that a number within 10^-15 of this one is nearest to; None where that is not certain."""
    near = value.to_integral_value(ROUND_HALF_UP)
    if abs(value) >= _MAX_DECIDED_VALUE or abs(abs(_FORTY_DIGITS.subtract(value, near)) - _TIE_FRACTION) < _TIE_WIDTH:
        return None
    return int(near)


def _round_result(
    kind: Operator, of: Fraction | None, value: Fraction, grain: Fraction, quick: Callable[[Fraction], Decimal]
) -> int | None:
    if (kind is Operator.EXP or value > 0) and (certain := _certain(quick(value))) is not None:
        return certain
    if kind is Operator.EXP:
        return round_enclosed(lambda digits: (per_base(of, digits) * value).exp() * (1 / grain))
    if kind is Operator.POWER and value == 0:
        return 0 if of is not None and of > 0 else None
    if value <= 0:
        return None
    if kind is Operator.LOG:
        return round_enclosed(lambda digits: natural(value, digits) / (per_base(of, digits) * grain))
    return round_enclosed(lambda digits: _power_enclosed(value, of or Fraction(0), digits) * (1 / grain))


def _power_enclosed(value: Fraction, exponent: Fraction, digits: int) -> Enclosure:
    return (natural(value, digits) * exponent).exp()


def _looked_up(kind: Operator, of: Fraction | None, argument: Scalar, type: Type, far: int) -> Scalar | None:
    """Return the operator by a list of results, if that is short enough and none of them is beyond `far`."""
    facts = argument.facts
    if (
        facts.kind is not Kind.INTEGER
        or not facts.bounded
        or facts.span > MAX_LISTED_ARGUMENTS
        or not _mild(facts.step)
    ):
        return None
    if far >= MAX_INTERMEDIATE_STEPS:
        return None
    most = _CONSTANT_PLACES if facts.span == 1 else _PLACES
    places = next((n for n in range(most, -1, -1) if far * 10**n < MAX_INTERMEDIATE_STEPS >> 2), None)
    if places is None:
        return None
    grain = Fraction(1, 10**places)
    listed = _list_results(kind, of, facts.step, grain, facts.low, facts.high)
    if not listed.values:
        return constant(None, type)
    nullable = facts.nullable or facts.low < listed.first
    result_facts = Facts(type, Kind.INTEGER, nullable, grain, min(listed.values), max(listed.values))
    if result_facts.low == result_facts.high and not result_facts.nullable:
        return literal(result_facts.low, result_facts)
    return Scalar(Operator.LOOKUP, (argument,), result_facts, listed)


def _mild(value: Fraction) -> bool:
    return _MIN_BASE < value < _MAX_BASE and value.denominator < _MAX_BASE


def logarithm_of(argument: Scalar, base: Fraction | None, type: Type) -> Scalar:
    """Return the logarithm of a number to a base above 0; NULL where there is none."""
    if base is not None and base < 1:
        return negate_scalar(logarithm_of(argument, 1 / base, type), type)
    if base == 1:
        return constant(None, type)
    facts = argument.facts
    if facts.kind is not Kind.INTEGER or not _mild(facts.step) or (base is not None and not _mild(base)):
        return _logarithm_of_double(argument, base, type)
    if facts.high <= 0:
        return constant(None, type)
    size = per_base(base, 30)
    most = max(abs(natural(facts.step * side, 30).low) for side in (max(facts.low, 1), facts.high))
    listed = _looked_up(Operator.LOG, base, argument, type, int(most / size.low) + 2)
    if listed is not None:
        return listed
    places = next((n for n in range(_PLACES, 0, -1) if _LOGARITHM_ERROR * 10**n <= Fraction(size.low)), 0)
    exact = _logarithm_of_integer(argument, LogarithmCurve(base, facts.step, Fraction(1, 10**places)), type)
    return _logarithm_of_double(argument, base, type) if exact is None else exact


def _logarithm_of_integer(argument: Scalar, of: LogarithmCurve, type: Type) -> Scalar | None:
    facts = argument.facts
    low, high = max(facts.low, 1), max(facts.high, 1)
    tables = logarithm(of, low, high)
    if tables is None:
        return None
    least, greatest = sorted((tables(low), tables(high)))  # where they are next to each other, the first may be larger
    result_facts = Facts(
        type,
        Kind.INTEGER,
        nullable=facts.nullable or facts.low < (1 if of.zero is None else 0),
        step=of.grain,
        low=least if of.zero is None or facts.low > 0 else min(of.zero, least),
        high=greatest,
        declared_high=facts.declared_high,
    )
    return Scalar(Operator.LOG, (argument,), result_facts, of)


def _logarithm_of_double(argument: Scalar, base: Fraction | None, type: Type) -> Scalar:
    if base in {None, 2, 10}:
        return on_doubles(Operator.LOG, (argument,), type, int(base or 0))
    natural_one = on_doubles(Operator.LOG, (argument,), type, 0)
    return divide_scalars(natural_one, on_doubles(Operator.LOG, (constant(base, Type.DECIMAL),), type, 0), type)


def power_of_base(argument: Scalar, base: Fraction | None, type: Type) -> Scalar:
    """Return a base above 0 to the power of a number; None is e."""
    if base is not None and base < 1:
        return power_of_base(negate_scalar(argument, Type.DECIMAL), 1 / base, type)
    facts = argument.facts
    if facts.kind is not Kind.INTEGER or not _mild(facts.step) or (base is not None and not _mild(base)):
        return _power_of_base_of_double(argument, base, type)
    if base == 1:
        return integer_power(argument, 0, type)
    if not facts.declared_high:
        return _power_of_base_of_double(argument, base, type)
    slope = per_base(base, 30) * facts.step
    exponent = (slope * facts.high).high
    if exponent > 100:
        return _power_of_base_of_double(argument, base, type)
    if slope.high > 1:  # few arguments have a result above 0, and one step may be many factors of e: they are listed
        argument = clip_scalar(argument, min(_last_vanishing(slope), facts.high), None)
    far = int(enclose(max(Fraction(exponent), Fraction(-1)), 30).exp().high) + 1
    listed = _looked_up(Operator.EXP, base, argument, type, far)
    if listed is not None:
        return listed
    places = next((n for n in range(_PLACES, -1, -1) if far * 10**n < MAX_POWER_STEPS >> 1), None)
    if places is None:
        return _power_of_base_of_double(argument, base, type)
    exact = _power_of_integer(argument, PowerCurve(base, facts.step, Fraction(1, 10**places)), type)
    return _power_of_base_of_double(argument, base, type) if exact is None else exact


def _last_vanishing(slope: Enclosure) -> int:
    """Return an argument whose power is below a quarter of the finest step that is shown, and so are all below it."""
    return int(Fraction((natural(Fraction(1, 4 * 10**_CONSTANT_PLACES), 30) / slope).low)) - 1


def _power_of_integer(argument: Scalar, of: PowerCurve, type: Type) -> Scalar | None:
    facts = argument.facts
    tables = exponential(of, facts.low, facts.high)
    if tables is None:
        return None
    low, high = sorted((tables(facts.low) if facts.declared_low else 0, tables(facts.high)))
    result_facts = Facts(type, Kind.INTEGER, nullable=facts.nullable, step=of.grain, low=low, high=high)
    return Scalar(Operator.EXP, (argument,), result_facts, of)


def _power_of_base_of_double(argument: Scalar, base: Fraction | None, type: Type) -> Scalar:
    if base is not None:
        argument = multiplied(argument, logarithm_of(constant(base, Type.DECIMAL), None, Type.DECIMAL), Type.DECIMAL)
    return on_doubles(Operator.EXP, (argument,), type)


def raise_to_power(argument: Scalar, exponent: Fraction, type: Type) -> Scalar:
    """Return a number to a constant power, NULL where there is none: of 0 to one below 0, of negatives to a broken one.

    Whole powers are products, and halves are roots of them.
    """
    if exponent < 0 and exponent.denominator == 1:
        return divide_scalars(constant(1, Type.DECIMAL), integer_power(argument, -int(exponent), Type.DECIMAL), type)
    if exponent.denominator == 1:
        return integer_power(argument, int(exponent), type)
    if exponent in {Fraction(n, 2) for n in (1, 3, 5)}:
        product = integer_power(argument, exponent.numerator, Type.DECIMAL)
        if product.facts.kind is Kind.INTEGER:
            return square_root(product, type)
    facts = argument.facts
    if facts.kind is not Kind.INTEGER or not _mild(facts.step) or not facts.bounded or facts.high <= 0:
        return _raise_on_doubles(argument, exponent, type)
    ends = [_power_enclosed(facts.step * side, exponent, 30).high for side in (max(facts.low, 1), facts.high)]
    if max(ends) > MAX_INTERMEDIATE_STEPS:
        return _raise_on_doubles(argument, exponent, type)
    far = int(max(ends)) + 1
    listed = _looked_up(Operator.POWER, exponent, argument, type, far)
    if listed is not None:
        return listed
    places = next((n for n in range(_PLACES, _MIN_PLACES, -1) if far * 10**n < _MAX_EXACT_POWER_STEPS), _MIN_PLACES)
    if far * 10**places >= MAX_POWER_STEPS >> 1:
        return _raise_on_doubles(argument, exponent, type)
    vanishing = int(Fraction((natural(Fraction(1, 10**places) / 4, 30) / (_INNER_LOGARITHM_STEP * exponent)).low)) - 1
    if vanishing < -STORED_LIMIT:  # what stands for the logarithm of 0 is an integer of 64 bits
        return _raise_on_doubles(argument, exponent, type)
    inner = LogarithmCurve(None, facts.step, _INNER_LOGARITHM_STEP, vanishing if exponent > 0 else None)
    scalar = _logarithm_of_integer(argument, inner, Type.DECIMAL)
    if scalar is None:
        return _raise_on_doubles(argument, exponent, type)
    tail = multiplied(scalar, constant(exponent, Type.DECIMAL), Type.DECIMAL)
    exact = _power_of_integer(tail, PowerCurve(None, tail.facts.step, Fraction(1, 10**places)), type)
    return _raise_on_doubles(argument, exponent, type) if exact is None else exact


def _raise_on_doubles(argument: Scalar, exponent: Fraction, type: Type) -> Scalar:
    tail = on_doubles(Operator.LOG, (argument,), Type.DECIMAL, 0)
    scalar = on_doubles(Operator.EXP, (multiplied(tail, constant(exponent, Type.DECIMAL), Type.DECIMAL),), type)
    if exponent < 0:
        return scalar
    zero = constant(0, Type.DECIMAL)
    return case_scalar([(compare_scalars(Operator.EQUAL, argument, zero), zero)], scalar, type)


def _check_nesting(call: Call, argument: Scalar) -> None:
    if _nested_roots(argument) >= MAX_NESTED_ROOTS:
        raise SourceSpan(call.at).too_large(
            f"SQRT or POWER is nested more than {MAX_NESTED_ROOTS} deep.",
            "An engine looks at the number below each root more than once, so every level doubles the work.",
            f"Nest {MAX_NESTED_ROOTS} at most.",
        )


def _nested_roots(scalar: Scalar) -> int:
    """Return how many square roots and powers of doubles are nested in each other here."""
    below = max(map(_nested_roots, scalar.arguments), default=0)
    return below + (scalar.operator is Operator.SQRT or (scalar.operator is Operator.EXP and scalar.constant is None))


def _root(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    _check_nesting(call, arguments[0])
    return square_root(arguments[0], call.type)


def _exponential(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return power_of_base(arguments[0], None, call.type)


def _natural(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return logarithm_of(arguments[0], None, call.type)


def _binary(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return logarithm_of(arguments[0], Fraction(2), call.type)


def _logarithm(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    if len(arguments) == 1:
        return logarithm_of(arguments[0], Fraction(10), call.type)
    base, argument = value_of(arguments[0]), arguments[1]
    if base is not None:
        return logarithm_of(argument, base, call.type) if base > 0 else constant(None, call.type)
    above, below = (logarithm_of(part, None, Type.DECIMAL) for part in (argument, arguments[0]))
    return divide_scalars(above, below, call.type)


def _lower_power(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    base, exponent = (value_of(argument) for argument in arguments)
    if any(map(is_null, arguments)):
        return constant(None, call.type)
    if exponent is not None:
        if abs(exponent) > MAX_EXPONENT and base is None:
            raise SourceSpan(call.at).unsupported(
                "the exponent of power is out of range.",
                f"It lies between {-MAX_EXPONENT} and {MAX_EXPONENT}, which keeps values bounded.",
                f"Choose one between {-MAX_EXPONENT} and {MAX_EXPONENT}.",
            )
        if base is None or (exponent.denominator == 1 and abs(exponent) <= MAX_EXPONENT):
            _check_nesting(call, arguments[0])
            return raise_to_power(arguments[0], exponent, call.type)
    if base is not None and base > 0:
        return power_of_base(arguments[1], base, call.type)
    raise SourceSpan(call.at).unsupported(
        "power needs a literal exponent, or a literal base above 0.",
        "Otherwise the range of the result is unknown.",
        "Write one of them as a number, such as POWER(x, 1.5) or POWER(1.05, n); or EXP(n * LN(x)).",
    )


CURVES = {
    Function.SQRT: _root,
    Function.EXP: _exponential,
    Function.LN: _natural,
    Function.LOG: _logarithm,
    Function.LOG2: _binary,
    Function.POWER: _lower_power,
}
