"""The mechanisms that add noise, with the exact laws of what they release."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

from mpmath import mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.accounting.event import Neighbours
from sfumato.accounting.pld import delta_bounds
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNorm
from sfumato.mechanisms.truncated_geometric import TruncatedGeometric
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace

Vector = tuple[int, ...]
Pmf = Callable[[int], Any]
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
BITS = 400


def middle(law: DiscreteLaplace | DiscreteGaussian) -> Pmf:
    """P[Z = z] as the sampler's own law certifies it, to 400 bits."""

    @cache
    def pmf(value: int) -> Any:
        low, high = law.pmf(abs(value), BITS)
        with mp.workdps(60):
            return mpf(low + high) / mpf(2) ** (BITS + 1)

    return pmf


def windowed(pmf: Pmf, reach: int) -> Callable[[Vector], dict[Any, Any]]:
    """The joint law of value + noise per coordinate, for outcomes within `reach` of zero; the rest is left out."""

    def law(values: Vector) -> dict[Any, Any]:
        with mp.workdps(60):
            places = range(-reach, reach + 1)
            return {
                outcome: mp.fprod(pmf(place - value) for place, value in zip(outcome, values, strict=True))
                for outcome in product(places, repeat=len(values))
            }

    return law


def clamped(mechanism: TruncatedGeometric) -> Callable[[Vector], dict[Any, Any]]:
    """The law of the clamped answer: each end carries the whole tail beyond it."""
    noise = DiscreteLaplace(mechanism.scale)
    pmf = middle(noise)

    def tail(least: int) -> Any:
        low, high = noise.upper_tail(least, BITS)
        with mp.workdps(60):
            return mpf(low + high) / mpf(2) ** (BITS + 1)

    def law(values: Vector) -> dict[Any, Any]:
        (value,) = values
        inner = {place: pmf(place - value) for place in range(mechanism.low + 1, mechanism.high)}
        return inner | {mechanism.low: tail(value - mechanism.low), mechanism.high: tail(mechanism.high - value)}

    return law


def laplace(sensitivity: int, scale: Fraction, *pairs: tuple[Vector, Vector]) -> Case:
    mechanism = Laplace(sensitivity, scale, ADD)
    reach = 25 if len(pairs[0][0]) > 1 else 400
    return Case(
        name=f"Laplace {sensitivity}/{scale} in {len(pairs[0][0])}D",
        mechanism=mechanism,
        pairs=pairs,
        law=windowed(middle(DiscreteLaplace(scale)), reach),
        epsilon=sensitivity / scale,
    )


def gaussian(
    sensitivity_squared: int, sigma_squared: Fraction, epsilon: Fraction, *pairs: tuple[Vector, Vector]
) -> Case:
    mechanism = Gaussian(sensitivity_squared, sigma_squared, REPLACE)
    reach = 25 if len(pairs[0][0]) > 1 else 300
    return Case(
        name=f"Gaussian {sensitivity_squared}/{sigma_squared} at {epsilon} in {len(pairs[0][0])}D",
        mechanism=mechanism,
        pairs=pairs,
        law=windowed(middle(DiscreteGaussian(sigma_squared)), reach),
        epsilon=epsilon,
        delta=Fraction(delta_bounds(mechanism.event, epsilon)[1]),
    )


def by_largest_part(mechanism: MaxNorm, reach: int) -> Callable[[Vector], dict[Any, Any]]:
    """The joint law of the numbers of one cell, from the definition alone: each integer by its norm, all added up."""
    sides, steps = mechanism.sides, mechanism.law.steps

    @cache
    def law(values: Vector) -> dict[Any, Any]:
        with mp.workdps(60):
            base = mp.exp(-real(mechanism.epsilon / mechanism.sensitivity) / steps)
            boxes = [prod(2 * (radius * side // steps) + 1 for side in sides) for radius in range(300)]
            total = mp.fsum(
                base**radius * (size - (boxes[radius - 1] if radius else 0)) for radius, size in enumerate(boxes)
            )
            found = {}
            for outcome in product(*(range(-reach * side, reach * side + 1) for side in sides)):
                off = [abs(place - value) for place, value in zip(outcome, values, strict=True)]
                norm = max(-(-steps * part // side) for part, side in zip(off, sides, strict=True))
                found[outcome] = base**norm / total
            return found

    return law


def max_norm(sides: Vector, sensitivity: int, epsilon: Fraction, reach: int, *pairs: tuple[Vector, Vector]) -> Case:
    mechanism = MaxNorm(sides, sensitivity, epsilon, ADD)
    name = f"MaxNorm {sides} moved {sensitivity} times at {epsilon}"
    return Case(name, mechanism, pairs, by_largest_part(mechanism, reach), epsilon)


def truncated(sensitivity: int, scale: Fraction, low: int, high: int, *pairs: tuple[Vector, Vector]) -> Case:
    mechanism = TruncatedGeometric(sensitivity, scale, low, high, ADD)
    return Case(
        f"TruncatedGeometric {sensitivity}/{scale} on {low}…{high}",
        mechanism,
        pairs,
        clamped(mechanism),
        sensitivity / scale,
    )


CASES: tuple[Case, ...] = (
    laplace(1, Fraction(1), ((0,), (1,)), ((5,), (4,))),
    laplace(3, Fraction(10), ((0,), (3,)), ((7,), (6,)), ((-2,), (0,))),
    laplace(1, Fraction(1, 20), ((0,), (1,))),
    laplace(2, Fraction(7, 3), ((0, 0), (1, 1)), ((0, 0), (2, 0)), ((3, -1), (3, 1))),
    gaussian(1, Fraction(1), Fraction(1), ((0,), (1,)), ((4,), (3,))),
    gaussian(1, Fraction(1, 4), Fraction(3), ((0,), (1,))),
    gaussian(2, Fraction(9), Fraction(1, 2), ((0, 0), (1, 1)), ((0, 0), (1, 0)), ((2, -1), (1, -2))),
    gaussian(25, Fraction(100), Fraction(1), ((0,), (5,)), ((0,), (-3,))),
    max_norm((1, 2), 1, Fraction(2), 8, ((0, 0), (1, 2)), ((2, 1), (1, 3)), ((0, 0), (0, -1))),
    max_norm((1, 3), 2, Fraction(4), 8, ((0, 0), (2, 6)), ((1, 1), (3, -5)), ((0, 0), (0, 2))),
    max_norm((1, 1, 2), 1, Fraction(4), 4, ((0, 0, 0), (1, -1, 2)), ((0, 0, 0), (1, 0, -1))),
    truncated(1, Fraction(2), 0, 10, ((0,), (1,)), ((10,), (9,)), ((4,), (5,)), ((0,), (0,))),
    truncated(2, Fraction(5), -3, 3, ((-3,), (-1,)), ((20,), (18,))),
)
