"""Geometric noise, exactly: P[G = g] = (1 - x) x^g with x = e^(-1/scale).

x^g factors over the binary digits of g, so the low digits are independent coins and only the rest, whose scale is at
most 12, needs a table: about log2(scale) comparisons per sample, no loop whose length is the noise.
Proof: proofs/geometric.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfumato.exact import integer, positive_rational
from sfumato.randomness.bernoulli import Bernoulli, Coins, Probability, exp_minus, logistic
from sfumato.randomness.certified import exp_minus_bounds
from sfumato.randomness.guide import Guide, prepare
from sfumato.randomness.source import Source, broken_source, read_exactly
from sfumato.randomness.uniform import Integers

WIDEST = 1 << 48
"""Up to this scale samples are int64; beyond it they are Python integers."""
_TABLE_SCALE = 12
_TABLE_TAIL = 20  # the table ends where less than 2^-20 is left
_FEW = 64
_PASS = 1 << 18  # words per pass: what one pass touches stays in the processor's cache
_IMPOSSIBLE = 32768  # an event of probability e^-32768 is not chance but a broken source
_FURTHEST = (1 << 18) - 2  # with 45 digits more, for a scale of 2^48, still below 2^63; P[T > this] < e^-21000


@dataclass(frozen=True, slots=True)
class Geometric:
    """P[G = g] = (1 - x) x^g for g = 0, 1, 2, … with x = e^(-1/scale). Proof: proofs/geometric.md."""

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_rational(self.scale, "scale"))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent samples: int64 up to a scale of 2^48, else Python integers."""
        sampler = _plain_sampler(self.scale)
        return in_passes(lambda size: sampler.draw(size, source)[1], count, sampler.block)


@dataclass(frozen=True, slots=True)
class _Truncated:
    """The law of min(T, cells), T geometric with ratio e^-step: the last outcome stands for all that is left."""

    step: Fraction
    cells: int

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        guard = self.cells.bit_length() + 2
        one = 1 << (bits + guard)
        ratio_low, ratio_high = exp_minus_bounds(self.step, bits + guard)
        low, high = [], []
        left_low = left_high = one  # encloses P[T >= k] = ratio^k
        for _ in range(self.cells):
            left_low = (left_low * ratio_low) >> (bits + guard)
            left_high = -((-left_high * ratio_high) >> (bits + guard))
            low.append((one - left_high) >> guard)
            high.append(-((left_low - one) >> guard))
        return ((*low, 1 << bits), (*high, 1 << bits))

    @property
    def tail(self) -> Callable[[Source], int]:
        """T - cells given T >= cells: geometric again, here by its digits alone, so that it ends on any bits."""
        return self._draw_tail

    def _draw_tail(self, source: Source) -> int:
        rest = geometric_by_digits(self.step, source)
        if self.cells + rest > _FURTHEST:
            raise broken_source()
        return rest


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """What one scale needs, prepared once: it depends on public parameters only.

    A caller's own coins come first, then one coin per digit of G, the most significant first: all are tossed at once.
    """

    coins: Coins
    others: int
    powers: npt.NDArray[np.int64]
    one: Integers  # 1 and 2^digits, as arrays: numpy is slow to read a Python integer
    stride: npt.NDArray[np.int64]
    guide: Guide
    wide: bool
    block: int  # samples per pass

    def draw(self, count: int, source: Source) -> tuple[npt.NDArray[np.bool_], Integers]:
        """Return the tosses of the caller's own coins, one row each, and `count` geometric samples."""
        rows = len(self.coins.probabilities)
        words = np.frombuffer(read_exactly(source, 2 * count * (rows + 1)), dtype="<u2").reshape(rows + 1, count)
        rest: Integers = self.guide.outcomes(words[rows], source)
        tosses = self.coins.toss(words[:rows], source)
        return (tosses[: self.others], self._assemble(rest, tosses[self.others :]))

    def _assemble(self, rest: Integers, digits: npt.NDArray[np.bool_]) -> Integers:
        """Return rest * 2^len(digits) + the number that the rows of `digits` write, the most significant first."""
        if self.wide:
            rest = rest.astype(object)
        elif rest.size <= _FEW:
            whole: Integers = rest * self.stride + self.powers.dot(digits)
            return whole
        bits = digits.view(np.uint8)
        for start in range(0, len(bits), 8):  # eight digits fit a byte, and byte arithmetic is the fastest there is
            octet = bits[start].copy()
            for row in bits[start + 1 : start + 8]:
                octet += octet
                octet += row
            rest = (rest << len(bits[start : start + 8])) + (octet.astype(object) if self.wide else octet)
        return rest


def make_sampler(scale: Fraction, others: tuple[Probability, ...]) -> Sampler:
    """Prepare the coins and the table for one scale, with a caller's own coins in front."""
    count = 0
    while scale > _TABLE_SCALE << count:
        count += 1
    places = list(reversed(range(count)))
    # coin i says whether digit i of G is 1: P = x^(2^i) / (1 + x^(2^i)), independently
    digits = tuple(logistic(Fraction(1 << place) / scale) for place in places)
    step = Fraction(1 << count) / scale
    cells = 1 + _TABLE_TAIL * 7 * step.denominator // (10 * step.numerator)  # e^(-step * cells) < 2^-20
    return Sampler(
        coins=Coins.prepare(others + digits),
        others=len(others),
        powers=np.array([1 << min(place, 62) for place in places], dtype=np.int64),
        one=np.array([1], dtype=object if scale > WIDEST else np.int64),
        stride=np.array([1 << min(count, 62)], dtype=np.int64),
        guide=prepare(_Truncated(step, cells)),
        wide=scale > WIDEST,
        block=_PASS // (len(others) + count + 1),
    )


def geometric_by_digits(step: Fraction, source: Source) -> int:
    """Draw one G with P[G >= g] = e^(-step·g) by coins for all of its digits: slow, small, and it ends on any bits."""
    digits = 0
    while step * (1 << digits) < _IMPOSSIBLE:
        digits += 1
    coins = [Bernoulli(logistic(step * (1 << place))) for place in range(digits)]
    value = sum(1 << place for place, coin in enumerate(coins) if coin.draw(1, source)[0])
    if Bernoulli(exp_minus(step * (1 << digits))).draw(1, source)[0]:
        raise broken_source()
    return value


@lru_cache(maxsize=512)
def _plain_sampler(scale: Fraction) -> Sampler:
    return make_sampler(scale, ())


def in_passes(draw: Callable[[int], Integers], count: int, block: int) -> Integers:
    """Draw `count` samples, `block` at a time."""
    size = integer(count, "count", 0)
    if size <= block:
        return draw(size)
    return np.concatenate([draw(min(block, size - start)) for start in range(0, size, block)])
