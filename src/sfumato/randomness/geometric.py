"""Geometric noise, exactly: P[G = g] = (1 - x) x^g with x = e^(-1/scale).

x^g factors over the binary digits of g, so groups of low digits are independent of each other and of the rest, whose
scale is small: a table look-up for each ten digits, no loop whose length is the noise. Where few samples are drawn,
tables are made for five digits each, which takes a third of the time.
Proof: proofs/geometric.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from sfumato.certified.binary import exp_minus_bounds, powers
from sfumato.exact import positive_rational
from sfumato.randomness.bernoulli import Bernoulli, exp_minus, logistic
from sfumato.randomness.guide import DrawTail, FiniteLaw, Guide, stack
from sfumato.randomness.source import Source, broken_source, read_exactly, sample_size
from sfumato.randomness.uniform import Integers

MAX_INT64_SCALE = 1 << 48
"""Up to this scale samples are int64; beyond it they are Python integers."""
MAX_SMALL_TABLE_SAMPLES = 1 << 14
"""Maximum number of samples for which small tables are built: larger ones take longer than they save."""
_TABLE_TAIL = 20  # the table ends where less than 2^-20 is left
_PASS_WORDS = 1 << 18  # words per pass: what one pass touches stays in the processor's cache
_IMPOSSIBLE_EXPONENT = 32768  # an event of probability e^-32768 is not chance but a broken source


@dataclass(frozen=True, slots=True)
class TableSizes:
    """Into which parts a sample falls, each with a table: this decides speed alone, the law is the same."""

    widest: int
    """The largest scale of T, three times a power of two."""
    group: int
    """Maximum number of binary digits that are drawn at once."""

    @property
    def furthest(self) -> int:
        """The most that T may be: with all digits of a scale of 2^48 still below 2^63; P[T > this] < e^-21000."""
        return (self.widest // 3 << 16) - 2


LARGE_TABLES = TableSizes(24, 10)  # one cell in 64 of the table of ten digits needs more bits
SMALL_TABLES = TableSizes(6, 5)


def sizes_for(count: int) -> TableSizes:
    """Return the table sizes that are fastest for `size` samples."""
    return SMALL_TABLES if count <= MAX_SMALL_TABLE_SAMPLES else LARGE_TABLES


@dataclass(frozen=True, slots=True)
class Geometric:
    """P[G = g] = (1 - x) x^g for g = 0, 1, 2, … with x = e^(-1/scale). Proof: proofs/geometric.md."""

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_rational(self.scale, "scale"))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent samples: int64 up to a scale of 2^48, else Python integers."""
        sampler = _plain_sampler(self.scale, sizes_for(sample_size(count)))
        return in_passes(lambda size: sampler.draw(size, source)[0], count, sampler.block)


@dataclass(frozen=True, slots=True)
class _Truncated:
    """The law of min(T, cells), T geometric with ratio e^-step: the last outcome stands for all that is left."""

    step: Fraction
    cells: int
    furthest: int

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        guard = self.cells.bit_length() + 2
        one = 1 << (bits + guard)
        precision = bits + guard
        tails = powers(exp_minus_bounds(self.step, precision), self.cells, precision)[1:]  # P[T > k] = ratio^(k + 1)
        return (
            (*[(one - high) >> guard for _, high in tails], 1 << bits),
            (*[-((low - one) >> guard) for low, _ in tails], 1 << bits),
        )

    @property
    def tail(self) -> DrawTail:
        """T - cells given T >= cells: geometric again, here by its digits alone, so that it ends on any bits."""
        return self._draw_tail

    def _draw_tail(self, count: int, source: Source) -> npt.NDArray[np.int64]:
        rest = geometric_by_digits(self.step, count, source)
        if self.cells + int(rest.max()) > self.furthest:
            raise broken_source()
        return rest


