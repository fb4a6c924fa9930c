"""What an event uses of a budget that nothing was charged to: certified, or by floats where they decide as surely.

Only usefulness is decided here: which of two noises of one price is preferred. Proof: proofs/planning.md, §9
"""

from fractions import Fraction
from functools import lru_cache

from sfumato.accounting.estimate import Estimate, estimated_loss
from sfumato.accounting.event import Composed, Event, LaplaceNoise, Pure, Repeated
from sfumato.accounting.filter import RENYI_UNITS, Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.caches import remembered

_CLEAR_RATIO = 1.001
"""Where floats differ by this factor, exact numbers differ the same way: tests/planning/test_fresh_budget.py."""
_MIN_ESTIMATED_LOSS, _MAX_ESTIMATED_LOSS = 1e-3, 50.0
"""Pure losses of single releases whose Rényi losses floats find to seven digits or more."""
_MAX_ESTIMATED_STEPS = 10**9


@remembered(256)
def used_of_fresh(event: Event, cap: PrivacyLoss) -> Fraction | None:
    """Return the share of a fresh budget of `cap` that an event uses. Plans of one question often have one event."""
    return _fresh(cap).used_after(event)


def is_clearly_less(one: Event | None, other: Event | None, times: Fraction, cap: PrivacyLoss) -> bool | None:
    """Tell whether an event uses less of a fresh budget than `times` times another; None where that needs digits."""
    shares = _estimate(one, cap), _estimate(other, cap)
    if None in shares or not times:
        return None
    ratio = (shares[0] or 0) / ((shares[1] or 1) * float(times))
    return None if 1 / _CLEAR_RATIO < ratio < _CLEAR_RATIO else ratio < 1


@lru_cache(maxsize=64)
def _fresh(cap: PrivacyLoss) -> Filter:
    return Filter(cap.epsilon, cap.delta)


def _estimate(event: Event | None, cap: PrivacyLoss) -> float | None:
    """Return about what share of a fresh budget an event uses; None where floats may be far from it."""
    if not isinstance(event, Composed) or not event.events or not cap.epsilon:
        return None
    losses = [_pure_loss(part) for part in event.events]
    if None in losses:
        return None
    budget = _fresh(cap)
    shares = [sum(loss or 0.0 for loss in losses) / float(cap.epsilon)]
    if budget.order is not None and budget.capacity is not None and budget.capacity > 0:
        renyi = sum(estimated_loss(part, _no_estimate)(budget.order) for part in event.events)
        shares.append(renyi * RENYI_UNITS / budget.capacity)
    return min(shares)


def _pure_loss(event: Event) -> float | None:
    """Return the pure loss of one noise; None where its Rényi loss is not estimated."""
    match event:
        case Repeated(LaplaceNoise() as inner, times):
            once = _pure_loss(inner)
            return None if once is None else times * once
        case LaplaceNoise(steps, scale, _) if steps <= _MAX_ESTIMATED_STEPS:
            loss = float(steps / scale)
        case Pure(epsilon, _):
            loss = float(epsilon)
        case _:
            return None
    return loss if _MIN_ESTIMATED_LOSS <= loss <= _MAX_ESTIMATED_LOSS else None


def _no_estimate(event: Event) -> Estimate:
    raise AssertionError("only what has a short formula is estimated")
