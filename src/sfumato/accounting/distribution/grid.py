"""Delta of any composition, sampled events included, between certified bounds: each event's curve cut to one lattice.

`prepare(parts, delta)` convolves once; `Prepared.delta_bounds(epsilon)` is then a lookup. A person may be added or
removed: both directions are composed, each for itself, and the larger delta counts, because a sampled event is not
symmetric. Theorems: proofs/pld_grid.md, proofs/poisson_sampling.md
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.distribution import cells, curves
from sfumato.accounting.distribution.curves import (
    SPECIAL_FUNCTION_ERROR,
    Bracketed,
    Closed,
    Failing,
    Mixed,
    PairCurve,
    Scaled,
    worst,
)
from sfumato.accounting.distribution.grid_sum import (
    COARSE_WIDENING,
    FINE_WIDENING,
    USUAL_WIDENING,
    Composition,
    Curves,
    SummedLosses,
    composition,
)
from sfumato.accounting.distribution.mixed_curves import Labelled, shifted_gaussians
from sfumato.accounting.distribution.reduction import allowed_release
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
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
from sfumato.accounting.group import group_event
from sfumato.accounting.truncated_sampling import truncation
from sfumato.certified.enclosure import float_above
from sfumato.errors import UnsupportedEvent

EventParts = tuple[tuple[Event, int], ...]
Directions = tuple[PairCurve, PairCurve]
"""The curve when a person is removed (with, without them) and when one is added; the same object if symmetric."""

_MAX_LISTED_VARIANCE = 250_000  # variance of integer Gaussian noise up to which its atoms are listed one by one
_GOOD_RELATIVE_WIDTH = 4e-5  # relative width at which a composition is not refined any further
_INNER_TARGETS = (0.3, 1e-3, 1e-8, 1e-16)


@dataclass(frozen=True, slots=True)
class PreparedGrid:
    """A composition, convolved in each direction that differs."""

    directions: tuple[Composition, ...]

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return lower <= delta(epsilon) <= upper."""
        bounds = [direction.delta_bounds(epsilon) for direction in self.directions]
        return max((low for low, _ in bounds), default=0.0), max((high for _, high in bounds), default=0.0)


def prepared_grid(
    parts: EventParts, delta: float, epsilon: float | None = None, *, refined: bool = True
) -> PreparedGrid:
    """Convolve all parts, sharpest where delta(epsilon) is about `delta`, or at `epsilon` if it is given.

    Sharpness is all that `delta`, `epsilon` and `refined` decide here: the bounds hold at every epsilon.
    """
    sides = _direction_curves(parts)
    widenings = [USUAL_WIDENING if len(sides) == 1 or not refined else COARSE_WIDENING] * len(sides)
    composed = [composition(side, delta, epsilon, w) for side, w in zip(sides, widenings, strict=True)]
    if not refined:  # releases known by a bound keep both sides apart, however fine the lattice
        return PreparedGrid(tuple(composed))
    # delta moves more than epsilon does
    steps = (USUAL_WIDENING, FINE_WIDENING) if epsilon is None else (FINE_WIDENING,)
    for _ in range(len(sides) * len(steps)):
        leader, width = _leader(composed, delta, epsilon)
        finer = next((w for w in steps if w < widenings[leader]), None)
        if width <= _GOOD_RELATIVE_WIDTH or finer is None:  # a direction that does not lead is known well enough
            break
        composed[leader], widenings[leader] = composition(sides[leader], delta, epsilon, finer), finer
    return PreparedGrid(tuple(composed))


def _direction_curves(parts: EventParts) -> list[Curves]:
    """Return the curves of each direction; one if all of them are symmetric, none if there is nothing."""
    laws = [(directions(event), times) for event, times in _merge_equal_events(parts)]
    forward: Curves = [(ahead, times) for (ahead, _), times in laws]
    if all(ahead is back for (ahead, back), _ in laws):
        return [forward] if laws else []
    return [forward, [(back, times) for (_, back), times in laws]]


