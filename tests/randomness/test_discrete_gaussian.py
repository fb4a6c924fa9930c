"""Integer Gaussian noise: strips, places, signs and the one zero; sums and margins as 60 digits have them."""

from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource

from sfumato.randomness.discrete_gaussian import DiscreteGaussian, _draw_candidates, _prepare_sampler
from sfumato.randomness.gaussian_sums import central_sum, normaliser, part_sum, terms_until
from sfumato.randomness.source import Metered

VARIANCES = [
    Fraction(text) for text in ("1/100", "1/4", "1", "1.01", "1.5", "2.3", "100", "4095", "4096", "70001/7", "1e12")
]
REFERENCE = [("1/4", (1, 1, 1)), ("1", (2, 2, 2)), ("100", (16, 20, 26)), ("10000", (164, 196, 258))]


def words(*values: int) -> bytes:
    return np.array(values, dtype="<u2").tobytes()


def real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def theta(variance: Fraction) -> Any:
    """The normaliser: mpmath's Jacobi theta for small σ, Poisson's sum (its dual) for large."""
    if variance < 50:
        return mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * real(variance))))
    dual = mpmath.exp(-2 * mpmath.pi**2 * real(variance))
    return mpmath.sqrt(2 * mpmath.pi * real(variance)) * (1 + 2 * dual)


@pytest.mark.parametrize(("variance", "margins"), REFERENCE)
def test_the_reference_margins(variance: str, margins: tuple[int, int, int]) -> None:
    law = DiscreteGaussian(Fraction(variance))
    assert tuple(law.margin(Fraction(percent, 100)) for percent in (90, 95, 99)) == margins


@pytest.mark.parametrize(
    ("variance", "expected"), [("1/4", "1.27134152219"), ("1", "2.50662828804"), ("100", "25.0662827463")]
)
def test_the_reference_normalisers(variance: str, expected: str) -> None:
    low, high = normaliser(Fraction(variance), 64)
    assert abs(low / 2**64 - float(expected)) < 1e-10
    assert high - low <= 8


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("bits", [1, 8, 20, 23, 24, 26, 27, 28, 30, 36, 40, 51, 64, 130, 300])
def test_the_normaliser_is_enclosed_at_every_precision(variance: Fraction, bits: int) -> None:
    with mp.workdps(150):
        low, high = normaliser(variance, bits)
        assert low <= mpmath.ldexp(theta(variance), bits) <= high <= low + 8


def test_the_normaliser_is_enclosed_where_poissons_first_term_is_as_large_as_it_gets() -> None:
    with mp.workdps(60):
        for percent in range(100, 200):
            truth = theta(Fraction(percent, 100))
            for bits in range(24, 56):
                low, high = normaliser(Fraction(percent, 100), bits)
                assert low <= mpmath.ldexp(truth, bits) <= high


@pytest.mark.parametrize("variance", ["4096", "5000.5", "70001/7", "1000003"])
@pytest.mark.parametrize("share", ["0", "0.01", "0.5", "1", "2", "5", "9"])
@pytest.mark.parametrize("bits", [64, 100, 512])
def test_euler_maclaurin_and_adding_up_agree(variance: str, share: str, bits: int) -> None:
    number = Fraction(variance)
    reach = int(float(share) * float(number) ** 0.5)
    low, high = part_sum(number, reach, bits)
    slow_low, slow_high = central_sum(number, reach, bits)
    assert max(low, slow_low) <= min(high, slow_high)
    assert high - low <= 16
    assert slow_high - slow_low <= 64


@pytest.mark.parametrize("reach", [0, 3, 50, 500])
def test_a_part_of_the_sum_is_enclosed(reach: int) -> None:
    with mp.workdps(80):
        for variance in (Fraction(1, 4), Fraction(100), Fraction(10**4)):
            truth = mpmath.fsum(mpmath.exp(-mpmath.mpf(z * z) / (2 * real(variance))) for z in range(-reach, reach + 1))
            low, high = part_sum(variance, reach, 120)
            assert low <= mpmath.ldexp(truth, 120) <= high <= low + 16


