"""Which noise: Laplace for all measurements, or Gaussian for all, whichever is expected to err less.

Proof: proofs/planning.md, §6
"""

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import log, log1p

from sfumato.accounting.event import Composed, Event, Neighbours, Pure, Repeated
from sfumato.accounting.gaussian_curve import shrunk
from sfumato.accounting.loss import PrivacyLoss
from sfumato.certified.enclosure import Enclosure, enclose, lower, refine
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.measurements import Measurement, Needs, measurements
from sfumato.planning.plan import Chosen, GroupPlan, Measured
from sfumato.planning.split import GAUSSIAN_ROOT, LAPLACE_ROOT, gaussian_weights, importance, laplace_weights, shares
from sfumato.query.functions import CHOSEN, Aggregation
from sfumato.sensitivity.norms import Sensitivity

_SHORT = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_UP = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
# Beyond these no Gaussian noise is tried: floats choose its order, and Laplace noise is the better one there.
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 10**6), Fraction(10**3)
_LEAST_DELTA = Fraction(1, 10**300)
_MOST_GAIN = Fraction(1, 2)
"""The exact curve needs more than this part of the variance that zCDP asks for, wherever anybody looked."""

Mechanism = Laplace | Gaussian | Quantiles | PermuteAndFlip
Noise = tuple[tuple[GroupPlan, ...], PrivacyLoss]
"""The groups with their mechanisms, and what they cost together."""


def best_noise(needs: tuple[Needs, ...], epsilon: Fraction, delta: Fraction) -> Noise:
    """Return the noise with the smaller expected error that is (epsilon, delta)-DP in all."""
    epsilons = tuple(share * epsilon for share in shares(laplace_weights(needs), LAPLACE_ROOT))
    plain = laplace_noise(needs, epsilons, delta)
    error = expected_error(needs, plain[0])
    smooth = _gaussian_noise(needs, epsilons, delta, error)
    if smooth is None or error <= expected_error(needs, smooth[0]):
        return plain
    return smooth


def laplace_noise(needs: tuple[Needs, ...], epsilons: tuple[Fraction, ...], delta: Fraction) -> Noise:
    """Return Laplace noise where each part, in the order of `laplace_weights`, costs its own epsilon.

    Only the selection of keys uses delta; several of them share it.
    """
    keys, noise = _parted(needs, epsilons)
    mechanisms = [
        choice_of(one, epsilon)
        if one.quantity.function in CHOSEN
        else Laplace(one.sensitivity.l1, one.sensitivity.l1 / epsilon, one.sensitivity.neighbours)
        for one, epsilon in zip(measurements(needs), noise, strict=True)
    ]
    loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta if selections(needs) else Fraction(0))
    return assembled(needs, keys, delta, mechanisms), loss


def expected_error(needs: tuple[Needs, ...], groups: tuple[GroupPlan, ...]) -> Fraction:
    """Return the sum of the outputs' expected squared errors, each in units of what one person can do to a cell."""
    return sum(
        (
            importance(need, one) * _variance(measured.mechanism) / one.sensitivity.linf**2
            for need, group in zip(needs, groups, strict=True)
            for one, measured in zip(_noised(need.measurements), group.measured, strict=True)
        ),
        Fraction(0),
    )


def event_of(groups: tuple[GroupPlan, ...]) -> Event | None:
    """Return what happens when these groups are released; None if nothing does."""
    events: list[Event] = []
    for group in groups:
        if group.selection is not None:
            events.append(group.selection.event)
        events += [noise_event(one.mechanism, one.sensitivity, one.levels is not None) for one in group.apart]
        events += [one.mechanism.event for one in group.chosen]
    return Composed(tuple(events)) if events else None


