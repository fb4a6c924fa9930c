"""Keys that nobody declared, selected under Rényi losses where that shows smaller groups for the same price.

A selection that splits its epsilon over the keys of a person needs groups that grow with their number. Under Rényi
losses they grow with its root. Epsilon and delta of the quote, and the share of a fresh budget, stay what they were.
Proof: proofs/renyi_selection.md, §5
"""

from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.approximate import separate
from sfumato.accounting.filter import RENYI_UNITS, Filter, rounded_loss
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.noise import Noise, event_of, fraction_of_fresh_budget
from sfumato.planning.plan import GroupPlan

_MIN_KEYS = 2
"""With one key per person a pure selection is never worse."""
_MIN_EPSILON, _MAX_EPSILON = Fraction(1, 1000), Fraction(100)
"""Beyond these no Rényi loss is tried: tables would be long, or have a few entries."""


def with_renyi_keys(found: tuple[Noise, ...], cap: PrivacyLoss) -> tuple[Noise, ...]:
    """Return the noise, each behind the same with keys selected under Rényi losses where these show smaller groups.

    An answer that was given with the other selection is still found.
    """
    return tuple(each for noise in found for each in (_renyi_noise(noise, cap), noise) if each is not None)


def _renyi_noise(noise: Noise, cap: PrivacyLoss) -> Noise | None:
    """Return the noise with other selections of keys, of the same price and of no larger charge; None if none is."""
    groups, loss = noise
    selecting = [place for place, group in enumerate(groups) if _is_worth_trying(group)]
    budget = Filter(cap.epsilon, cap.delta) if selecting and cap.epsilon and cap.delta else None
    if budget is None or budget.order is None or budget.capacity is None:
        return None
    spare = _spare_units(noise, selecting, budget, cap)
    if spare <= 0:
        return None
    each = spare // len(selecting)
    others = {place: _renyi_selection(groups[place].selection, budget.order, each) for place in selecting}
    if not any(others.values()):
        return None
    changed = tuple(
        replace(group, selection=others[place]) if others.get(place) is not None else group
        for place, group in enumerate(groups)
    )
    return changed, loss


def _is_worth_trying(group: GroupPlan) -> bool:
    selection = group.selection
    return (
        isinstance(selection, OptimalSelection)
        and selection.touched >= _MIN_KEYS
        and selection.min_units == 1
        and _MIN_EPSILON <= selection.epsilon <= _MAX_EPSILON
    )


def _spare_units(noise: Noise, selecting: list[int], budget: Filter, cap: PrivacyLoss) -> int:
    """Return the Rényi units that selections may cost at the budget's order for a charge that is not larger."""
    if budget.order is None or budget.capacity is None:
        return 0
    rest = event_of(
        tuple(replace(group, selection=None) if place in selecting else group for place, group in enumerate(noise[0]))
    )
    measured = 0 if rest is None else rounded_loss(separate(rest)[0], budget.order)
    within = min(Fraction(1), fraction_of_fresh_budget(noise, cap)) * budget.capacity
    return int(within - measured) if measured <= within else 0


def _renyi_selection(selection: object, order: int, units: int) -> RenyiSelection | None:
    """Return a selection of the same epsilon and delta that shows smaller groups, or None.

    Half of delta is for keys that one person has alone. The other half turns the loss at one order into epsilon.
    """
    if not isinstance(selection, OptimalSelection):
        return None
    price = Filter(selection.epsilon, selection.delta)
    if price.order is None or price.capacity is None or price.capacity <= 0:
        return None
    known = {price.order: price.capacity}
    known[order] = min(units, known.get(order, units))
    touched = selection.touched
    losses = {at: Fraction(most // touched * touched, RENYI_UNITS) for at, most in sorted(known.items())}
    try:
        other = RenyiSelection(
            selection.delta / 2,
            selection.groups_per_unit,
            tuple(losses),
            tuple(losses.values()),
            selection.neighbours,
        )
    except BadParameter:  # so little that tables of keep probabilities would be long
        return None
    return other if other.units_for(CONFIDENCE) < selection.units_for(CONFIDENCE) else None
