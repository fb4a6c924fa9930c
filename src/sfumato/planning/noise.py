"""Which noise: Laplace for all measurements, or Gaussian for all, or shared noise, whichever is expected to err less.

Proof: proofs/planning.md, §6
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from sfumato.accounting.event import Composed, Event, Neighbours, Pure, Repeated
from sfumato.accounting.gaussian_curve import least_common_factor
from sfumato.accounting.loss import PrivacyLoss
from sfumato.caches import SameObjects
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNorm, MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.aggregates.bounded_flow import flow_mechanism
from sfumato.planning.aggregates.cross_unit_count import sides_of
from sfumato.planning.budget_split import (
    GAUSSIAN_ROOT,
    LAPLACE_ROOT,
    Shared,
    gaussian_parts,
    gaussian_vector_of,
    gaussian_weights,
    importance,
    keys_weights,
    laplace_weights,
    parts_of,
    shared_noise,
    shares,
    vector_of,
)
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.planning.fresh_budget import is_clearly_less, used_of_fresh
from sfumato.planning.measurements import Measurement, MeasurementSet, longest_spelled, measurements
from sfumato.planning.noise_shape import for_question, shape_of
from sfumato.planning.plan import GroupPlan, PlannedMeasurement, PlannedSelection
from sfumato.query.functions import CHOSEN, Aggregation
from sfumato.sensitivity.norms import Sensitivity

_UP = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
# Beyond these no Gaussian noise is tried: floats choose its order, and Laplace noise is the better one there.
_MIN_EPSILON, _MAX_EPSILON = Fraction(1, 10**6), Fraction(10**3)
_MIN_DELTA = Fraction(1, 10**300)
_MIN_SHARED_EPSILON = Fraction(1, 10**50)
"""Below it, which no one can type, the margins of shared noise would take many digits to find."""
_GUMBEL_VARIANCE = Fraction(5, 3)
"""About the variance of standard Gumbel noise, π²/6."""
_ROUNDING_STEPS = 10**12
_MIN_CURVE_VARIANCE_RATIO = Fraction(1, 2)
"""The exact curve needs more than this part of the variance that zCDP asks for, wherever anybody looked."""

PrivateChoice = Quantiles | PermuteAndFlip | Meetings | MatchedCount | BoundedFlow
Mechanism = Laplace | Gaussian | MaxNormPart | PrivateChoice
Noise = tuple[tuple[GroupPlan, ...], PrivacyLoss]
"""The groups with their mechanisms, and what they cost together."""


def best_noise(
    needs: tuple[MeasurementSet, ...], epsilon: Fraction, delta: Fraction, cap: PrivacyLoss
) -> tuple[Noise, ...]:
    """Return the noise with the smallest expected error that is (epsilon, delta)-DP in all, the preferred first.

    Noise that measurements share errs least, and may have a larger Rényi loss than noise of their own. It is preferred
    where it errs less for what a budget of `cap` is charged; the other one comes second.  Proof: proofs/planning.md, §9
    """
    if any(need.keys is not None or need.top is not None for need in needs):
        return _best_noise(needs, epsilon, delta, cap)
    return tuple(
        (tuple(map(for_question, groups, needs)), loss)
        for groups, loss in _noise_of_shape(tuple(map(shape_of, needs)), epsilon, delta, cap)
    )


@lru_cache(maxsize=64)
def _noise_of_shape(
    shapes: tuple[MeasurementSet, ...], epsilon: Fraction, delta: Fraction, cap: PrivacyLoss
) -> tuple[Noise, ...]:
    return _best_noise(shapes, epsilon, delta, cap)


def _best_noise(
    needs: tuple[MeasurementSet, ...], epsilon: Fraction, delta: Fraction, cap: PrivacyLoss
) -> tuple[Noise, ...]:
    epsilons = _equal_price(needs, epsilon)
    alone = laplace_noise(needs, epsilons, delta)
    least = expected_error(needs, alone[0])
    joint = _joint_noise(needs, epsilon, delta)
    error = least if joint is None else expected_error(needs, joint[0])
    # a vector has Laplace or Gaussian noise at one price: whichever errs less
    enough = min(least, error) if any(map(gaussian_vector_of, needs)) else least
    smooth = _gaussian_noise(needs, epsilons, delta, enough)
    if smooth is not None and (smaller := expected_error(needs, smooth[0])) < enough:
        alone, least = smooth, smaller
    if joint is None or error >= least:
        return (alone,)
    return (joint, alone) if _is_cheaper(joint, error, alone, least, cap) else (alone, joint)


def _is_cheaper(joint: Noise, error: Fraction, alone: Noise, least: Fraction, cap: PrivacyLoss) -> bool:
    """Whether joint noise errs less for what a fresh budget is charged."""
    clear = is_clearly_less(event_of(joint[0]), event_of(alone[0]), least / error, cap)
    if clear is not None:
        return clear
    return error * fraction_of_fresh_budget(joint, cap) <= least * fraction_of_fresh_budget(alone, cap)


def fraction_of_fresh_budget(noise: Noise, cap: PrivacyLoss) -> Fraction:
    """Return the share of a fresh budget that noise uses, or what it costs where that is no share."""
    event = event_of(noise[0])
    used = None if event is None or not cap.epsilon else used_of_fresh(event, cap)
    return noise[1].epsilon if used is None else used


def pure_noise(needs: tuple[MeasurementSet, ...], epsilon: Fraction, delta: Fraction) -> Noise:
    """Return Laplace noise, or noise that measurements share where that errs less, of this pure loss in all."""
    plain = laplace_noise(needs, _equal_price(needs, epsilon), delta)
    joint = _joint_noise(needs, epsilon, delta)
    return plain if joint is None else min((plain, joint), key=lambda noise: expected_error(needs, noise[0]))


def _joint_noise(needs: tuple[MeasurementSet, ...], epsilon: Fraction, delta: Fraction) -> Noise | None:
    """Return noise that measurements share, of this pure loss in all; None where none of them do."""
    shared = shared_noise(needs) if epsilon >= _MIN_SHARED_EPSILON else ()
    if not any(shared):
        return None
    return laplace_noise(needs, _equal_price(needs, epsilon, shared), delta, shared)


def _equal_price(needs: tuple[MeasurementSet, ...], epsilon: Fraction, shared: Shared = ()) -> tuple[Fraction, ...]:
    """Return what each part gets of epsilon."""
    return tuple(share * epsilon for share in shares(laplace_weights(needs, shared), LAPLACE_ROOT))


def laplace_noise(
    needs: tuple[MeasurementSet, ...], epsilons: tuple[Fraction, ...], delta: Fraction, shared: Shared = ()
) -> Noise:
    """Return Laplace noise where each part, in the order of `laplace_weights`, costs its own epsilon.

    Measurements that share their noise are one part. Only the selection of keys uses delta; several of them share it.
    """
    keys, noise = _parted(needs, epsilons)
    mechanisms: dict[tuple[str, str], Mechanism] = {}
    for (need, part), epsilon in zip(parts_of(needs, shared), noise, strict=True):
        mechanisms |= {(need.group.label, one.name): each for one, each in _pure(need, part, epsilon)}
    every = [mechanisms[need.group.label, one.name] for need in needs for one in need.measurements]
    loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta if selections(needs) else Fraction(0))
    groups = assemble_group_plans(needs, keys, delta, every)
    if not shared:
        return groups, loss
    vectors = [
        tuple(one.name for one in part) if part == vector_of(need) else ()
        for need, part in zip(needs, shared, strict=True)
    ]
    return tuple(replace(group, vector=names) for group, names in zip(groups, vectors, strict=True)), loss


def _pure(
    need: MeasurementSet, part: tuple[Measurement, ...], epsilon: Fraction
) -> Iterator[tuple[Measurement, Mechanism]]:
    one, neighbours = part[0], part[0].sensitivity.neighbours
    if part == vector_of(need):  # proofs/disjoint_conditions.md, proofs/null_counts.md
        inner = tuple(each for each in part if each.name in need.together)
        for each in part if len(inner) < 2 else (each for each in part if each not in inner):
            yield each, Laplace(each.sensitivity.l1, each.sensitivity.l1 / epsilon, neighbours)
        yield from _joint(need, inner, epsilon) if len(inner) > 1 else ()
    elif len(part) > 1:
        yield from _joint(need, part, epsilon)
    elif is_chosen(one):
        yield one, choice_of(one, epsilon)
    else:
        yield one, Laplace(one.sensitivity.l1, one.sensitivity.l1 / epsilon, neighbours)


def _joint(
    need: MeasurementSet, part: tuple[Measurement, ...], epsilon: Fraction
) -> Iterator[tuple[Measurement, Mechanism]]:
    joint = MaxNorm(tuple(each.side or 1 for each in part), need.moved_rows, epsilon, part[0].sensitivity.neighbours)
    yield from ((each, joint.part(place)) for place, each in enumerate(part))


def expected_error(needs: tuple[MeasurementSet, ...], groups: tuple[GroupPlan, ...]) -> Fraction:
    """Return the sum of the outputs' expected squared errors, each in units of what one person can do to a cell.

    The choice of a top list errs as its Gumbel noise does.
    """
    choosing = sum(
        (
            _GUMBEL_VARIANCE / group.selection.rate**2
            for group in groups
            if isinstance(group.selection, TopList | SpelledList)
        ),
        Fraction(0),
    )
    return choosing + sum(
        (
            importance(need, one) * variance_of(measured.mechanism) / one.sensitivity.linf**2
            for need, group in zip(needs, groups, strict=True)
            for one, measured in zip(_noised(need.measurements), group.measured, strict=True)
        ),
        Fraction(0),
    )


def event_of(groups: tuple[GroupPlan, ...]) -> Event | None:
    """Return what happens when these groups are released; None if nothing does.

    Rows and keys decide nothing of it, so that plans with other cells and the same noise share one event.
    """
    return _event_of(_NoiseOf(groups))


class _NoiseOf(SameObjects):
    """What an event depends on of some groups."""

    __slots__ = ("groups",)

    def __init__(self, groups: tuple[GroupPlan, ...]) -> None:
        parts: list[object] = []
        for group in groups:
            parts += (group.selection, group.selecting_measurement, group.vector, group.chosen)
            for one in group.measured:
                parts += (one.name, one.mechanism, one.sensitivity, one.bound)
        super().__init__(*parts)
        self.groups = groups


@lru_cache(maxsize=32)
def _event_of(noise: _NoiseOf) -> Event | None:
    events: list[Event] = []
    for group in noise.groups:
        if group.selection is not None:
            events.append(group.selection.event)
        for one in group.measured_after_selection:
            if one.name in group.vector:
                events += [group.vector_event] if one.name == group.vector[0] else []
            elif not isinstance(one.mechanism, MaxNormPart):
                events.append(noise_event(one.mechanism, one.sensitivity, one.candidates is not None))
            elif one.mechanism.place == 0:  # the others are released with it
                events.append(one.mechanism.joint.event)
        events += [one.mechanism.event for one in group.chosen]
    noise.groups = ()  # the cache keeps the key, and need not keep the cells
    return Composed(tuple(events)) if events else None


def _gaussian_noise(
    needs: tuple[MeasurementSet, ...], epsilons: tuple[Fraction, ...], delta: Fraction, error: Fraction
) -> Noise | None:
    """Return Gaussian noise at the price of the measurements' Laplace noise; half of delta is for keys, if any.

    None where there is nothing to measure, or no delta, where a level is chosen, or where the exact curve could not
    bring it below `error`.
    Where top lists are chosen, their choices and all noise share one zCDP loss.
    """
    every = measurements(needs)
    if any(one.candidates is not None for one in every):  # proofs/chosen_caps.md speaks of Laplace noise
        return None
    if any(need.top is not None for need in needs):
        return _concentrated_noise(needs, epsilons, delta)
    keys, parts = _parted(needs, epsilons)
    choices = {one: part for one, part in zip(every, parts, strict=True) if one.quantity.function in CHOSEN}
    noise = [part for one, part in zip(every, parts, strict=True) if one not in choices]
    budget = sum(noise, Fraction(0))
    for_noise = delta / 2 if selections(needs) else delta
    if not noise or for_noise < _MIN_DELTA or not _MIN_EPSILON <= budget <= _MAX_EPSILON:
        return None
    rho = concentrated_loss(budget, for_noise)
    if rho is None:
        return None
    variances: dict[int, Fraction] = {}
    vectors: list[tuple[int, Fraction]] = []
    for part, share in zip(gaussian_parts(needs), shares(gaussian_weights(needs), GAUSSIAN_ROOT), strict=True):
        variances |= {id(one): one.sensitivity.l2_squared / (2 * share * rho) for one in part}
        least = min(one.sensitivity.l2_squared for one in part)  # proofs/null_counts.md, 1
        vectors.append((least, least / (2 * share * rho)))
    units = [
        (importance(need, one) / one.sensitivity.linf**2, one) for need in needs for one in _noised(need.measurements)
    ]
    if sum(unit * variances[id(one)] for unit, one in units) * _MIN_CURVE_VARIANCE_RATIO >= error:
        return None
    factor = least_common_factor(vectors, budget, for_noise)
    mechanisms = [
        choice_of(one, choices[one]) if one in choices else _shrunk_gaussian(one, variances[id(one)], factor)
        for one in every
    ]
    loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta)
    return gaussian_vectors(assemble_group_plans(needs, keys, delta - for_noise, mechanisms), needs), loss


def gaussian_vectors(groups: tuple[GroupPlan, ...], needs: tuple[MeasurementSet, ...]) -> tuple[GroupPlan, ...]:
    """Return groups with Gaussian noise, of which what is a vector is charged as one."""
    pairs = zip(groups, needs, strict=True)
    return tuple(replace(group, vector=tuple(one.name for one in gaussian_vector_of(need))) for group, need in pairs)


def _concentrated_noise(
    needs: tuple[MeasurementSet, ...], epsilons: tuple[Fraction, ...], delta: Fraction
) -> Noise | None:
    """Return the choices of top lists and Gaussian noise by zCDP: a choice of bounded range ε is ε²/8 of it [CR21].

    Keys that are selected by themselves, quantiles and modes keep their pure losses. None where there is no delta.
    """
    keys, parts = _parted(needs, epsilons)
    every = measurements(needs)
    parting = [need for need in needs if need.key_sensitivity is not None]
    lists = [need.top is not None for need in parting]
    pure = [part for one, part in zip(every, parts, strict=True) if is_chosen(one)]
    pure += [part for part, listed in zip(keys, lists, strict=True) if not listed]
    budget = sum(epsilons, Fraction(0)) - sum(pure, Fraction(0))
    for_noise = delta / 2 if selections(needs) else delta
    if for_noise < _MIN_DELTA or not _MIN_EPSILON <= budget <= _MAX_EPSILON:
        return None
    rho = concentrated_loss(budget, for_noise)
    if rho is None:
        return None
    weights = keys_weights(tuple(need for need in parting if need.top is not None)) + gaussian_weights(needs)
    each = iter([share * rho for share in shares(weights, GAUSSIAN_ROOT)])
    chosen = tuple(
        choices_epsilon(need.top.chosen, next(each)) if need.top is not None else part
        for need, part in zip(parting, keys, strict=True)
    )
    losses = {id(one): loss for part, loss in zip(gaussian_parts(needs), each, strict=True) for one in part}
    mechanisms: list[Mechanism] = []
    for one, part in zip(every, parts, strict=True):
        if is_chosen(one):
            mechanisms.append(choice_of(one, part))
            continue
        squared = one.sensitivity.l2_squared
        mechanisms.append(
            Gaussian(squared, round_up_to_12_digits(squared / (2 * losses[id(one)])), one.sensitivity.neighbours)
        )
    loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta)
    return gaussian_vectors(assemble_group_plans(needs, chosen, delta - for_noise, mechanisms), needs), loss


def choices_epsilon(chosen: int, rho: Fraction) -> Fraction:
    """Return chosen · ε with chosen · ε²/8 <= rho, rounded down: what `chosen` choices of a top list cost."""
    squared, fine = 8 * rho * chosen, _ROUNDING_STEPS  # (chosen · ε)²
    while squared * fine**2 < _ROUNDING_STEPS**2:  # of 12 digits, however small it is: nothing costs 0
        fine *= _ROUNDING_STEPS
    return Fraction(isqrt(squared.numerator * fine**2 // squared.denominator), fine)


def _parted(
    needs: tuple[MeasurementSet, ...], epsilons: tuple[Fraction, ...]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return the epsilons of the selections that stand by themselves, and those of the measurements."""
    selecting = sum(need.key_sensitivity is not None for need in needs)
    return epsilons[:selecting], epsilons[selecting:]