@pytest.mark.parametrize("bits", [0, 10, 56, 200])
def test_the_terms_left_out_are_below_their_bound(bits: int) -> None:
    with mp.workdps(120):
        for variance, stride in ((Fraction(1, 100), 1), (Fraction(1), 1), (Fraction(1000), 1), (Fraction(10**6), 32)):
            first = terms_until(variance, stride, bits)
            step = mpmath.mpf(stride * stride) / (2 * real(variance))
            rest = mpmath.nsum(lambda j, step=step: mpmath.exp(-step * j * j), [first, first + 2000])
            assert rest <= mpmath.mpf(2) ** -bits


@pytest.mark.parametrize("variance", ["1/100", "1/4", "1", "7/3", "100", "4096", "123456.7", "1e8", "1e30", "1e90"])
@pytest.mark.parametrize("confidence", ["1e-9", "0.01", "0.5", "0.9", "0.95", "0.999", "0.999999999999"])
def test_the_margin_is_the_smallest_reach_that_covers(variance: str, confidence: str) -> None:
    number, level = Fraction(variance), Fraction(confidence)
    margin = DiscreteGaussian(number).margin(level)
    with mp.workdps(80):

        def covered(reach: int) -> Any:
            if number < 200:
                part = mpmath.fsum(
                    mpmath.exp(-mpmath.mpf(z * z) / (2 * real(number))) for z in range(-reach, reach + 1)
                )
                return part / theta(number)
            # erf and the first two Euler–Maclaurin terms: good to σ^-6
            end, sigma = reach + mpmath.mpf(1) / 2, mpmath.sqrt(real(number))
            f = mpmath.exp(-end * end / (2 * real(number)))
            third = (3 * end / real(number) ** 2 - end**3 / real(number) ** 3) * f
            first = -end / real(number) * f
            whole = mpmath.sqrt(2 * mpmath.pi) * sigma
            return mpmath.erf(end / (sigma * mpmath.sqrt(2))) + (-first / 12 + 7 * third / 2880) / whole

        assert covered(margin) >= real(level)
        assert margin == 0 or covered(margin - 1) < real(level)


def test_a_confidence_next_to_one_ends() -> None:
    for variance in (Fraction(1), Fraction(10**4), Fraction(10**6)):
        margin = DiscreteGaussian(variance).margin(1 - Fraction(1, 10**120))
        with mp.workdps(200):
            sigma = mpmath.sqrt(real(variance))
            assert abs(margin - sigma * mpmath.sqrt(2) * mpmath.erfinv(1 - mpmath.mpf(10) ** -120)) < 1.5
    missed = Fraction(1, 10**1000)
    margin = DiscreteGaussian(Fraction(1)).margin(1 - missed)
    with mp.workdps(2200):
        tails = [
            2 * mpmath.fsum(mpmath.exp(-mpmath.mpf(z * z) / 2) for z in range(t + 1, t + 40))
            for t in (margin - 1, margin)
        ]
        assert tails[1] / theta(Fraction(1)) <= real(missed) < tails[0] / theta(Fraction(1))


@pytest.mark.parametrize("variance", ["1/4", "1", "100", "70001/7"])
@pytest.mark.parametrize("bits", [16, 64, 200])
def test_pmf_encloses_the_truth_within_a_few_units(variance: str, bits: int) -> None:
    number = Fraction(variance)
    with mp.workdps(120):
        for value in (0, 1, -1, 17, -300):
            truth = mpmath.ldexp(mpmath.exp(-mpmath.mpf(value * value) / (2 * real(number))) / theta(number), bits)
            low, high = DiscreteGaussian(number).pmf(value, bits)
            assert low <= truth <= high <= low + 3
    assert DiscreteGaussian(number).pmf(np.int64(1 << 40), 64) == (0, 1)  # type: ignore[arg-type]  # no wrapped square


def candidate(strip_word: int, place: int, negative: int, uniform: int, digits: int) -> bytes:
    """The bytes of one candidate: cell, place and sign in the leading bits of their word, and U turned round."""
    width = next(width for width in (1, 2, 4, 8) if 8 * width >= digits + 1)
    packed = ((place << 1) | negative) << (8 * width - digits - 1)
    return words(strip_word) + packed.to_bytes(width, "little") + (uniform ^ 0xFFFFFFFF).to_bytes(4, "little")


