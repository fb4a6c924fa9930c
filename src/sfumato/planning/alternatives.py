"""Which cells of a group are shown, and by what: two plans are compared by how much they err and what they show.

One measures every cell, and selects keys that nobody declared for a price of its own. The other chooses the largest
cells (`planning/top_lists.py`), or lets the noisy number of rows that is shown anyway select the keys.
Proof: proofs/top_list.md, proofs/counted_keys.md
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.loss import PrivacyLoss
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.planning.measurements import Needs, counts_everybody
from sfumato.planning.noise import Noise, expected_error
from sfumato.planning.plan import GroupPlan
from sfumato.planning.spending import Share
from sfumato.planning.within import CONFIDENCE, used_by

Pair = tuple[Noise, Noise]

MOST_MORE = 2
"""A group that its rows select appears from at most so many times the size that `_size` tells of all cells."""


def by_rows(need: Needs) -> Needs:
    """Return the needs where the noisy number of all rows selects the keys, if it is measured and nothing else selects.

    One person may have several rows in a cell: so many more than one are needed until a key appears.
    """
    if need.keys is None or need.top is not None or need.selecting is not None:
        return need
    counts = [one for one in need.measurements if counts_everybody(one.quantity) and one.levels is None]
    return replace(need, rows=counts[0].name) if counts else need


def pairs_of(every: Sequence[Noise], found: Sequence[Noise], share: Share | None) -> tuple[Pair, ...]:
    """Return each of the other noises, behind the noise of all cells that it is compared with.

    Of a share, that is the one which spends the same losses: what an account has spent decides between the two.
    """

    def _is_pure(noise: Noise) -> bool:
        return share is not None and noise[1].epsilon <= share.part * share.account.epsilon

    return tuple((next((one for one in every if _is_pure(one) == _is_pure(two)), every[0]), two) for two in found)


def showing_as_much(needs: Sequence[Needs], others: Sequence[Needs], pairs: Sequence[Pair]) -> tuple[Needs, ...]:
    """Return the other needs but where groups would appear from far more people on: there, those of all cells."""
    return tuple(
        other if any(_shows(other, one[0][place], two[0][place]) for one, two in pairs) else need
        for place, (need, other) in enumerate(zip(needs, others, strict=True))
    )


def better(needs: tuple[Needs, ...], others: tuple[Needs, ...], pairs: Sequence[Pair]) -> tuple[Noise, ...]:
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


def cheaper(others: tuple[Needs, ...], pairs: Sequence[Pair], cap: PrivacyLoss) -> tuple[Noise, ...]:
    """Return the other noises, of the same margins, that are charged less, by as much as groups need to be larger."""
    return tuple(
        two
        for one, two in pairs
        if _all_show(others, one, two) and used_by(two, cap) * _most_growth(one, two) < used_by(one, cap)
    )


def _all_show(others: Sequence[Needs], one: Noise, two: Noise) -> bool:
    return all(_shows(other, *groups) for other, *groups in zip(others, one[0], two[0], strict=True))


def _shows(other: Needs, one: GroupPlan, two: GroupPlan) -> bool:
    return _growth(one, two) <= (MOST_MORE if other.rows is not None else 1)


def _most_growth(one: Noise, two: Noise) -> Fraction:
    return max((_growth(*groups) for groups in zip(one[0], two[0], strict=True)), default=Fraction(1))


def _growth(one: GroupPlan, two: GroupPlan) -> Fraction:
    """Return how many times as large a group must be to appear in the second, in the worst case of one row each."""
    before, after = _size(one, two), _people(two)
    return max(Fraction(1), Fraction(after) / before) if before else Fraction(1)


def _size(one: GroupPlan, two: GroupPlan) -> int:
    """Return from how many people on a group appears where all cells are measured, and its number tells something.

    Where rows select in the second, that is a number that noise could not have made of nothing: a group that is
    missing because it has fewer rows than that would have shown its key, and no number.
    """
    if not isinstance(two.selection, CountedKeys) or two.selection.most == 1:
        return _people(one)
    noise = next(measured.mechanism for measured in one.measured if measured.name == two.counted)
    return max(_people(one), noise.margin(CONFIDENCE))


def _people(group: GroupPlan) -> int:
    return 0 if group.selection is None else group.selection.units_for(CONFIDENCE)


def _error(needs: tuple[Needs, ...], groups: tuple[GroupPlan, ...], others: tuple[Needs, ...]) -> Fraction:
    """Return the expected error where all cells are measured; the noise that ranks those of a list counts once more."""
    ranked = tuple(
        replace(
            need,
            measurements=tuple(
                replace(one, importance=one.importance + 1) if other.top and one.name == other.top.by else one
                for one in need.measurements
            ),
        )
        if need.keys is None
        else need
        for need, other in zip(needs, others, strict=True)
    )
    return expected_error(ranked, groups)
