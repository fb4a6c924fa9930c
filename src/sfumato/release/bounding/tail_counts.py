"""How many people have more than each bound, judged from noisy people by what is usual: accuracy alone depends on it.

From one bound to the next either the number of people falls by the same power as before, as in heavy tails, or by more
and more, as where everybody has about the same; seldom a tail ends and begins anew. Whatever is likely under that and
under the noise is weighed: so noise alone is not taken for people far above, nor many people for noise.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.caches import remembered
from sfumato.release.intervals.noise_law import Floats, quantile_of_sum

_COUNT_STEP_LOG2, _MIN_COUNT_LOG2 = 0.25, -1.0
"""The number of people is told apart in steps of this binary power, from half a person on; below that is no person."""
_FALLS_PER_DOUBLING, _MIN_FALL_FACTOR, _MAX_FALL_FACTOR = 3, 0.12, 16.0
"""By which binary power the number falls when the bound doubles: none, or one of a row that itself doubles so often."""
_STEADY_CHANGES = {0: 0.7, 1: 0.15, -1: 0.15}
_FALLING_CHANGES = {0: 0.1, 1: 0.2, 2: 0.2, 3: 0.25, 4: 0.1, 6: 0.15}
"""How that power goes on, in steps of the row: in steady tails, and in those that fall faster and faster."""
_STEADY_TO_FALLING, _FALLING_TO_STEADY = 0.1, 0.02
"""How often a steady tail begins to fall, and a falling one becomes steady."""
_NO_FALL_PROBABILITY, _ANY_FALL_PROBABILITY = 0.05, 0.03
"""How often no person is between two bounds, whatever went before; and how often anything follows."""
_ALL_ABOVE_PROBABILITY, _RESTART_PROBABILITY = 0.2, 0.2
"""How often everybody has more than the first bound; and how often anything follows where no person was in between."""
_MODEL_ERROR_SHARE = 0.1
"""Numbers may be off by this part of themselves and still follow such a law."""
_CLAMP_PROBABILITY = 1e-4
"""No estimate is farther from what was counted than noise is with this probability, up to the bound that is sure."""
_CERTAIN_PROBABILITY, _EVIDENT_PROBABILITY, _STEPS_ABOVE_EVIDENCE = 2e-4, 0.05, 3
"""How often noise may suggest people from a bound on where there are none, times this bound over one that is sure: for
a bound to be sure, too, and to be evident; and by how many bounds what is likely may lie above what is evident."""
_MIN_LIKELIHOOD_RATIO = 1e-30

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TailCounts:
    """Of each step between bounds, how many people have more than it, part of a step counting as part of a person."""

    mean: Floats
    """Without those beyond the highest credible bound."""
    median: Floats
    credible: int
    """The highest bound that may be taken: values farther above the evidence are taken for noise."""


def estimate_tail_counts(people: Floats, amounts: Floats, scale: float) -> TailCounts:
    """Return how many people reach each bound, from noisy people at the bounds, with Laplace noise of this scale."""
    most = max(1.0, float(np.cumsum(people[::-1]).max()) + 4 * scale)
    powers = np.arange(_MIN_COUNT_LOG2, max(4.0, np.log2(most) + 0.5) + _COUNT_STEP_LOG2, _COUNT_STEP_LOG2)
    numbers = 2.0**powers
    numbers[0] = 0.0
    falls = np.tile(_falls(), 2)
    steps = np.log2(amounts[1:] / amounts[:-1]).tolist()
    ways = {step: _Falling.of(numbers, _left(len(numbers), falls * step), scale) for step in dict.fromkeys(steps)}
    last = _Falling.of(numbers, np.zeros((len(numbers), len(falls)), dtype=np.int64), scale)  # none is left above it
    likely = [
        way.likely(value) for value, way in zip(people.tolist(), [*(ways[step] for step in steps), last], strict=True)
    ]
    # before anything was counted, every number of people is as likely as any other: so large steps are likelier
    before = [np.outer(np.maximum(numbers, numbers[1] / 2), _beginning())]
    for step, weights in zip(steps, likely, strict=False):
        before.append(ways[step].moved(_whole(before[-1] * weights)) @ _going_on())
    behind = np.ones_like(before[0])
    means, medians = np.zeros(len(people)), np.zeros(len(people))
    for index in reversed(range(len(people))):
        if index < len(steps):
            behind = _whole(ways[steps[index]].back((behind * likely[index + 1]) @ _going_on().T))
        chances = _whole((before[index] * likely[index] * behind).sum(axis=1))
        means[index], medians[index] = chances @ numbers, _median(chances, powers)
    # counts that the noise cannot explain are believed as they are, whatever is usual
    counted = np.cumsum(people[::-1])[::-1]
    apart = scale * _reach(len(people), _CLAMP_PROBABILITY)
    sure, credible = _credible(counted / scale, tuple(amounts.tolist()))
    least = np.where(np.arange(len(people)) <= sure, np.maximum(counted - apart, 0), 0)
    greatest = np.maximum(counted + apart, 0)
    mean, median = np.clip(means, least, greatest), np.clip(medians, least, greatest)
    return TailCounts(np.maximum(mean - np.append(mean, 0)[credible + 1], least), median, credible)


def _credible(counted: Floats, amounts: tuple[float, ...]) -> tuple[int, int]:
    """Return the highest bound that is sure, and the highest not too far above the evidence, by people in noise scales.

    A bound that is taken by mistake costs noise in proportion to it. So noise may suggest one, by people who are not
    there, with a probability that falls as the bound rises above one that is sure: the cost of mistakes is limited for
    any number of bounds. The last is both where nothing is sure.
    """
    last = len(amounts) - 1
    first = np.flatnonzero(counted > _reach(len(amounts), _CLAMP_PROBABILITY))
    if not len(first):
        return last, last
    sure, higher = -1, int(first[0])
    while higher > sure:
        sure = higher
        higher = _highest(counted, amounts, sure, _CERTAIN_PROBABILITY)
    return sure, min(_highest(counted, amounts, sure, _EVIDENT_PROBABILITY) + _STEPS_ABOVE_EVIDENCE, last)


def _highest(counted: Floats, amounts: tuple[float, ...], sure: int, chance: float) -> int:
    """Return the highest bound at which more people are than noise suggests with such a probability, or the sure one.

    The probability is `chance` at the sure bound, and falls as bounds rise.
    """
    found = np.flatnonzero(counted > _reach_above(amounts, sure, chance))
    return max(sure, int(found[-1])) if len(found) else sure


@remembered(1024)
def _reach_above(amounts: tuple[float, ...], sure: int, chance: float) -> Floats:
    """Return how far the noise of all people from each bound on reaches, by what the bound is beside the sure one."""
    ratios = (amounts[sure] / max(amount, amounts[sure]) for amount in amounts)
    found = [_reach(len(amounts), min(chance / 2, chance * ratio))[index] for index, ratio in enumerate(ratios)]
    return np.array(found)


@remembered(1024)
def _reach(bounds: int, tail: float) -> Floats:
    """Return how far the noise of all people from each bound on reaches, in its scales, but for this probability."""
    parts = np.arange(bounds, 0, -1.0)  # few of them reach farther, in deviations, than many
    return quantile_of_sum(2 * parts, 12 * parts, np.zeros(bounds), tail)


def _left(size: int, falls: Floats) -> npt.NDArray[np.int64]:
    """Return the place of the number that is left of each number, by every fall."""
    lower = np.arange(size)[:, None] - np.rint(falls / _COUNT_STEP_LOG2).astype(np.int64)[None, :]
    return np.asarray(np.maximum(lower, 0))


@dataclass(frozen=True, slots=True)
class _Falling:
    """What becomes of each number of people between two bounds, by every fall.

    It is the same for all bounds that lie as far apart.
    """

    places: npt.NDArray[np.int64]
    """Where the number that is left stands in the matrix of all numbers and falls."""
    between: Matrix
    """How many are between the bounds."""
    wide: Matrix
    """How far noise may move that."""
    narrow: Matrix
    """How much less likely values are because they are spread more widely, as a logarithm."""

    @classmethod
    def of(cls, numbers: Floats, left: npt.NDArray[np.int64], scale: float) -> "_Falling":
        between = numbers[:, None] - numbers[left]
        wide = scale + _MODEL_ERROR_SHARE * between
        return cls(left * left.shape[1] + np.arange(left.shape[1]), between, wide, -np.log(wide))

    def likely(self, value: float) -> Matrix:
        """Return how likely each number makes it that `value` people were counted between the bounds."""
        exponents = self.narrow - np.abs(self.between - value) / self.wide
        return np.asarray(np.maximum(np.exp(exponents - exponents.max()), _MIN_LIKELIHOOD_RATIO))

    def moved(self, weights: Matrix) -> Matrix:
        """Return the weights of numbers that are left, from those of the numbers before."""
        found = np.bincount(self.places.ravel(), weights.ravel(), weights.size)
        return np.asarray(found, dtype=np.float64).reshape(weights.shape)

    def back(self, weights: Matrix) -> Matrix:
        """Return for each number and fall the weight of what is left."""
        return weights.take(self.places)


def _whole(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(weights / weights.sum())


def _median(chances: Floats, powers: Floats) -> float:
    """Return the number that as much lies above as below, between those that are told apart."""
    below = np.cumsum(chances)
    place = int(np.searchsorted(below, 0.5))
    if place == 0:
        return 0.0
    part = (0.5 - below[place - 1]) / chances[place]
    return float(2.0 ** (powers[place] + (part - 0.5) * _COUNT_STEP_LOG2))


def _falls() -> Floats:
    row = _MIN_FALL_FACTOR * 2.0 ** np.arange(
        0, np.log2(_MAX_FALL_FACTOR / _MIN_FALL_FACTOR) + 1e-9, 1 / _FALLS_PER_DOUBLING
    )
    return np.concatenate([[0.0], row])


@lru_cache(maxsize=1)
def _going_on() -> Matrix:
    """Return how likely each fall follows each: first those of steady tails, then those of tails that fall faster."""
    size = len(_falls())
    steady, falling = _mixed(_STEADY_CHANGES, size), _mixed(_FALLING_CHANGES, size)
    return np.block(
        [
            [(1 - _STEADY_TO_FALLING) * steady, _STEADY_TO_FALLING * falling],
            [_FALLING_TO_STEADY * steady, (1 - _FALLING_TO_STEADY) * falling],
        ]
    )


def _beginning() -> Floats:
    """Return how likely each fall is from the first bound on, of steady tails and of those that fall faster."""
    size = len(_falls())
    return np.tile(np.append(_ALL_ABOVE_PROBABILITY, np.full(size - 1, (1 - _ALL_ABOVE_PROBABILITY) / (size - 1))), 2)


def _mixed(shares: dict[int, float], size: int) -> Matrix:
    found: npt.NDArray[Any] = np.full((size, size), _ANY_FALL_PROBABILITY / size)
    found[:, 0] += _NO_FALL_PROBABILITY
    for index in range(size):
        for steps, share in shares.items():
            least = min(index, 1)  # nothing falls to no fall at all by small steps
            found[index, min(max(index + steps, least), size - 1)] += (
                1 - _ANY_FALL_PROBABILITY - _NO_FALL_PROBABILITY
            ) * share
    found[0] = (1 - _RESTART_PROBABILITY) * found[0] + _RESTART_PROBABILITY / size
    return found
