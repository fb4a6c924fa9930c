"""From samples on two neighbours a lower confidence bound on epsilon, for anything that can be sampled.

For every event E, P[E] <= e^ε Q[E] + δ. So whoever shows an event that is too likely on one neighbour and too unlikely
on the other has refuted ε. Events are chosen on one half of the samples and tested on the other half, where
Clopper-Pearson intervals hold exactly: the bound is above the true ε with probability `failure` at most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.lab.alarm import FAILURE, Alarm

Floats = npt.NDArray[np.float64]
Draw = Callable[[int], npt.ArrayLike]
"""Draws so many outcomes: one number each, or one row of numbers each."""

_CUTS = 64
_BINS = 24


@dataclass(frozen=True, slots=True)
class LowerBound:
    """An epsilon that is certainly lost, but for the failure; how it was seen, and in how many samples of each."""

    epsilon: float
    event: str
    samples: int

    def __str__(self) -> str:
        return f"ε > {self.epsilon:.3f} by {self.event}, {self.samples:,} samples of each neighbour"


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """A set of outcomes, chosen on the first halves."""

    name: str
    holds: Callable[[Floats], npt.NDArray[np.bool_]]


def epsilon_lower_bound(
    one: npt.ArrayLike, other: npt.ArrayLike, delta: float = 0.0, failure: float = FAILURE
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
    events = _events(*choice)
    found = LowerBound(0.0, "nothing", 2 * half)
    for left, right in ((0, 1), (1, 0)):
        event = max(events, key=lambda event: _bound(event, choice[left], choice[right], delta, failure / 4))
        bound = _bound(event, test[left], test[right], delta, failure / 4)
        if bound > found.epsilon:
            found = LowerBound(bound, event.name, 2 * half)
    return found


def audit_draws(
    audit: str, name: str, one: Draw, other: Draw, epsilon: float, delta: float, samples: int
) -> list[Alarm]:
    """Sample any mechanism on two neighbours; alarm if it certainly loses more than it says."""
    bound = epsilon_lower_bound(one(samples), other(samples), delta)
    if bound.epsilon <= epsilon:
        return []
    return [Alarm(audit, f"{name} claims ε = {epsilon:.4g}, δ = {delta:.3g}, and loses {bound}")]


def samples_needed(likely: float, unlikely: float, epsilon: float, delta: float = 0.0, failure: float = FAILURE) -> int:
    """Return how many samples of each neighbour show that epsilon is exceeded, if an event has these probabilities.

    >>> samples_needed(0.5, 0.1, 1.0), samples_needed(0.5, 0.16, 1.0) > 10_000
    (3092, True)
    """
    if likely - delta <= np.exp(epsilon) * unlikely:
        raise ValueError("such an event refutes nothing")

    def _shows(samples: int) -> bool:
        hits, misses = int(likely * samples), ceil(unlikely * samples)
        return _ratio(hits, misses, samples, delta, failure / 4) > epsilon

    above = 1
    while not _shows(above):
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if _shows(middle) else (middle, above)
    return 2 * above  # one half chooses the event


def at_least(hits: int, samples: int, failure: float) -> float:
    """Return a bound that a probability is below with chance `failure` at most. [Clopper, Pearson 1934]"""
    return 0.0 if hits == 0 else float(special.betaincinv(hits, samples - hits + 1, failure))


def at_most(hits: int, samples: int, failure: float) -> float:
    """Return a bound that a probability is above with chance `failure` at most."""
    return 1.0 if hits == samples else float(special.betainccinv(hits + 1, samples - hits, failure))


def _bound(event: _Event, left: Floats, right: Floats, delta: float, failure: float) -> float:
    return _ratio(int(event.holds(left).sum()), int(event.holds(right).sum()), len(left), delta, failure)


def _ratio(hits: int, misses: int, samples: int, delta: float, failure: float) -> float:
    likely = at_least(hits, samples, failure) - delta
    return log(likely / at_most(misses, samples, failure)) if likely > 0 else -inf


def _table(outcomes: npt.ArrayLike) -> Floats:
    table = np.asarray(outcomes, dtype=np.float64)
    return table.reshape(len(table), -1)


def _events(one: Floats, other: Floats) -> list[_Event]:
    """Return thresholds of every number and of a linear classifier, and the bins that one neighbour prefers."""
    both = np.concatenate([one, other])
    weights = _classifier(one, other)
    events = _thresholds("a linear classifier", both, weights)
    for place in range(both.shape[1]):
        axis = np.zeros(both.shape[1])
        axis[place] = 1
        events += _thresholds(f"a threshold of number {place + 1}", both, axis)
        events += _histogram(place, one[:, place], other[:, place])
    return events


def _thresholds(name: str, both: Floats, weights: Floats) -> list[_Event]:
    cuts = np.unique(np.quantile(both @ weights, np.linspace(0, 1, _CUTS), method="nearest"))
    above = [_Event(name, lambda table, cut=cut: table @ weights >= cut) for cut in cuts]
    return above + [_Event(name, lambda table, cut=cut: table @ weights < cut) for cut in cuts]


def _histogram(place: int, one: Floats, other: Floats) -> list[_Event]:
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, _BINS), method="nearest"))
    counts = [np.bincount(np.searchsorted(edges, part, "right"), minlength=len(edges) + 1) for part in (one, other)]
    order = np.argsort((counts[0] + 1) / (counts[1] + 1))
    events = []
    for size in range(1, len(order)):
        for chosen in (order[:size], order[-size:]):
            member = np.zeros(len(edges) + 1, dtype=np.bool_)
            member[chosen] = True
            events.append(
                _Event(
                    f"bins of number {place + 1}",
                    lambda table, member=member: member[np.searchsorted(edges, table[:, place], "right")],
                )
            )
    return events


def _classifier(one: Floats, other: Floats) -> Floats:
    """Return the direction of least squares between the two, on numbers of one size."""
    both = np.concatenate([one, other])
    spread = both.std(axis=0)
    scale = np.where(spread > 0, spread, 1)
    labels = np.concatenate([np.ones(len(one)), -np.ones(len(other))])
    weights: Floats = np.linalg.lstsq((both - both.mean(axis=0)) / scale, labels, rcond=None)[0] / scale
    return weights
