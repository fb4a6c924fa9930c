"""The geometric law: groups of digits, table and tail put together give P[G = g] = (1 - x) x^g, bit for bit."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.errors import EntropyFailed
from sfumato.randomness import geometric
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.geometric import (
    LARGE_TABLES,
    MAX_INT64_SCALE,
    MAX_SMALL_TABLE_SAMPLES,
    SMALL_TABLES,
    Geometric,
    Sampler,
    TableSizes,
    _plain_sampler,
    geometric_by_digits,
    make_sampler,
    sizes_for,
)
from sfumato.randomness.source import Metered

SCALES = [
    Fraction(text) for text in ("1/5", "1", "10", "24", "25", "1000/3", "100000", "1e8", "281474976710656", "1e30")
]


@pytest.fixture(params=[SMALL_TABLES, LARGE_TABLES], ids=["small tables", "large tables"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TableSizes:
    """Draw samples by tables of these sizes, however many."""
    monkeypatch.setattr(geometric, "MAX_SMALL_TABLE_SAMPLES", 1 << 40 if request.param is SMALL_TABLES else -1)
    found: TableSizes = request.param
    return found


def test_how_many_samples_are_drawn_decides_alone_how_large_the_tables_are() -> None:
    assert [sizes_for(count) for count in (0, 1, MAX_SMALL_TABLE_SAMPLES, MAX_SMALL_TABLE_SAMPLES + 1, 1 << 40)] == [
        SMALL_TABLES,
        SMALL_TABLES,
        SMALL_TABLES,
        LARGE_TABLES,
        LARGE_TABLES,
    ]


def words(*values: int) -> bytes:
    return np.array(values, dtype="<u2").tobytes()


def table(sampler: Sampler, row: int) -> npt.NDArray[Any]:
    start = int(sampler.guide.offsets[row, 0])
    return sampler.guide.cells[start : start + (1 << 16)]


def places(sampler: Sampler) -> list[int]:
    """The binary places where T and the groups start."""
    return [int(weight).bit_length() - 1 for weight in sampler.weights.ravel()]


def distribution(scale: Fraction, row: int, sizes: TableSizes) -> list[Any]:
    """P[K <= k] of T (row 0) or of a group of digits, by its closed form."""
    sampler = _plain_sampler(scale, sizes)
    starts = places(sampler)
    step = mpmath.mpf(2) ** starts[row] * scale.denominator / scale.numerator
    if row == 0:
        return [-mpmath.expm1(-step * (k + 1)) for k in range(int(sampler.guide.first[1]) - 1)]
    size = 1 << starts[row - 1] - starts[row]
    return [mpmath.expm1(-step * (b + 1)) / mpmath.expm1(-step * size) for b in range(size - 1)]


def reader(scale: Fraction, row: int, sizes: TableSizes) -> Callable[[int, bytes], int]:
    """Draw one sample whose row starts with 48 given bits, the other rows with a word for 0; give the row's outcome."""
    starts = places(_plain_sampler(scale, sizes))

    def outcome_of(bits: int, rest: bytes) -> int:
        first = [0] * len(starts)
        first[row] = bits >> 32
        octets = words(*first) + (bits & 0xFFFFFFFF).to_bytes(4, "little") + rest
        drawn = int(Geometric(scale).draw(1, ScriptedSource(octets))[0])
        outcome = drawn >> starts[row]
        assert drawn == outcome << starts[row]  # nothing else moved
        return outcome

    return outcome_of


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_in_every_row_a_cut_cell_is_decided_at_48_bits_and_a_seam_word_at_112(
    scale: Fraction, sizes: TableSizes
) -> None:
    sampler = _plain_sampler(scale, sizes)
    with mp.workdps(200):
        for row in range(len(sampler.guide.laws)):
            outcome_of, seams = reader(scale, row, sizes), list(enumerate(distribution(scale, row, sizes)))
            for outcome, seam in seams[:6] + seams[6 :: max(1, len(seams) // 12)]:
                if row == 0 and (1 - seam < mpmath.mpf(2) ** -40 or outcome == len(seams) - 1):
                    continue  # the table's end has a test of its own
                known = int(mpmath.floor(mpmath.ldexp(seam, 48)))
                finer = int(mpmath.floor(mpmath.ldexp(seam, 112)))
                assert table(sampler, row)[known >> 32] == -1
                with pytest.raises(SourceDied):
                    Geometric(scale).draw(
                        1, ScriptedSource(words(*[known >> 32 if i == row else 0 for i in range(len(sampler.weights))]))
                    )
                low = finer & ((1 << 64) - 1)
                if 8 < known & 0xFFFFFFFF < 0xFFFFFFF0:  # so that the neighbours are in the same cell
                    assert outcome_of(known - 2, b"") == outcome
                    assert outcome_of(known + 2, b"") == outcome + 1
                if 8 < low < (1 << 64) - 8:
                    assert outcome_of(known, (low - 2).to_bytes(8, "big")) == outcome
                    assert outcome_of(known, (low + 2).to_bytes(8, "big")) == outcome + 1
                    # at 112 bits U still lies on the seam: 112 more decide
                    assert outcome_of(known, low.to_bytes(8, "big") + bytes(14)) == outcome
                    assert outcome_of(known, low.to_bytes(8, "big") + b"\xff" * 14) == outcome + 1


def test_rows_are_settled_in_order_four_bytes_each_before_any_draws_more(sizes: TableSizes) -> None:
    """Two samples, every word in a cut cell: the bytes that follow are read row by row, then the refinements."""
    scale = Fraction(100_000)
    sampler = _plain_sampler(scale, sizes)
    rows = len(sampler.guide.laws)
    with mp.workdps(200):
        seams = [int(mpmath.floor(mpmath.ldexp(distribution(scale, row, sizes)[3], 112))) for row in range(rows)]
    first = words(*[seam >> 96 for seam in seams for _ in range(2)])
    more = b"".join(((seam >> 64) & 0xFFFFFFFF).to_bytes(4, "little") for seam in seams for _ in range(2))
    low = [seam & ((1 << 64) - 1) for seam in seams]
    rest = b"".join((bits + shift).to_bytes(8, "big") for bits in low for shift in (-2, 2))
    drawn = Geometric(scale).draw(2, ScriptedSource(first + more + rest)).tolist()
    total = sum(int(weight) for weight in sampler.weights.ravel())
    assert drawn == [3 * total, 4 * total]


def test_groups_are_written_most_significant_first_for_few_and_for_many_samples(sizes: TableSizes) -> None:
    sampler = _plain_sampler(Fraction(100_000), sizes)
    starts = places(sampler)
    assert starts == ([13, 6, 0] if sizes is LARGE_TABLES else [15, 10, 5, 0])
    rows = len(starts)
    for size in (1, 64, 65, 1000):
        values = [[(place * 7 + sample) % 20 for sample in range(size)] for place in range(rows)]
        cells = [[int(np.flatnonzero(table(sampler, row) == v)[0]) for v in values[row]] for row in range(rows)]
        drawn = Geometric(Fraction(100_000)).draw(size, ScriptedSource(words(*[cell for row in cells for cell in row])))
        assert drawn.tolist() == [sum(values[i][s] << starts[i] for i in range(rows)) for s in range(size)]


def test_the_tail_starts_again_where_the_table_ends(sizes: TableSizes) -> None:
    scale = Fraction(5)
    cells = int(_plain_sampler(scale, sizes).guide.first[1]) - 1
    reached = words(65535) + b"\xff" * 4  # U = 1 - 2^-48: beyond the table
    digits = 0
    while Fraction(1 << digits) / scale < 32768:
        digits += 1
    for rest in (0, 1, 5, 63):
        coins = words(*[0 if rest >> place & 1 else 65535 for place in range(digits)], 65535)
        assert Geometric(scale).draw(1, ScriptedSource(reached + coins)).tolist() == [cells + rest]


def test_a_tail_that_no_working_source_reaches_is_refused(sizes: TableSizes) -> None:
    with pytest.raises(EntropyFailed):
        geometric_by_digits(Fraction(1, sizes.widest), 1, ScriptedSource(b"", after=b"\x00"))
    law: Any = make_sampler(Fraction(sizes.widest), (), sizes).guide.law
    assert law.furthest == sizes.furthest == {24: 2**19 - 2, 6: 2**17 - 2}[sizes.widest]
    coins = words(*[65535] * sizes.furthest.bit_length(), 0, 65535)
    with pytest.raises(EntropyFailed):
        law.tail(1, ScriptedSource(coins, after=b"\x00"))  # 2^19 more, or 2^17


@pytest.mark.parametrize("sign", [1, -1])
def test_the_furthest_sample_that_is_not_refused_fits_int64(
    monkeypatch: pytest.MonkeyPatch, sign: int, sizes: TableSizes
) -> None:
    widest = _plain_sampler(Fraction(MAX_INT64_SCALE), sizes)
    digits = places(widest)[0]
    assert digits == (44 if sizes is LARGE_TABLES else 46)
    assert widest.weights.dtype == np.int64
    assert _plain_sampler(Fraction(MAX_INT64_SCALE) + 1, sizes).weights.dtype == object
    law: Any = widest.guide.law
    monkeypatch.setattr(geometric, "geometric_by_digits", lambda *_: np.array([sizes.furthest - law.cells]))
    ones = words(*[65535] * len(widest.weights))  # T beyond its table, all digits set
    whole = (sizes.furthest << digits) + (1 << digits) - 1
    assert Geometric(Fraction(MAX_INT64_SCALE)).draw(1, ScriptedSource(ones + b"\xff" * 4)).tolist() == [whole]
    signed = ones + words(65535 if sign == 1 else 0) + b"\xff" * 4
    assert DiscreteLaplace(Fraction(MAX_INT64_SCALE)).draw(1, ScriptedSource(signed)).tolist() == [sign * (whole + 1)]
    monkeypatch.setattr(geometric, "geometric_by_digits", lambda *_: np.array([sizes.furthest - law.cells + 1]))
    with pytest.raises(EntropyFailed):
        Geometric(Fraction(MAX_INT64_SCALE)).draw(1, ScriptedSource(ones + b"\xff" * 4))


@pytest.mark.parametrize("step", [Fraction(1, 24), Fraction(1), Fraction(3), Fraction(10**6)], ids=str)
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
def test_the_bytes_read_do_not_depend_on_the_values(scale: Fraction, sizes: TableSizes) -> None:
    sampler = _plain_sampler(scale, sizes)
    rows = len(sampler.guide.laws)
    decided = [np.flatnonzero(table(sampler, row) >= 0) for row in range(rows)]
    used, values = set(), set()
    for share in (0.0, 0.3, 0.5, 1.0):
        metered = Metered(ScriptedSource(words(*[int(cells[int(share * (len(cells) - 1))]) for cells in decided])))
        values.add(int(Geometric(scale).draw(1, metered)[0]))
        used.add(metered.bits)
    assert used == {16 * rows}
    assert len(values) > 1 or scale < 1


def test_passes_join_without_a_seam(sizes: TableSizes) -> None:
    law = Geometric(Fraction(5))
    block = _plain_sampler(Fraction(5), sizes).block
    drawn = law.draw(block + 10, HashSource("seam"))
    source = HashSource("seam")
    assert drawn.tolist() == law.draw(block, source).tolist() + law.draw(10, source).tolist()
