"""One index out of many, exactly: the exponential mechanism's law and permute-and-flip's.

A decision compares a uniform real U, revealed 64 bits at a time, with seams that certified integers enclose; where
they leave it open, more bits and more precision are taken. A float may skip that work, never replace it: it decides
only outside a stated error bound. The work is O(n) for all scores: nothing is rejected by its score.
Proof: proofs/selection.md
"""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import isqrt
from numbers import Integral
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.certified.binary import exp_minus_enclosure
from sfumato.errors import BadParameter, EntropyFailed
from sfumato.exact import positive_rational
from sfumato.randomness.source import Source, read_exactly

Integers = npt.NDArray[Any]
"""int64 or uint64 where every value fits, else Python integers."""

SELECTION_WORD_BITS = 64
MAX_SELECTION_BITS = 1 << 14
"""A seam that half as many bits leave open is met with probability below e^-5000: the source is broken."""
# U's bits are the source's, flipped at fixed places: still uniform, and a stuck source (all zeros, all ones) then
# gives a U that lies on no seam at 0, at 1 or at a simple fraction, so that it ends at once.
WORD_MASK = 0x9E3779B97F4A7C15

FLOAT_SLACK, FLOAT_SUM_SLACK = 2.0**-41, 2.0**-51
"""How far a quotient of sums of float weights may be off: the first, and the second for each term of a sum."""

_UNDECIDED_INDEX = -1
_MAX_FLOAT_EXPONENT = 128.0  # e^-128 < 2^-184: a float weight beyond it counts as zero
_FLOAT_RATES = (Fraction(1, 1 << 500), Fraction(1 << 500))
_BLOCK_SCORES = 1 << 10
_SPARE_BITS = 32
_MAX_SIMPLE_SCORES = 1 << 11


def exponential(scores: object, rate: Fraction, source: Source) -> int:
    """Choose index i with probability proportional to exp(rate * scores[i]). Proof: proofs/selection.md."""
    distances = _distances(_checked_scores(scores))
    return _select_exactly(distances, np.ones(len(distances), dtype=np.int64), positive_rational(rate, "rate"), source)


def exponential_weighted(scores: object, counts: object, rate: Fraction, source: Source) -> int:
    """Choose index i with probability proportional to counts[i] * exp(rate * scores[i]), for positive counts."""
    distances, multiplicities = _distances(_checked_scores(scores)), integer_array(counts, "counts")
    if len(multiplicities) != len(distances) or multiplicities.min() < 1:
        raise BadParameter(
            "counts do not fit the scores.",
            "Each score stands for one or more candidates.",
            "Give one positive integer for each score.",
        )
    return _select_exactly(distances, multiplicities, positive_rational(rate, "rate"), source)


def permute_and_flip(scores: object, rate: Fraction, source: Source) -> int:
    """Walk the indices in uniform order; take the first whose coin exp(rate * (score - best)) shows heads.

    Every coin is tossed, also those after the winner. Proof: proofs/selection.md
    """
    distances = _distances(_checked_scores(scores))
    order = uniform_order(len(distances), source)
    heads = _toss(distances, positive_rational(rate, "rate"), source)
    return int(order[np.argmax(heads[order])])  # the best has a coin of probability 1, so there is a first head


def uniform_order(size: int, source: Source) -> npt.NDArray[np.int64]:
    """Draw each order of 0, 1, …, size - 1 with the same probability [Fisher, Yates]. Proof: proofs/selection.md."""
    bounds = np.arange(size, 1, -1, dtype=np.uint64)
    words = _draw_words(len(bounds), source)
    picks, certain = _scale_words(words, bounds)
    for row in np.flatnonzero(~certain):
        picks[row] = _floor_of_multiple(int(words[row]), SELECTION_WORD_BITS, int(bounds[row]), source)
    order = list(range(size))
    for last, pick in zip(range(size - 1, 0, -1), picks.tolist(), strict=True):
        order[last], order[pick] = order[pick], order[last]
    return np.array(order, dtype=np.int64)