@lru_cache(maxsize=1024)
def concentrated_loss(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return a rho, rounded down to 12 digits, such that rho-zCDP implies (epsilon, delta)-DP; None if there is none.

    Floats choose the order α, any of which is valid; ρ = (ε + ln(αδ)/(α - 1) + ln(α/(α - 1)))/α is enclosed.
    """
    order = _best_order(float(epsilon), log(delta.numerator) - log(delta.denominator))

    def _rho(digits: int) -> Enclosure:
        spread = enclose(order * delta, digits).ln() / (order - 1)
        return (spread + enclose(order / (order - 1), digits).ln() + epsilon) / order

    bound = lower(refine(_rho))
    if bound <= 0:
        return None
    exact = Fraction(bound)
    return Fraction(_SHORT.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def _gaussian_noise(
    needs: tuple[Needs, ...], epsilons: tuple[Fraction, ...], delta: Fraction, error: Fraction
) -> Noise | None:
    """Return Gaussian noise at the price of the measurements' Laplace noise; half of delta is for keys, if any.

    None where there is nothing to measure, or no delta, or where the exact curve could not bring it below `error`.
    """
    keys, parts = _parted(needs, epsilons)
    every = measurements(needs)
    choices = {one: part for one, part in zip(every, parts, strict=True) if one.quantity.function in CHOSEN}
    noise = [part for one, part in zip(every, parts, strict=True) if one not in choices]
    budget = sum(noise, Fraction(0))
    for_noise = delta / 2 if selections(needs) else delta
    if not noise or for_noise < _LEAST_DELTA or not _LEAST_EPSILON <= budget <= _MOST_EPSILON:
        return None
    if any(one.levels is not None for one in every):  # proofs/chosen_caps.md speaks of Laplace noise
        return None
    rho = concentrated_loss(budget, for_noise)
    if rho is None:
        return None
    noised = [one for one in every if one not in choices]
    parts_of = zip(noised, shares(gaussian_weights(needs), GAUSSIAN_ROOT), strict=True)
    vectors = [(one.sensitivity.l2_squared, one.sensitivity.l2_squared / (2 * share * rho)) for one, share in parts_of]
    units = [importance(need, one) / one.sensitivity.linf**2 for need in needs for one in _noised(need.measurements)]
    if sum(unit * variance for unit, (_, variance) in zip(units, vectors, strict=True)) * _MOST_GAIN >= error:
        return None
    factor = shrunk(vectors, budget, for_noise)
    variances = iter(vectors)
    mechanisms = [
        choice_of(one, choices[one]) if one in choices else _shrunk_gaussian(one, next(variances), factor)
        for one in every
    ]
    loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta)
    return assembled(needs, keys, delta - for_noise, mechanisms), loss


def _parted(
    needs: tuple[Needs, ...], epsilons: tuple[Fraction, ...]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return the epsilons of the selections that stand by themselves, and those of the measurements."""
    selecting = sum(need.apart is not None for need in needs)
    return epsilons[:selecting], epsilons[selecting:]


def assembled(
    needs: tuple[Needs, ...], keys: tuple[Fraction, ...], delta: Fraction, mechanisms: Sequence[Mechanism]
) -> tuple[GroupPlan, ...]:
    """Put the noise of all parts into their groups; the selections share delta."""
    epsilons, noise = iter(keys), iter(mechanisms)
    groups = []
    for need in needs:
        measured: list[Measured] = []
        chosen: list[Chosen] = []
        for one in need.measurements:
            mechanism = next(noise)
            if isinstance(mechanism, Laplace | Gaussian):
                measured.append(Measured(one.name, one.quantity, one.sensitivity, mechanism, one.levels))
            else:
                chosen.append(Chosen(one.name, one.quantity, one.sensitivity.l1, mechanism))
        selection: OptimalSelection | CountedKeys | None = None
        touched = min(need.group.contribution.rows, need.group.contribution.groups)
        counted = None if need.selecting is None else need.selecting.name
        for noisy in measured:
            if noisy.name == counted:
                core = noise_event(noisy.mechanism, noisy.sensitivity)
                selection = CountedKeys.by_delta(noisy.mechanism, core, touched, delta / selections(needs))
        if need.apart is not None:
            each = delta / selections(needs)
            selection = OptimalSelection(next(epsilons), each, touched, need.apart.neighbours)
        groups.append(GroupPlan(need.group, selection, tuple(measured), need.derived, tuple(chosen), counted))
    return tuple(groups)


def selections(needs: tuple[Needs, ...]) -> int:
    """Return how many groups have keys that must be selected; they share delta."""
    return sum(need.keys is not None for need in needs)


def short(value: Fraction) -> Fraction:
    """Round up to 12 digits."""
    return Fraction(_UP.divide(Decimal(value.numerator), Decimal(value.denominator)))


def choice_of(one: Measurement, epsilon: Fraction) -> Quantiles | PermuteAndFlip:
    """Return the choice that costs so much, over all cells together. Proof: proofs/quantiles.md."""
    (bucket,), neighbours = one.quantity.arguments, one.sensitivity.neighbours
    if one.quantity.function is Aggregation.MODE:
        return PermuteAndFlip(one.sensitivity.l1, epsilon, neighbours, monotone=neighbours is Neighbours.ADD_REMOVE)
    ends = one.quantity.function is Aggregation.QUANTILES
    return Quantiles(one.quantity.parameters, bucket.facts.span, one.sensitivity.l1, epsilon, neighbours, ends)


def is_chosen(one: Measurement) -> bool:
    """Whether a measurement is a choice, and no noise is added."""
    return one.quantity.function in CHOSEN


def _noised(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return what gets noise; the rest is chosen."""
    return [one for one in measurements if one.quantity.function not in CHOSEN]


def _shrunk_gaussian(one: Measurement, vector: tuple[int, Fraction], factor: Fraction) -> Gaussian:
    moved, variance = vector
    return Gaussian(moved, short(factor * variance), one.sensitivity.neighbours)


def noise_event(mechanism: Laplace | Gaussian, moved: Sensitivity, levelled: bool = False) -> Event:
    """Return what a measurement costs: where no cell moves by more than 1, it is so many releases of one count.

    That has the same pure loss and a smaller Rényi loss. Proof: proofs/laplace.md, Vectors. At a level that is chosen,
    noise has the same pure loss as at any other, and that is what is known of it (proofs/chosen_caps.md).
    """
    if levelled and isinstance(mechanism, Laplace):
        return Pure(mechanism.sensitivity / mechanism.scale, mechanism.neighbours)
    if isinstance(mechanism, Laplace) and moved.linf == 1 and moved.l1 > 1:
        return Repeated(Laplace(1, mechanism.scale, mechanism.neighbours).event, moved.l1)
    return mechanism.event


def _variance(mechanism: Laplace | Gaussian) -> Fraction:
    """Return the variance of the real law, which the integer law's is near to."""
    return 2 * mechanism.scale**2 if isinstance(mechanism, Laplace) else mechanism.sigma_squared


def _best_order(epsilon: float, log_delta: float) -> Fraction:
    def _room(exponent: float) -> float:
        above = float(2.0**exponent)
        return (epsilon + (log1p(above) + log_delta) / above + log1p(1 / above)) / (1 + above)

    coarse = max((step / 4 for step in range(-40, 240)), key=_room)
    fine = max((coarse + step / 64 for step in range(-16, 17)), key=_room)
    return 1 + Fraction(f"{2.0**fine:.4g}")
