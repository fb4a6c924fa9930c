"""Logarithms and powers of integers are as near to the true ones as is said, by an oracle that shares no code."""

import random
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from sfumato.language.curves import exponential, logarithm
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_curves import logarithm_of, power_of_base, raise_to_power
from sfumato.language.scalar import ListedResults, LogarithmCurve, Operator, PowerCurve, Scalar, column, walk
from sfumato.query.types import Type

HALF = Fraction(1, 2)


def _facts(step: Fraction, low: int, high: int) -> Facts:
    return Facts(Type.DECIMAL, Kind.INTEGER, nullable=False, step=step, low=low, high=high)


def _true_logarithm(value: Fraction, base: Fraction | None) -> Decimal:
    with localcontext(prec=60):
        found = (Decimal(value.numerator) / Decimal(value.denominator)).ln()
        return found if base is None else found / (Decimal(base.numerator) / Decimal(base.denominator)).ln()


def _true_power(exponent: Fraction, base: Fraction | None) -> Decimal:
    with localcontext(prec=60):
        times = _true_logarithm(base, None) if base is not None else Decimal(1)
        return (times * Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def _some(low: int, high: int) -> list[int]:
    draw = random.Random(7)
    near = {1 << n for n in range(126)} | {(1 << n) - 1 for n in range(126)} | {(1 << n) * 3 // 2 for n in range(126)}
    spread = {draw.randint(low, high) for _ in range(60)} | {int(high ** draw.random()) for _ in range(60)}
    return sorted(m for m in near | spread | {low, high} if low <= m <= high)


@pytest.mark.parametrize("base", [None, Fraction(2), Fraction(10), Fraction(3, 2)])
@pytest.mark.parametrize(
    ("step", "low", "high"),
    [(Fraction(1), 1, 5_000), (Fraction(1, 100), 1, 10**8), (Fraction(7, 3), 10**6, 2**63), (Fraction(1), 1, 2**125)],
)
def test_a_logarithm_is_within_six_tenths_of_a_step(base: Fraction | None, step: Fraction, low: int, high: int) -> None:
    scalar = logarithm_of(column("t", "x", _facts(step, low, high)), base, Type.DECIMAL)
    assert isinstance(scalar.constant, LogarithmCurve)
    tables = logarithm(scalar.constant, low, high)
    assert tables is not None
    for m in _some(low, high):
        true = Fraction(_true_logarithm(m * step, base)) / scalar.constant.grain
        assert abs(tables(m) - true) <= Fraction(6, 10), m


@pytest.mark.parametrize("base", [None, Fraction(2), Fraction(21, 20)])
@pytest.mark.parametrize(
    ("step", "low", "high"),
    [
        (Fraction(1, 1000), 0, 10_000),
        (Fraction(1, 10**6), -(10**8), 10**7),
        (Fraction(1, 100), -(2**63), 4_000),
        (Fraction(1, 10**15), 0, 2**53),
    ],
)
def test_a_power_is_within_a_little_more_than_half_a_step(
    base: Fraction | None, step: Fraction, low: int, high: int
) -> None:
    scalar = power_of_base(column("t", "x", _facts(step, low, high)), base, Type.DECIMAL)
    assert isinstance(scalar.constant, PowerCurve)
    tables = exponential(scalar.constant, low, high)
    assert tables is not None
    draw = random.Random(8)
    for m in {low, high, 0, *(draw.randint(tables.first - 5, high) for _ in range(100))}:
        if low <= m <= high:
            true = Fraction(_true_power(m * step, base)) / scalar.constant.grain
            assert abs(tables(m) - true) <= Fraction(55, 100) + true * 7 / 10**12, m


def test_few_arguments_have_the_results_nearest_to_the_true_ones() -> None:
    facts = _facts(Fraction(1, 4), -3, 400)
    scalars: dict[Scalar, Callable[[Fraction], Decimal]] = {
        logarithm_of(column("t", "x", facts), None, Type.DECIMAL): lambda x: _true_logarithm(x, None),
        power_of_base(column("t", "x", facts), Fraction(3, 4), Type.DECIMAL): lambda x: _true_power(x, Fraction(3, 4)),
        raise_to_power(column("t", "x", facts), Fraction(1, 3), Type.DECIMAL): lambda x: _true_power(Fraction(1, 3), x),
    }
    for scalar, true in scalars.items():
        assert scalar.operator is Operator.LOOKUP
        assert isinstance(scalar.constant, ListedResults)
        sign = -1 if scalar.arguments[0].operator is Operator.NEGATE else 1
        for m, value in enumerate(scalar.constant.values, scalar.constant.first):
            expected = Fraction(true(sign * m * facts.step)) / scalar.facts.step if m or sign < 0 else None
            assert expected is None or abs(value - expected) <= HALF


@pytest.mark.parametrize("exponent", [Fraction(1, 3), Fraction(7, 4), Fraction(-1, 3), Fraction(31, 10)])
def test_a_broken_power_has_ten_digits_of_the_largest(exponent: Fraction) -> None:
    facts = _facts(Fraction(1, 100), 0, 10**6)
    scalar = raise_to_power(column("t", "x", facts), exponent, Type.DECIMAL)
    assert isinstance(scalar.constant, PowerCurve)
    for m in _some(1, facts.high):
        true = Fraction(_true_power(exponent, m * facts.step)) / scalar.facts.step
        assert abs(_value(scalar, m) - true) <= Fraction(65, 100) + true * 3 / 10**11, m
    assert exponent < 0 or _value(scalar, 0) == 0


def test_exact_powers_come_out_exact() -> None:
    cubes = raise_to_power(column("t", "x", _facts(Fraction(1), 0, 10**6)), Fraction(1, 3), Type.DECIMAL)
    assert [_value(cubes, n**3) * cubes.facts.step for n in range(101)] == list(range(101))
    doublings = power_of_base(column("t", "x", _facts(Fraction(1), 0, 40)), Fraction(2), Type.DECIMAL)
    assert isinstance(doublings.constant, ListedResults)
    assert [value * doublings.facts.step for value in doublings.constant.values] == [2**n for n in range(41)]


def _value(scalar: Scalar, m: int) -> int:
    """The value of nested curves, by the definition of each."""
    facts = scalar.arguments[0].facts if scalar.arguments else scalar.facts
    match scalar.operator, scalar.constant:
        case Operator.COLUMN, _:
            return m
        case Operator.NEGATE, _:
            return -_value(scalar.arguments[0], m)
        case Operator.LOG, LogarithmCurve(zero=zero) as of:
            tables = logarithm(of, max(facts.low, 1), facts.high)
            inner = _value(scalar.arguments[0], m)
            assert tables is not None
            return tables(inner) if inner else int(zero or 0)
        case Operator.EXP, PowerCurve() as of:
            powers = exponential(of, facts.low, facts.high)
            assert powers is not None
            return powers(_value(scalar.arguments[0], m))
    raise AssertionError(scalar.operator)


def test_the_ends_of_a_logarithm_never_cross() -> None:
    """Next to where a part of a doubling ends, the logarithm of a larger integer may be a step below."""
    middle, step = 717 << 44, Fraction(1, 100)
    tables = logarithm(LogarithmCurve(None, step, Fraction(1, 10**10)), middle - 300, middle + 300)
    assert tables is not None
    assert tables(middle - 300) > tables(middle + 300)
    scalar = logarithm_of(column("t", "x", _facts(step, middle - 300, middle + 300)), None, Type.DECIMAL)
    assert isinstance(scalar.constant, LogarithmCurve)
    assert scalar.facts.low <= scalar.facts.high


@pytest.mark.parametrize("high", [0, 3, -(2**40)])
def test_a_steep_power_has_few_results_and_they_are_listed(high: int) -> None:
    """One step of the argument may be a million factors of e, and a table of all of them would never be finished."""
    for step in (Fraction(3), Fraction(10**6), Fraction(10**20)):
        if step * high > 50:
            continue
        scalar = power_of_base(column("t", "x", _facts(step, -(2**63), high)), None, Type.DECIMAL)
        assert (scalar.facts.low, scalar.facts.step) == (
            0,
            Fraction(1, 10**10),
        ) or scalar.facts.low == scalar.facts.high == 0
        if scalar.operator is Operator.LOOKUP:
            assert isinstance(scalar.constant, ListedResults)
            assert len(scalar.constant.values) < 64
            assert scalar.facts.high == scalar.constant.values[-1] == round(_true_power(step * high, None) * 10**10)
            assert scalar.constant.first == scalar.arguments[0].facts.low


def test_a_power_with_a_tiny_exponent_is_no_integer() -> None:
    """What stands for the logarithm of 0 would not fit into 64 bits, and the engine would fail after the charge."""
    facts = _facts(Fraction(1, 100), 0, 10**8)
    for exponent in ("0.3", "0.00001", "0.000001", "0.00000001"):
        scalar = raise_to_power(column("t", "x", facts), Fraction(exponent), Type.DECIMAL)
        inner = [part.constant for part in walk(scalar) if isinstance(part.constant, LogarithmCurve)]
        assert (scalar.facts.kind is Kind.INTEGER) == (Fraction(exponent) > Fraction(1, 10**6))
        assert all(part.zero is not None and -(2**63) <= part.zero < 0 for part in inner)
