"""Noise that uses up a given part of an account, as its ledger counts it, with the least expected error.

A ledger counts pure losses against epsilon and Rényi losses at one order against `capacity`; what an account has used
is the smaller share of the two. So there are two ways to spend a share, and which of them is right depends on what the
account has spent before. Proof: proofs/planning.md, §8
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from math import inf

from sfumato.accounting.event import BoundedRange, Event, Pure
from sfumato.accounting.filter import RENYI_UNITS, Filter, rounded_loss
from sfumato.accounting.gaussian_curve import epsilon_of
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import Refusal
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.budget_split import (
    GAUSSIAN_ROOT,
    LAPLACE_ROOT,
    Shared,
    gaussian_parts,
    gaussian_weights,
    keys_weights,
    laplace_weights,
    parts_of,
    shared_noise,
    shares,
)
from sfumato.planning.measurements import Measurement, MeasurementSet, measurements
from sfumato.planning.noise import (
    Noise,
    assemble_group_plans,
    choice_of,
    expected_error,
    gaussian_vectors,
    is_chosen,
    laplace_noise,
    noise_event,
    pure_noise,
    round_up_to_12_digits,
    selections,
)
from sfumato.planning.plan import GroupPlan, Plan

_DOWN = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_HALVINGS = 44
_MIN_DELTA = Fraction(1, 10**300)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a budget, above 0 and at most 1, and the budget before any charge."""

    fraction: Fraction
    account: Filter


def noise_for(needs: tuple[MeasurementSet, ...], share: Share, delta: Fraction) -> tuple[Noise, ...]:
    """Return the ways to spend a share: by pure losses, and by Rényi losses; the smaller expected error first.

    Keys that are selected use at most that share of what approximate events may use, and at most delta.
    """
    account = share.account
    for_keys = min(delta, share.fraction * account.for_approximate)
    units = int(share.fraction * max(0, account.capacity or 0))
    found: list[Noise] = []
    refusal: Refusal | None = None
    ways: tuple[Callable[[], Noise | None], ...] = (
        lambda: pure_noise(needs, share.fraction * account.epsilon, for_keys),
        lambda: _by_renyi_loss(needs, units, account.order, delta, for_keys),
    )
    for way in ways:
        try:
            if (noise := way()) is not None:
                found.append(noise)
        except Refusal as failure:  # too little to select keys with: the other way may do
            refusal = failure
    if not found and refusal is not None:
        raise refusal
    return tuple(sorted(found, key=lambda noise: _error(needs, noise)))


def choose_plan(
    plans: tuple[Plan, ...],
    account: Filter,
    part: Fraction | None,
    *,
    epsilon: Fraction | None = None,
    dataset: Filter | None = None,
) -> Plan:
    """Return the plan to charge to an account as it is now, of several in the order of preference.

    With an epsilon, it is the first that is accepted, but for keys selected under Rényi losses where the same plan with
    another selection is charged less; with a share, the first that uses no more than that; else, and where there is
    none, the one that uses least. An analyst's account is charged to the `dataset`, too, so that what only this refuses
    comes after what both accept.
    """
    if len(plans) == 1:
        return plans[0]
    caps = (account,) if dataset is None else (account, dataset)

    def accepted(plan: Plan) -> bool:
        return plan.event is None or all(cap.accepts(plan.event) for cap in caps)

    if epsilon is not None and (fitted := list(filter(accepted, plans))):
        later = (*fitted[1:], None)
        return next(one for one, other in zip(fitted, later, strict=True) if not _is_charged_more(one, other, caps))
    refused = [not accepted(plan) for plan in plans]
    used = [inf if plan.event is None else _or_infinity(account.used_after(plan.event)) for plan in plans]
    places = range(len(plans))
    if part is not None and (fitting := [index for index in places if used[index] <= account.used + part]):
        return plans[min(fitting, key=lambda place: (refused[place], place))]
    return plans[min(places, key=lambda place: (refused[place], used[place], place))]


def _is_charged_more(plan: Plan, other: Plan | None, caps: tuple[Filter, ...]) -> bool:
    """Whether a plan selects keys under Rényi losses, and a cap is charged less for the plan that it was made of.

    A fresh account is not; one that has spent pure losses, and a dataset of another order, may be.
    Proof: proofs/renyi_selection.md, §5
    """
    if other is None or plan.event is None or other.event is None or plan.loss != other.loss:
        return False
    if [_without_selection(group) for group in plan.groups] != [_without_selection(group) for group in other.groups]:
        return False
    if not any(isinstance(group.selection, RenyiSelection | KeyRounds) for group in plan.groups):
        return False
    events = plan.event, other.event
    used = ([_or_infinity(cap.used_after(event)) for event in events] for cap in caps)
    return any(first > second for first, second in used)


def _without_selection(group: GroupPlan) -> GroupPlan:
    return replace(group, selection=None)


def _or_infinity(share: Fraction | None) -> Fraction | float:
    return inf if share is None else share


def _error(needs: tuple[MeasurementSet, ...], noise: Noise) -> tuple[Fraction, Fraction]:
    """Return the expected error, and among equal ones what the selections of keys lack."""
    apart = [one.selection for one in noise[0] if isinstance(one.selection, OptimalSelection)]
    return expected_error(needs, noise[0]), sum((1 / one.epsilon for one in apart), Fraction(0))


