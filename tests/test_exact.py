"""Numbers from people are read exactly or refused at once; nothing else comes out, whatever goes in."""

import sys
import time
from collections.abc import Callable
from decimal import Context, Decimal, getcontext, localcontext
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadParameter
from sfumato.exact import (
    decimal_rational,
    integer,
    positive,
    positive_rational,
    probability,
    rational,
    typed_rational,
    typed_share,
)

Door = Callable[[object, str], Fraction]


def _any_integer(value: object, name: str) -> Fraction:
    return Fraction(integer(value, name, 0))


def _positive_typed(value: object, name: str) -> Fraction:
    return positive(decimal_rational(value, name), name)


DOORS: tuple[Door, ...] = (
    rational,
    decimal_rational,
    positive_rational,
    probability,
    _any_integer,
    _positive_typed,
    typed_rational,
)

HOSTILE: tuple[object, ...] = (
    *(nan, inf, -inf, np.float64("nan"), np.float32("inf"), np.float16("-inf"), np.longdouble("nan")),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("-sNaN123"), Decimal("Infinity"), Decimal("-Infinity")),
    *(True, False, np.True_, np.False_, None, b"1", bytearray(b"1"), 1j, 1 + 0j, np.complex128(1), object(), type),
    *([], [1], (1,), {}, {1}, np.array([1, 2]), np.array(1.5), np.array([], dtype=np.int64), range(3), lambda: 1),
    *("", " ", "+", "-", ".", "e", "1e", "e1", "1e+", "..1", "1.2.3", "--1", "+-1", "1 2", "1,5", "1_000", "0x10"),
    *("nan", "NaN", "inf", "Infinity", "-inf", "sNaN", "1/0", "0/0", "1/00", "-1/0", "1/-2", "1//2", "1/2/3", "1/2.0"),
    *("1 / 2", "1/", "/2", "1.0/2", "1e5/2", "١٢٣", "１", "1٫5", "²", "½", "Ⅷ", "1\n2", "1\x00", "\x00", "1e１", "−1"),
    *(
        "1e999999999",
        "1e-999999999",
        "1E+99999",
        "1e9999",
        "1e-3000",
        "-1e999999999999999999999",
        "0e999999999",
        "9" * 3000,
        "0." + "1" * 3000,
    ),
    *("1/" + "9" * 3000, "1" * 10**6, "1e" + "1" * 10**6, "(" * 10**5, "1" + " " * 10**6 + "2"),
    *(Decimal("1e999999"), Decimal("1e-999999"), Decimal((0, (1,), 999999999999999999))),
    *(np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.str_("nan"), np.bytes_(b"1")),
)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:20]!r}"


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("value", HOSTILE, ids=_shown)
def test_what_is_no_finite_number_is_refused_at_once(door: Door, value: object) -> None:
    start = time.process_time()
    with pytest.raises(BadParameter) as refused:
        door(value, "epsilon")
    assert time.process_time() - start < 0.5
    assert "epsilon" in refused.value.what


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("value", HOSTILE, ids=_shown)
def test_a_refusal_stays_short_however_long_the_value(door: Door, value: object) -> None:
    with pytest.raises(BadParameter) as refused:
        door(value, "epsilon")
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        ("1/10", Fraction(1, 10)),
        ("  3 ", Fraction(3)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("-2", Fraction(-2)),
        ("1e-9", Fraction(1, 10**9)),
        ("1E3", Fraction(1000)),
        ("1e999", Fraction(10**999)),
        ("007/010", Fraction(7, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.int8(-3), Fraction(-3)),
        (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
        (10**400, Fraction(10**400)),
    ],
)
def test_exact_numbers_are_read_as_they_are_written(text: object, value: Fraction) -> None:
    for door in (rational, decimal_rational):
        read = door(text, "epsilon")
        assert read == value
        assert (type(read), type(read.numerator), type(read.denominator)) == (Fraction, int, int)


FLOATS: tuple[object, ...] = (0.1, 1.0, 1e-300, np.float64(0.1), np.float32(0.1), np.float16(0.5), np.longdouble(0.5))


@pytest.mark.parametrize("value", FLOATS, ids=_shown)
def test_inside_the_house_a_float_is_refused_even_when_it_is_whole(value: object) -> None:
    for door in (rational, positive_rational, _any_integer):
        with pytest.raises(BadParameter):
            door(value, "scale")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_typed_float_is_its_shortest_decimal_text(value: float) -> None:
    read = decimal_rational(value, "epsilon")
    assert read == Fraction(repr(value))
    assert float(read) == value


@given(st.fractions())
def test_text_of_a_fraction_reads_back(value: Fraction) -> None:
    assert rational(str(value), "epsilon") == rational(value, "epsilon") == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_a_decimal_is_read_exactly(value: Decimal) -> None:
    assert rational(value, "epsilon") == Fraction(value)


@given(st.text())
def test_any_text_is_a_number_or_a_refusal(text: str) -> None:
    for door in DOORS:
        try:
            assert isinstance(door(text, "epsilon"), Fraction)
        except BadParameter as refused:
            assert refused.remedy  # noqa: PT017  (both ends are allowed; nothing third is)


def test_a_caller_cannot_change_what_a_decimal_means() -> None:
    typed = Decimal("0.123456789012345678901234567890123456789")
    with localcontext(Context(prec=2, Emax=2, Emin=-2)):
        assert rational(typed, "epsilon") == Fraction(123456789012345678901234567890123456789, 10**39)
    assert getcontext().prec != 2


def test_what_is_read_does_not_depend_on_the_digit_limit_of_the_interpreter() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert rational("1" + "0" * 600, "epsilon") == 10**600
        with pytest.raises(BadParameter):
            integer(-(10**700), "count", 0)
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("value", [0, -1, "0", "-1e-9", "0/5", "-0.0", Fraction(-1, 3), Decimal("-0")])
def test_zero_and_less_is_not_positive(value: object) -> None:
    with pytest.raises(BadParameter, match="not positive"):
        positive_rational(value, "scale")


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.5, 1.5, "0", "1", "1e3", Fraction(1), Decimal("1.0")])
def test_a_probability_is_strictly_between_0_and_1(value: object) -> None:
    with pytest.raises(BadParameter, match="between 0 and 1"):
        probability(value, "delta")