def assemble_group_plans(
    needs: tuple[MeasurementSet, ...], keys: tuple[Fraction, ...], delta: Fraction, mechanisms: Sequence[Mechanism]
) -> tuple[GroupPlan, ...]:
    """Put the noise of all parts into their groups; the selections share delta."""
    epsilons, noise = iter(keys), iter(mechanisms)
    groups = []
    for need in needs:
        measured: list[PlannedMeasurement] = []
        chosen: list[PlannedSelection] = []
        for one in need.measurements:
            mechanism = next(noise)
            if one.candidates is not None and not isinstance(mechanism, Laplace):
                raise AssertionError("a level that is chosen has Laplace noise, or nothing is planned")
            if isinstance(mechanism, Laplace | Gaussian | MaxNormPart):
                measured.append(PlannedMeasurement(one.name, one.quantity, one.sensitivity, mechanism, one.bound))
            else:
                chosen.append(PlannedSelection(one.name, one.quantity, one.sensitivity.l1, mechanism))
        selection: OptimalSelection | CountedKeys | TopList | SpelledList | None = None
        touched = min(need.group.contribution.rows, need.group.contribution.groups)
        counted = None if need.selecting is None else need.selecting.name
        for noisy in measured:
            if noisy.name == counted and not isinstance(noisy.mechanism, MaxNormPart):
                core = noise_event(noisy.mechanism, noisy.sensitivity, noisy.candidates is not None)
                if need.top is None:
                    each, most = delta / selections(needs), noisy.sensitivity.linf
                    selection = CountedKeys.by_delta(noisy.mechanism, core, touched, each, most)
                else:
                    each = next(epsilons) / need.top.chosen
                    selection = TopList(need.top.chosen, each, noisy.mechanism, core, touched, None)
                    if need.keys is not None and delta:
                        selection = selection.with_delta(delta / selections(needs))
                    elif need.keys is not None:
                        letters = longest_spelled(need.group)
                        selection = SpelledList(need.top.chosen, each, noisy.mechanism, core, touched, letters)
        if need.key_sensitivity is not None and need.top is None:
            each = delta / selections(needs)
            selection = OptimalSelection(next(epsilons), each, touched, need.key_sensitivity.neighbours)
        if selection is None and (need.keys is not None or need.top is not None):
            raise AssertionError("keys that are not public are selected, and lists are chosen, or nothing is planned")
        groups.append(
            GroupPlan(need.group, selection, tuple(measured), need.derived, tuple(chosen), counted, sums=need.sums)
        )
    return tuple(groups)