def _by_renyi_loss(
    needs: tuple[MeasurementSet, ...], units: int, order: int | None, delta: Fraction, for_keys: Fraction
) -> Noise | None:
    """Return Laplace or Gaussian noise of this Rényi loss, whichever errs less; None where neither is possible."""
    if order is None or not units:
        return None
    shared = shared_noise(needs)
    found = (
        _charged_laplace(needs, units, order, for_keys),
        _charged_laplace(needs, units, order, for_keys, shared) if any(shared) else None,
        _charged_gaussian(needs, units, order, delta, for_keys),
    )
    return min((noise for noise in found if noise is not None), key=lambda noise: _error(needs, noise), default=None)


def _charged_laplace(
    needs: tuple[MeasurementSet, ...], units: int, order: int, delta: Fraction, shared: Shared = ()
) -> Noise | None:
    """Return Laplace noise, or noise that measurements share, of a number of units at an order."""
    keys = [need for need in needs if need.key_sensitivity is not None]
    parts = shares(laplace_weights(needs, shared), LAPLACE_ROOT)

    def _fits(epsilon: Fraction) -> bool:
        total: int | float = 0
        for need, part in zip(keys, parts, strict=False):
            total += _selection_loss(need, part * epsilon, order)
        for (_, together), part in zip(parts_of(needs, shared), parts[len(keys) :], strict=True):
            total += rounded_loss(_laplace_event(together, part * epsilon), order)
        return total <= units

    epsilon = _most(_fits)
    return None if epsilon is None else laplace_noise(needs, tuple(part * epsilon for part in parts), delta, shared)


def _laplace_event(part: tuple[Measurement, ...], epsilon: Fraction) -> Event:
    one, moved = part[0], part[0].sensitivity
    if len(part) > 1:
        return Pure(epsilon, moved.neighbours)
    if is_chosen(one):
        return choice_of(one, epsilon).event
    return noise_event(Laplace(moved.l1, moved.l1 / epsilon, moved.neighbours), moved, one.candidates is not None)


def _charged_gaussian(
    needs: tuple[MeasurementSet, ...], units: int, order: int, delta: Fraction, for_keys: Fraction
) -> Noise | None:
    """Return Gaussian noise of a number of units at an order; keys are selected for their part of them.

    The price that is quoted for it holds at the query's delta, of which keys use at most half.
    """
    every = measurements(needs)
    if not every or delta < _MIN_DELTA or any(is_chosen(one) or one.candidates is not None for one in every):
        return None
    parts = shares(keys_weights(needs) + gaussian_weights(needs), GAUSSIAN_ROOT)
    selecting = len(keys_weights(needs))
    keys = []
    for need, part in zip((need for need in needs if need.key_sensitivity is not None), parts, strict=False):
        epsilon = _most(partial(_selection_fits, need, order, int(part * units)))
        if epsilon is None:
            return None
        keys.append(epsilon)
    found: dict[int, Gaussian] = {}
    for together, part in zip(gaussian_parts(needs), parts[selecting:], strict=True):
        if not (own := int(part * units)):
            return None
        for one in together:
            squared = one.sensitivity.l2_squared
            # α·Δ²/(2σ²) in units of 2^-64 is at most `own`, an integer, and so it is rounded up
            variance = round_up_to_12_digits(Fraction(order * squared * RENYI_UNITS, 2 * own))
            found[id(one)] = Gaussian(squared, variance, one.sensitivity.neighbours)
    used = min(for_keys, delta / 2) if selections(needs) else Fraction(0)
    groups = assemble_group_plans(needs, tuple(keys), used, [found[id(one)] for one in every])
    groups = gaussian_vectors(groups, needs)
    quoted = epsilon_of([vector for group in groups for vector in group.gaussian_parts], delta - used)
    return groups, PrivacyLoss(sum(keys, quoted), delta)


def _selection_loss(need: MeasurementSet, epsilon: Fraction, order: int) -> int | float:
    """Return what a selection of keys costs beside its delta: as many decisions as one person has keys.

    The choices of a top list are as many as cells are chosen, each of bounded range.
    """
    keys = need.key_sensitivity
    if keys is None:
        return 0
    if need.top is not None:
        return need.top.chosen * rounded_loss(BoundedRange(epsilon / need.top.chosen, keys.neighbours), order)
    return keys.l1 * rounded_loss(Pure(epsilon / keys.l1, keys.neighbours), order)


def _selection_fits(need: MeasurementSet, order: int, units: int, epsilon: Fraction) -> bool:
    return _selection_loss(need, epsilon, order) <= units


def _most(fits: Callable[[Fraction], bool]) -> Fraction | None:
    """Return nearly the greatest epsilon of 12 digits that fits, between 10^-12 and 10^3; None if none does."""
    low, high = -12 * 3.33, 10.0
    if not fits(_power(low)):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(_power(middle)) else (low, middle)
    return _power(low)


def _power(exponent: float) -> Fraction:
    value = Fraction(2.0**exponent)
    return Fraction(_DOWN.divide(Decimal(value.numerator), Decimal(value.denominator)))
