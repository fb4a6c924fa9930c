"""Caps that a question chooses: levels of what one person may add to it, and the people by whom one level is taken.

A small part of the price buys a histogram of people by how much they have, between rising levels; the rest of it buys
one measurement, at the level that the noisy histogram says errs least.

Theorem: one person moves the histogram by `whole`, in L1, and what is measured at a level by its sensitivity.
Proof: proofs/chosen_caps.md
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Contribution, Group
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.planning.aggregates.averaged import Averaged
from sfumato.planning.aggregates.chosen_bounds import chosen_rows, has_chosen_bounds, is_plain, rank_of
from sfumato.planning.aggregates.counted import Counted
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.summed import Summed
from sfumato.planning.measurements import Measurement, Needs
from sfumato.planning.one_table import unlabelled
from sfumato.planning.sensitivities import of_quantity, of_sum
from sfumato.planning.split import LAPLACE_ROOT, laplace_weights
from sfumato.planning.tiers import FEWEST, Levels, amounts_to
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

OF_ONE, OF_MANY = Fraction(1, 5), Fraction(1, 10)
"""The part of the price that finds a level: of a single number, and of tables, where noise weighs more than bias."""
PEOPLE = "people"
_PLAIN = frozenset({Operator.COLUMN, Operator.CONSTANT, Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY})
"""What is NULL where its column is."""


def levelled(needs: Sequence[Needs], neighbours: Neighbours) -> tuple[tuple[Needs, ...], tuple[Needs, ...]]:
    """Return the needs with levels wherever the policy leaves caps to the question, and what has to be chosen for it.

    Groups that count the same by other keys share one choice: they stay margins of one table.
    """
    choices: dict[object, Needs] = {}
    found = []
    for need in needs:
        measured = [_levelled(one, need, neighbours, choices) for one in need.measurements]
        found.append(replace(need, measurements=tuple(measured)))
    return tuple(found), tuple(choices.values())


def priced(choices: Sequence[Needs], needs: tuple[Needs, ...]) -> tuple[Needs, ...]:
    """Return the choices, each with the importance that gives it its part of the price."""
    if not choices:
        return ()
    roots = sum(float(weight) ** (1 / LAPLACE_ROOT) for weight in laplace_weights(needs))
    priced = []
    for need in choices:
        (one,) = need.measurements
        own = part_of(one, needs)
        root = roots * float(own / (1 - min(len(choices) * own, Fraction(1, 2))))
        sides = Fraction(one.sensitivity.l1, one.sensitivity.linf)
        weight = Fraction(root**LAPLACE_ROOT).limit_denominator(10**6) / sides**2
        priced.append(replace(need, measurements=(replace(one, importance=weight),)))
    return tuple(priced)


def part_of(choice: Measurement, needs: Sequence[Needs]) -> Fraction:
    """Return which part of the price a choice gets."""
    served = [need for need in needs for one in need.measurements if _is_served(one, choice)]
    return OF_ONE if all(need.group.public_keys and need.group.cells == 1 for need in served) else OF_MANY


def has_levels(need: Needs) -> bool:
    """Whether anything of a group is measured at a level that is chosen."""
    return any(one.levels is not None for one in need.measurements)


def _is_served(one: Measurement, choice: Measurement) -> bool:
    return one.levels is not None and choice.levels is not None and one.levels.choice == choice.levels.choice


def _levelled(one: Measurement, need: Needs, neighbours: Neighbours, choices: dict[object, Needs]) -> Measurement:
    group, quantity = need.group, one.quantity
    if not is_plain(group) or quantity.distinct or quantity.function not in {Aggregation.COUNT, Aggregation.SUM}:
        return one
    by_rows = not _is_clipped(one, need)
    weight = _weight(quantity, by_rows)
    if by_rows and not chosen_rows(group):
        return one
    high = 1 if by_rows else quantity.arguments[0].facts.high
    amounts = amounts_to(group.contribution.rows * high)
    if amounts[-1] < FEWEST or (by_rows and group.contribution.rows < FEWEST):
        return one
    same = unlabelled(replace(group, keys=()), (weight,))
    key = (same.rows, same.quantities, amounts)
    if key not in choices:
        choices[key] = _choice(f"choice {len(choices) + 1}", group, weight, amounts, by_rows, neighbours)
    label = choices[key].group.label
    cells = max(1, group.cells) if group.public_keys else None
    moved = tuple(at_level(quantity, group.contribution, cells, amount, by_rows, neighbours) for amount in amounts)
    levels = Levels(label, amounts, by_rows, weight, rank_of(group), moved, _only_means(one, need))
    return replace(one, levels=levels, side=None)  # its noise is its own


def _is_clipped(one: Measurement, need: Needs) -> bool:
    """Whether what a person adds is clipped, rather than the number of rows.

    An average is of rows: its sum and its count keep the same ones, unless nothing bounds the values.
    """
    if one.quantity.function is not Aggregation.SUM or one.quantity.arguments[0].facts.low < 0:
        return False
    made = [made for made in need.derived if one.name in made.measured]
    if has_chosen_bounds(one.quantity.arguments[0], need.group):
        return all(isinstance(one, Summed | Averaged) for one in made)
    return chosen_rows(need.group) and all(isinstance(one, Summed) for one in made)


def _only_means(one: Measurement, need: Needs) -> bool:
    """Whether only averages are made of it whose sum and count lose the same rows: what is cut hardly changes them.

    Where the sum is clipped, the count keeps other rows, or all: then each has to be right by itself.
    """
    made = [made for made in need.derived if one.name in made.measured]
    totals = {each.total for each in made if isinstance(each, Averaged)}
    apart = any(other.name in totals and _is_clipped(other, need) for other in need.measurements)
    return not apart and not any(isinstance(each, Counted | Summed) for each in made)


def _weight(quantity: Quantity, by_rows: bool) -> Quantity:
    """Return what a person's rows are ordered by to fill a level: values, or one for each row that counts."""
    if not by_rows:
        return quantity
    counted = tuple(_nullable(argument) for argument in quantity.arguments if argument.facts.nullable)
    return Aggregate(Aggregation.COUNT, counted, where=quantity.where)


