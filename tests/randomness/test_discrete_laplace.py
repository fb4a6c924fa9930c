"""Integer Laplace noise: zero once, both signs, every digit; margins and probabilities as 60 digits have them."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.randomness import geometric
from sfumato.randomness.discrete_laplace import DiscreteLaplace, _sampler
from sfumato.randomness.geometric import LARGE_TABLES, SMALL_TABLES, Sampler, TableSizes
from sfumato.randomness.source import Metered

SCALES = [Fraction(text) for text in ("1/20", "1/2", "1", "10", "1000/7", "100000", "1e9", "1e30")]
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


def table(sampler: Sampler, row: int) -> npt.NDArray[Any]:
    start = int(sampler.guide.offsets[row, 0])
    return sampler.guide.cells[start : start + (1 << 16)]


def cell_of(sampler: Sampler, row: int, outcome: int) -> int:
    """The first word that gives the outcome at once, or -1."""
    found = np.flatnonzero(table(sampler, row) == outcome)
    return int(found[0]) if found.size else -1


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_sign_and_the_size_are_put_together_as_stated(scale: Fraction) -> None:
    sampler = _sampler(scale)
    signs = len(sampler.weights)
    weights = [int(weight) for weight in sampler.weights.ravel()]
    for sign in (0, 1, 2):
        word = cell_of(sampler, signs, sign)
        if word < 0:
            continue  # a sign of probability below 2^-16 comes by more bits only
        for row in range(signs):
            for outcome in (0, 1, 7):
                if cell_of(sampler, row, outcome) < 0:
                    continue
                first = [cell_of(sampler, other, outcome if other == row else 0) for other in range(signs)]
                drawn = DiscreteLaplace(scale).draw(1, ScriptedSource(words(*first, word))).tolist()
                assert drawn == [(sign - 1) * (1 + outcome * weights[row])]


@pytest.mark.parametrize("scale", SCALES[:-1], ids=str)  # of the last one 48 bits do not see the zero
def test_the_sign_on_a_seam_is_decided_by_the_bits_that_follow(scale: Fraction) -> None:
    sampler = _sampler(scale)
    zeros = words(*[0] * len(sampler.weights))  # a size of 1
    law = DiscreteLaplace(scale)
    with mp.workdps(200):
        x = mpmath.exp(-1 / real(scale))
        for seam, below, above in ((x / (1 + x), -1, 0), (1 / (1 + x), 0, 1)):
            finer = int(mpmath.floor(mpmath.ldexp(seam, 112)))
            first = zeros + words(finer >> 96)
            assert table(sampler, len(sampler.weights))[finer >> 96] == -1
            with pytest.raises(SourceDied):
                law.draw(1, ScriptedSource(first))
            for shift, outcome in ((-2, below), (2, above)):
                known = ((finer >> 64) + shift) & 0xFFFFFFFF
                assert law.draw(1, ScriptedSource(first + known.to_bytes(4, "little"))).tolist() == [outcome]
            first += ((finer >> 64) & 0xFFFFFFFF).to_bytes(4, "little")
            with pytest.raises(SourceDied):
                law.draw(1, ScriptedSource(first))
            low = finer & ((1 << 64) - 1)
            for shift, outcome in ((-2, below), (2, above)):
                more = (low + shift).to_bytes(8, "big")
                assert law.draw(1, ScriptedSource(first + more)).tolist() == [outcome]
            on_seam = first + low.to_bytes(8, "big")
            assert law.draw(1, ScriptedSource(on_seam + bytes(14))).tolist() == [below]
            assert law.draw(1, ScriptedSource(on_seam + b"\xff" * 14)).tolist() == [above]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_bytes_read_do_not_depend_on_the_values(scale: Fraction) -> None:
    sampler = _sampler(scale)
    rows = len(sampler.guide.laws)
    decided = [np.flatnonzero(table(sampler, row) >= 0) for row in range(rows)]
    values = set()
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        first = words(*[int(cells[int(share * (len(cells) - 1))]) for cells in decided])
        metered = Metered(ScriptedSource(first))
        values.add(int(DiscreteLaplace(scale).draw(1, metered)[0]))
        assert metered.bits == 16 * rows
    assert len(values) > 1 or scale < 1


@pytest.mark.parametrize("sizes", [SMALL_TABLES, LARGE_TABLES], ids=repr)
def test_all_words_of_every_row_give_the_law_up_to_the_words_that_draw_more(
    sizes: TableSizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run all 2^16 words through each row alone: the counts are the exact shares, within the cells that are cut."""
    monkeypatch.setattr(geometric, "MAX_SMALL_TABLE_SAMPLES", 1 << 16 if sizes is SMALL_TABLES else 0)
    for scale in (Fraction(10), Fraction(1000)):
        sampler = _sampler(scale, sizes)
        rows = len(sampler.guide.laws)
        every = np.arange(1 << 16, dtype="<u2")
        weights = [int(weight) for weight in sampler.weights.ravel()]
        with mp.workdps(60):
            x = mpmath.exp(-1 / real(scale))
            for row in range(rows):
                first = np.zeros((rows, 1 << 16), dtype="<u2")
                first[-1] = 65535  # plus
                first[row] = every
                drawn = DiscreteLaplace(scale).draw(1 << 16, ScriptedSource(first.tobytes(), after=b"\x80\x00"))
                if row == rows - 1:
                    shares = {-1: x / (1 + x), 0: (1 - x) / (1 + x), 1: x / (1 + x)}
                else:
                    y = x ** weights[row]
                    size = weights[row - 1] // weights[row] if row else 32
                    above = 1 - y**size if row else mpmath.mpf(1)
                    shares = {1 + weights[row] * k: (1 - y) * y**k / above for k in range(min(32, size))}
                for value, share in shares.items():
                    assert abs(int((drawn == value).sum()) - mpmath.ldexp(share, 16)) <= 1


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
