"""Undeclared keys, selected under Rényi losses where that shows smaller groups for the same price.

A selection that splits its epsilon over the keys of a person needs groups that grow with their number. Under Rényi
losses they grow with its root. Where people may have more keys than they are counted in, keys are selected in rounds:
what a round found is left out of the next. Epsilon and delta of the quote, and the share of a fresh budget, stay what
they were.  Proof: proofs/renyi_selection.md, §5; proofs/key_rounds.md
"""

from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.approximate import separate
from sfumato.accounting.filter import RENYI_UNITS, Filter, rounded_loss
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.language.facts import Kind
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.noise import Noise, event_of, fraction_of_fresh_budget
from sfumato.planning.plan import GroupPlan

_MIN_KEYS = 2
"""With one key per person a pure selection is never worse."""
_MIN_EPSILON, _MAX_EPSILON = Fraction(1, 1000), Fraction(100)
"""Beyond these no Rényi loss is tried: tables would be long, or have a few entries."""
ROUND_SHARES = (Fraction(1, 10), Fraction(9, 10))
"""The parts of loss and delta of the rounds: a small part finds the common keys, and the rest the others."""
MIN_ROWS_PER_KEY = 2
"""Rounds are planned where a person may have this many rows or more per key that counts: there may be other keys."""
_ROUND_KINDS = frozenset({Kind.INTEGER, Kind.TEXT})
"""Kinds of keys that a statement leaves out by their values."""


def with_renyi_keys(found: tuple[Noise, ...], cap: PrivacyLoss) -> tuple[Noise, ...]:
    """Return the noise, each behind the same with keys selected under Rényi losses where these show smaller groups.

    That in turn stands behind the same in rounds. An answer that was given with another selection is still found.
    """
    made = ((_renyi_noise(noise, cap), noise) for noise in found)
    return tuple(each for one, noise in made for each in (_in_rounds(one), one, noise) if each is not None)


def _in_rounds(noise: Noise | None) -> Noise | None:
    """Return the noise with keys selected in rounds, of no larger loss at any order and no larger delta; or None."""
    if noise is None:
        return None
    groups = tuple(_with_rounds(group) for group in noise[0])
    return None if groups == noise[0] else (groups, noise[1])


def _with_rounds(group: GroupPlan) -> GroupPlan:
    """Return the group with its selection in rounds, where people may have other keys, and keys are all it shows.

    A cell is measured over the rows that a person is counted with, in the keys that were drawn first.
    """
    selection, most = group.selection, group.group.contribution
    if not isinstance(selection, RenyiSelection) or group.all_outputs or not most.bound_groups:
        return group
    if most.rows < MIN_ROWS_PER_KEY * most.groups or not all(
        key.scalar.facts.kind in _ROUND_KINDS for key in group.group.keys
    ):
        return group
    try:
        return replace(group, selection=rounds_of(selection))
    except BadParameter:  # so little in the first round that its table would be long
        return group


def rounds_of(selection: RenyiSelection) -> KeyRounds:
    """Return a selection in rounds whose losses and deltas add up to no more than those of this one.

    Theorem: at each order the sum of the charged losses is no larger, in whole units.  Proof: proofs/key_rounds.md, 2
    """
    decision = selection.decision
    rounds = []
    for share in ROUND_SHARES:
        units = (int(share * rounded_loss(decision, order)) for order in selection.orders)
        losses = tuple(Fraction(most * selection.touched, RENYI_UNITS) for most in units)
        rounds.append(replace(selection, delta=share * selection.delta, losses=losses))
    return KeyRounds(tuple(rounds))


def _renyi_noise(noise: Noise, cap: PrivacyLoss) -> Noise | None:
    """Return the noise with other selections of keys, of the same price and of no larger charge; None if none is."""
    groups, loss = noise
    selecting = [index for index, group in enumerate(groups) if _is_worth_trying(group)]
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
        replace(group, selection=others[index]) if others.get(index) is not None else group
        for index, group in enumerate(groups)
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
        tuple(replace(group, selection=None) if index in selecting else group for index, group in enumerate(noise[0]))
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
