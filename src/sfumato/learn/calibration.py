"""How much noise each stage of a fit gets: decided from its public shares before any data is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from sfumato.accounting.calibrate import gaussian_sigma_squared
from sfumato.accounting.event import Composed, Event, GaussianNoise, Neighbours, Repeated
from sfumato.accounting.pld import bounds
from sfumato.mechanisms.gaussian import Gaussian

_FIRST_NOISE_GROWTH = Fraction(1, 10**6)
"""Relative growth of the noise, then twice that, until the certified bound fits: on fine grids, once or never."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A vector of integers that is measured `times` times, and its share of the privacy loss."""

    share: Fraction
    sensitivity_squared: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The mechanism of each stage, in order, and the one event of all."""

    mechanisms: tuple[Gaussian, ...]
    event: Event


@lru_cache(maxsize=256)
def calibrate_stages(
    stages: tuple[Stage, ...], epsilon: Fraction, delta: Fraction, neighbours: Neighbours
) -> Calibrated:
    """Return the noise of all stages: Δᵢ²/σᵢ² = shareᵢ·μ², μ the most that (epsilon, delta) allows.

    Theorem: releasing the stages one after the other, each chosen by what the ones before released, is (epsilon,
    delta)-DP; the least epsilon at this delta is certified to be at most the asked one.  Proof: proofs/learn.md §1
    """
    if sum(stage.share for stage in stages) != 1:
        raise AssertionError("the shares of all stages are one")
    variance = gaussian_sigma_squared(epsilon, delta, 1)  # 1/μ², for real noise
    more = _FIRST_NOISE_GROWTH
    while True:
        mechanisms = tuple(Gaussian(s.sensitivity_squared, _variance(s, variance), neighbours) for s in stages)
        event = _compose_events([_stage_event(m, s) for m, s in zip(mechanisms, stages, strict=True)])
        if Fraction(bounds(event, delta)[1]) <= epsilon:
            return Calibrated(mechanisms, event)
        variance, more = variance * (1 + more), 2 * more


def _variance(stage: Stage, variance: Fraction) -> Fraction:
    exact = stage.times * stage.sensitivity_squared * variance / stage.share
    return Fraction(ceil(exact * 1024), 1024) if exact < 1 << 40 else Fraction(ceil(exact))


def _stage_event(mechanism: Gaussian, stage: Stage) -> GaussianNoise | Repeated:
    return mechanism.event if stage.times == 1 else Repeated(mechanism.event, stage.times)


def _compose_events(events: Sequence[Event]) -> Event:
    return events[0] if len(events) == 1 else Composed(tuple(events))
