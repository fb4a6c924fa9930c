"""Every threshold and every guide cell against a 60-digit distribution computed another way: none wrong."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from mpmath import mp

from sfumato.certified.binary import exp_minus_bounds, pi_bounds, square_root_bounds
from sfumato.randomness.bernoulli import ExpRatio, Probability, exp_minus, logistic
from sfumato.randomness.discrete_gaussian import _prepare_sampler
from sfumato.randomness.discrete_laplace import _sampler
from sfumato.randomness.geometric import LARGE_TABLES, SMALL_TABLES, TableSizes, _plain_sampler
from sfumato.randomness.guide import Guide, build_guide

SCALES = [
    Fraction(text)
    for text in (
        "0.05",
        "1/3",
        "1/2",
        "1",
        "10",
        "35/3",
        "24",
        "24.5",
        "1000",
        "24577",
        "123456/7",
        "1000000",
        "1000000000",
        "281474976710656",
        "1e40",
    )
]
VARIANCES = [
    Fraction(text)
    for text in ("1/40", "1/4", "1", "10/3", "100", "1023", "1024", "70001/7", "1000000", "1234567890123/11", "1e28")
]
DIGITS = 120  # e^-80 and 60 digits more


def real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def floors(values: list[Any], bits: int) -> list[int]:
    return [int(mpmath.floor(mpmath.ldexp(value, bits))) for value in values]


def ceilings(values: list[Any], bits: int) -> list[int]:
    return [int(mpmath.ceil(mpmath.ldexp(value, bits))) for value in values]


def expected_cells(distribution: list[Any], tail: bool) -> npt.NDArray[np.int64]:
    """The cells of P[K <= k] for all k but the last: k where the cell lies inside k's stretch, else -1."""
    low = np.array([*floors(distribution, 48), 1 << 48], dtype=np.int64)
    edges = np.arange((1 << 16) + 1, dtype=np.int64) << 32
    found = np.searchsorted(np.array(ceilings(distribution, 48), dtype=np.int64), edges[:-1], side="right")
    decided = edges[1:] <= low[found]
    if tail:
        decided &= found < len(distribution)  # the last outcome has a tail, so that it is never decided by a cell
    return np.where(decided, found, -1)


def check_seams(low: list[int], high: list[int], distribution: list[Any]) -> None:
    """Floors and ceilings, one unit wider only for a seam within 2^-20 units of an integer."""
    assert low[-1] == high[-1] == 1 << 48
    hair = mpmath.mpf(2) ** -68
    least, most = (floors([seam - hair for seam in distribution], 48), floors(distribution, 48))
    assert all(a <= b <= c for a, b, c in zip(least, low[:-1], most, strict=True))
    least, most = (ceilings(distribution, 48), ceilings([seam + hair for seam in distribution], 48))
    assert all(a <= b <= c for a, b, c in zip(least, high[:-1], most, strict=True))


def check_row(guide: Guide, row: int, distribution: list[Any]) -> None:
    table = int(guide.tables[row, 0])
    assert guide.offsets[row, 0] == table << 16
    seams = slice(int(guide.first[table]), int(guide.first[table + 1]))
    cells = guide.cells[table << 16 : table + 1 << 16].astype(np.int64)
    wrong = np.flatnonzero(cells != expected_cells(distribution, guide.laws[row].tail is not None))
    assert not wrong.size, f"cells {wrong[:9]} are wrong"
    check_seams((guide.low[seams] - (table << 48)).tolist(), (guide.high[seams] - (table << 48)).tolist(), distribution)
    assert (cells >= 0).mean() > 0.98  # the slow path is the exception