def test_a_probability_may_be_as_near_to_its_ends_as_one_likes() -> None:
    assert probability("1e-999", "delta") == Fraction(1, 10**999)
    assert probability(5e-324, "delta") == Fraction(5, 10**324)
    assert probability(1 - Fraction(1, 10**500), "delta") < 1


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), Fraction(3), Fraction(6, 2)])
def test_integers_of_every_kind_become_plain_ones(value: object) -> None:
    read = integer(value, "times", 1)
    assert (read, type(read)) == (3, int)


@pytest.mark.parametrize("value", ["3", 3.0, Fraction(7, 2), Decimal(3)])
def test_what_only_looks_like_an_integer_is_refused(value: object) -> None:
    with pytest.raises(BadParameter, match="not an integer"):
        integer(value, "times", 1)


@pytest.mark.parametrize("least", [-5, 0, 1, 7])
def test_an_integer_below_the_least_is_refused(least: int) -> None:
    assert integer(least, "times", least) == least
    for value in (least - 1, np.int64(least - 1), Fraction(least - 1)):
        with pytest.raises(BadParameter, match="is below"):
            integer(value, "times", least)


@pytest.mark.parametrize("value", ["1e-40", "1e40", f"{10**40 - 1}/{10**40 - 3}", "-0.5", 0.1, 0])
def test_prices_of_forty_digits_are_read_as_they_are(value: object) -> None:
    assert typed_rational(value, "epsilon") == decimal_rational(value, "epsilon")


@pytest.mark.parametrize(
    "value", ["1e-41", "1e41", "1e-300", f"1/{'7' * 1982}", f"1.{'3' * 41}", Fraction(1, 10**5000), 5e-324]
)
def test_prices_of_more_digits_are_refused(value: object) -> None:
    with pytest.raises(BadParameter, match="40 digits") as refused:
        typed_rational(value, "epsilon")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "share", [0, -1, "0%", "101%", 2, "2", "nan", True, "", "%", "1e-50", "two", [1], "0x1", "2%%"]
)
def test_what_is_no_share_is_refused(share: object) -> None:
    with pytest.raises(BadParameter, match="share"):
        typed_share(share, "share")


@pytest.mark.parametrize("share", ["2%", " 2 % ", "1/50", "0.02", 0.02, Decimal("0.02"), Fraction(1, 50), "2.0%"])
def test_a_share_is_a_percentage_or_a_number_of_at_most_one(share: object) -> None:
    assert typed_share(share, "share") == Fraction(1, 50)
    assert typed_share(1, "share") == typed_share("100%", "share") == 1
