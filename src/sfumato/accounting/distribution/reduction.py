"""Events become what the engines know: flat compositions without failures, and losses with a known law.

`strip` takes repetition, nesting and `Approximate` apart. `views_above` and `view_below` replace an event whose worst
pair is not known exactly by one that is certainly worse, or certainly not worse. Theorems: proofs/pld_composition.md,
proofs/pld_integer_gaussian.md
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.accounting.approximate import separate
from sfumato.accounting.distribution import cells
from sfumato.accounting.distribution.cells import Cover, LossCell, Parts
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF
from sfumato.accounting.event import (
    EVENTS,
    Approximate,
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    RenyiBounded,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
)
from sfumato.accounting.truncated_sampling import truncation
from sfumato.errors import UnsupportedEvent

_INEXACT = GaussianNoise | BoundedRange | Concentrated | RenyiBounded
_OUTWARD_ROUNDING = 16 * ROUNDOFF
_NEGLIGIBLE_EPSILON = 1e-14
_MIN_NORMAL_PROBABILITY = 1e-300  # covers what floats near zero cannot tell apart
_MAX_EXACT_BITS = 20_000  # bits of the exact probability that nothing failed
_MIN_REAL_NOISE_VARIANCE = 10**7  # the variance from which on integer noise is also seen as real noise
_UNIT_CELLS = 10_000  # up to this squared sensitivity the lower side moves that many cells by one each


@dataclass(frozen=True, slots=True)
class Failures:
    """Failure probability of the `Approximate` events of a composition: a sum of -ln(1 - delta), between two floats."""

    least: float = 0.0
    most: float = 0.0
    kept: Fraction | None = Fraction(1)  # exactly the probability of the core, where a fraction can hold it

    def upper(self, delta: float) -> float:
        """Return an upper bound on delta of the whole from one on delta of the core."""
        if self.most == 0:
            return delta
        lost = -math.expm1(-self.most)
        return min(1.0, (lost + math.exp(-self.most) * delta) * (1 + _OUTWARD_ROUNDING))

    def lower(self, delta: float) -> float:
        """Return a lower bound on delta of the whole from one on delta of the core."""
        if self.most == 0:
            return delta
        if self.least == math.inf:
            return 1.0
        lost = -math.expm1(-self.least)
        return max(0.0, (lost + math.exp(-self.most) * delta) * (1 - _OUTWARD_ROUNDING))

    def plus(self, other: "Failures", times: int) -> "Failures":
        """Return these failures and `times` times the others."""
        return Failures(
            (self.least + times * other.least) * (1 - 4 * ROUNDOFF),
            (self.most + times * other.most) * (1 + 4 * ROUNDOFF),
            _kept_probability(self.kept, other.kept, times),
        )


_CERTAIN_FAILURE = Failures(math.inf, math.inf, Fraction(0))


def _kept_probability(kept: Fraction | None, other: Fraction | None, times: int) -> Fraction | None:
    if kept is None or other is None or times * other.denominator.bit_length() > _MAX_EXACT_BITS:
        return None
    product = kept * other**times
    return product if product.denominator.bit_length() < _MAX_EXACT_BITS else None


@dataclass(slots=True)
class _Pile:
    parts: dict[Event, int] = field(default_factory=dict)
    failures: Failures = Failures()

    def add(self, event: Event, times: int) -> None:
        known = len(self.parts)
        self.parts.setdefault(event, times)  # hashing an event is slow: once for a new one
        if len(self.parts) == known:
            self.parts[event] += times

    def fail(self, failures: Failures, times: int) -> None:
        self.failures = self.failures.plus(failures, times)


def strip(event: Event) -> tuple[dict[Event, int], Failures]:
    """Return the composition as distinct events with their counts, and what may fail beside it."""
    pile = _Pile()
    _strip(event, 1, pile)
    return pile.parts, pile.failures


def _strip(event: Event, times: int, pile: _Pile) -> None:
    match event:
        case Composed(events):
            for part in events:
                _strip(part, times, pile)
        case Repeated(inner, count):
            _strip(inner, times * count, pile)
        case Approximate(inner, delta):
            pile.fail(_failure(delta), times)
            _strip(inner, times, pile)
        case NonPrivate():  # nothing but failure
            pile.fail(_CERTAIN_FAILURE, 1)
        case PoissonSampled(rate, inner):
            _strip_sampled(rate, inner, times, pile)
        case Parallel(events):
            _strip_parallel(events, times, pile)
        case TreeAggregation():
            _strip(event.path, times, pile)
        case LaplaceRefinement(neighbours=neighbours):  # what is known of it given the past
            pile.add(Pure(event.conditional_loss, neighbours), times)
        case LaplaceBounded(epsilon, neighbours):  # the release that reaches the bound
            pile.add(RealLaplaceNoise(epsilon, Fraction(1), neighbours), times)
        case GaussianMixture() if event.largest == 0:
            pass
        case TruncatedPoissonSampled():
            _strip_truncated(event, times, pile)
        case BestOfPoisson() | BestOfNegativeBinomial():
            raise UnsupportedEvent(
                event,
                accountant="privacy loss distribution",
                why="The best of a random number of runs is bounded by its Rényi losses.",
                remedy="Use rdp.epsilon and rdp.delta.",
            )
        case _ if isinstance(event, EVENTS):
            pile.add(event, times)
        case _:
            raise UnsupportedEvent(event, accountant="privacy loss distribution")


def _strip_sampled(rate: Fraction, inner: Event, times: int, pile: _Pile) -> None:
    """Add the sampled release, whose failures stay inside: added or removed, a person meets them differently.

    Proof: proofs/pld_composition.md, Lemma 3
    """
    if rate == 1:
        _strip(inner, times, pile)
    elif (whole := _as_one_event(inner)) != Composed(()):
        pile.add(PoissonSampled(rate, whole), times)


def _strip_truncated(event: TruncatedPoissonSampled, times: int, pile: _Pile) -> None:
    """Add the cut sample; one that is never cut is a plain sample. Failures inside it have no theorem."""
    if truncation(event).most == 0:
        _strip_sampled(event.rate, event.event, times, pile)
        return
    core, failures = strip(event.event)
    if failures.least == math.inf:
        pile.fail(_CERTAIN_FAILURE, 1)
    elif failures.most:
        separate(event, "privacy loss distribution")  # refuses it
    elif core:
        pile.add(TruncatedPoissonSampled(event.rate, event.units, event.limit, rebuilt(core)), times)


def _strip_parallel(events: tuple[Event, ...], times: int, pile: _Pile) -> None:
    """Add the parts, each with its own failures; one that is certain to fail decides for all of them."""
    parts = tuple(dict.fromkeys(_as_one_event(event) for event in events))
    if any(isinstance(part, NonPrivate) for part in parts):
        pile.fail(_CERTAIN_FAILURE, 1)
    elif len(parts) == 1:
        _strip(parts[0], times, pile)
    elif parts:
        pile.add(Parallel(parts), times)


def _as_one_event(event: Event) -> Event:
    """Return one event that means the same: a flat core, and around it a single failure if its size is exact."""
    core, failures = strip(event)
    if failures.most == 0:
        return rebuilt(core)
    if failures.least == math.inf:
        return NonPrivate(Neighbours.ADD_REMOVE)
    return event if failures.kept is None else Approximate(rebuilt(core), 1 - failures.kept)


def _failure(delta: Fraction) -> Failures:
    """Return -ln(1 - delta) between two floats, from whichever of delta and 1 - delta is the smaller."""
    kept = 1 - delta
    if kept < _MIN_NORMAL_PROBABILITY:
        return Failures(600.0, math.inf, kept)
    size = -math.log1p(-float(delta)) if delta < kept else -math.log(float(kept))
    return Failures(size * (1 - _OUTWARD_ROUNDING), size * (1 + _OUTWARD_ROUNDING) + _MIN_NORMAL_PROBABILITY, kept)


def elementary(parts: Mapping[Event, int]) -> float:
    """Return the sum of all pure losses, rounded up; infinite if some event has none."""
    try:
        return math.fsum(times * _pure_epsilon(event) for event, times in parts.items()) * (1 + _OUTWARD_ROUNDING)
    except OverflowError:
        return math.inf


def without_tiny(parts: Mapping[Event, int]) -> tuple[Mapping[Event, int], float]:
    """Return the parts without those whose pure loss is below every float that matters, and their loss as a slack.

    Theorem: proofs/pld_composition.md, Lemma 7
    """
    kept = {event: times for event, times in parts.items() if not _tiny(event, times)}
    if not kept or len(kept) == len(parts):
        return parts, 0.0
    lost = math.fsum(times * _pure_epsilon(event) for event, times in parts.items() if event not in kept)
    return kept, lost * (1 + _OUTWARD_ROUNDING) + 1e-300


def _tiny(event: Event, times: int) -> bool:
    try:
        return times * _pure_epsilon(event) < _NEGLIGIBLE_EPSILON
    except OverflowError:
        return False


def _pure_epsilon(event: Event) -> float:
    match event:
        case Pure(epsilon, _) | BoundedRange(epsilon, _) | RandomizedResponse(epsilon, _, _):
            return float(epsilon)
        case RenyiBounded(epsilon, _, _, _):
            return float(epsilon)
        case LaplaceNoise(sensitivity, scale, _) | RealLaplaceNoise(sensitivity, scale, _):
            return float(sensitivity / scale)
        case TruncatedPoissonSampled(rate, _, _, inner):
            swapped = Repeated(inner, 2)  # as much as two steps
            return max(
                _pure_epsilon(PoissonSampled(rate, inner)),
                _pure_epsilon(PoissonSampled(truncation(event).most_rate, swapped)),
            )
        case PoissonSampled(rate, inner):  # e^loss - 1 <= rate (e^inner - 1)
            loss = _pure_epsilon(inner)
            return loss if loss > 30 else math.log1p(float(rate) * math.expm1(loss)) * (1 + _OUTWARD_ROUNDING)
        case Repeated(inner, times):
            return times * _pure_epsilon(inner) * (1 + _OUTWARD_ROUNDING)
        case Composed(events):
            return math.fsum(_pure_epsilon(inner) for inner in events) * (1 + _OUTWARD_ROUNDING)
        case Parallel(events):
            return max((_pure_epsilon(inner) for inner in events), default=0.0)
        case _:
            return math.inf


def rebuilt(parts: Mapping[Event, int]) -> Event:
    """Return one event that means this composition."""
    events = tuple(event if times == 1 else Repeated(event, times) for event, times in parts.items())
    return events[0] if len(events) == 1 else Composed(events)


@dataclass(frozen=True, slots=True)
class View:
    """Events with known laws, and a slack: delta and epsilon of the truth are within e^slack and 2 slack of theirs."""

    parts: Parts
    slack: float
    by_moments: bool  # only real moments of the loss are known: a tail bound is all there is


def has_exact_pairs(parts: Mapping[Event, int]) -> bool:
    """Tell whether the worst pair of each event is known exactly, so that one curve serves both sides."""
    return not any(isinstance(event, _INEXACT) and _inexact(event) for event in parts)


def _inexact(event: Event) -> bool:
    return not (isinstance(event, GaussianNoise) and event.sensitivity_squared == 1)


def views_above(parts: Mapping[Event, int]) -> tuple[View, ...]:
    """Return views whose curves, each moved by its slack, lie nowhere below that of `parts`."""
    if has_exact_pairs(parts):
        return (View(parts, 0.0, by_moments=False),)
    wide = any(isinstance(event, GaussianNoise) and event.sensitivity_squared > 3 for event in parts)
    moments = any(isinstance(event, Concentrated) for event in parts)
    # integer noise has no larger real moments than real noise [CKS20, Thm 4]: a tail bound, better if sigma is small
    return (
        _view_above(parts, moments, smooth=True),
        *([_view_above(parts, by_moments=True, smooth=False)] if wide else []),
    )


def _view_above(parts: Mapping[Event, int], by_moments: bool, smooth: bool) -> View:
    pile, slack = _Pile(), 0.0
    for event, times in parts.items():
        match event:
            case GaussianNoise(cells, sigma_squared, neighbours) if cells in (2, 3):
                pile.add(GaussianNoise(1, sigma_squared, neighbours), times * cells)  # squares up to 3: ones only
            case GaussianNoise(cells, sigma_squared, neighbours) if cells > 3:
                variance, cost = _smoothing(cells, cells, sigma_squared, times) if smooth else (Fraction(0), 0.0)
                pile.add(RealGaussianNoise(Fraction(cells), sigma_squared - variance, neighbours), times)
                slack += cost
            case RenyiBounded(epsilon, _, _, neighbours):  # `pld` also asks `rdp`, which knows more of it
                pile.add(Pure(epsilon, neighbours), times)
            case Concentrated(rho, neighbours):  # the Gaussian has exactly the real moments that zCDP allows
                pile.add(RealGaussianNoise(2 * rho, Fraction(1), neighbours), times)
            case _:
                pile.add(event, times)
    return View(pile.parts, slack * (1 + _OUTWARD_ROUNDING), by_moments)


def smoothed_view(parts: Mapping[Event, int], direction: int) -> View | None:
    """Return a view with real noise for integer noise that is moved by one step of a very fine grid; None without any.

    With direction -1 its curve, moved by its slack, lies nowhere below that of `parts`, with +1 nowhere above: Lemma B
    and its mirror for one cell. An integer lattice of more than some 10^4 points per deviation is beyond the engines.
    """
    pile, slack, found = _Pile(), 0.0, False
    for event, times in parts.items():
        match event:
            case GaussianNoise(1, sigma_squared, neighbours) if sigma_squared >= _MIN_REAL_NOISE_VARIANCE:
                variance, cost = _smoothing(1, 1, sigma_squared, times)
                pile.add(RealGaussianNoise(Fraction(1), sigma_squared + direction * variance, neighbours), times)
                slack, found = slack + cost, True
            case _:
                pile.add(event, times)
    return View(pile.parts, slack * (1 + _OUTWARD_ROUNDING), by_moments=False) if found else None


def all_vectors_listed(parts: Mapping[Event, int]) -> bool:
    """Tell whether integer Gaussian noise of many vectors occurs, and for each such event all of them can be tried."""
    wide = [event for event in parts if isinstance(event, GaussianNoise) and event.sensitivity_squared > 3]
    return bool(wide) and all(cells.pays_to_list(event.sensitivity_squared, event.sigma_squared) for event in wide)


def every_vector(parts: Mapping[Event, int]) -> tuple[View, ...]:
    """Return, for one release with integer Gaussian noise, a view for each vector; the greatest is the truth."""
    ((event, times),) = parts.items()
    if not isinstance(event, GaussianNoise) or times > 1:
        return ()
    options = cells.vectors(event.sensitivity_squared)
    return tuple(View(_split_vector(vector, event.sigma_squared, 1), 0.0, by_moments=False) for vector in options)


def lattice_view(parts: Mapping[Event, int]) -> View:
    """Return a view on the lattice of each event, whose curve lies nowhere below that of `parts`."""
    pile: dict[Event | LossCell | Cover, int] = {}
    for event, times in parts.items():
        match event:
            case GaussianNoise(norm, sigma_squared, _) if norm > 3:
                pile[Cover(norm, sigma_squared)] = times
            case GaussianNoise(norm, sigma_squared, _):
                cell = LossCell(1, sigma_squared)
                pile[cell] = pile.get(cell, 0) + times * norm
            case _:
                pile[event] = times
    return View(pile, 0.0, by_moments=False)


def repeated_vectors(parts: Mapping[Event, int]) -> tuple[View, ...]:
    """Return views in which each event moves the same vector every time: releases that are allowed."""
    choices = max(len(cells.typical(_norm(event))) for event in parts)
    views: list[View] = []
    for choice in range(choices):
        pile: dict[Event | LossCell | Cover, int] = {}
        for event, times in parts.items():
            if not isinstance(event, GaussianNoise):
                pile[event] = times
                continue
            options = cells.typical(event.sensitivity_squared)
            for cell, count in _split_vector(options[choice % len(options)], event.sigma_squared, times).items():
                pile[cell] = pile.get(cell, 0) + count
        views.append(View(pile, 0.0, by_moments=False))
    return tuple(views)


def _split_vector(vector: tuple[int, ...], sigma_squared: Fraction, times: int) -> dict[Event | LossCell | Cover, int]:
    return {LossCell(shift, sigma_squared): count * times for shift, count in Counter(vector).items()}


def _norm(event: Event) -> int:
    return event.sensitivity_squared if isinstance(event, GaussianNoise) else 1


def view_below(parts: Mapping[Event, int]) -> View:
    """Return a view whose curve, moved by its slack, lies nowhere above that of `parts`: a release that is allowed."""
    if has_exact_pairs(parts):
        return View(parts, 0.0, by_moments=False)
    pile, slack = _Pile(), 0.0
    alone = sum(parts.values()) == 1
    for event, times in parts.items():
        match event:
            case GaussianNoise(cells, sigma_squared, neighbours) if 1 < cells <= _UNIT_CELLS:
                pile.add(GaussianNoise(1, sigma_squared, neighbours), times * cells)
            case GaussianNoise(cells, sigma_squared, neighbours) if cells > _UNIT_CELLS:
                # four cells can hold every squared norm [Lagrange's four squares]
                variance, cost = _smoothing(cells, 4, sigma_squared, times)
                pile.add(RealGaussianNoise(Fraction(cells), sigma_squared + variance, neighbours), times)
                slack += cost
            case BoundedRange() if alone:  # reached at each epsilon
                pile.add(event, times)
            case _:
                pile.add(allowed_release(event), times)
    return View(pile.parts, slack * (1 + _OUTWARD_ROUNDING), by_moments=False)


def allowed_parts(parts: Mapping[Event, int]) -> dict[Event, int]:
    """Return the composition with a release that is allowed for each bound by which one is known, however deep."""
    pile = _Pile()
    for event, times in parts.items():
        pile.add(allowed_release(event), times)
    return pile.parts


def allowed_release(event: Event) -> Event:
    """Return a release that the event allows, with a law that is known exactly."""
    match event:
        case TruncatedPoissonSampled(rate, _, _, inner):  # other units add nothing
            kept = Fraction(math.nextafter(float(truncation(event).min_inclusion_rate(rate)), 0.0))
            return PoissonSampled(kept, allowed_release(inner))
        case BoundedRange(epsilon, neighbours):
            return Pure(epsilon / 2, neighbours)  # losses +-epsilon/2 span epsilon
        case Concentrated(rho, neighbours):
            return RealGaussianNoise(2 * rho, Fraction(1), neighbours)
        case RenyiBounded():  # a response of loss e <= 1 has αe²/2 <= αe/2 at order α
            return _allowed_response(event)
        case PoissonSampled(rate, inner):
            return PoissonSampled(rate, allowed_release(inner))
        case Approximate(inner, delta):
            return Approximate(allowed_release(inner), delta)
        case Repeated(inner, times):
            return Repeated(allowed_release(inner), times)
        case Composed(events):
            return Composed(tuple(allowed_release(part) for part in events))
        case Parallel(events):
            return Parallel(tuple(allowed_release(part) for part in events))
        case _:
            return event


def _allowed_response(event: RenyiBounded) -> Event:
    within = min(2 * loss / order for order, loss in zip(event.orders, event.losses, strict=True))
    loss = min(Fraction(1), event.epsilon, within)
    return Pure(loss, event.neighbours) if loss else Composed(())


def without_sampling(event: Event) -> Event:
    """Return an event that costs no less: every unit is drawn. The sampled pair mixes (P, Q) with (Q, Q)."""
    match event:
        case PoissonSampled(_, inner):
            return without_sampling(inner)
        case Approximate(inner, delta):
            return Approximate(without_sampling(inner), delta)
        case Repeated(inner, times):
            return Repeated(without_sampling(inner), times)
        case Composed(events):
            return Composed(tuple(without_sampling(part) for part in events))
        case Parallel(events):
            return Parallel(tuple(without_sampling(part) for part in events))
        case _:
            return event


def _smoothing(norm: int, cells: int, sigma_squared: Fraction, times: int) -> tuple[Fraction, float]:
    """Choose the variance r^2 that Lemma B of proofs/pld_integer_gaussian.md takes away or adds, and its price."""
    candidates = [Fraction(n, 8) for n in range(1, 33)] + [sigma_squared * Fraction(n, 16) for n in range(1, 9)]

    def price(variance: Fraction) -> float:
        slack = times * cells * _distance(variance, sigma_squared)
        mu = math.sqrt(times * norm / float(sigma_squared - variance))
        return 2 * slack + (mu + mu * mu) * float(variance / sigma_squared)

    best = min((variance for variance in candidates if 2 * variance <= sigma_squared), key=price)
    return best, times * cells * _distance(best, sigma_squared) * (1 + _OUTWARD_ROUNDING)


def _distance(variance: Fraction, sigma_squared: Fraction) -> float:
    """Return Lemma B's eta for one cell, rounded up; for r^2 <= sigma^2/2 it serves both directions."""
    # sigma^2 r^2/(sigma^2 + r^2) >= 2/3 r^2 when r^2 <= sigma^2/2: the least variance that occurs in either direction
    exact = 2 * math.pi**2 * float(variance * sigma_squared / (variance + sigma_squared))
    ripple = 2 * math.exp(-exact) / -math.expm1(-3 * exact) * (1 + _OUTWARD_ROUNDING) + 1e-300
    return math.log1p(2 * ripple / (1 - ripple)) * (1 + _OUTWARD_ROUNDING) if ripple < 0.5 else 1e300