def uniform_below(below: int, bits: int, source: Source) -> int:
    """Draw each of 0, …, below - 1 with the same probability, from `bits` bits whatever a secret `below` is.

    More are drawn with probability at most below / 2**bits. Proof: proofs/selection.md
    """
    words = -(-bits // SELECTION_WORD_BITS)
    return _floor_of_multiple(_reveal(words, source), words * SELECTION_WORD_BITS, below, source)


def uniform_below_each(bounds: Integers, source: Source) -> npt.NDArray[np.int64]:
    """Draw for each bound one of 0, …, bound - 1 with the same probability, from a word each and rarely more.

    Bounds are meant to be below 2^48; larger ones are possible and take longer.
    """
    words, small = _draw_words(len(bounds), source), bounds < 1 << 48
    picks, certain = scaled_far(words, np.where(small, bounds, 1).astype(np.uint64))
    for row in np.flatnonzero(~(certain & small)):
        picks[row] = _floor_of_multiple(int(words[row]), SELECTION_WORD_BITS, int(bounds[row]), source)
    return picks


def integer_array(values: object, name: str) -> Integers:
    """Read a one-dimensional collection of integers of any size; floats, booleans and anything else are refused."""
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim == 1 and array.dtype.kind == "i":
            return array.astype(np.int64, copy=False)
        if array.ndim == 1 and array.dtype.kind == "u":
            return array.astype(np.uint64, copy=False)
        parts: list[Any] = array.tolist() if array.ndim == 1 and array.dtype.kind == "O" else [None]
    else:
        parts = list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else [None]
    if not set(map(type, parts)) <= {int}:
        parts = [_one_integer(part, name) for part in parts]
    small = all(-(1 << 63) <= part < 1 << 63 for part in parts)
    return np.array(parts, dtype=np.int64 if small else object)


def _one_integer(value: object, name: str) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return index(value)
    # the text names no value: scores are secret
    raise BadParameter(
        f"{name} are not a one-dimensional array of integers.",
        "Floats move by more than any stated sensitivity, and nothing else can be compared exactly.",
        f"Give {name} as integers on a public grid.",
    )


def _checked_scores(scores: object) -> Integers:
    array = integer_array(scores, "scores")
    if len(array):
        return array
    raise BadParameter("scores are empty.", "There is nothing to choose from.", "Give at least one candidate.")


def _distances(scores: Integers) -> Integers:
    """Return how far each score lies below the best: uint64 if every distance fits, else Python integers."""
    if scores.dtype != object:
        unsigned = scores.view(np.uint64)
        # modulo 2^64, and the true distances are below 2^64
        return np.uint64(int(scores.max()) % (1 << 64)) - unsigned
    best = max(scores)
    distances = np.array([best - score for score in scores], dtype=object)
    return distances.astype(np.uint64) if max(distances) < 1 << 64 else distances


def _select_exactly(distances: Integers, counts: Integers, rate: Fraction, source: Source) -> int:
    known, bits = _reveal(1, source), SELECTION_WORD_BITS
    cell = _cell_by_floats(distances, counts, rate, known)
    while cell == _UNDECIDED_INDEX and bits < MAX_SELECTION_BITS:
        cell = _cell_by_enclosures(distances, counts, rate, known, bits)
        if cell == _UNDECIDED_INDEX:
            known, bits = _extend(known, bits, source)
    if cell == _UNDECIDED_INDEX:
        raise _stuck_source()
    return cell


def _cell_by_floats(distances: Integers, counts: Integers, rate: Fraction, known: int) -> int:
    """Return the cell of U if floats place it clear of both seams, else _OPEN. Error bound: proofs/selection.md."""
    if counts.dtype == object or distances.dtype == object or not floats_fit(rate):
        return _UNDECIDED_INDEX
    rows = -(-len(distances) // _BLOCK_SCORES)
    slack = FLOAT_SLACK + (_BLOCK_SCORES + rows) * FLOAT_SUM_SLACK
    weights = np.zeros(rows * _BLOCK_SCORES)
    weights[: len(distances)] = float_weights(distances, rate) * counts
    table = weights.reshape(rows, _BLOCK_SCORES)
    ends = np.cumsum(table.sum(axis=1))
    position = known * 2.0**-SELECTION_WORD_BITS
    target = position * ends[-1]
    row = min(int(np.searchsorted(ends, target, side="right")), rows - 1)
    edges = np.cumsum(np.concatenate(([ends[row - 1] if row else 0.0], table[row]))) / ends[-1]
    # edges[0] <= position, or it is open
    column = min(int(np.searchsorted(edges, position, side="right")), _BLOCK_SCORES)
    if column and edges[column - 1] + slack <= position <= edges[column] - slack:
        return row * _BLOCK_SCORES + column - 1
    return _UNDECIDED_INDEX


def floats_fit(rate: Fraction) -> bool:
    """Whether `float_weights` are as near as proofs/selection.md says."""
    return _FLOAT_RATES[0] <= rate <= _FLOAT_RATES[1]


def float_weights(distances: Integers, rate: Fraction) -> npt.NDArray[np.float64]:
    """Return exp(-rate * d) for each d, nearly, and 0 where it is next to nothing."""
    exponents = distances.astype(np.float64) * float(rate)
    return np.where(exponents < _MAX_FLOAT_EXPONENT, np.exp(-np.minimum(exponents, _MAX_FLOAT_EXPONENT)), 0.0)


def _cell_by_enclosures(distances: Integers, counts: Integers, rate: Fraction, known: int, bits: int) -> int:
    """Return the cell that holds every U whose first `bits` bits are `known`, or _OPEN if the seams allow two."""
    multiplicities = counts.tolist()
    precision = bits + _SPARE_BITS + sum(multiplicities).bit_length()
    distinct, inverse = np.unique(distances, return_inverse=True)
    weights = _enclosures(distinct.tolist(), rate, precision)
    cells = [weights[kind] for kind in inverse.tolist()]
    low = list(accumulate(count * cell[0] for count, cell in zip(multiplicities, cells, strict=True)))
    high = list(accumulate(count * cell[1] for count, cell in zip(multiplicities, cells, strict=True)))
    one, last = 1 << bits, len(cells) - 1

    def not_reached(seam: int) -> bool:  # with a and b the weights before and behind the seam: U * b >= (1 - U) * a
        return bool(known * (low[last] - low[seam]) < (one - known) * high[seam])

    cell = bisect_left(range(last), True, key=not_reached)
    if cell == last or (known + 1) * (high[last] - high[cell]) <= (one - known - 1) * low[cell]:
        return cell
    return _UNDECIDED_INDEX


def _enclosures(distances: list[int], rate: Fraction, bits: int) -> list[tuple[int, int]]:
    """Enclose exp(-rate * d) * 2**bits for each d; 1 is enclosed exactly. Secret distances are not cached."""
    if len(distances) <= _MAX_SIMPLE_SCORES:
        return [exp_minus_enclosure(rate * distance, bits) for distance in distances]
    horizon = -(-(bits + 1) * rate.denominator // rate.numerator)  # beyond it the weight is below 2^-bits
    left = [distance for distance in distances if distance <= horizon]
    found = [(1 << bits, 1 << bits)] * len(left)
    step, place = isqrt(isqrt(horizon)) + 1, 1
    while place <= horizon:  # exp(-rate * d) is the product over the digits of d in base `step`: four small tables
        digits = [distance // place % step for distance in left]
        table = {digit: exp_minus_enclosure(rate * digit * place, bits) for digit in set(digits)}
        found = [
            (low * table[digit][0] >> bits, -(-high * table[digit][1] >> bits))
            for (low, high), digit in zip(found, digits, strict=True)
        ]
        place *= step
    return found + [(0, 1)] * (len(distances) - len(left))  # `distances` ascend


def _toss(distances: Integers, rate: Fraction, source: Source) -> npt.NDArray[np.bool_]:
    """Toss one coin of probability exp(-rate * d) for each d, all of them."""
    words = _draw_words(len(distances), source)
    heads = np.zeros(len(distances), dtype=np.bool_)
    undecided = np.arange(len(distances))
    if distances.dtype != object and floats_fit(rate):
        lead = float_weights(distances, rate) - words * 2.0**-SELECTION_WORD_BITS
        heads = lead > 0
        undecided = np.flatnonzero(np.abs(lead) <= 2.0**-41)  # error bound: proofs/selection.md
    for row in undecided:
        heads[row] = _below_exp_minus(int(words[row]), rate * int(distances[row]), source)
    return heads


def _below_exp_minus(known: int, exponent: Fraction, source: Source) -> bool:
    """Decide U < e^-exponent where the first 64 bits of U are `known`."""
    bits = SELECTION_WORD_BITS
    while bits < MAX_SELECTION_BITS:
        low, high = exp_minus_enclosure(exponent, bits)
        if known < low:
            return True  # U < (known + 1) / 2^bits <= p
        if known >= high:
            return False  # U >= known / 2^bits >= p
        known, bits = _extend(known, bits, source)
    raise _stuck_source()


def _scale_words(
    words: npt.NDArray[np.uint64], bounds: npt.NDArray[np.uint64]
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return floor(word * bound / 2^64), and whether every U that starts with the word agrees; bounds < 2^32."""
    half, mask = np.uint64(32), np.uint64((1 << 32) - 1)
    small = (words & mask) * bounds
    large = (words >> half) * bounds + (small >> half)
    rest = ((large & mask) << half) | (small & mask)
    # (word + 1) * bound does not pass the next multiple of 2^64
    return (large >> half).astype(np.int64), rest <= np.uint64((1 << 64) - 1) - bounds + np.uint64(1)


def scaled_far(
    words: npt.NDArray[np.uint64], bounds: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the same as `_scale_words`, for bounds below 2^48: the product is added up from four halves.

    The floor of a multiple of U, and whether every U that begins with the word has it.
    """
    half, mask = np.uint64(32), np.uint64((1 << 32) - 1)
    low, high, small, large = words & mask, words >> half, bounds & mask, bounds >> half
    lowest, across, back = low * small, low * large, high * small
    middle = (lowest >> half) + (across & mask) + (back & mask)
    whole = high * large + (across >> half) + (back >> half) + (middle >> half)
    rest = ((middle & mask) << half) | (lowest & mask)
    return whole.astype(np.int64), rest <= np.uint64((1 << 64) - 1) - bounds + np.uint64(1)


def _floor_of_multiple(known: int, bits: int, bound: int, source: Source) -> int:
    """Return floor(U * bound) where the first `bits` bits of U are `known`."""
    while bits < MAX_SELECTION_BITS:
        lowest, highest = known * bound >> bits, ((known + 1) * bound - 1) >> bits
        if lowest == highest:
            return lowest
        known, bits = _extend(known, bits, source)
    raise _stuck_source()


def _draw_words(count: int, source: Source) -> npt.NDArray[np.uint64]:
    return draw_words(read_exactly(source, 8 * count))


def draw_words(drawn: bytes) -> npt.NDArray[np.uint64]:
    """Return the first 64 bits of a U for each 8 bytes that were drawn."""
    words = np.frombuffer(drawn, dtype=">u8").astype(np.uint64)
    flipped: npt.NDArray[np.uint64] = words ^ np.uint64(WORD_MASK)
    return flipped


def _reveal(words: int, source: Source) -> int:
    flips = int.from_bytes(WORD_MASK.to_bytes(8, "big") * words, "big")
    return int.from_bytes(read_exactly(source, 8 * words), "big") ^ flips


def _extend(known: int, bits: int, source: Source) -> tuple[int, int]:
    """Reveal as many bits again as are known."""
    return (known << bits) | _reveal(bits // SELECTION_WORD_BITS, source), 2 * bits


def _stuck_source() -> EntropyFailed:
    return EntropyFailed(
        "The random source gave bits that no working source gives.",
        "Thousands of them lay on the border of two choices: the probability is below e^-5000.",
        "Nothing was released. Check the source of random bits of this machine.",
    )