@pytest.mark.parametrize("sizes", [SMALL_TABLES, LARGE_TABLES], ids=repr)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_every_cell_and_every_seam_of_every_laplace_table_is_right(scale: Fraction, sizes: TableSizes) -> None:
    sampler = _sampler(scale, sizes)
    places = [int(weight).bit_length() - 1 for weight in sampler.weights.ravel()]
    assert [1 << place for place in places] == sampler.weights.ravel().tolist()
    digits = places[0]
    assert digits == 0 if scale <= sizes.widest else sizes.widest < 2 * scale / (1 << digits) <= 2 * sizes.widest
    assert len(sampler.guide.laws) == len(places) + 1
    with mp.workdps(DIGITS):
        one = 1 / real(scale)
        cells = int(sampler.guide.first[1]) - 1
        step = mpmath.ldexp(one, digits)
        assert mpmath.exp(-step * cells) < mpmath.mpf(2) ** -20
        check_row(sampler.guide, 0, [-mpmath.expm1(-step * (k + 1)) for k in range(cells)])
        for row, (high, low) in enumerate(pairwise(places), 1):
            assert 0 < high - low <= sizes.group
            step, total = mpmath.ldexp(one, low), mpmath.expm1(-mpmath.ldexp(one, high))
            check_row(sampler.guide, row, [mpmath.expm1(-step * (b + 1)) / total for b in range((1 << high - low) - 1)])
        assert places[-1] == 0
        x = mpmath.exp(-one)
        check_row(sampler.guide, len(places), [x / (1 + x), 1 / (1 + x)])


@pytest.mark.parametrize("sizes", [SMALL_TABLES, LARGE_TABLES], ids=repr)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_plain_geometric_has_the_same_digits_and_the_same_tables(scale: Fraction, sizes: TableSizes) -> None:
    plain, laplace = _plain_sampler(scale, sizes), _sampler(scale, sizes)
    assert plain.guide.laws == laplace.guide.laws[:-1]
    assert plain.weights.tolist() == laplace.weights.tolist()
    assert plain.guide.cells.tolist() == laplace.guide.cells[: len(plain.guide.cells)].tolist()


def test_a_scale_holds_few_tables_however_large_it_is() -> None:
    """Groups of digits whose steps do not show in 48 bits share a table: the memory and the int64 keys rest on it."""
    for scale, most in (("10", 2), ("1000", 3), ("1e6", 4), ("1e9", 5), ("281474976710656", 7), ("1e300", 12)):
        large, small = _sampler(Fraction(scale), LARGE_TABLES), _sampler(Fraction(scale), SMALL_TABLES)
        assert large.guide.cells.nbytes <= most << 17
        assert small.guide.cells.dtype == np.int8
        assert len(small.guide.cells) <= 2 * most << 16
    assert len(_sampler(Fraction("1e300"), LARGE_TABLES).guide.laws) > 100


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_every_gaussian_guide_cell_is_right(variance: Fraction) -> None:
    sampler = _prepare_sampler(variance)
    with mp.workdps(DIGITS):
        sigma = mpmath.sqrt(real(variance))
        stride = 1 << sampler.digits
        assert (stride <= sigma / 16 < 2 * stride) if variance >= 1024 else stride == 1
        step = mpmath.mpf(stride) ** 2 / (2 * real(variance))
        multiplicity = 2 if stride == 1 else 1
        theta = mpmath.jtheta(3, 0, mpmath.exp(-step))  # Jacobi's sum over all integers, by mpmath's own means
        total = theta if stride == 1 else (theta + 1) / 2
        sums = [mpmath.mpf(1)]
        for place in range(1, len(sampler.guide.high) - 1):
            sums.append(sums[-1] + multiplicity * mpmath.exp(-step * place * place))
        check_row(sampler.guide, 0, [part / total for part in sums])
        assert 1 - sums[-1] / total < mpmath.mpf(2) ** -55


TIGHT = [
    *_sampler(Fraction(1000), LARGE_TABLES).guide.laws,
    *_sampler(Fraction("1e30"), LARGE_TABLES).guide.laws,
    *_sampler(Fraction(1000), SMALL_TABLES).guide.laws[:-1],
    _prepare_sampler(Fraction(5)).guide.law,
]


@pytest.mark.parametrize("law", TIGHT, ids=repr)
@pytest.mark.parametrize("bits", [1, 16, 112, 224, 448])
def test_cumulative_bounds_are_tight_at_every_precision(law: Any, bits: int) -> None:
    low, high = law.cumulative(bits)
    finer_low, finer_high = law.cumulative(bits + 200)
    assert low[-1] == high[-1] == 1 << bits
    assert list(low) == sorted(low)
    assert list(high) == sorted(high)
    for coarse, fine in ((low, finer_low), (high, finer_high)):
        assert max(abs((a << 200) - b) for a, b in zip(coarse, fine, strict=True)) <= 2 << 200
    assert all(a <= b for a, b in zip(low, high, strict=True))
    assert all((a << 200) <= b for a, b in zip(low, finer_high, strict=True))
    assert all((a << 200) >= b for a, b in zip(high, finer_low, strict=True))


