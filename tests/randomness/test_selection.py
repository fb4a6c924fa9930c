"""Selection is exact: every seam is where 60 digits put it, and every bit is used as the proof says."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import floor as floor_of
from mpmath import mp, mpf, workdps
from scipy.stats import chisquare
from tests.laws.choosing import exponential_law, permute_and_flip_law
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.certified.binary import exp_minus_bounds
from sfumato.errors import EntropyFailed, Refusal
from sfumato.randomness import selection
from sfumato.randomness.selection import (
    WORD_MASK,
    exponential,
    exponential_weighted,
    permute_and_flip,
    uniform_below,
    uniform_order,
)

RATES = (Fraction(1), Fraction(1, 7), Fraction(3, 1000), Fraction(25, 2))
SCORES = ((0, 0, 0), (3, 1, 4, 1, 5), (0, -1000), (-2, 10**30, 10**30 - 1), tuple(range(40)))


def words(*values: int, after: bytes | None = None) -> ScriptedSource:
    """Return a source that makes U start with these 64-bit words."""
    return ScriptedSource(b"".join((value ^ WORD_MASK).to_bytes(8, "big") for value in values), after)


def seams(scores: tuple[int, ...], rate: Fraction, counts: tuple[int, ...] | None = None) -> list[Any]:
    """Return the cumulative law, 60 digits."""
    with workdps(60):
        law = exponential_law(scores, rate).values()
        shares = [share * count for share, count in zip(law, counts or (1,) * len(law), strict=True)]
        total = sum(shares)
        return [sum(shares[: place + 1]) / total for place in range(len(shares) - 1)]


def scaled(value: Any, bits: int) -> int:
    with workdps(60):
        return int(floor_of(value * mpf(2) ** bits))


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("scores", SCORES, ids=lambda scores: str(scores[:3]))
def test_each_seam_lies_where_sixty_digits_put_it(scores: tuple[int, ...], rate: Fraction) -> None:
    ends = seams(scores, rate)
    for edge in ends:
        for bits in (64, 128):
            at = scaled(edge, bits)
            for known in (at - 1, at + 1):
                if 0 <= known < 1 << bits:
                    source = ScriptedSource(
                        (known ^ (WORD_MASK * (1 + (bits > 64) * (1 << 64)))).to_bytes(bits // 8, "big"), b"5"
                    )
                    with workdps(60):
                        expected = sum(mpf(known) / mpf(2) ** bits >= end for end in ends)
                    assert exponential(scores, rate, source) == expected


def test_bits_on_a_seam_draw_more_bits_and_then_decide() -> None:
    scores, rate = (3, 1, 4, 1, 5), Fraction(1, 7)
    for place, edge in enumerate(seams(scores, rate)):
        first, second = divmod(scaled(edge, 128), 1 << 64)
        for following, expected in ((second - 1, place), (second + 1, place + 1)):
            source = words(first, following)
            assert exponential(scores, rate, source) == expected
            assert source.given == 16


def test_a_grid_of_uniforms_falls_into_the_cells_of_the_exact_law() -> None:
    scores, counts, rate = (3, 1, 4, 1, 5, 0), (1, 2, 10**20, 3, 1, 7), Fraction(20)
    ends = seams(scores, rate, counts)
    for step in range(2048):
        known = (2 * step + 1) << 52
        with workdps(60):
            expected = sum(mpf(known) / mpf(2) ** 64 >= end for end in ends)
        assert exponential_weighted(scores, counts, rate, words(known)) == expected


def test_multiplicities_mean_the_same_as_copies() -> None:
    rate = Fraction(1, 3)
    for step in range(512):
        known = (2 * step + 1) << 54
        one = exponential_weighted((0, 2, 1), (3, 1, 2), rate, words(known))
        assert one == (0, 0, 0, 1, 2, 2)[exponential((0, 0, 0, 2, 1, 1), rate, words(known))]


def test_a_rational_seam_on_the_bits_is_decided_without_more_bits() -> None:
    assert [exponential((7, 7), Fraction(1), words(known)) for known in ((1 << 63) - 1, 1 << 63)] == [0, 1]


@pytest.mark.parametrize(("size", "spread", "rate"), [(5, 6, "1"), (1500, 900, "1/90"), (4000, 10**9, "1/100000000")])
def test_the_float_filter_never_contradicts_the_enclosures(size: int, spread: int, rate: str) -> None:
    source = HashSource((size, spread))
    drawn = np.frombuffer(source.read(8 * size), dtype=np.uint64)
    distances = drawn % np.uint64(spread)
    distances -= distances.min()
    counts = 1 + (drawn >> np.uint64(40)).astype(np.int64)
    parameter, decided = Fraction(rate), 0
    weights = np.cumsum(np.exp(-float(parameter) * distances.astype(np.float64)) * counts)
    near = [
        int(weights[size // 3] / weights[-1] * 2.0**64) + (sign << shift)
        for shift in range(8, 40, 6)
        for sign in (-1, 1)
    ]
    for known in [int.from_bytes(source.read(8), "big") for _ in range(8)] + near:
        guess = selection._cell_by_floats(distances, counts, parameter, known)
        exact = selection._cell_by_enclosures(distances, counts, parameter, known, 64)
        assert guess in (-1, exact)
        decided += guess == exact
    assert decided >= 8


def test_the_float_filter_leaves_the_neighbourhood_of_every_seam_open() -> None:
    distances, counts = np.array([0, 1, 2], dtype=np.uint64), np.ones(3, dtype=np.int64)
    for edge in seams((0, -1, -2), Fraction(1)):
        for offset in (-(1 << 22), 0, 1 << 22):  # 2^-42 of the unit interval: within the stated error
            known = scaled(edge, 64) + offset
            assert selection._cell_by_floats(distances, counts, Fraction(1), known) == -1


def test_the_exponential_of_this_machine_is_far_better_than_the_proof_assumes() -> None:
    points = np.concatenate((np.linspace(-128, 0, 4001), -(2.0 ** np.arange(-60, 7))))
    with workdps(60):
        errors = [
            abs(mpf(float(found)) / mp.exp(mpf(float(point))) - 1)
            for point, found in zip(points, np.exp(points), strict=True)
        ]
        assert max(errors) < mpf(2) ** -50


def test_many_distances_are_enclosed_by_products_as_by_single_exponentials() -> None:
    rate, bits = Fraction(1, 5000), 96
    distances = [0, *range(3, 3 * selection._MAX_SIMPLE_SCORES, 3), 10**7]
    for distance, (low, high) in zip(distances, selection._enclosures(distances, rate, bits), strict=True):
        exact_low, exact_high = exp_minus_bounds(rate * distance, bits + 32)
        assert low << 32 <= exact_low
        assert exact_high <= high << 32
        assert high - low <= 11


@pytest.mark.parametrize("stuck", [b"\x00", b"\xff", b"\x55"], ids=["zeros", "ones", "alternating"])
@pytest.mark.parametrize("scores", [*SCORES, (5,), (0, -(10**30), 0), (-(10**30), 0), (0, -(10**30))], ids=str)
def test_a_stuck_source_ends(scores: tuple[int, ...], stuck: bytes) -> None:
    for rate in RATES:
        source = ScriptedSource(b"", stuck)
        assert 0 <= exponential(scores, rate, source) < len(scores)
        assert 0 <= permute_and_flip(scores, rate, source) < len(scores)
        assert 0 <= uniform_below(len(scores), 128, source) < len(scores)
        assert source.given <= 8 * (1 + 2 * len(scores) - 1 + 2 + 4)


def test_bits_that_stay_on_a_seam_for_ever_are_called_a_broken_source() -> None:
    # 1 + x before and 1 + x behind the middle: the seam is 1/2, though no enclosure of x can show it
    script = ((1 << 63) ^ WORD_MASK).to_bytes(8, "big")
    with pytest.raises(EntropyFailed):
        exponential((0, 1, 0, 1), Fraction(1), ScriptedSource(script, WORD_MASK.to_bytes(8, "big")))


@pytest.mark.parametrize("choose", [exponential, permute_and_flip])
def test_one_candidate_is_chosen_with_the_same_reads_as_ever(choose: Callable[..., int]) -> None:
    source = HashSource("one")
    assert choose([123], Fraction(1), source) == 0
    assert choose([-(10**40)], Fraction(10**40), source) == 0


@pytest.mark.parametrize("choose", [exponential, permute_and_flip])
def test_huge_gaps_leave_only_the_best(choose: Callable[..., int]) -> None:
    scores = [-(10**400), 10**400, 0]
    for rate in (Fraction(1), Fraction(1, 10**300), Fraction(10**500)):
        assert all(choose(scores, rate, HashSource((rate, turn))) == 1 for turn in range(20))


@pytest.mark.parametrize("choose", [exponential, permute_and_flip])
def test_huge_scores_count_by_their_differences_only(choose: Callable[..., int]) -> None:
    rate = Fraction(1, 2)
    for turn in range(50):
        small = choose([0, 1, 3], rate, HashSource(turn))
        assert small == choose([10**40, 10**40 + 1, 10**40 + 3], rate, HashSource(turn))
        assert small == choose([0, 10**40, 3 * 10**40], rate / 10**40, HashSource(turn))  # no float can hold these


def test_every_integer_type_means_the_same() -> None:
    rate = Fraction(1, 3)
    for turn in range(20):
        forms: list[Any] = [[0, 5, 2], (0, 5, 2), np.array([0, 5, 2], dtype=object)]
        forms += [np.array([0, 5, 2], dtype=kind) for kind in ("i1", "i8", "u1", "u8", ">i4")]
        forms += [[np.int64(0), 5, np.uint8(2)]]
        assert len({exponential(form, rate, HashSource(turn)) for form in forms}) == 1
        assert len({permute_and_flip(form, rate, HashSource(turn)) for form in forms}) == 1


def test_distances_do_not_wrap_at_the_ends_of_sixty_four_bits() -> None:
    ends = np.array([-(2**63), 2**63 - 1, 0], dtype=np.int64)
    assert selection._distances(ends).tolist() == [2**64 - 1, 0, 2**63 - 1]
    assert selection._distances(np.array([0, 2**64 - 1], dtype=np.uint64)).tolist() == [2**64 - 1, 0]
    mixed = selection.integer_array([2**63, -1], "scores")
    assert selection._distances(mixed).tolist() == [0, 2**63 + 1]


BAD: tuple[Any, ...] = (
    [],
    [1.0, 2.0],
    [float("nan")],
    [True, False],
    np.array([1.5]),
    np.array([True]),
    np.array([[1, 2]]),
    np.array([], dtype=np.int64),
    np.array([1, None], dtype=object),
    "12",
    None,
    5,
    [Fraction(1, 2)],
    ["1"],
    np.array(3),
)


@pytest.mark.parametrize("scores", BAD, ids=repr)
@pytest.mark.parametrize("choose", [exponential, permute_and_flip])
def test_what_is_not_a_list_of_integers_is_refused_before_a_bit_is_drawn(
    choose: Callable[..., int], scores: Any
) -> None:
    source = ScriptedSource(b"")
    with pytest.raises(Refusal) as refused:
        choose(scores, Fraction(1), source)
    assert refused.value.code == "bad_parameter"
    assert "1.5" not in str(refused.value)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1), 0.5, float("nan"), float("inf"), None, True], ids=repr)
@pytest.mark.parametrize("choose", [exponential, permute_and_flip])
def test_a_rate_that_is_no_positive_exact_number_is_refused(choose: Callable[..., int], rate: Any) -> None:
    with pytest.raises(Refusal):
        choose([1, 2], rate, HashSource(0))


@pytest.mark.parametrize("counts", [[1], [1, 0], [1, -1], [1.0, 1.0], []], ids=repr)
def test_counts_that_do_not_fit_are_refused(counts: Any) -> None:
    with pytest.raises(Refusal):
        exponential_weighted([1, 2], counts, Fraction(1), HashSource(0))


@pytest.mark.parametrize("length", [0, 3, 8, 17])
def test_a_source_that_dies_leaves_no_answer(length: int) -> None:
    with pytest.raises(SourceDied):
        permute_and_flip([1, 2, 3], Fraction(1), ScriptedSource(bytes(length)))
    with pytest.raises(SourceDied):
        exponential([1, 2, 3], Fraction(1), ScriptedSource(bytes(min(length, 7))))


def test_every_order_has_the_same_share_of_the_words() -> None:
    found: dict[tuple[int, ...], int] = {}
    middles = [(2 * step + 1) * (1 << 64) // 24 for step in range(12)]  # twelve equal parts of the unit interval
    for first, second in product(middles, repeat=2):
        order = tuple(uniform_order(3, words(first, second)).tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 6
    assert set(found.values()) == {24}


@pytest.mark.parametrize("below", [1, 2, 3, 7, 10**15, 2**64 + 1])
def test_a_uniform_integer_is_the_floor_of_its_multiple_of_u(below: int) -> None:
    known = [0, (1 << 128) - 1, (1 << 127) - 1, 1 << 127]
    known += [-(-(part << 128) // below) + shift for part in (1, below - 1) if part for shift in (0, 1)]
    for value in known:
        if value < 1 << 128:
            source = words(*divmod(value, 1 << 64), after=WORD_MASK.to_bytes(8, "big"))
            assert uniform_below(below, 128, source) == value * below >> 128


def test_a_word_across_two_integers_draws_more_bits() -> None:
    third = (1 << 64) // 3
    for following, expected in ((0, 0), ((1 << 64) - 1, 1)):
        source = words(third, following)
        assert uniform_below(3, 64, source) == expected
        assert source.given == 16
    for following, expected in ((0, 0), ((1 << 64) - 1, 1)):
        source = words(third, 0, following)  # the first of two picks among three is on the seam
        assert uniform_order(3, source)[2] == expected
        assert source.given == 24


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 10), Fraction(1), Fraction(30), Fraction(100), Fraction(10**9)], ids=str
)
def test_each_coin_turns_exactly_at_its_probability(exponent: Fraction) -> None:
    with workdps(60):
        threshold = scaled(mp.exp(-mpf(exponent.numerator) / exponent.denominator), 128)
    first, second = divmod(threshold, 1 << 64)
    distances = np.array([0, 1], dtype=np.uint64)
    for known, expected in (((first, second - 1), True), ((first, second + 1), False), ((first + 1, 0), False)):
        if min(known) >= 0:
            source = words(1 << 62, known[0], known[1])
            assert selection._toss(distances, exponent, source).tolist() == [True, expected]


@pytest.mark.parametrize("scores", [(0, 0), (0, 3, 1), (5, 4, 4, 0)], ids=str)
@pytest.mark.parametrize(
    ("choose", "law"),
    [(exponential, exponential_law), (permute_and_flip, permute_and_flip_law)],
    ids=["exponential", "flip"],
)
def test_frequencies_fit_the_exact_law_with_error_rate_one_in_a_million(
    choose: Callable[..., int], law: Callable[..., dict[int, Any]], scores: tuple[int, ...]
) -> None:
    rate, source, draws = Fraction(1, 2), HashSource(("frequencies", scores)), 6000
    counted = np.bincount([choose(scores, rate, source) for _ in range(draws)], minlength=len(scores))
    expected = np.array([float(share) for share in law(scores, rate).values()])
    assert chisquare(counted, draws * expected / expected.sum()).pvalue > 1e-6


def test_no_cache_keeps_the_distance_of_a_secret_score() -> None:
    before = exp_minus_bounds.cache_info()
    exponential([0, 10**30], Fraction(1, 10**30), HashSource("cache"))  # beyond floats: enclosures decide
    permute_and_flip([0, 10**30, 5], Fraction(1, 10**30), HashSource("cache"))
    exponential(range(0, 10**7, 4000), Fraction(1, 10**160), HashSource("cache"))
    assert exp_minus_bounds.cache_info() == before
