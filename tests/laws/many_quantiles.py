"""The exact output laws of `Quantiles`, computed from the definition: which bucket, and how far its ends lie."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.laws.case import Case
from tests.laws.choosing import Law, exponential_law, permute_and_flip_law

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.quantiles import Quantiles

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
SHARE_OF_ENDS = Fraction(1, 4)


def rate(mechanism: Quantiles, level: Fraction, epsilon: Fraction) -> Fraction:
    p, q = level.numerator, level.denominator
    moved = mechanism.weight * max(p, q - p) * (1 if mechanism.neighbours == "add-remove" else 2)
    return epsilon / (2 * moved)


def ranks(values: Sequence[int], point: int) -> tuple[int, int]:
    return sum(value < point for value in values), sum(value <= point for value in values)


def distances(farthest: int) -> list[int]:
    known = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    return known[: next(place for place, far in enumerate(known) if far >= farthest) + 1]


def ends_law(values: Sequence[int], mechanism: Quantiles, place: int) -> Law:
    (level,) = mechanism.levels
    p, q, size, last = level.numerator, level.denominator, len(values), mechanism.buckets - 1
    slope = rate(mechanism, level, mechanism.epsilon * SHARE_OF_ENDS)
    sides = [place if level > 0 else 0, last - place if level < 1 else 0]
    tried = distances(max(sides))
    wanted = mechanism.wanted(level)
    surplus = []
    for far in tried[:-1]:
        parts = []
        if level > 0 and far < place:
            parts.append(p * size - q * ranks(values, place - far)[0] - 2 * q * mechanism.weight)
        if level < 1 and place + far < last:
            parts.append(q * ranks(values, place + far)[1] - p * size - 2 * q * mechanism.weight)
        surplus.append(min(parts))
    surplus.append(wanted)
    scores = []
    for number, here in enumerate(surplus):
        before = surplus[number - 1] if number else wanted
        scores.append(-max(0, wanted - here, before - wanted))
    return {
        (
            0 if level == 0 else max(0, place - tried[number]),
            place,
            last if level == 1 else min(last, place + tried[number]),
        ): chance
        for number, chance in exponential_law(scores, slope).items()
    }


def one_level_law(values: Sequence[int], mechanism: Quantiles) -> Law:
    (level,) = mechanism.levels
    p, q, size = level.numerator, level.denominator, len(values)
    share = 1 - SHARE_OF_ENDS if mechanism.ends else ONE
    offset = 0 if 0 < level < 1 else mechanism.passed_over * mechanism.weight * q * (1 if level == 0 else -1)
    scores = []
    for point in range(mechanism.buckets):
        below, upto = ranks(values, point)
        scores.append(-max(0, q * below - p * size - offset, p * size + offset - q * upto))
    slope = rate(mechanism, level, mechanism.epsilon * share)
    chosen = (permute_and_flip_law if mechanism.buckets <= 2048 else exponential_law)(scores, slope)
    law: Law = {}
    for place, chance in chosen.items():
        if mechanism.ends:
            law |= {ends: chance * share for ends, share in ends_law(values, mechanism, place).items()}
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
        Quantiles((HALF,), 2049, 1, ONE, ADD, ends=False),
        (((5, 5, 5), (5, 5, 5, 2000)),),
    ),
)
