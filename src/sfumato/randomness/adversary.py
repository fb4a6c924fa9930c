"""The worst that a source of biased bits can do, exactly: over all Santha–Vazirani sources of one bias  [SV86].

The coins are a point u = 0.b1 b2 b3 … of [0, 1), found bit by bit. Before each bit an opponent who knows all earlier
ones chooses which half gets the probability (1 + gamma) / 2. The opponent's gain is a value for each place of
[0, 1); the best they can do at a node of the tree is

    V(node) = (1 + gamma) / 2 · max(V(left), V(right)) + (1 - gamma) / 2 · min(V(left), V(right)),

and only nodes in which the value changes need to be entered.  Proof: proofs/consistent.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from sfumato.errors import BadParameter, quote_value
from sfumato.randomness.source import as_gamma

ProbabilityInterval = tuple[Fraction, Fraction]
_MAX_COIN_BITS = 512


OutcomeChances = tuple[Fraction, Fraction]
"""The chances of the first and of the second outcome, given that the coins fell into a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval of coins, and what the opponent can choose there: without later coins there is one choice."""

    low: Fraction
    high: Fraction
    choices: tuple[OutcomeChances, ...]


@dataclass(frozen=True, slots=True)
class _Reached:
    """What the best choices below a node give: the value aimed at, and the chances of both outcomes."""

    value: Fraction
    first: Fraction
    second: Fraction


def worst_ratio(first: ProbabilityInterval, second: ProbabilityInterval, gamma: object) -> Fraction:
    """Return the largest P[first] / P[second] over all sources of this bias, for intervals [low, high) of [0, 1).

    Dinkelbach's method: aim at 1[first] - ratio · 1[second]; the best policy for it has a larger ratio, or none has.

    >>> half, quarter = (Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(3, 4))
    >>> worst_ratio(half, quarter, 0), worst_ratio(half, quarter, Fraction(1, 10))
    (Fraction(2, 1), Fraction(220, 81))
    """
    return _largest(pieces_of(first, second), read_bias(gamma))


def worst_joint_ratio(
    first: ProbabilityInterval, second: ProbabilityInterval, later: ProbabilityInterval, gamma: object
) -> Fraction:
    """Return the same for a second answer after the first, from the coins that follow, alike for both neighbours.

    It does not depend on the person, and still the loss grows: how likely the opponent makes `later` may depend on
    where the first coins fell.
    """
    bias = read_bias(gamma)
    low, high = _interval(later, "later")
    likeliest = worst_mean(
        [(Fraction(0), low, Fraction(0)), (low, high, Fraction(1)), (high, Fraction(1), Fraction(0))], bias
    )
    rarest = 1 - worst_mean(
        [(Fraction(0), low, Fraction(1)), (low, high, Fraction(0)), (high, Fraction(1), Fraction(1))], bias
    )
    pieces = [
        Piece(
            piece.low,
            piece.high,
            tuple((left * s, two * s) for left, two in piece.choices for s in (rarest, likeliest)),
        )
        for piece in pieces_of(first, second)
    ]
    return _largest(pieces, bias)


def pieces_of(first: ProbabilityInterval, second: ProbabilityInterval) -> list[Piece]:
    """Return [0, 1) cut at the ends of two intervals: in each piece each of them happens or does not."""
    first_interval, second_interval = _interval(first, "first"), _interval(second, "second")
    if second_interval[0] == second_interval[1]:
        raise BadParameter(
            "second is empty.",
            "An empty interval cannot be compared with another one.",
            "Give low < high for both intervals.",
        )
    ends = sorted({Fraction(0), *first_interval, *second_interval, Fraction(1)})
    return [
        Piece(
            low,
            high,
            (
                (
                    Fraction(first_interval[0] <= low < first_interval[1]),
                    Fraction(second_interval[0] <= low < second_interval[1]),
                ),
            ),
        )
        for low, high in pairwise(ends)
    ]


def _largest(pieces: list[Piece], bias: Fraction) -> Fraction:
    ratio = Fraction(0)
    while True:
        best_play = _best(pieces, ratio, bias)
        if best_play.value <= 0:
            return ratio
        ratio = best_play.first / best_play.second


def worst_mean(cells: Sequence[tuple[Fraction, Fraction, Fraction]], gamma: object) -> Fraction:
    """Return the largest mean over all sources of this bias of a value that is constant on cells (low, high, value).

    >>> worst_mean([(Fraction(0), Fraction(1, 2), Fraction(0)), (Fraction(1, 2), Fraction(1), Fraction(1))], "1/10")
    Fraction(11, 20)
    """
    bias = read_bias(gamma)
    try:
        places = sorted((*_interval((low, high), "cells"), Fraction(value)) for low, high, value in cells)
    except (TypeError, ValueError, OverflowError):
        places = []
    places = [interval for interval in places if interval[0] < interval[1]]
    ends = [Fraction(0), *(high for _, high, _ in places)]
    if not places or ends[-1] != 1 or any(low != end for (low, _, _), end in zip(places, ends, strict=False)):
        raise BadParameter(
            "The cells do not cover [0, 1) once.",
            "Every coin must have one value.",
            "Give cells (low, high, value) that follow each other from 0 to 1.",
        )
    return _mean([(low, high, value) for low, high, value in places], Fraction(0), Fraction(1), bias)


def read_bias(gamma: object) -> Fraction:
    """Read a bias below 1: a source of unlimited bias allows no guarantee."""
    bias = as_gamma(gamma)
    if bias < 1:
        return bias
    raise BadParameter(
        "gamma = 1 says nothing about a source.",
        "An adversary may choose all of its bits, so no answer is private.",
        "Combine it with a source of gamma < 1 (sfumato.randomness.imperfect.Combined).",
    )


def _interval(ends: ProbabilityInterval, name: str) -> ProbabilityInterval:
    try:
        low, high = (Fraction(end) for end in ends)
    except (TypeError, ValueError, OverflowError):
        low, high = Fraction(1), Fraction(0)  # no numbers: no interval
    if not 0 <= low <= high <= 1 or any(_depth(end) > _MAX_COIN_BITS for end in (low, high)):
        raise BadParameter(
            f"{name} = {quote_value(ends)} is not an interval of coins.",
            "Its ends are places that finitely many bits decide.",
            "Give low <= high in [0, 1], each a whole number divided by a power of 2.",
        )
    return low, high


def _depth(end: Fraction) -> int:
    bits = end.denominator.bit_length() - 1
    return bits if end.denominator == 1 << bits else _MAX_COIN_BITS + 1


def _best(pieces: list[Piece], ratio: Fraction, bias: Fraction) -> _Reached:
    """Return what the policy reaches that is best for P[first] - ratio · P[second]."""
    more, less = (1 + bias) / 2, (1 - bias) / 2

    def _enter(low: Fraction, high: Fraction, inside: list[Piece]) -> _Reached:
        if len(inside) == 1:
            return max(
                (_Reached(first - ratio * two, first, two) for first, two in inside[0].choices), key=_attack_value
            )
        middle = (low + high) / 2
        left = _enter(low, middle, [piece for piece in inside if piece.low < middle])
        right = _enter(middle, high, [piece for piece in inside if piece.high > middle])
        better, worse = (left, right) if left.value >= right.value else (right, left)
        return _Reached(
            more * better.value + less * worse.value,
            more * better.first + less * worse.first,
            more * better.second + less * worse.second,
        )

    return _enter(Fraction(0), Fraction(1), pieces)


def _attack_value(reached: _Reached) -> Fraction:
    return reached.value


def _mean(inside: list[tuple[Fraction, Fraction, Fraction]], low: Fraction, high: Fraction, bias: Fraction) -> Fraction:
    if len(inside) == 1:
        return inside[0][2]
    middle = (low + high) / 2
    left = _mean([cell for cell in inside if cell[0] < middle], low, middle, bias)
    right = _mean([cell for cell in inside if cell[1] > middle], middle, high, bias)
    return (1 + bias) / 2 * max(left, right) + (1 - bias) / 2 * min(left, right)
