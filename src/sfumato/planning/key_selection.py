"""Which cells of a group are shown, and by what: two plans are compared by how much they err and what they show.

One measures every cell, and selects undeclared keys for a price of its own. The other chooses the largest
cells (`planning/top_lists.py`), or lets a noisy number of rows, or a sum, that is shown anyway select the keys.
Proof: proofs/top_list.md, proofs/counted_keys.md
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.planning.accuracy_target import CONFIDENCE, used_by
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.budget_share import Share
from sfumato.planning.measurements import MeasurementSet, counts_everybody
from sfumato.planning.noise import Noise, expected_error
from sfumato.planning.plan import GroupPlan
from sfumato.query.functions import Aggregation

NoisePair = tuple[Noise, Noise]

MAX_SIZE_RATIO = 2
"""Maximum ratio of the size from which an amount selects a group to the size that `_size` gives for all cells."""


def select_keys_by_amount(need: MeasurementSet, ranking: str | None) -> MeasurementSet:
    """Return the needs where a noisy amount selects the keys, if one is measured and nothing else selects.

    That is the number of all rows; or the sum of values that are not negative, if cells are ranked by it and only the
    largest are shown. One person may add much to a cell: so much more is needed until a key appears.
    """
    if need.keys is None or need.top is not None or need.selecting is not None:
        return need
    known = [measurement for measurement in need.measurements if measurement.candidates is None]
    rows = [one for one in known if counts_everybody(one.quantity)]
    sums = [one for one in known if one.name == ranking and _is_amount(one.quantity)]
    return replace(need, selecting_amount=(rows or sums)[0].name) if rows or sums else need


def select_keys_at_bound(need: MeasurementSet) -> MeasurementSet:
    """Return the needs where the number of rows at the selected bound selects the keys.

    Where nothing but rows bounds the groups of a person, a selection by people would have to reckon with the most rows
    that the policy allows. The selected bound is far smaller, and so is the size from which on a group appears.
    Proof: proofs/chosen_caps.md, 9
    """
    contribution = need.group.contribution
    if need.keys is None or need.selecting is not None or contribution.groups < contribution.rows:
        return need
    rows = [
        measurement
        for measurement in need.measurements
        if measurement.candidates is not None
        and measurement.candidates.bounds_rows
        and counts_everybody(measurement.quantity)
    ]
    return replace(need, selecting_amount=rows[0].name) if rows else need


def _is_amount(quantity: Quantity) -> bool:
    return quantity.function is Aggregation.SUM and not quantity.distinct and quantity.arguments[0].facts.low >= 0


def size_words(group: GroupPlan) -> str:
    """Say from which size on a group appears: people, rows, or a sum."""
    if group.selection is None:
        return "0 people"
    needed = group.selection.units_for(CONFIDENCE)
    if group.threshold_selection is None or group.threshold_selection.most == 1:
        return f"{needed:,} people"
    (one,) = (measurement for measurement in group.measured if measurement.name == group.selecting_measurement)
    quantity = one.quantity
    if one.candidates is not None and one.selected is None:
        return f"{round_up(Fraction(needed, one.candidates.thresholds[-1]), 2)} times the selected bound, in rows,"
    if quantity.function is not Aggregation.SUM:
        return f"{needed:,} rows"
    return f"a sum of {round_up(needed * quantity.arguments[0].facts.step)}"


def pairs_of(every: Sequence[Noise], found: Sequence[Noise], share: Share | None) -> tuple[NoisePair, ...]:
    """Return each of the other noises, behind the noise of all cells that it is compared with.

    Of a share, that is the one which spends the same losses: what an account has spent decides between the two.
    """

    def _is_pure(noise: Noise) -> bool:
        return share is not None and noise[1].epsilon <= share.fraction * share.account.epsilon

    return tuple((next((one for one in every if _is_pure(one) == _is_pure(two)), every[0]), two) for two in found)


def keep_if_groups_stay_visible(
    needs: Sequence[MeasurementSet], others: Sequence[MeasurementSet], pairs: Sequence[NoisePair]
) -> tuple[MeasurementSet, ...]:
    """Return the other needs but where groups would appear from far more people on: there, those of all cells."""
    return tuple(
        other if any(_shows(other, one[0][index], two[0][index]) for one, two in pairs) else need
        for index, (need, other) in enumerate(zip(needs, others, strict=True))
    )


def prefer_lower_error(
    needs: tuple[MeasurementSet, ...], others: tuple[MeasurementSet, ...], pairs: Sequence[NoisePair]
) -> tuple[Noise, ...]:
    """Return the other noises that err less than that of all cells, by as much as groups need to be larger to appear.

    The best comes first.
    """
    told = tuple(other if other.top is not None else need for need, other in zip(needs, others, strict=True))

    def _weighed(one: Noise, two: Noise) -> Fraction:
        return expected_error(told, two[0]) * _most_growth(one, two) ** 2

    found = [
        two for one, two in pairs if _all_show(others, one, two) and _weighed(one, two) < _error(needs, one[0], others)
    ]
    return tuple(sorted(found, key=lambda two: _weighed(pairs[0][0], two)))


def prefer_lower_charge(
    others: tuple[MeasurementSet, ...], pairs: Sequence[NoisePair], cap: PrivacyLoss
) -> tuple[Noise, ...]:
    """Return the other noises, of the same margins, that are charged less, by as much as groups need to be larger."""
    return tuple(
        two
        for one, two in pairs
        if _all_show(others, one, two) and used_by(two, cap) * _most_growth(one, two) < used_by(one, cap)
    )


def _all_show(others: Sequence[MeasurementSet], one: Noise, two: Noise) -> bool:
    return all(_shows(other, *groups) for other, *groups in zip(others, one[0], two[0], strict=True))


def _shows(other: MeasurementSet, one: GroupPlan, two: GroupPlan) -> bool:
    return _growth(one, two) <= (MAX_SIZE_RATIO if other.selecting_amount is not None else 1)


def _most_growth(one: Noise, two: Noise) -> Fraction:
    return max((_growth(*groups) for groups in zip(one[0], two[0], strict=True)), default=Fraction(1))


def _growth(one: GroupPlan, two: GroupPlan) -> Fraction:
    """Return how many times as large a group must be to appear in the second, in the worst case of one row each."""
    before, after = _size(one, two), _people(two)
    return max(Fraction(1), Fraction(after) / before) if before else Fraction(1)


def _size(one: GroupPlan, two: GroupPlan) -> int:
    """Return from how many people on a group appears where all cells are measured, and its number tells something.

    Where an amount selects in the second, that is one that noise could not have made of nothing: a group that is
    missing because it has less than that would have shown its key, and no number. Of a sum, people say nothing.
    """
    if not isinstance(two.selection, CountedKeys) or two.selection.most == 1:
        return _people(one)
    amount = next(measured for measured in one.measured if measured.name == two.selecting_measurement)
    least = 0 if amount.quantity.function is Aggregation.SUM else _people(one)
    return max(least, amount.mechanism.margin(CONFIDENCE))


def _people(group: GroupPlan) -> int:
    return 0 if group.selection is None else group.selection.units_for(CONFIDENCE)


def _error(
    needs: tuple[MeasurementSet, ...], groups: tuple[GroupPlan, ...], others: tuple[MeasurementSet, ...]
) -> Fraction:
    """Return the expected error where all cells are measured; the noise that ranks those of a list counts once more."""
    ranked = tuple(
        replace(
            need,
            measurements=tuple(
                replace(measurement, importance=measurement.importance + 1)
                if other.top and measurement.name == other.top.by
                else measurement
                for measurement in need.measurements
            ),
        )
        if need.keys is None
        else need
        for need, other in zip(needs, others, strict=True)
    )
    return expected_error(ranked, groups)
