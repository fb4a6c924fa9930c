"""From samples on two neighbours a lower confidence bound on epsilon, for anything that can be sampled.

For every event E, P[E] <= e^ε Q[E] + δ. So an event that is too likely on one neighbour and too unlikely
on the other refutes ε. Events are chosen on one half of the samples and tested on the other half, where
Clopper-Pearson intervals hold exactly: the bound is above the true ε with probability `failure` at most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.lab.audits.alarm import FAILURE_PROBABILITY, Finding

Floats = npt.NDArray[np.float64]
Draw = Callable[[int], npt.ArrayLike]
"""Draws that number of outcomes: one number each, or one row of numbers each."""

_BINS = 64
_MIN_PROBABILITY = 1e-300


@dataclass(frozen=True, slots=True)
class LowerBound:
    """An epsilon that is certainly lost, but for the failure; how it was seen, and in how many samples of each."""

    epsilon: float
    event: str
    samples: int

    def __str__(self) -> str:
        return f"ε > {self.epsilon:.3f} by {self.event}, {self.samples:,} samples of each neighbour"


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """Sets of outcomes by one number of each, a weighted sum of its numbers: each set is a union of bins of it."""

    name: str
    weights: Floats
    edges: Floats
    members: npt.NDArray[np.bool_]
    """One line per set: which bins are in it."""

    def hits(self, table: Floats) -> npt.NDArray[np.int64]:
        """Return how many outcomes of a table are in each set."""
        bins = np.searchsorted(self.edges, table @ self.weights, "right")
        return np.asarray(self.members.astype(np.int64) @ np.bincount(bins, minlength=len(self.edges) + 1))

    def only(self, place: int) -> "_Events":
        """Return one of the sets alone."""
        return _Events(self.name, self.weights, self.edges, self.members[place : place + 1])


def epsilon_lower_bound(
    one: npt.ArrayLike, other: npt.ArrayLike, delta: float = 0.0, failure: float = FAILURE_PROBABILITY
) -> LowerBound:
    """Return an epsilon that the true one exceeds, given outcomes on two neighbours, at this delta.

    Theorem: with probability at least 1 - failure, whatever is (ε, δ)-DP has ε >= the bound. Two events are tested, one
    for each direction, each with two one-sided intervals at failure / 4; they were chosen before their samples.

    >>> epsilon_lower_bound([0.0] * 400, [1.0] * 400).epsilon > 2
    True
    """
    first, second = _table(one), _table(other)
    half = min(len(first), len(second)) // 2
    choice = first[:half], second[:half]
    test = first[half : 2 * half], second[half : 2 * half]
    families = _families(*choice)
    found = LowerBound(0.0, "nothing", 2 * half)
    for left, right in ((0, 1), (1, 0)):
        bounds = [_bounds(family, choice[left], choice[right], delta, failure / 4) for family in families]
        best = max(range(len(families)), key=lambda index: float(bounds[index].max()))
        event = families[best].only(int(bounds[best].argmax()))
        bound = float(_bounds(event, test[left], test[right], delta, failure / 4)[0])
        if bound > found.epsilon:
            found = LowerBound(bound, event.name, 2 * half)
    return found


def audit_draws(
    audit: str, name: str, first: Draw, second: Draw, epsilon: float, delta: float, samples: int
) -> list[Finding]:
    """Sample any mechanism on two neighbours; alarm if it certainly loses more than it says."""
    bound = epsilon_lower_bound(first(samples), second(samples), delta)
    if bound.epsilon <= epsilon:
        return []
    return [Finding(audit, f"{name} claims ε = {epsilon:.4g}, δ = {delta:.3g}, and loses {bound}")]


def samples_needed(
    likely: float, unlikely: float, epsilon: float, delta: float = 0.0, failure: float = FAILURE_PROBABILITY
) -> int:
    """Return how many samples of each neighbour show that epsilon is exceeded, if an event has these probabilities.

    >>> samples_needed(0.5, 0.1, 1.0), samples_needed(0.5, 0.16, 1.0) > 10_000
    (3092, True)
    """
    if likely - delta <= np.exp(epsilon) * unlikely:
        raise ValueError("such an event refutes nothing")

    def _shows(samples: int) -> bool:
        hits, misses = np.array([int(likely * samples)]), np.array([ceil(unlikely * samples)])
        return float(_ratios(hits, misses, samples, delta, failure / 4)[0]) > epsilon

    above = 1
    while not _shows(above):
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if _shows(middle) else (middle, above)
    return 2 * above  # one half chooses the event


def at_least(hits: npt.NDArray[np.int64], samples: int, failure: float) -> Floats:
    """Return bounds that probabilities are below with chance `failure` at most, each. [Clopper, Pearson 1934]"""
    return np.where(hits == 0, 0.0, special.betaincinv(np.maximum(hits, 1), samples - hits + 1, failure))


def at_most(hits: npt.NDArray[np.int64], samples: int, failure: float) -> Floats:
    """Return bounds that probabilities are above with chance `failure` at most, each."""
    return np.where(hits == samples, 1.0, special.betainccinv(hits + 1, np.maximum(samples - hits, 1), failure))


def _bounds(events: _Events, left: Floats, right: Floats, delta: float, failure: float) -> Floats:
    return _ratios(events.hits(left), events.hits(right), len(left), delta, failure)


def _ratios(
    hits: npt.NDArray[np.int64], misses: npt.NDArray[np.int64], samples: int, delta: float, failure: float
) -> Floats:
    likely = np.maximum(at_least(hits, samples, failure) - delta, _MIN_PROBABILITY)
    return np.asarray(np.log(likely / at_most(misses, samples, failure)))


def _table(outcomes: npt.ArrayLike) -> Floats:
    table = np.asarray(outcomes, dtype=np.float64)
    return table.reshape(len(table), -1)


def _families(first: Floats, second: Floats) -> list[_Events]:
    """Return events by every number alone, and by the linear classifier of least squares."""
    width = first.shape[1]
    named = [("a linear classifier", _classifier(first, second))] if width > 1 else []
    named += [(f"number {index + 1}", np.eye(width)[index]) for index in range(width)]
    return [_family(name, weights, first @ weights, second @ weights) for name, weights in named]


def _family(name: str, weights: Floats, first: Floats, second: Floats) -> _Events:
    """Return thresholds, and unions of the bins that one neighbour prefers."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, _BINS), method="nearest"))
    counts = [np.bincount(np.searchsorted(edges, part, "right"), minlength=len(edges) + 1) for part in (first, second)]
    bins = len(edges) + 1
    preferred = np.argsort(np.argsort((counts[0] + 1) / (counts[1] + 1), kind="stable"))
    ranks = np.arange(bins)
    members = [order[None, :] < ranks[1:, None] for order in (ranks, preferred)]
    return _Events(name, weights, edges, np.concatenate([*members, *(~part for part in members)]))


def _classifier(first: Floats, second: Floats) -> Floats:
    """Return the direction of least squares between the two, on numbers of one size."""
    both = np.concatenate([first, second])
    spread = both.std(axis=0)
    scale = np.where(spread > 0, spread, 1)
    labels = np.concatenate([np.ones(len(first)), -np.ones(len(second))])
    weights: Floats = np.linalg.lstsq((both - both.mean(axis=0)) / scale, labels, rcond=None)[0] / scale
    return weights