@pytest.mark.parametrize("variance", ["1024", "70001/7", "1e12"])
def test_a_candidate_is_accepted_exactly_below_its_chance_and_zero_has_one_sign(variance: str) -> None:
    sampler = _prepare_sampler(Fraction(variance))
    stride = 1 << sampler.digits
    for strip in (0, 1, 20, 90):
        word = int(np.flatnonzero(sampler.guide.cells == strip)[0]) if strip in sampler.guide.cells else None
        if word is None:
            continue
        for place in {0, 1, stride // 2, stride - 1}:
            exponent = Fraction(2 * strip * stride * place + place * place) / (2 * Fraction(variance))
            with mp.workdps(60):
                threshold = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-real(exponent)), 32)))
            for negative in (0, 1):
                size = strip * stride + place
                value = [] if size == 0 and negative else [-size if negative else size]
                for uniform, rest, expected in (
                    (threshold - 1, b"", value),
                    (threshold, b"\x00" * 8, value),
                    (threshold, b"\xff" * 8, []),
                    (threshold + 1, b"", []),
                    (0, b"", value),
                ):
                    if uniform < 1 << 32:
                        octets = candidate(word, place, negative, uniform, sampler.digits) + rest
                        assert _draw_candidates(sampler, 1, ScriptedSource(octets)).tolist() == expected


def test_small_sizes_come_straight_from_the_table_and_get_a_fair_sign() -> None:
    sampler = _prepare_sampler(Fraction(100))
    decided = np.flatnonzero(sampler.guide.cells >= 0)[::3]  # few enough for one pass
    for sign in (b"\x00", b"\xff"):
        octets = decided.astype("<u2").tobytes() + sign * (len(decided) // 8 + 1)
        drawn = DiscreteGaussian(Fraction(100)).draw(len(decided), ScriptedSource(octets))
        assert drawn.tolist() == ((1 if sign == b"\x00" else -1) * sampler.guide.cells[decided].astype(int)).tolist()


def test_the_tail_of_the_table_is_a_geometric_with_a_coin() -> None:
    law: Any = _prepare_sampler(Fraction(4)).guide.law
    step = Fraction(1, 8)
    ratio = 2 * law.cells * step
    with mp.workdps(60):
        proposed = [(1 - mpmath.exp(-real(ratio))) * mpmath.exp(-real(ratio) * i) for i in range(20)]
        kept = [mass * mpmath.exp(-real(step) * i * i) for i, mass in enumerate(proposed)]
        weights = [mpmath.exp(-real(step) * (law.cells + i) ** 2) for i in range(20)]
        for i in range(6):
            assert abs(kept[i] / kept[0] - weights[i] / weights[0]) < mpmath.mpf(10) ** -50
        counts = Counter(law.tail(1500, HashSource("tail")).tolist())
        share = float(weights[0] / sum(weights))
    assert abs(counts[0] - 1500 * share) < 5.5 * (1500 * share * (1 - share)) ** 0.5  # fixed source


@pytest.mark.parametrize("variance", ["1/4", "100", "1024", "1e12"])
def test_the_bytes_read_do_not_depend_on_the_values(variance: str) -> None:
    sampler = _prepare_sampler(Fraction(variance))
    used, values = set(), set()
    for cell in np.flatnonzero(sampler.guide.cells >= 0)[[0, 9000, -1]]:
        if sampler.digits:
            octets = [candidate(int(cell), 1, 0, 5, sampler.digits)] * 5
            width = len(octets[0]) - 6
            script = b"".join(
                b"".join(part[a:b] for part in octets) for a, b in ((0, 2), (2, 2 + width), (2 + width, 6 + width))
            )
        else:
            script = words(int(cell)) + b"\x00"
        metered = Metered(ScriptedSource(script))
        values.add(int(DiscreteGaussian(Fraction(variance)).draw(1, metered)[0]))
        used.add(metered.bits)
    assert len(used) == 1
    assert len(values) > 1


@pytest.mark.parametrize(
    "variance",
    [Fraction(1024), Fraction(10**6), Fraction(10**30), Fraction(10**800)],
    ids=lambda v: f"{len(str(v))} digits",
)
def test_more_than_95_of_a_hundred_candidates_are_kept(variance: Fraction) -> None:
    kept = _draw_candidates(_prepare_sampler(variance), 4000, HashSource("kept"))
    assert len(kept) > 0.95 * 4000
    sigma = 10 ** (len(str(variance)) // 2) if variance > 1024 else 32
    assert Fraction(1, 2) < sum(Fraction(int(z), sigma) ** 2 for z in kept) / len(kept) < 2
