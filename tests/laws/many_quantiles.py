"""The exact output laws of `Quantiles`, computed from the definition: which bucket, and how far its ends lie."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any

from tests.laws.case import Case
from tests.laws.choosing import Law, exponential_law, permute_and_flip_law

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.quantiles import Quantiles

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)


def rate(mechanism: Quantiles, level: Fraction, epsilon: Fraction) -> Fraction:
    p, q = level.numerator, level.denominator
    moved = mechanism.weight * max(p, q - p) * (1 if mechanism.neighbours == "add-remove" else 2)
    return epsilon / (2 * moved)


def ranks(values: Sequence[int], point: int) -> tuple[int, int]:
    return sum(value < point for value in values), sum(value <= point for value in values)


def distances(farthest: int) -> list[int]:
    known = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    return known[: next(place for place, far in enumerate(known) if far >= farthest) + 1]


def ends_misses(values: Sequence[int], mechanism: Quantiles, level: Fraction, place: int) -> dict[int, int]:
    """Return how far each distance misses what the ends of a level want."""
    p, q, size, last = level.numerator, level.denominator, len(values), mechanism.buckets - 1
    sides = [place if level > 0 else 0, last - place if level < 1 else 0]
    tried = distances(max(sides))
    wanted = mechanism.wanted(level)
    surplus = []
    for far in tried[:-1]:  # the last one holds everything
        parts = []
        if level > 0 and far < place:
            parts.append(p * size - q * ranks(values, place - far)[0] - 2 * p * mechanism.weight + 1)
        if level < 1 and place + far < last:
            parts.append(q * ranks(values, place + far)[1] - p * size - 2 * (q - p) * mechanism.weight + 1)
        surplus.append(min(parts))
    slack = [
        min((surplus[i] - wanted[i - start] for i in range(start, len(surplus))), default=0)
        for start in range(len(tried))
    ]
    befores = [0, *slack[:-1]]
    return {far: max(0, -here, before) for far, here, before in zip(tried, slack, befores, strict=True)}


def with_ends(mechanism: Quantiles, level: Fraction, place: int, far: int) -> tuple[int, int, int]:
    last = mechanism.buckets - 1
    return 0 if level == 0 else max(0, place - far), place, last if level == 1 else min(last, place + far)


def together_law(values: Sequence[int], mechanism: Quantiles, places: Sequence[int]) -> Law:
    """The law of the ends of all levels, given their answers: by the worst miss of all, list by list."""
    misses = [
        ends_misses(values, mechanism, level, place) for level, place in zip(mechanism.levels, places, strict=True)
    ]
    moved = [max(level.numerator, level.denominator - level.numerator) for level in mechanism.levels]
    lists = list(product(*misses))
    # in units of what one person moves
    worst = [
        max(Fraction(one[far], each) for one, far, each in zip(misses, fars, moved, strict=True)) for fars in lists
    ]
    common = lcm(*moved)
    slope = rate(mechanism, ONE, mechanism.epsilon * (1 - _answers_share(mechanism))) / common
    law: Law = {}
    for number, chance in exponential_law([-int(one * common) for one in worst], slope).items():
        parts = zip(mechanism.levels, places, lists[number], strict=True)
        outcome = tuple(with_ends(mechanism, level, place, far) for level, place, far in parts)
        law[outcome] = law.get(outcome, 0) + chance
    return law


def _answers_share(mechanism: Quantiles) -> Fraction:
    return 1 - (Fraction(1, 4) if len(mechanism.levels) == 1 else Fraction(1, 5))


def one_level_law(values: Sequence[int], mechanism: Quantiles) -> Law:
    (level,) = mechanism.levels
    p, q, size = level.numerator, level.denominator, len(values)
    extreme = level in (0, 1)
    offset = mechanism.passed_over * mechanism.weight * q * (1 if level == 0 else -1) if extreme else 0
    scores = []
    for point in range(mechanism.buckets):
        below, upto = ranks(values, point)
        scores.append(-max(0, q * below - p * size - offset, p * size + offset - q * upto))
    if mechanism.ends and not extreme:  # the answer and its ends are one choice
        pairs = {
            with_ends(mechanism, level, place, far): min(score, -miss)
            for place, score in enumerate(scores)
            for far, miss in ends_misses(values, mechanism, level, place).items()
        }
        slope = rate(mechanism, level, mechanism.epsilon)
        return dict(zip(pairs, permute_and_flip_law(list(pairs.values()), slope).values(), strict=True))
    share = _answers_share(mechanism) if mechanism.ends else ONE
    chosen = (permute_and_flip_law if mechanism.buckets <= 64 else exponential_law)(
        scores, rate(mechanism, level, mechanism.epsilon * share)
    )
    law: Law = {}
    for place, chance in chosen.items():
        if mechanism.ends:
            law |= {ends: chance * part for (ends,), part in together_law(values, mechanism, [place]).items()}
        else:
            law[0, place, mechanism.buckets - 1] = chance
    return law


def _case(name: str, mechanism: Quantiles, pairs: tuple[tuple[Any, Any], ...]) -> Case:
    return Case(name, mechanism, pairs, lambda values: one_level_law(values, mechanism), mechanism.epsilon)


_MORE = (((1, 2), (0, 1, 2)), ((), (3,)), ((4, 4, 4), (4, 4, 4, 0)), ((0,) * 9, (0,) * 8))
_OTHER = (((1, 2, 4), (1, 2, 0)), ((3,), (0,)), ((4, 4, 4), (4, 4, 0)), ((0,) * 9, (0,) * 8 + (4,)))
_MANY = ((0,) * 8, (0,) * 8 + (2,))

CASES: tuple[Case, ...] = (
    _case("median with ends", Quantiles((HALF,), 5, 1, ONE, ADD), _MORE),
    _case("median with ends, replace", Quantiles((HALF,), 5, 1, ONE, REPLACE), _OTHER),
    _case("median without ends", Quantiles((HALF,), 5, 1, ONE, ADD, ends=False), _MORE),
    _case("upper tenth with ends", Quantiles((Fraction(9, 10),), 5, 1, ONE, ADD), _MORE),
    _case("least value", Quantiles((Fraction(0),), 5, 1, ONE, ADD), (*_MORE, ((0,) * 12, (0,) * 11))),
    _case("greatest value", Quantiles((ONE,), 5, 1, ONE, ADD), (*_MORE, _MANY)),
    _case(
        "median of a long range",
        Quantiles((HALF,), 4097, 1, ONE, ADD, ends=False),
        (((5, 5, 5), (5, 5, 5, 2000)),),
    ),
)