def _nullable(argument: Scalar) -> Scalar:
    """Return the column that an argument is NULL with, where it is one; else the argument."""
    parts = list(walk(argument))
    columns = {part for part in parts if part.operator is Operator.COLUMN}
    plain = len(columns) == 1 and all(part.operator in _PLAIN for part in parts)
    return columns.pop() if plain else argument


def _choice(
    label: str, group: Group, weight: Quantity, amounts: tuple[int, ...], by_rows: bool, neighbours: Neighbours
) -> Needs:
    whole, sides = unit_of(amounts), 1 if neighbours is Neighbours.ADD_REMOVE else 2
    moved = Sensitivity(sides * whole, sides * whole**2, whole, neighbours)
    levels = Levels(label, amounts, by_rows, weight, rank_of(group), (moved,) * len(amounts))
    own = replace(group, label=label, keys=(), asked=(), combinations=None)
    return Needs(own, None, (Measurement(PEOPLE, weight, moved, Fraction(1), levels=levels),), ())


def at_level(
    quantity: Quantity,
    contribution: Contribution,
    cells: int | None,
    amount: int,
    by_rows: bool,
    neighbours: Neighbours,
) -> Sensitivity:
    """Return how far one person moves what is measured at a level, over all cells together."""
    if by_rows:
        fewer = replace(contribution, rows=amount, groups=min(amount, contribution.groups))
        return of_quantity(quantity, fewer, cells, neighbours)
    return of_sum(replace(contribution, rows=1, groups=1), cells, 0, amount, neighbours)


def widths_of(amounts: Sequence[int]) -> tuple[int, ...]:
    """Return how far each level lies above the one before."""
    return tuple(amount - before for before, amount in zip((0, *amounts), amounts, strict=False))


def unit_of(amounts: Sequence[int]) -> int:
    """Return what one person is in the histogram, so that parts of people are whole numbers."""
    return lcm(*widths_of(amounts))


def histogram_of(totals: Sequence[int], amounts: Sequence[int]) -> list[int]:
    """Return the people by what they have, from the exact totals at all levels.

    Who has what lies between two levels is shared by both, in the parts that add up to what they have.

    >>> histogram_of([3, 6, 10], [1, 2, 4])  # three people with 2, 4 and 4
    [0, 2, 4]
    """
    unit, widths = unit_of(amounts), widths_of(amounts)
    above = [
        (total - before) * (unit // width) for before, total, width in zip((0, *totals), totals, widths, strict=False)
    ]
    return [here - there for here, there in zip(above, [*above[1:], 0], strict=True)]
