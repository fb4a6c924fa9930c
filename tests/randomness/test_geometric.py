"""The geometric law: digits, table and tail put together give P[G = g] = (1 - x) x^g, bit for bit."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import EntropyFailed
from sfumato.randomness.geometric import _FURTHEST, Geometric, _plain_sampler, geometric_by_digits, make_sampler
from sfumato.randomness.source import Metered

SCALES = [Fraction(text) for text in ("1/5", "1", "10", "12", "25", "1000/3", "100000")]


def words(*values: int) -> bytes:
    return np.array(values, dtype="<u2").tobytes()


def reals(scale: Fraction) -> tuple[Any, list[Any]]:
    """The distribution of T = G >> digits, 200 digits: the step and P[T <= k]."""
    sampler = _plain_sampler(scale)
    step = mpmath.mpf(2) ** len(sampler.powers) * scale.denominator / scale.numerator
    return step, [-mpmath.expm1(-step * (k + 1)) for k in range(len(sampler.guide.high))]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_cell_cut_by_a_seam_is_decided_at_48_bits_and_a_seam_word_at_112(scale: Fraction) -> None:
    sampler = _plain_sampler(scale)
    digits = len(sampler.powers)
    with mp.workdps(200):
        _, distribution = reals(scale)
        for outcome, seam in list(enumerate(distribution))[:-1][:40]:
            if 1 - seam < mpmath.mpf(2) ** -40:
                continue
            known = int(mpmath.floor(mpmath.ldexp(seam, 48)))
            finer = int(mpmath.floor(mpmath.ldexp(seam, 112)))
            assert sampler.guide.cells[known >> 32] == -1

            def outcome_of(bits: int, rest: bytes) -> int:
                octets = words(*[65535] * digits, bits >> 32) + (bits & 0xFFFFFFFF).to_bytes(4, "little") + rest
                return int(Geometric(scale).draw(1, ScriptedSource(octets))[0]) >> digits  # all digits are 0

            assert outcome_of(known - 1, b"") == outcome
            assert outcome_of(known + 1, b"") == outcome + 1
            low = finer & ((1 << 64) - 1)
            assert outcome_of(known, (low - 2).to_bytes(8, "big")) == outcome
            assert outcome_of(known, (low + 2).to_bytes(8, "big")) == outcome + 1
            # at 112 bits U still lies on the seam: 112 more decide
            on_seam = low.to_bytes(8, "big")
            assert outcome_of(known, on_seam + bytes(14)) == outcome
            assert outcome_of(known, on_seam + b"\xff" * 14) == outcome + 1


def test_digits_are_written_most_significant_first_for_few_and_for_many_samples() -> None:
    sampler = _plain_sampler(Fraction(100_000))
    count = len(sampler.powers)
    assert count == 14
    for size in (1, 64, 65, 1000):
        rows = [[0 if (place * 7 + sample) % 3 else 65535 for sample in range(size)] for place in range(count)]
        octets = words(*[word for row in rows for word in row], *[0] * size)
        drawn = Geometric(Fraction(100_000)).draw(size, ScriptedSource(octets))
        expected = [sum((rows[i][s] == 0) << (count - 1 - i) for i in range(count)) for s in range(size)]
        assert drawn.tolist() == expected


def test_the_tail_starts_again_where_the_table_ends() -> None:
    scale = Fraction(10)
    cells = len(_plain_sampler(scale).guide.high)
    reached = words(65535) + b"\xff" * 4  # U = 1 - 2^-48: beyond the table
    digits = 0
    while Fraction(1 << digits) / scale < 32768:
        digits += 1
    for rest in (0, 1, 5, 63):
        coins = words(*[0 if rest >> place & 1 else 65535 for place in range(digits)], 65535)
        assert Geometric(scale).draw(1, ScriptedSource(reached + coins)).tolist() == [cells + rest]


def test_a_tail_that_no_working_source_reaches_is_refused() -> None:
    with pytest.raises(EntropyFailed):
        geometric_by_digits(Fraction(1, 12), ScriptedSource(b"", after=b"\x00"))
    law: Any = make_sampler(Fraction(12), ()).guide.law
    coins = words(*[65535] * 18, 0, 65535)
    with pytest.raises(EntropyFailed):
        law.tail(ScriptedSource(coins, after=b"\x00"))  # 2^18 more
    assert (_FURTHEST + 1 << 45) + (1 << 45) <= 1 << 63  # T and 45 digits, for a scale of 2^48, and the 1 of Laplace


@pytest.mark.parametrize("step", [Fraction(1, 12), Fraction(1), Fraction(3), Fraction(10**6)], ids=str)
def test_digits_alone_have_the_law_of_the_table(step: Fraction) -> None:
    """The coins' product is the pmf: P[G = g] from the coins' own certified bounds, for the first outcomes."""
    with mp.workdps(60):
        x = mpmath.exp(-mpmath.mpf(step.numerator) / step.denominator)
        digits = 0
        while step * (1 << digits) < 32768:
            digits += 1
        for value in range(8):
            if value >> digits:
                continue
            product = 1 - x ** (1 << digits)
            for place in range(digits):
                one = x ** (1 << place) / (1 + x ** (1 << place))
                product *= one if value >> place & 1 else 1 - one
            expected = (1 - x) * x**value  # the excluded e^-32768 is all that is missing
            assert abs(product / expected - 1) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_bytes_read_do_not_depend_on_the_values(scale: Fraction) -> None:
    sampler = _plain_sampler(scale)
    decided = np.flatnonzero(sampler.guide.cells >= 0)
    used, values = set(), set()
    for cell in (decided[0], decided[len(decided) // 2], decided[-1]):
        for word in (1, 65534):
            metered = Metered(ScriptedSource(words(*[word] * len(sampler.powers), int(cell))))
            values.add(int(Geometric(scale).draw(1, metered)[0]))
            used.add(metered.bits)
    assert used == {16 * (len(sampler.powers) + 1)}
    assert len(values) > 1 or scale < 1


def test_passes_join_without_a_seam() -> None:
    law = Geometric(Fraction(5))
    block = _plain_sampler(Fraction(5)).block
    drawn = law.draw(block + 10, HashSource("seam"))
    source = HashSource("seam")
    assert drawn.tolist() == law.draw(block, source).tolist() + law.draw(10, source).tolist()
