"""Integer Laplace noise: zero once, both signs, every digit; margins and probabilities as 60 digits have them."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.randomness.discrete_laplace import DiscreteLaplace, _sampler
from sfumato.randomness.source import Metered

SCALES = [Fraction(text) for text in ("1/20", "1/2", "1", "10", "1000/7", "100000")]
REFERENCE = [("1/2", (1, 1, 2)), ("1", (2, 3, 4)), ("10", (23, 30, 46)), ("1000", (2303, 2996, 4605))]


def words(*values: int) -> bytes:
    return np.array(values, dtype="<u2").tobytes()


def real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize(("scale", "margins"), REFERENCE)
def test_the_reference_margins(scale: str, margins: tuple[int, int, int]) -> None:
    law = DiscreteLaplace(Fraction(scale))
    assert tuple(law.margin(Fraction(percent, 100)) for percent in (90, 95, 99)) == margins


@pytest.mark.parametrize("scale", ["1/1000", "1/20", "1/2", "1", "22/7", "10", "999", "123456.7", "1e9", "1e30"])
@pytest.mark.parametrize("confidence", ["1e-9", "0.01", "0.5", "0.9", "0.95", "0.999", "0.999999999999", "1-1e-100"])
def test_the_margin_is_the_smallest_reach_that_covers(scale: str, confidence: str) -> None:
    level = 1 - Fraction(confidence[2:]) if confidence.startswith("1-") else Fraction(confidence)
    margin = DiscreteLaplace(Fraction(scale)).margin(level)
    with mp.workdps(200):
        x = mpmath.exp(-1 / real(Fraction(scale)))
        missed = real(1 - level)
        assert 2 * x ** (margin + 1) / (1 + x) <= missed
        assert margin == 0 or 2 * x**margin / (1 + x) > missed


def test_a_confidence_next_to_one_ends() -> None:
    assert DiscreteLaplace(Fraction(1)).margin(1 - Fraction(1, 10**1000)) == 2302
    assert DiscreteLaplace(Fraction(10)).margin(0.95) == 30  # type: ignore[arg-type]  # a float is its decimal text


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("bits", [16, 64, 200])
def test_pmf_and_tails_enclose_the_truth_within_a_few_units(scale: Fraction, bits: int) -> None:
    law = DiscreteLaplace(scale)
    with mp.workdps(120):
        x = mpmath.exp(-1 / real(scale))
        for value in (0, 1, -1, 2, 17, -1000, 10**6):
            low, high = law.pmf(value, bits)
            truth = mpmath.ldexp((1 - x) / (1 + x) * x ** abs(value), bits)
            assert low <= truth <= high <= low + 3
            low, high = law.upper_tail(value, bits)
            below = x ** (1 - value) / (1 + x) if value <= 0 else None
            truth = mpmath.ldexp(x**value / (1 + x) if below is None else 1 - below, bits)
            assert low <= truth <= high <= low + 3


def test_pmf_reads_numpy_integers_without_wrapping() -> None:
    law = DiscreteLaplace(Fraction(1 << 40))
    assert law.pmf(np.int64(1 << 45), 64) == law.pmf(1 << 45, 64)  # type: ignore[arg-type]
    assert law.upper_tail(np.int64(-5), 64) == law.upper_tail(-5, 64)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_not_zero_coin_the_sign_and_the_size_are_put_together_as_stated(scale: Fraction) -> None:
    sampler = _sampler(scale)
    digits = len(sampler.powers)
    cell = int(np.flatnonzero(sampler.guide.cells == 0)[0])
    for not_zero, negative in ((65535, 0), (65535, 65535), (0, 0), (0, 65535)):
        if not_zero == 0 and sampler.coins.thresholds[0, 0] == 0:
            continue  # a coin of probability below 2^-16 says yes by more bits only
        for digit in (65535, 0):
            octets = words(not_zero, negative, *[digit] * digits, cell)
            size = 1 + ((1 << digits) - 1 if digit == 0 else 0)
            expected = 0 if not_zero else (-size if negative == 0 else size)
            assert DiscreteLaplace(scale).draw(1, ScriptedSource(octets, after=b"\xff")).tolist() == [expected]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_each_coin_on_its_threshold_is_refined_by_the_bits_that_follow(scale: Fraction) -> None:
    sampler = _sampler(scale)
    rows = len(sampler.coins.probabilities)
    cell = int(np.flatnonzero(sampler.guide.cells == 0)[0])
    for coin in (0, *range(2, rows)):
        threshold = int(sampler.coins.thresholds[coin, 0])
        values = [0 if row == 0 and sampler.coins.thresholds[0, 0] else 65535 for row in range(rows)]
        values[coin] = threshold
        octets = words(*values, cell)
        with pytest.raises(SourceDied):
            DiscreteLaplace(scale).draw(1, ScriptedSource(octets))
        yes = DiscreteLaplace(scale).draw(1, ScriptedSource(octets, after=b"\x00")).tolist()
        no = DiscreteLaplace(scale).draw(1, ScriptedSource(octets, after=b"\xff")).tolist()
        place = rows - 1 - coin
        assert (yes, no) == (([1], [0]) if coin == 0 else ([1 + (1 << place)], [1]))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_bytes_read_do_not_depend_on_the_values(scale: Fraction) -> None:
    sampler = _sampler(scale)
    rows = len(sampler.coins.probabilities)
    decided = np.flatnonzero(sampler.guide.cells >= 0)
    values = set()
    for cell in (decided[0], decided[-1]):
        for word in (0, 1, 32768, 65534, 65535):
            if word in sampler.coins.thresholds.ravel()[[0, *range(2, rows)]]:
                continue
            metered = Metered(ScriptedSource(words(*[word] * rows, int(cell))))
            values.add(int(DiscreteLaplace(scale).draw(1, metered)[0]))
            assert metered.bits == 16 * (rows + 1)
    assert len(values) > 1 or scale < 1


def test_all_words_of_every_row_give_the_law_up_to_the_words_that_draw_more() -> None:
    """Scale 10: run all 2^16 words through each row alone; the counts are the coins' and the cells' exact shares."""
    sampler = _sampler(Fraction(10))
    every = np.arange(1 << 16, dtype="<u2")
    zero, fixed = np.zeros(1 << 16, dtype="<u2"), np.full(1 << 16, 65535, dtype="<u2")
    with mp.workdps(60):
        x = mpmath.exp(-mpmath.mpf(1) / 10)
        drawn = DiscreteLaplace(Fraction(10)).draw(
            1 << 16, ScriptedSource(np.stack([every, fixed, zero]).tobytes(), after=b"\x00")
        )
        assert abs(int((drawn != 0).sum()) - mpmath.ldexp(2 * x / (1 + x), 16)) <= 1
        drawn = DiscreteLaplace(Fraction(10)).draw(
            1 << 16, ScriptedSource(np.stack([zero, every, zero]).tobytes(), after=b"\x00")
        )
        assert (drawn == 1).sum() == (drawn == -1).sum() == 1 << 15
        drawn = DiscreteLaplace(Fraction(10)).draw(
            1 << 16, ScriptedSource(np.stack([zero, fixed, every]).tobytes(), after=b"\x80\x00")
        )
        for value in range(1, 60):
            assert abs(int((drawn == value).sum()) - mpmath.ldexp((1 - x) * x ** (value - 1), 16)) <= 1
    assert len(sampler.powers) == 0


def test_the_mean_size_and_the_variance_are_the_reference_ones() -> None:
    """From the certified pmf, not from samples."""
    table = [("1/2", "0.275720564772", "0.362030830483"), ("1", "0.850918128239", "1.84134718842")]
    for scale, size, variance in [*table, ("10", "9.9833527573", "199.833416634")]:
        law = DiscreteLaplace(Fraction(scale))
        masses = [(value, law.pmf(value, 200)[0]) for value in range(1200)]
        for power, expected in ((1, size), (2, variance)):
            found = 2 * sum(value**power * mass for value, mass in masses) / 2**200
            assert abs(found - float(expected)) < 1e-9 * max(1.0, float(expected))


def test_two_draws_are_independent_of_how_they_are_cut() -> None:
    law = DiscreteLaplace(Fraction(10))
    assert law.draw(1000, HashSource(1)).tolist() != law.draw(1000, HashSource(2)).tolist()
