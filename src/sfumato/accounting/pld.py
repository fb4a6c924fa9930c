"""The cost of a composition, between two certified numbers: by the distribution of the privacy loss itself.

`bounds` gives epsilon at a delta, `delta_bounds` gives delta at an epsilon; the first number is never above the truth
and the second never below it, rounding included. The events' parameters must have been fixed in advance (the questions
may be adaptive): enforcement is the filter's job. Theorem: proofs/pld_composition.md
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from sfumato.accounting import rdp
from sfumato.accounting.approximate import separate
from sfumato.accounting.distribution import bracket, contour
from sfumato.accounting.distribution.bracket import Bracket, exact_bracket
from sfumato.accounting.distribution.mixture import mixture
from sfumato.accounting.distribution.reduction import (
    Failures,
    allowed_release,
    elementary,
    has_exact_pairs,
    rebuilt,
    strip,
    without_sampling,
)
from sfumato.accounting.event import (
    Approximate,
    Composed,
    Event,
    Parallel,
    PoissonSampled,
    Repeated,
    TruncatedPoissonSampled,
    shared_neighbours,
)
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.certified.enclosure import float_above
from sfumato.errors import BadParameter, UnsupportedEvent
from sfumato.exact import decimal_rational, probability

_MAX_RELATIVE_GAP = 1e-6  # relative width from which on other accountants are asked, too
_GOOD_RELATIVE_WIDTH = 3e-5  # relative width below which a grown table need not be laid again
_MIN_DELTA, _NEGLIGIBLE_DELTA = Fraction(1, 10**290), Fraction(1, 10**15)
# both numbers are rounded outwards in the tenth digit: a true value stays inside when it is printed
_PRINTED_ROUNDING = 1e-9
_MIN_TABLE_EVENTS = 64  # distinct events from which on a history is kept as a table of moments


def bounds(event: Event, delta: float | Fraction | str) -> tuple[float, float]:
    """Return (lower, upper) on the least epsilon for which the event is (epsilon, delta)-DP; delta may be 0.

    >>> from sfumato.accounting.event import Neighbours, Pure, Repeated
    >>> lower, upper = bounds(Repeated(Pure(Fraction(1, 10), Neighbours.ADD_REMOVE), 100), 1e-6)
    >>> lower < 4.774567588108 < upper, upper - lower < 1e-8
    (True, True)
    """
    if decimal_rational(delta, "delta") == 0:
        return _pure_bounds(event)
    target = probability(delta, "delta")
    pairs = [
        Pld.of(alternative, target).bounds() for alternative in _alternatives(event)
    ]  # the worst decides, at every epsilon
    return max(low for low, _ in pairs), max(high for _, high in pairs)


def _pure_bounds(event: Event) -> tuple[float, float]:
    """Return the largest loss of all: what delta = 0 asks for. Proof: proofs/pld_composition.md, Lemma 9"""
    core, failures = separate(event, "privacy loss distribution")
    if failures:
        return math.inf, math.inf
    strip(core)  # refuses what has no law here
    reached = allowed_release(core) if _truncates(core) else core
    return max(0.0, -float_above(-epsilon_or_infinity(reached))), float_above(epsilon_or_infinity(core))


def _truncates(event: Event) -> bool:
    """Tell whether a cut sample occurs, whose largest loss is known by a bound only."""
    match event:
        case TruncatedPoissonSampled():
            return True
        case Repeated(event=inner) | PoissonSampled(event=inner):
            return _truncates(inner)
        case Composed(events) | Parallel(events):
            return any(_truncates(part) for part in events)
        case _:
            return False


def delta_bounds(event: Event, epsilon: float | Fraction | str) -> tuple[float, float]:
    """Return (lower, upper) on the least delta for which the event is (epsilon, delta)-DP.

    >>> from sfumato.accounting.event import Neighbours, RealGaussianNoise
    >>> lower, upper = delta_bounds(RealGaussianNoise(1, 1, Neighbours.ADD_REMOVE), 1)
    >>> lower < 0.12693673750664 < upper, upper - lower < 1e-9
    (True, True)
    """
    target = _checked_epsilon(epsilon)
    pairs = [_Delta(alternative, target).bounds() for alternative in _alternatives(event)]
    return max(low for low, _ in pairs), max(high for _, high in pairs)


def _alternatives(event: Event) -> tuple[Event, ...]:
    """Return the releases between which a unit's place decides: one for each part of `Parallel`."""
    match event:
        case Parallel(events) if events:
            return tuple(dict.fromkeys(alternative for part in events for alternative in _alternatives(part)))
        case PoissonSampled(rate, inner):
            return tuple(PoissonSampled(rate, alternative) for alternative in _alternatives(inner))
        case Approximate(inner, delta):
            return tuple(Approximate(alternative, delta) for alternative in _alternatives(inner))
        case _:
            return (event,)


def delta_at_most(event: Event, epsilon: float | Fraction | str) -> float:
    """Return the upper bound of `delta_bounds`, without looking for the lower one."""
    target = _checked_epsilon(epsilon)
    return max(_Delta(alternative, target).most() for alternative in _alternatives(event))


def _renyi(cost: Callable[[Event], float], event: Event) -> float:
    """Return what the Rényi accountant says; a sample that it has no theorem for costs no more than everybody."""
    for candidate in (event, without_sampling(event)):
        try:
            return cost(candidate)
        except UnsupportedEvent:
            continue
    return math.inf