def _leader(composed: Sequence[Composition], delta: float, epsilon: float | None) -> tuple[int, float]:
    """Return the direction that decides, and how far apart its bounds are: on delta, or on epsilon at `delta`."""
    if epsilon is not None:
        bounds = [curve.delta_bounds(epsilon) for curve in composed]
        leader = int(np.argmax([high for _, high in bounds]))
        low, high = bounds[leader]
        return leader, (high - low) / high if high > 0 else 0.0
    highs = [_crossing(curve, 1, delta) for curve in composed]
    leader = int(np.argmax(highs))
    return leader, 1 - _crossing(composed[leader], 0, delta) / highs[leader]


def _crossing(composed: Composition, side: int, delta: float) -> float:
    """Return about the epsilon at which the lower (0) or upper (1) bound falls to delta."""
    low, high = 0.0, 1e-9
    while high < 1e9 and composed.delta_bounds(high)[side] > delta:
        low, high = high, 4 * high
    for _ in range(22):
        middle = (low + high) / 2
        low, high = (middle, high) if composed.delta_bounds(middle)[side] > delta else (low, middle)
    return high


def grid_delta_bounds(parts: EventParts, epsilon: float, delta: float) -> tuple[float, float]:
    """Return certified bounds on delta(epsilon) of the composition of each event, `times` times.

    >>> sampled = PoissonSampled(Fraction(1, 100), RealGaussianNoise(1, 1, Neighbours.ADD_REMOVE))
    >>> lower, upper = grid_delta_bounds(((sampled, 1000),), 1.0, 1e-5)
    >>> lower < upper < lower * 1.001
    True
    """
    return prepared_grid(parts, delta, epsilon).delta_bounds(epsilon)