def selections(needs: tuple[MeasurementSet, ...]) -> int:
    """Return how many groups have keys that must be selected; they share delta."""
    return sum(need.keys is not None for need in needs)


def round_up_to_12_digits(value: Fraction) -> Fraction:
    """Round up to 12 digits."""
    return Fraction(_UP.divide(Decimal(value.numerator), Decimal(value.denominator)))


def choice_of(one: Measurement, epsilon: Fraction) -> PrivateChoice:
    """Return the choice that costs so much, over all cells together.

    Proof: proofs/quantiles.md, proofs/elastic_joins.md, proofs/matching.md, proofs/two_owners.md.
    """
    neighbours = one.sensitivity.neighbours
    if one.quantity.function is Aggregation.CROSS_UNIT_COUNT:
        return Meetings(epsilon, *sides_of(one.quantity), neighbours)
    if one.quantity.function is Aggregation.BOUNDED_FLOW:
        return flow_mechanism(one.quantity, epsilon, neighbours)
    (bucket,) = one.quantity.arguments
    if one.quantity.function is Aggregation.MATCHED:
        limits = tuple(int(limit) for limit in one.quantity.parameters)
        return MatchedCount(limits, one.sensitivity.l1 // sum(limits), epsilon, neighbours)
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


def _shrunk_gaussian(one: Measurement, variance: Fraction, factor: Fraction) -> Gaussian:
    moved = one.sensitivity
    return Gaussian(moved.l2_squared, round_up_to_12_digits(factor * variance), moved.neighbours)


def noise_event(mechanism: Laplace | Gaussian, moved: Sensitivity, levelled: bool = False) -> Event:
    """Return what a measurement costs: where no cell moves by more than 1, that of `moved.l1` releases of one count.

    That has the same pure loss and a smaller Rényi loss. Proof: proofs/laplace.md, Vectors. At a level that is chosen,
    noise has the same pure loss as at any other, and that is what is known of it (proofs/chosen_caps.md).
    """
    if levelled and isinstance(mechanism, Laplace):
        return Pure(mechanism.sensitivity / mechanism.scale, mechanism.neighbours)
    if isinstance(mechanism, Laplace) and moved.linf == 1 and moved.l1 > 1:
        return Repeated(Laplace(1, mechanism.scale, mechanism.neighbours).event, moved.l1)
    return mechanism.event


def variance_of(mechanism: Laplace | Gaussian | MaxNormPart) -> Fraction:
    """Return the variance of the real law, which the integer law's is near to."""
    if isinstance(mechanism, MaxNormPart):
        return mechanism.variance
    return 2 * mechanism.scale**2 if isinstance(mechanism, Laplace) else mechanism.sigma_squared