class _Delta:
    """Delta of one release at one epsilon, each side separately."""

    def __init__(self, event: Event, target: Fraction) -> None:
        self.target, self.near = target, float(target)
        self.parts, self.failures = strip(event)
        self.core = bracket.at_epsilon(self.parts, self.near)

    def bounds(self) -> tuple[float, float]:
        low, high = self.least(), self.most()
        if high - low > _MAX_RELATIVE_GAP * high:
            renyi = _renyi(partial(rdp.delta, epsilon=self.target), rebuilt(self.parts))
            high = min(high, self.failures.upper(min(renyi, 1.0)) * (1 + _PRINTED_ROUNDING))
        return low, high

    def least(self) -> float:
        if self.failures.least == math.inf:
            return 1.0
        after = self.near if self.near >= self.target else math.nextafter(self.near, math.inf)
        return self.failures.lower(self.core.least(after)) * (1 - _PRINTED_ROUNDING)

    def most(self) -> float:
        if self.failures.least == math.inf:
            return 1.0
        before = self.near if self.near <= self.target else math.nextafter(self.near, 0.0)
        return min(self.failures.upper(self.core.most(before)) * (1 + _PRINTED_ROUNDING), 1.0)


def _checked_epsilon(value: object) -> Fraction:
    number = decimal_rational(value, "epsilon")
    if 0 <= number < 10**300:
        return number
    raise BadParameter(
        f"epsilon = {value} is out of range.", "A loss is not negative, and finite.", "Give an epsilon of at least 0."
    )


@dataclass(frozen=True, slots=True)
class Pld:
    """The accountant as a value: a history, the delta it is judged at, and (for a long one) its moments.

    >>> from sfumato.accounting.event import LaplaceNoise, Neighbours
    >>> history = Pld.of(LaplaceNoise(1, 10, Neighbours.REPLACE), "1e-6")
    >>> longer = history.compose(LaplaceNoise(1, 7, Neighbours.REPLACE))
    >>> history.bounds()[1] < longer.bounds()[0]
    True
    """

    target: Fraction
    parts: Mapping[Event, int]
    failures: Failures
    table: contour.MomentTable | None  # of the core, if its law is known on both sides

    @classmethod
    def of(cls, event: Event, delta: float | Fraction | str) -> "Pld":
        """Return the accountant of one event, usually a composition."""
        parts, failures = strip(event)
        return cls(probability(delta, "delta"), parts, failures, None)._laid()

    def compose(self, event: Event) -> "Pld":
        """Return the accountant of the history and one more event, at the cost of that event alone."""
        shared_neighbours((*islice(self.parts, 1), event))
        more, failures = strip(event)
        parts = dict(self.parts)
        for part, times in more.items():
            parts[part] = parts.get(part, 0) + times
        grown = replace(self, parts=parts, failures=self.failures.plus(failures, 1), table=None)
        if self.table is None or not has_exact_pairs(more):
            return grown._laid()
        try:
            with np.errstate(all="ignore"):
                extra = mixture(more)
                table = None if extra is None else self.table.plus(extra)
        except bracket.FLOAT_RANGE_ERRORS:
            table = None
        return grown._laid() if table is None or table.stale() else replace(grown, table=table)

    def bounds(self) -> tuple[float, float]:
        """Return (lower, upper) on epsilon."""
        low, high = self._certified_epsilon()
        wide = high * (1 + _PRINTED_ROUNDING)
        if self.table is None:  # a short history may come as near as that to the sum of its pure losses
            wide = min(wide, max(high, elementary(self.parts)))
        return low * (1 - _PRINTED_ROUNDING), wide

    def _certified_epsilon(self) -> tuple[float, float]:
        """Return the least upper bound known, where the engines' own leaves a gap that another could be in."""
        low, high = self._engines()
        if self.table is not None or not high - low > _MAX_RELATIVE_GAP * high:
            return low, high
        left = self._core_target()
        if left is None:
            left = self.target - Fraction(self.failures.upper(0.0))
        if left <= 0:
            return low, high
        return low, min(high, _renyi(partial(rdp.epsilon, delta=left), rebuilt(self.parts)))

    def _engines(self) -> tuple[float, float]:
        core = self._core_target()
        if core is not None and core < 0:  # failures alone exceed delta
            return math.inf, math.inf
        if (self.target if core is None else core) < _MIN_DELTA:  # below floats: the largest loss of all
            low, _ = replace(self, target=_NEGLIGIBLE_DELTA, failures=Failures())._engines()
            return low, elementary(self.parts) if core is not None else math.inf
        if self.table is not None:
            low, high = self._solve(exact_bracket(bracket.Guarded(self.table)), core)
            if high - low <= _GOOD_RELATIVE_WIDTH * high:
                return low, high
        return self._solve(bracket.at_delta(self.parts, self._guess()), core)

    def _solve(self, sides: Bracket, core: Fraction | None) -> tuple[float, float]:
        if core is not None:
            return sides.solved(core, lambda bounds: bounds)
        if self.failures.lower(0.0) > self.target:
            return math.inf, math.inf
        return sides.solved(
            self.target, lambda bounds: (self.failures.lower(bounds[0]), self.failures.upper(bounds[1]))
        )

    def _core_target(self) -> Fraction | None:
        """Return the delta that is left for the core, exactly; None if only floats can tell."""
        kept = self.failures.kept
        if kept is None:
            return None
        return 1 - (1 - self.target) / kept if kept else Fraction(-1)

    def _guess(self) -> float:
        lost = -math.expm1(-self.failures.most)
        return max((float(self.target) - lost) / max(1 - lost, 1e-12), float(self.target) * 1e-3)

    def _laid(self) -> "Pld":
        if len(self.parts) < _MIN_TABLE_EVENTS or not has_exact_pairs(self.parts):
            return replace(self, table=None)
        try:
            with np.errstate(all="ignore"):
                losses = mixture(self.parts)
                return replace(self, table=None if losses is None else contour.for_delta(losses, self._guess()))
        except bracket.FLOAT_RANGE_ERRORS:
            return replace(self, table=None)