@dataclass(frozen=True, slots=True)
class _Group:
    """The law of neighbouring binary digits, read as a number: P[B = b] proportional to e^(-step·b), b < 2^digits."""

    step: Fraction
    digits: int

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        # sums of powers, not (1 - y^(b + 1)) / (1 - y^(2^digits)): nothing cancels, however small the step
        precision = bits + 2 * self.digits + 4
        weights = powers(exp_minus_bounds(self.step, precision), (1 << self.digits) - 1, precision)
        low, high = (list(accumulate(ends)) for ends in zip(*weights, strict=True))
        one, (least_total, most_total) = 1 << bits, (low.pop(), high.pop())
        least = [(part << bits) // most_total for part in low]
        most = [-((-part << bits) // least_total) for part in high]
        # the law falls, so P[B < b] is at least b / 2^digits, which a step too small to be seen comes near to
        if least[0] < one >> self.digits or least[-1] < one - (one >> self.digits):
            least = [max(part, (b << bits) >> self.digits) for b, part in enumerate(least, 1)]
        if most[-1] > one:
            most = [min(part, one) for part in most]
        return ((*least, one), (*most, one))

    @property
    def tail(self) -> None:
        """There is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """What one scale needs, prepared once: it depends on public parameters only.

    Row 0 of the words is for T, the next rows are for the groups of digits, the most significant first, the last ones
    for a caller's own laws. Each sample takes one word of each row.
    """

    guide: Guide
    weights: Integers  # what one unit of each row of T and the groups counts in G, in a column
    block: int  # samples per pass

    def draw(self, count: int, source: Source) -> tuple[Integers, npt.NDArray[np.int64]]:
        """Return `count` geometric samples, and the outcomes of the caller's own laws, one row each."""
        rows = len(self.guide.laws)
        words = np.frombuffer(read_exactly(source, 2 * count * rows), dtype="<u2").reshape(rows, count)
        outcomes = self.guide.outcomes(words, source)
        own = len(self.weights)
        return (np.add.reduce(outcomes[:own] * self.weights), outcomes[own:])


def make_sampler(scale: Fraction, others: tuple[FiniteLaw, ...], sizes: TableSizes = SMALL_TABLES) -> Sampler:
    """Prepare the tables for one scale, with those of a caller's own laws behind."""
    # the fewest digits with scale <= widest · 2^digits
    digits = (-(-scale.numerator // (scale.denominator * sizes.widest)) - 1).bit_length()
    groups = -(-digits // sizes.group)
    # the groups are as even as they can be; group i holds the digits from places[i] up to places[i - 1]
    places = [digits * (groups - group) // groups for group in range(groups + 1)] if groups else [0]
    step = Fraction(1 << digits) / scale
    cells = 1 + _TABLE_TAIL * 7 * step.denominator // (10 * step.numerator)  # e^(-step * cells) < 2^-20
    laws = [_Group(Fraction(1 << low) / scale, high - low) for high, low in pairwise(places)]
    tables = stack((_Truncated(step, cells, sizes.furthest), *laws, *others))
    weights = np.array([1 << digit for digit in places], dtype=object if scale > MAX_INT64_SCALE else np.int64)
    return Sampler(tables, weights.reshape(-1, 1), max(1, _PASS_WORDS // len(tables.laws)))


def geometric_by_digits(step: Fraction, count: int, source: Source) -> npt.NDArray[np.int64]:
    """Draw G with P[G >= g] = e^(-step·g) by coins for all of its digits: slow, small, and it ends on any bits."""
    digits = 0
    while step * (1 << digits) < _IMPOSSIBLE_EXPONENT:
        digits += 1
    values = np.zeros(count, dtype=np.int64)
    for index in range(digits):
        values += Bernoulli(logistic(step * (1 << index))).draw(count, source).astype(np.int64) << index
    if Bernoulli(exp_minus(step * (1 << digits))).draw(count, source).any():
        raise broken_source()
    return values


@lru_cache(maxsize=32)  # at most 768 KiB each up to a scale of 2^48: six tables, or eleven of half the size
def _plain_sampler(scale: Fraction, sizes: TableSizes = SMALL_TABLES) -> Sampler:
    return make_sampler(scale, (), sizes)


def in_passes(draw: Callable[[int], Integers], count: int, block: int) -> Integers:
    """Draw `count` samples, `block` at a time."""
    size = sample_size(count)
    if size <= block:
        return draw(size)
    drawn = draw(block)
    samples = np.empty(size, dtype=drawn.dtype)
    samples[:block] = drawn
    for start in range(block, size, block):
        samples[start : start + block] = draw(min(block, size - start))
    return samples