def _merge_equal_events(parts: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Flatten, count equal events once, and add up what stays of its kind: real Gaussian noise, and zCDP."""
    counts: dict[Event, int] = {}
    squared = rho = Fraction(0)
    neighbours: Neighbours | None = None
    pending = list(parts)
    while pending:
        event, times = pending.pop()
        match event:
            case Repeated(inner, again):
                pending.append((inner, times * again))
            case Composed(events):
                pending.extend((inner, times) for inner in events)
            case TreeAggregation():
                pending.append((event.path, times))
            case Parallel(()):
                pass
            case RealGaussianNoise(sensitivity_squared, sigma_squared):
                neighbours = event.neighbours
                squared += times * sensitivity_squared / sigma_squared
            case Concentrated(bound):
                neighbours = event.neighbours
                rho += times * bound
            case _:
                counts[event] = counts.get(event, 0) + times
    if squared and neighbours is not None:
        counts[RealGaussianNoise(squared, Fraction(1), neighbours)] = 1
    if rho and neighbours is not None:
        counts[Concentrated(rho, neighbours)] = 1
    return list(counts.items())


def directions(event: Event, *, alone: bool = False) -> Directions:
    """Return the curves of one event. Without composition (`alone`) only their heights matter."""
    match event:
        case PoissonSampled(rate, inner):
            ahead, back = directions(inner, alone=alone)
            if rate == 1:
                return ahead, back
            # (1-q)Q + qP against Q, and Q against (1-q)Q + qP: proofs/poisson_sampling.md
            return Mixed(float(rate), ahead, backward=False), Mixed(float(rate), back, backward=True)
        case Approximate(inner, delta):
            return _with_failure(directions(inner, alone=alone), float(delta))
        case Composed() | Repeated() | TreeAggregation():
            return _compose_inside(event)
        case Parallel(events):
            members = [directions(inner) for inner in events]
            ahead = worst(tuple(member for member, _ in members))
            symmetric = all(member is other for member, other in members)
            return ahead, ahead if symmetric else worst(tuple(other for _, other in members))
        case TruncatedPoissonSampled():
            return _truncated_directions(event)
        case GaussianMixture() if event.largest:
            kept = [(a, b) for a, b in zip(event.sensitivities, event.probabilities, strict=True) if b]
            deviation = math.sqrt(event.sigma_squared)
            shifts = np.array([float(length) / deviation for length, _ in kept])
            return shifted_gaussians(shifts, np.array([float(share) for _, share in kept]))
        case BoundedRange(epsilon, _) if alone:  # some release reaches this height at each slope: Lemma 4
            highest = curves.bounded_range(float(epsilon))
            return highest, highest
        case _:
            curve = _curve(event)
            return curve, curve


def _truncated_directions(event: TruncatedPoissonSampled) -> Directions:
    """Return above a draw between both cases that is public, below a release in which other units add nothing."""
    cut, inner = truncation(event), event.event
    whole = directions(PoissonSampled(event.rate, inner))
    kept = cut.min_inclusion_rate(event.rate)
    rare = directions(PoissonSampled(Fraction(math.nextafter(float(kept), 0.0)), allowed_release(inner)))
    if cut.most == 0:
        return whole
    swapped = directions(PoissonSampled(Fraction(float_above(cut.most_rate)), group_event(inner, 2)))
    shares = math.nextafter(float(cut.least), 0.0), min(1.0, float_above(cut.most))
    ahead, back = (
        Bracketed((Labelled(first, other, *shares),), (below,))
        for first, other, below in zip(whole, swapped, rare, strict=True)
    )
    return ahead, back


def _with_failure(pair: Directions, delta: float) -> Directions:
    ahead = Failing(pair[0], delta)
    return ahead, ahead if pair[0] is pair[1] else Failing(pair[1], delta)


def _compose_inside(event: Event) -> Directions:
    """Compose inside: several uses of one sample form one event, and its curve is drawn first."""
    parts = _merge_equal_events([(event, 1)])
    if not parts:
        nothing = curves.pure(0.0)
        return nothing, nothing
    if len(parts) == 1 and parts[0][1] == 1:
        return directions(parts[0][0])
    sides = [tuple(composition(side, target) for target in _INNER_TARGETS) for side in _direction_curves(tuple(parts))]
    ahead, back = sides[0], sides[-1]
    forward = SummedLosses(ahead, back)
    return forward, forward if ahead is back else SummedLosses(back, ahead)


def _curve(event: Event) -> PairCurve:
    match event:
        case RealGaussianNoise(sensitivity_squared, sigma_squared, _):
            return curves.gaussian(math.sqrt(sensitivity_squared / sigma_squared))
        case LaplaceBounded(epsilon, _):
            return curves.real_laplace(float(epsilon))
        case RealLaplaceNoise(sensitivity, scale, _):
            return curves.real_laplace(float(sensitivity / scale))
        case LaplaceNoise(sensitivity, scale, _):
            return curves.integer_laplace(sensitivity, float(scale))
        case GaussianNoise(sensitivity_squared, sigma_squared, _):
            return _integer_gaussian(sensitivity_squared, sigma_squared)
        case Pure(epsilon, _):
            return curves.pure(float(epsilon))
        case BoundedRange(epsilon, _):  # randomized response of epsilon/2 has losses that span epsilon
            return Bracketed((curves.bounded_range(float(epsilon)),), (curves.pure(float(epsilon) / 2),))
        case RenyiBounded(epsilon, _, _, _):
            return Bracketed((curves.pure(float(epsilon)),), (curves.pure(0.0),))
        case Concentrated(rho, _):  # real Gaussian noise of this rho is one such release
            return Bracketed((curves.zcdp_curve(float(rho)),), (curves.gaussian(math.sqrt(2 * rho)),))
        case RandomizedResponse(epsilon, categories, _):
            return _response_curve(float(epsilon), categories)
        case NonPrivate():
            return Failing(curves.pure(1.0), 1.0)
        case _:
            raise UnsupportedEvent(event, "privacy loss distribution")


def _response_curve(epsilon: float, categories: int) -> Closed:
    share = 1 / (math.exp(epsilon) + categories - 1)
    masses = np.array([math.exp(epsilon) * share, (categories - 2) * share, share])
    return curves.atomic_curve(
        np.array([epsilon, 0.0, -epsilon]),
        masses,
        np.full(3, SPECIAL_FUNCTION_ERROR * (1 + epsilon)),
        (-epsilon, epsilon, 2),
    )


def _integer_gaussian(norm: int, sigma_squared: Fraction) -> PairCurve:
    variance = float(sigma_squared)
    if norm == 1 and variance <= _MAX_LISTED_VARIANCE:
        return _one_cell(1, variance)
    if cells.pays_to_list(norm, sigma_squared):  # every vector, exactly
        return cells.greatest_curve(norm, sigma_squared)
    rho = norm / (2 * variance)
    # integer noise too is rho-zCDP [CKS20, Thm 4]
    uppers: list[PairCurve] = [curves.zcdp_curve(rho * (1 + SPECIAL_FUNCTION_ERROR))]
    for blur in _blurs(norm):
        if blur < variance:
            eta = _eta(norm, _ripple(blur), _ripple(variance))
            mu = math.sqrt(norm / (variance - blur)) * (1 + SPECIAL_FUNCTION_ERROR)
            uppers.append(Scaled(curves.gaussian(mu), eta))
    return Bracketed(tuple(uppers), (_below_integer_gaussian(norm, variance),))


def _below_integer_gaussian(sensitivity_squared: int, variance: float) -> PairCurve:
    """Return the curve of one vector within the sensitivity: in one cell exactly, or in four cells nearly."""
    lowers: list[PairCurve] = (
        [_one_cell(math.isqrt(sensitivity_squared), variance)] if variance <= _MAX_LISTED_VARIANCE else []
    )
    for blur in _blurs(4):  # every integer is a sum of four squares [Lagrange]
        eta = _eta(4, _ripple(variance * blur / (variance + blur)), _ripple(variance))
        if math.isfinite(eta):
            mu = math.sqrt(sensitivity_squared / (variance + blur)) * (1 - SPECIAL_FUNCTION_ERROR)
            lowers.append(Scaled(curves.gaussian(mu), eta))
    return worst(tuple(lowers))


def _one_cell(shift: int, variance: float) -> Closed:
    reach = math.ceil(39 * math.sqrt(variance)) + shift
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    exponents = z * z / (2 * variance)
    weights = np.exp(-exponents)
    total = math.fsum(weights.tolist())
    # beyond 39 standard deviations lies less than e^-760
    losses = (shift * shift - 2 * shift * z) / (2 * variance)
    step = shift * shift / (2 * variance)
    errors = SPECIAL_FUNCTION_ERROR / 8 * (1 + exponents / 4)
    return curves.atomic_curve(losses, weights / total, errors, (-step, step, shift))


def _blurs(cells: int) -> list[float]:
    """Return variances at which the ripple of the integers in all cells is about 1e-3, 1e-6, …"""
    return [math.log(2 * cells * 10.0**digits) / (2 * math.pi**2) for digits in (2, 4, 6, 9, 12, 16)]


def _ripple(variance: float) -> float:
    """Bound 2 Σ e^(-2π² variance k²) over k >= 1 by a geometric series."""
    step = math.exp(-2 * math.pi**2 * variance * (1 - SPECIAL_FUNCTION_ERROR))
    return 2 * step / (1 - step) * (1 + SPECIAL_FUNCTION_ERROR)


def _eta(cells: int, blurred: float, own: float) -> float:
    """Return by how much logarithms of probabilities move in all cells: proofs/pld_grid.md, step 8."""
    if blurred >= 1 or own >= 1:
        return math.inf
    upwards = math.log1p(blurred) - math.log1p(-own)
    downwards = math.log1p(own) - math.log1p(-blurred)
    return cells * max(upwards, downwards) * (1 + SPECIAL_FUNCTION_ERROR)