def test_a_table_is_built_once_per_scale() -> None:
    for kept in (build_guide, _prepare_sampler):
        kept.cache_clear()  # of two caches, other tests may have filled one only
    assert _sampler(Fraction(10)) is _sampler(Fraction(20, 2))
    assert build_guide(_prepare_sampler(Fraction(5)).guide.law) is _prepare_sampler(Fraction(10, 2)).guide


REFERENCE: list[tuple[Probability, int]] = [
    (exp_minus(Fraction(1)), 6786177901268885274),
    (exp_minus(Fraction(1, 10)), 16691304278825489409),
    (ExpRatio(Fraction(1), a=1, b=-1, c=1, d=1), 8524556932045589908),  # tanh(1/2)
    (ExpRatio(Fraction(1), a=1, b=0, c=1, d=3), 8768971294881393556),  # e / (e + 3)
    (ExpRatio(Fraction(1, 10), a=1, b=-1, c=1, d=1), 921569357186432047),  # tanh(1/20)
    (ExpRatio(Fraction(1, 1000), a=1, b=-1, c=1, d=1), 9223371268240516),  # tanh(1/2000)
    (logistic(Fraction(1, 10)), 8762587358261559784),
    (logistic(Fraction(512, 1000)), 6912452409901858045),
]


@pytest.mark.parametrize(("probability", "threshold"), REFERENCE, ids=repr)
def test_the_reference_thresholds(probability: Probability, threshold: int) -> None:
    assert probability.bounds(64) == (threshold, threshold + 1)


def test_the_reference_threshold_at_128_bits() -> None:
    assert exp_minus(Fraction(1)).bounds(128)[0] == 125182886983370532117250726298150828301


def random_exponents(count: int) -> list[Fraction]:
    random = Random("exponents")
    sizes = [(random.randint(1, 70), random.randint(1, 70)) for _ in range(count)]
    drawn = [Fraction(random.getrandbits(a) + 1, random.getrandbits(b) + 1) for a, b in sizes]
    return [*drawn, Fraction(1, 10**100), Fraction(1), Fraction(64), Fraction(65), Fraction(66), Fraction(10**9)]


@pytest.mark.parametrize("bits", [0, 1, 16, 32, 64, 112, 500])
def test_exp_minus_is_enclosed_by_neighbours_that_decimal_and_mpmath_agree_on(bits: int) -> None:
    context = Context(prec=400, Emin=MIN_EMIN, Emax=MAX_EMAX)
    with mp.workdps(400):
        for exponent in random_exponents(60):
            low, high = exp_minus_bounds(exponent, bits)
            assert low <= high <= low + 1
            if exponent < 2000:
                inverse = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
                assert low <= Fraction(context.exp(context.minus(inverse))) * (1 << bits) <= high
            assert low == int(mpmath.floor(mpmath.ldexp(mpmath.exp(-real(exponent)), bits)))


def test_exp_minus_is_one_at_zero_only() -> None:
    assert exp_minus_bounds(Fraction(0), 64) == (1 << 64, 1 << 64)
    assert exp_minus_bounds(Fraction(1, 10**4000), 64) == ((1 << 64) - 1, 1 << 64)


def test_exp_minus_holds_for_ten_thousand_bits() -> None:
    with mp.workprec(10_100):
        for exponent in (Fraction(1, 3), Fraction(7), Fraction(10**4)):
            assert exp_minus_bounds(exponent, 10_000)[0] == int(
                mpmath.floor(mpmath.ldexp(mpmath.exp(-real(exponent)), 10_000))
            )


@pytest.mark.parametrize("bits", [1, 10, 64, 333, 5000])
def test_pi_and_square_roots_are_enclosed(bits: int) -> None:
    with mp.workprec(bits + 100):
        low, high = pi_bounds(bits)
        assert low <= mpmath.ldexp(mp.pi, bits) <= high <= low + 2
        root_low, root_high = square_root_bounds(low, high, bits)
        assert root_low <= mpmath.ldexp(mpmath.sqrt(mp.pi), bits) <= root_high <= root_low + 3
