"""Brute force: every release that an event allows as two lists of probabilities, composed outcome by outcome.

Shares nothing with the accountants. A pair (P, Q) holds the law of the outcomes with a person and without; the person
is removed (P against Q) or added (Q against P), and the larger delta counts. An event known by a bound allows many
releases: some of them are listed (`least`), beside a pair that dominates each of them (`most`). Densities are cut into
cells: merging outcomes loses nothing that was not there, and moving a cell's mass to both its ends adds to it.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
CELLS = 40


@dataclass(frozen=True)
class Member:
    """Releases that an event allows lie between these: `least` is one of them, `most` dominates all like it."""

    least: Pair
    most: Pair


def delta(pair: Pair, epsilon: float) -> float:
    """Return the larger delta of both directions, from the definition."""
    p, q = pair
    x = math.exp(epsilon)
    return max(math.fsum(np.maximum(p - x * q, 0.0)), math.fsum(np.maximum(q - x * p, 0.0)))


def members(event: Event) -> list[Member]:
    """Return releases that the event allows."""
    match event:
        case Composed(events):
            return [_product(choice) for choice in itertools.product(*(members(part) for part in events))]
        case Repeated(inner, times):
            return members(Composed((inner,) * times))
        case Parallel(events):
            return [member for part in events for member in members(part)] or [_product(())]
        case Approximate(inner, failing):
            return [_each(member, lambda pair: _failing(pair, float(failing))) for member in members(inner)]
        case PoissonSampled(rate, inner):
            return [_each(member, lambda pair: _sampled(pair, float(rate))) for member in members(inner)]
        case NonPrivate():
            return [_exactly(np.array([1.0, 0.0]), np.array([0.0, 1.0]))]
        case BoundedRange(width, _):
            dominating = _cut(*_range(float(width)))[1]
            return [Member(_two_points(share * float(width), float(width)), dominating) for share in (0.5, 0.8)]
        case Concentrated(rho, _):  # real Gaussian noise is one such release, and the one of the lower bounds
            return [Member(*_cut(*_gaussian(math.sqrt(2 * rho))))]
        case RealGaussianNoise(squared, variance, _):
            return [Member(*_cut(*_gaussian(math.sqrt(squared / variance))))]
        case RealLaplaceNoise(moved, scale, _):
            return [Member(*_cut(*_laplace(float(moved / scale))))]
        case GaussianNoise(norm, variance, _):
            return [_cells(vector, float(variance)) for vector in _vectors(norm, norm)]
        case LaplaceNoise(steps, scale, _):
            return [_integer_laplace(steps, float(scale))]
        case Pure(epsilon, _):
            return [_response(float(epsilon), 2)]
        case RandomizedResponse(epsilon, categories, _):
            return [_response(float(epsilon), categories)]
        case _:
            raise ValueError(event)


def _each(member: Member, change: Callable[[Pair], Pair]) -> Member:
    return Member(change(member.least), change(member.most))


def _product(choice: tuple[Member, ...]) -> Member:
    least = most = (np.ones(1), np.ones(1))
    for member in choice:
        least, most = _times(least, member.least), _times(most, member.most)
    return Member(least, most)


def _times(a: Pair, b: Pair) -> Pair:
    return np.multiply.outer(a[0], b[0]).ravel(), np.multiply.outer(a[1], b[1]).ravel()


def _failing(pair: Pair, failing: float) -> Pair:
    p, q = pair
    return np.append((1 - failing) * p, [failing, 0.0]), np.append((1 - failing) * q, [0.0, failing])


def _sampled(pair: Pair, rate: float) -> Pair:
    p, q = pair
    return rate * p + (1 - rate) * q, q


def _exactly(p: Floats, q: Floats) -> Member:
    return Member((p, q), (p, q))


def _response(epsilon: float, categories: int) -> Member:
    kept, other = math.exp(epsilon) / (math.exp(epsilon) + categories - 1), 1 / (math.exp(epsilon) + categories - 1)
    rest = [other * (categories - 2)] if categories > 2 else []
    return _exactly(np.array([kept, other, *rest]), np.array([other, kept, *rest]))


def _two_points(top: float, width: float) -> Pair:
    """Return the pair with losses `top` and `top - width`."""
    chance = math.expm1(width - top) / (math.exp(width - top) - math.exp(-top))
    p = np.array([chance, 1 - chance])
    return p, p * np.exp([-top, width - top])


def _integer_laplace(steps: int, scale: float) -> Member:
    x = math.exp(-1 / scale)
    z = np.arange(1, steps)
    ends = np.array([1.0, x**steps]) / (1 + x)
    p = np.concatenate([ends, (1 - x) / (1 + x) * x**z])
    q = np.concatenate([ends[::-1], (1 - x) / (1 + x) * x ** (steps - z)])
    return _exactly(p, q)


def _vectors(norm: int, largest: int) -> list[tuple[int, ...]]:
    if norm == 0:
        return [()]
    tops = [top for top in range(1, largest + 1) if top * top <= norm]
    return [(top, *rest) for top in tops for rest in _vectors(norm - top * top, top)]


def _cells(vector: tuple[int, ...], variance: float) -> Member:
    """Return the law of the sum that decides the loss when the cells of a vector move: sum of shift times noise."""
    reach = math.ceil(9 * math.sqrt(variance)) + 1
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-(z**2) / (2 * variance))
    law = {0: 1.0}
    for shift in vector:
        longer: dict[int, float] = {}
        for total, mass in law.items():
            for noise, weight in zip((shift * z).tolist(), (weights / weights.sum()).tolist(), strict=True):
                longer[total + noise] = longer.get(total + noise, 0.0) + mass * weight
        law = longer
    norm = sum(shift * shift for shift in vector)
    kept = {total: mass for total, mass in law.items() if mass > 1e-17}
    losses = np.array([(norm - 2 * total) / (2 * variance) for total in kept])
    p = np.array(list(kept.values()))
    return _exactly(p, p * np.exp(-losses))


Cumulative = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], Floats]
"""P[L ≤ t], Q[L ≤ t], and the losses at which they are cut."""


def _gaussian(mu: float) -> Cumulative:
    edges = mu * mu / 2 + mu * np.linspace(-7.5, 7.5, CELLS)
    return lambda t: ndtr(t / mu - mu / 2), lambda t: ndtr(t / mu + mu / 2), edges


def _laplace(e: float) -> Cumulative:
    edges = np.linspace(-e, e, CELLS)
    return (
        lambda t: np.where(t < e, np.exp((t - e) / 2) / 2, 1.0),
        lambda t: np.where(t < e, 1 - np.exp(-(t + e) / 2) / 2, 1.0),
        np.append(edges[:-1], [e * (1 - 1e-12), e]),
    )


def _range(e: float) -> Cumulative:
    whole = -math.expm1(-e)
    return (
        lambda t: (np.exp((t - e) / 2) - math.exp(-e)) / whole,
        lambda t: -np.expm1(-(t + e) / 2) / whole,
        np.linspace(-e, e, CELLS),
    )


def _cut(under_p: Callable[[Floats], Floats], under_q: Callable[[Floats], Floats], edges: Floats) -> tuple[Pair, Pair]:
    """Return the merged pair, and the one whose mass lies at the ends of the cells and beyond all bounds."""
    p, q = np.diff(under_p(edges)), np.diff(under_q(edges))
    first, last = edges[0], edges[-1]
    p_low, q_low = float(under_p(edges[:1])[0]), float(under_q(edges[:1])[0])
    p_high, q_high = 1 - float(under_p(edges[-1:])[0]), 1 - float(under_q(edges[-1:])[0])
    least = np.concatenate([[p_low], p, [p_high]]), np.concatenate([[q_low], q, [q_high]])
    upper = np.maximum(p - np.exp(edges[:-1]) * q, 0.0) / -np.expm1(-np.diff(edges))
    lower = np.maximum(p - upper, 0.0)
    at_first, at_last = p_low * math.exp(-first), q_high * math.exp(last)
    most = (
        np.concatenate([upper, lower, [p_low, 0.0, at_last, max(0.0, p_high - at_last)]]),
        np.concatenate(
            [
                upper * np.exp(-edges[1:]),
                lower * np.exp(-edges[:-1]),
                [at_first, max(0.0, q_low - at_first), q_high, 0.0],
            ]
        ),
    )
    return least, most


def crossing(cost: Callable[[float], float], target: Fraction) -> float:
    """Return the epsilon at which a decreasing delta falls to the target, to fifteen digits."""
    low, high = 0.0, 1.0
    if cost(0.0) <= target:
        return 0.0
    while cost(high) > target:
        low, high = high, 2 * high
        if high > 500:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) > target else (low, middle)
    return high
