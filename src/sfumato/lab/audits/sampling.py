"""The sampled audit of mechanisms: their noise has the law that it is accounted as, and neighbours stay that close.

Shares of samples are compared with exact probabilities by binomial tails, event by event; a law that is another one
by 2 % somewhere is noticed. Each check is wrong with probability 1e-9 at most.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.accounting.event import Neighbours
from sfumato.lab.audits.alarm import FAILURE_PROBABILITY, Finding
from sfumato.lab.audits.empirical import audit_draws
from sfumato.lab.audits.enumeration import OutcomeWeights, gaussian_weights, laplace_weights
from sfumato.lab.generators.seeded import Seeded
from sfumato.mechanisms.exponential import Exponential
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.randomized_response import Warner
from sfumato.randomness.source import Source, system_source

NAME = "samples"
_SAMPLE_COUNT = 40_000
_DISTANT_VALUE = 10**6
"""A value far from 0: noise does not depend on what it is added to."""
_ADD = Neighbours.ADD_REMOVE


def unlikely(hits: int, samples: int, probability: float, failure: float = FAILURE_PROBABILITY) -> bool:
    """Tell whether this number of hits has probability at most `failure`, on either side.

    >>> unlikely(50, 100, 0.5), unlikely(99, 100, 0.5)
    (False, True)
    """
    p = min(max(probability, 0.0), 1.0)
    below = float(special.bdtr(hits, samples, p))
    above = float(special.bdtrc(hits - 1, samples, p)) if hits else 1.0
    return 2 * min(below, above) <= failure


def run(_seed: object = 0) -> list[Finding]:
    """Sample every kind of noise that the path uses, from the system's own coins."""
    source = system_source()
    alarms = [Finding(NAME, message) for message in (*_noise(source), *_selection(source), *_coins())]
    return alarms + _losses(source)


def _noise(source: Source) -> Iterator[str]:
    cases: list[tuple[str, Laplace | Gaussian, OutcomeWeights]] = [
        (f"Laplace noise of scale {scale}", Laplace(1, scale, _ADD), laplace_weights(scale))
        for scale in (Fraction(1, 2), Fraction(1), Fraction(10))
    ]
    cases += [
        (f"Gaussian noise of σ² {square}", Gaussian(1, square, _ADD), gaussian_weights(square))
        for square in (Fraction(1), Fraction(25))
    ]
    for name, mechanism, law in cases:
        for value in (0, _DISTANT_VALUE):
            noisy = np.asarray(mechanism.release(np.full(_SAMPLE_COUNT, value, dtype=np.int64), source))
            if noisy.dtype.kind != "i":
                yield f"{name}: an answer is not on the grid of integers"
                break
            if wrong := _find_misplaced(noisy - value, law):
                yield f"{name}: P[Z <= {wrong[0]}] is {wrong[1]:.4f} in samples and {wrong[2]:.4f} by its law"
                break


def _find_misplaced(noise: npt.NDArray[np.int64], law: OutcomeWeights) -> tuple[int, float, float] | None:
    """Return the first threshold whose share of samples contradicts the law, with both shares."""
    spread = ceil(sqrt(float(sum(z * z * weight for z, weight in law.items()))))
    cuts = sorted({-3 * spread, -2 * spread, -spread, -2, -1, 0, 1, spread, 2 * spread})
    for cut in cuts:
        probability = float(sum(weight for z, weight in law.items() if z <= cut))
        hits = int((noise <= cut).sum())
        if unlikely(hits, len(noise), probability, FAILURE_PROBABILITY / len(cuts)):
            return cut, hits / len(noise), probability
    return None


def _selection(source: Source) -> Iterator[str]:
    """Keys are kept as often as the recurrence says: δ for one unit, then as fast as privacy allows."""
    epsilon, delta = Fraction(1), Fraction(1, 50)
    selection = OptimalSelection(epsilon, delta, 1, _ADD)
    grown, keep_probability = float(np.exp(1.0)), 0.0
    for units in range(12):
        counts = np.full(_SAMPLE_COUNT, units, dtype=np.int64)
        hits = len(selection.release(counts, source))
        if unlikely(hits, _SAMPLE_COUNT, keep_probability):
            share = hits / _SAMPLE_COUNT
            yield f"a key of {units} people is shown in {share:.4f} of the samples, not in {keep_probability:.4f}"
            return
        keep_probability = min(
            grown * keep_probability + float(delta), 1 - (1 - keep_probability - float(delta)) / grown, 1.0
        )


def _coins() -> Iterator[str]:
    """All chance comes from the source that was given: equal coins give equal noise, others give other noise."""
    zeros = np.zeros(64, dtype=np.int64)
    for mechanism in (Laplace(1, Fraction(10), _ADD), Gaussian(1, Fraction(100), _ADD)):
        one, same, other = (mechanism.release(zeros, Seeded(seed)).tolist() for seed in ("a", "a", "b"))
        if one != same or one == other:
            yield f"{type(mechanism).__name__} noise does not come from the source that it is given"


def _losses(source: Source) -> list[Finding]:
    """Neighbours under every mechanism: the certain privacy loss is not more than its event says."""
    laplace, gaussian = Laplace(3, Fraction(3), _ADD), Gaussian(9, Fraction(9), _ADD)
    warner, chooser = Warner.by_epsilon(1), Exponential(1, Fraction(1), _ADD)

    def _noised(mechanism: Laplace | Gaussian, value: int) -> "npt.NDArray[np.int64]":
        return np.asarray(mechanism.release(np.full(_SAMPLE_COUNT, value, dtype=np.int64), source))

    def _chosen(scores: list[int], count: int) -> "list[int]":
        return [chooser.release(scores, source) for _ in range(count)]

    alarms = audit_draws(
        NAME, "Laplace noise", lambda _: _noised(laplace, 0), lambda _: _noised(laplace, 3), 1.0, 0.0, _SAMPLE_COUNT
    )
    # δ(1) of Gaussian noise with σ = Δ is 0.127 [BW18]; on integers it is a little less
    alarms += audit_draws(
        NAME,
        "Gaussian noise",
        lambda _: _noised(gaussian, 0),
        lambda _: _noised(gaussian, 3),
        1.0,
        0.1270,
        _SAMPLE_COUNT,
    )
    alarms += audit_draws(
        NAME,
        "randomised response",
        lambda count: warner.release(np.zeros(count, dtype=np.int64), source),
        lambda count: warner.release(np.ones(count, dtype=np.int64), source),
        1.0,
        0.0,
        _SAMPLE_COUNT,
    )
    return alarms + audit_draws(
        NAME, "a choice", lambda n: _chosen([0, 1], n), lambda n: _chosen([1, 0], n), 1.0, 0.0, _SAMPLE_COUNT // 20
    )
