"""Noise for biased bits: neighbours give the same answer on most coins, however the coins are biased  [DLMV12].

Noise whose tail halves every `half_life` units is rounded to a grid. The coins are a point of [0, 1); each answer has
an interval of it, whose ends a neighbour moves by little compared with its length. So no opponent who biases each bit
by at most gamma, knowing all bits before it, can make an answer much likelier for one of two neighbours: how much, at
most, `worst_ratio` says exactly.  Proof: proofs/consistent.md
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log

import numpy as np

from sfumato.caches import remembered
from sfumato.certified.binary import exp_minus_enclosure
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, positive_rational
from sfumato.randomness import adversary
from sfumato.randomness.adversary import ProbabilityInterval, read_bias
from sfumato.randomness.biased_tree import FLOAT_SLACK, MAX_TREE_BITS, Floats, Indices, play, play_ratio, worst_places
from sfumato.randomness.source import Source, broken_source, read_declared

_MAX_PARAMETER = 1 << 22
_RUN_BITS = 130
"""Block length, in bits, that a run of fair bits fills once in 2^129 draws."""
_MAX_RUN_BITS = 1 << 20
_MAX_PAIRS = 1 << 22
_MAX_EPSILON = 100
"""Epsilon above which precision no longer improves: the finest noise tried has a smaller loss."""
_TRIED_REACHES = range(8, 16)
_MAX_HALF_LIFE_EXPONENT = 14
"""Half-lives up to 2**14 are tried: the sweep over all offsets takes time in proportion."""
_TRIED_GRIDS = tuple(Fraction(part) for part in ("1/2", "3/4", "1", "3/2", "2", "3", "4", "6", "8"))


@dataclass(frozen=True, slots=True)
class Consistent:
    """Integers in units: noise that halves every `half_life`, rounded to `grid`, for changes up to `reach`.

    Theorem: for integers y, y' with |y - y'| <= reach and every source of bias gamma, each answer of `draw` is at most
    `worst_ratio(gamma)` times as likely for y as for y'.  Proof: proofs/consistent.md

    >>> Consistent(64, 64, 1).worst_ratio(0)
    Fraction(65, 64)
    """

    half_life: int
    grid: int
    reach: int

    def __post_init__(self) -> None:
        for name in ("half_life", "grid", "reach"):
            object.__setattr__(self, name, integer(getattr(self, name), name, 1))
        power = self.half_life & (self.half_life - 1) == 0
        if not power or self.grid % 2 or max(self.half_life, self.grid, self.reach) > _MAX_PARAMETER:
            raise BadParameter(
                f"{quote_value(self)} is not noise.",
                "The ends of all intervals must be places that finitely many bits decide.",
                f"Give a power of 2, an even grid and a reach, none above {_MAX_PARAMETER}; `calibrate` finds good "
                "ones.",
            )

    @property
    def block(self) -> int:
        """How many bytes a draw reads, whatever the value and, but for runs that fill it, whatever the coins."""
        return -(-(_RUN_BITS + self._fine) // 8)

    def draw(self, units: int, source: Source) -> int:
        """Return k for the value `units`: the answer is k · grid units."""
        value = integer(units, "units", None)
        noise = self._noise(source)
        return (value + noise + self.grid // 2) // self.grid

    def cell(self, units: int, k: int) -> ProbabilityInterval:
        """Return the interval of coins on which the value `units` is answered by k."""
        offset = integer(k, "k", None) * self.grid - integer(units, "units", None)
        if abs(offset) > _MAX_RUN_BITS * self.half_life:
            raise BadParameter(
                f"k = {quote_value(k)} is too far from the value.",
                f"No draw answers what is more than {_MAX_RUN_BITS} half-lives away.",
                "Give a k such that k * grid is near the value.",
            )
        return self._cell(offset)

    def worst_ratio(self, gamma: object) -> Fraction:
        """Return the exact maximum of P[k | y] / P[k | y'] over all y, all k, all |y - y'| <= reach, all sources."""
        return _worst(self, read_bias(gamma))[0]

    def worst_cells(self, gamma: object) -> tuple[ProbabilityInterval, ProbabilityInterval]:
        """Return the intervals of coins of an answer that has the worst ratio: for one value, and for its neighbour."""
        _, first, second = _worst(self, read_bias(gamma))
        return self._cell(first), self._cell(second)

    def worst_error(self, gamma: object) -> Fraction:
        """Return in units the largest E|answer - value| over all values and sources, at most 1e-9 of it too large."""
        return _worst_error(self, read_bias(gamma))

    def worst_tail(self, units: int, gamma: object) -> float:
        """Return the largest P[|answer - value| > units] over all values and sources, at most 1e-9 too large."""
        return _worst_tail(self, integer(units, "units", 0), float(read_bias(gamma)))

    @property
    def _fine(self) -> int:
        return self.half_life.bit_length() - 1

    def _noise(self, source: Source) -> int:
        """Return the noise that a block of coins says: a side, how often it is repeated, and the place after it."""
        bits, known = 0, 0
        while known <= _MAX_RUN_BITS:
            bits = (bits << 8 * self.block) | int.from_bytes(read_declared(source, self.block), "big")
            known += 8 * self.block
            side = bits >> (known - 1)
            differing = bits ^ ((1 << known) - 1 if side else 0)  # the first 1 of it ends the run
            run = known - differing.bit_length() - 1
            left = known - run - 2
            if left >= self._fine:
                place = (bits >> (left - self._fine)) & (self.half_life - 1)
                return run * self.half_life + place if side else place - (run + 1) * self.half_life
        raise broken_source()

    def _cumulative(self, units: int) -> Fraction:
        """Return the probability that noise from fair coins is below `units`: F of proofs/consistent.md."""
        if units > 0:
            return 1 - self._cumulative(-units)
        halvings, rest = divmod(-units, self.half_life)
        return Fraction(2 * self.half_life - rest, self.half_life << (halvings + 2))

    def _cell(self, offset: int) -> ProbabilityInterval:
        return self._cumulative(offset - self.grid // 2), self._cumulative(offset + self.grid // 2)

    def _pairs(self) -> Indices:
        """Return the offsets that stand for all others: mirrored, and repeated with period `half_life` in the tail."""
        if (self.grid // 2 + self.reach + self.half_life) * self.reach > _MAX_PAIRS:
            raise BadParameter(
                f"The worst ratio of {quote_value(self)} would take too long.",
                "Every offset is compared with every shift up to the reach.",
                "Give smaller numbers; `calibrate` finds good ones.",
            )
        offsets = np.arange(-(self.grid // 2 + self.reach + self.half_life), 1, dtype=np.int64)
        shifts = np.array([sign * shift for shift in range(1, self.reach + 1) for sign in (-1, 1)], dtype=np.int64)
        pairs = np.broadcast_arrays(offsets[:, None], offsets[:, None] + shifts)
        return np.stack([side.ravel() for side in pairs], axis=1)


def calibrate(epsilon: object, gamma: object) -> Consistent:
    """Return the parameters with the least `worst_error` per reach among many, whose worst ratio is at most e^epsilon.

    >>> calibrate(1, 0)
    Consistent(half_life=8, grid=6, reach=10)
    """
    return _calibrate(min(positive_rational(epsilon, "epsilon"), Fraction(_MAX_EPSILON)), read_bias(gamma))


@remembered(256)
def _calibrate(epsilon: Fraction, gamma: Fraction) -> Consistent:
    found: Consistent | None = None
    for fine in range(max(1, int(log(4 / float(epsilon), 2))), _MAX_HALF_LIFE_EXPONENT + 1):
        candidates = list(_candidates(fine))
        if found is None:  # where the loss is too large in any case, the error is not needed
            candidates = [candidate for candidate in candidates if not _surely_too_much(candidate, epsilon, gamma)]
        candidates.sort(key=lambda candidate: _error_per_reach(candidate, gamma))
        if found is not None:
            # errors grow with the half-life, so nothing better follows once none is better
            candidates = [
                candidate
                for candidate in candidates
                if _error_per_reach(candidate, gamma) < _error_per_reach(found, gamma)
            ]
            if not candidates:
                return found
        found = next((candidate for candidate in candidates if _holds(candidate, epsilon, gamma)), found)
    if found is not None:
        return found
    raise BadParameter(
        f"No noise was found for epsilon = {quote_value(epsilon)} on a source of gamma = {quote_value(gamma)}.",
        "The smaller epsilon and the more biased the source, the longer the intervals have to be.",
        "Ask for a larger epsilon, or improve the source (sfumato.randomness.imperfect.Combined).",
    )


def _candidates(fine: int) -> Iterator[Consistent]:
    for part in _TRIED_GRIDS:
        grid = part * (1 << fine)
        if grid.denominator == 1 and grid.numerator % 2 == 0:
            yield from (Consistent(1 << fine, grid.numerator, reach) for reach in _TRIED_REACHES)


def _holds(noise: Consistent, epsilon: Fraction, gamma: Fraction) -> bool:
    return not _surely_too_much(noise, epsilon, gamma) and _at_most_exp(noise.worst_ratio(gamma), epsilon)


def _surely_too_much(noise: Consistent, epsilon: Fraction, gamma: Fraction) -> bool:
    return _exceeds(noise, exp(float(epsilon)), float(gamma))


def _error_per_reach(noise: Consistent, gamma: Fraction) -> float:
    alike = Consistent(noise.half_life, noise.grid, 1)  # the error does not depend on the reach
    return float(_worst_error(alike, gamma)) / noise.reach


def _at_most_exp(ratio: Fraction, epsilon: Fraction) -> bool:
    """Decide ratio <= e^epsilon, by enclosures alone."""
    bits = 64
    while True:
        low, high = exp_minus_enclosure(epsilon, bits)
        if high * ratio <= 1 << bits:
            return True
        if low * ratio > 1 << bits:
            return False
        bits *= 2  # ends: e^epsilon is irrational for rational epsilon > 0 (Lindemann)


def _exceeds(noise: Consistent, bound: float, gamma: float) -> bool:
    """Whether some of the likeliest places is surely worse than a bound: cheaper than looking at all."""
    offsets = np.unique(np.linspace(-(noise.grid // 2 + noise.reach + noise.half_life), 0, 64).astype(np.int64))
    pairs = np.array([(at, at + sign * noise.reach) for at in offsets for sign in (-1, 1)], dtype=np.int64)
    depth = _depth_of(noise)
    if depth > MAX_TREE_BITS:
        return False
    value, first, second = play_ratio(*_cells_at_offsets(noise, pairs, depth), bound, depth, gamma).T
    return bool((value > FLOAT_SLACK * (first + bound * second)).any())


@remembered(256)
def _worst(noise: Consistent, gamma: Fraction) -> tuple[Fraction, int, int]:
    """Return the largest ratio, and the offsets that have it: floats find where to look, fractions decide."""
    pairs, depth = noise._pairs(), _depth_of(noise)
    if depth <= MAX_TREE_BITS:
        pairs = pairs[worst_places(*_cells_at_offsets(noise, pairs, depth), depth, float(gamma))]
    return max(
        (adversary.worst_ratio(noise._cell(first), noise._cell(second), gamma), first, second)
        for first, second in pairs.tolist()
    )


def _depth_of(noise: Consistent) -> int:
    """Return how many bits decide every end that the sweep meets."""
    farthest = noise.grid + 2 * noise.reach + noise.half_life
    return noise._fine + farthest // noise.half_life + 2


def _cells_at_offsets(noise: Consistent, pairs: Indices, depth: int) -> tuple[Indices, Indices]:
    """Return the cells at both offsets of each pair, in units of 2^-depth."""
    ends = np.array([-noise.grid // 2, noise.grid // 2])
    first, second = (_scaled_below(noise, pairs[:, side, None] + ends, depth) for side in (0, 1))
    return first, second


def _scaled_below(noise: Consistent, units: Indices, depth: int) -> Indices:
    halvings, rest = np.divmod(np.abs(units), noise.half_life)
    scaled = (2 * noise.half_life - rest) << (depth - noise._fine - 2 - halvings)
    result: Indices = np.where(units > 0, (1 << depth) - scaled, scaled)
    return result


@remembered(4096)
def _worst_error(noise: Consistent, gamma: Fraction) -> Fraction:
    more = float((1 + gamma) / 2)
    per_block, half = float(noise.half_life), noise.grid / 2
    period = noise.grid // int(np.gcd(noise.grid, noise.half_life))
    straight = -(-2 * noise.grid // noise.half_life) + 1  # from this run on the answer lies on one side of the value
    runs, beyond = straight + period, more / (1 - more)
    while more**runs * (runs + 2 + beyond + half / per_block) > 1e-11:
        runs += 1

    def _blocks(side: int) -> Callable[[int], Floats]:
        first = [_block_means(noise, side, run, float(gamma), np.abs) for run in range(straight + period)]

        def _of(run: int) -> Floats:
            rounds = max(0, run - straight) // period
            return first[run - rounds * period] + rounds * period * per_block

        return _of

    farthest = (runs + 1 + beyond) * per_block + half  # E|noise| given such a run, and the rounding
    worst = _best_of_runs(_blocks, runs, farthest, more)
    return Fraction(worst * (1 + FLOAT_SLACK))


def _worst_tail(noise: Consistent, units: int, gamma: float) -> float:
    more = (1 + gamma) / 2
    runs = (units + noise.grid) // noise.half_life + 2  # noise of a longer run is surely beyond

    def _blocks(side: int) -> Callable[[int], Floats]:
        return lambda run: _block_means(noise, side, run, gamma, lambda error: (np.abs(error) > units).astype(float))

    return min(1.0, _best_of_runs(_blocks, runs, 1.0, more) + FLOAT_SLACK)


def _best_of_runs(blocks: Callable[[int], Callable[[int], Floats]], runs: int, farthest: float, more: float) -> float:
    """Return the largest mean over all values, from what the opponent can have within each block and beyond all."""
    sides = []
    for side in (0, 1):
        block = blocks(side)
        reached: Floats = np.full_like(block(0), farthest)
        for run in range(runs - 1, -1, -1):
            reached = _bit(reached, block(run), more)
        sides.append(reached)
    return float(_bit(sides[0], sides[1], more).max())


def _bit(first: Floats, second: Floats, more: float) -> Floats:
    result: Floats = more * np.maximum(first, second) + (1 - more) * np.minimum(first, second)
    return result


def _block_means(noise: Consistent, side: int, run: int, gamma: float, score: Callable[[Floats], Floats]) -> Floats:
    """Return for each value 0 … grid - 1 the largest mean of a score of the error within one block of coins."""
    start = run * noise.half_life if side else -(run + 1) * noise.half_life
    values = np.arange(noise.grid, dtype=np.int64)
    lowest = (values + start + noise.grid // 2) // noise.grid  # the answer at the block's first place
    steps = np.arange(1, noise.half_life // noise.grid + 2, dtype=np.int64)
    ends = (lowest[:, None] + steps) * noise.grid - noise.grid // 2 - values[:, None] - start
    answers = (lowest[:, None] + np.concatenate([[0], steps])) * noise.grid - values[:, None]
    pieces = score(answers.astype(np.float64))[..., None]
    return play(np.minimum(ends, noise.half_life), pieces, noise._fine, gamma)[:, 0]
