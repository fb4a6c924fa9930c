"""The attack on biased coins: what an opponent who bends each bit a little does to added noise  [DLMV12].

The opponent sees every bit and chooses, before the next, which side it falls on with probability 11/20 instead of 1/2.
Added noise loses its privacy: two neighbours never give the same answer on the same coins, so the coins can be bent
towards the one and away from the other. Consistent sampling loses what it states beforehand, and nothing more.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

import numpy as np
import numpy.typing as npt

from sfumato.randomness.adversary import Piece, ProbabilityInterval, pieces_of, worst_joint_ratio, worst_ratio
from sfumato.randomness.biased_tree import MAX_TREE_BITS, worst_places
from sfumato.randomness.consistent import Consistent, calibrate
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.health import Health, examine
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger, fair_signs

GAMMA = Fraction(1, 10)
EPSILON = Fraction(1, 10)
_REACH_STEPS = 200
_RARE_ONE_IN = 200
"""Answers with a probability below one in this number under fair coins are left out."""
_SINGLE_ANSWER = Consistent(64, 64, 1)
_LAG_BITS = (0, 4, 8)
_STREAM_ANSWERS = 2_000
"""Number of answers drawn bit by bit, so that the health tests see the coins."""


@dataclass(frozen=True, slots=True)
class Bent:
    """One kind of noise against the opponent: what it promises, what is true, what was seen."""

    noise: str
    promised: float
    exact: float
    seen: float
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Biased:
    """Result of the attack on biased coins."""

    trials: int
    bent: tuple[Bent, ...]
    together: tuple[tuple[str, float], ...]
    health: Health
    worst_added: float
    """The true epsilon of added noise over all answers up to `_REACH_STEPS` steps from the truth, however rare."""

    def report(self) -> str:
        """Return the result, line by line."""
        return "\n".join(
            [
                f"Biased coins: each bit falls as an opponent likes with probability {float((1 + GAMMA) / 2):g} "
                f"(gamma = {GAMMA}); {self.trials:,} draws",
                "",
                "  noise                 promised ε   true ε   seen ε   the worst answer, from both neighbours",
                *(
                    f"  {bent.noise:20}  {bent.promised:10.4f}  {bent.exact:7.4f}  {bent.seen:7.4f}   "
                    f"{bent.first:,} / {bent.second:,}"
                    for bent in self.bent
                ),
                "",
                f"Added noise over all answers within {_REACH_STEPS} steps of the truth, however rare: "
                f"true ε {self.worst_added:.4f}",
                "",
                "Two answers from one such source, the second about something else (consistent sampling):",
                *(f"  {label:44}  {loss:.4f}" for label, loss in self.together),
                "",
                f"Health tests on the same coins: {', '.join(self.health.alarms) or 'silent'}. They notice a source "
                "that broke, not an opponent who stays within gamma.",
            ]
        )


def run(trials: int, source: Source) -> Biased:
    """Bend the coins of added noise and of consistent sampling, and let the health tests look at them."""
    added, robust = _worst_laplace(_RARE_ONE_IN), calibrate(EPSILON, GAMMA).worst_cells(GAMMA)
    worst = log(worst_ratio(*_worst_laplace(None), GAMMA))
    bent = (
        _bend("added (Laplace)", EPSILON, _opponent(*added), trials, source),
        _bend("consistent sampling", EPSILON, _opponent(*robust), trials, source),
    )
    return Biased(trials, bent, _loss_with_second_answer(), examine(_coins(_opponent(*added), source), GAMMA), worst)


def _worst_laplace(rare: int | None) -> tuple[ProbabilityInterval, ProbabilityInterval]:
    """Return the coins of the answer that tells most, by the inverse distribution.

    With `rare`, consider only answers that fair coins give more often than once in `rare` draws.
    """
    law, whole = DiscreteLaplace(1 / EPSILON), 1 << MAX_TREE_BITS
    ends = np.array(
        [whole - law.upper_tail(index, MAX_TREE_BITS)[0] for index in range(-_REACH_STEPS, _REACH_STEPS + 1)]
    )
    cells = np.stack([ends[:-1], ends[1:]], axis=1)
    cells = cells[cells[:, 1] - cells[:, 0] > (0 if rare is None else whole // rare)]
    first, second = np.concatenate([cells[:-1], cells[1:]]), np.concatenate([cells[1:], cells[:-1]])
    place = worst_places(first, second, MAX_TREE_BITS, float(GAMMA))[0]
    one, other = (
        (Fraction(int(low), whole), Fraction(int(high), whole)) for low, high in (first[place], second[place])
    )
    return one, other


@dataclass(frozen=True, slots=True)
class _Node:
    """A place where the opponent decides: which half is favoured, and what follows in each."""

    favours_left: bool
    left: "_Node | _Leaf"
    right: "_Node | _Leaf"


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A piece of coins in which each of the two outcomes happens or does not."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class _Opponent:
    """The best policy against a pair of intervals, and the ratio that it reaches."""

    ratio: Fraction
    root: "_Node | _Leaf"


def _opponent(first: ProbabilityInterval, second: ProbabilityInterval) -> _Opponent:
    ratio = worst_ratio(first, second, GAMMA)

    def _enter(low: Fraction, high: Fraction, inside: list[Piece]) -> tuple[Fraction, _Node | _Leaf]:
        if len(inside) == 1:
            ((one, other),) = inside[0].choices
            return one - ratio * other, _Leaf(int(one), int(other))
        middle = (low + high) / 2
        left_value, left = _enter(low, middle, [piece for piece in inside if piece.low < middle])
        right_value, right = _enter(middle, high, [piece for piece in inside if piece.high > middle])
        better, worse = max(left_value, right_value), min(left_value, right_value)
        return (1 + GAMMA) / 2 * better + (1 - GAMMA) / 2 * worse, _Node(left_value >= right_value, left, right)

    return _Opponent(ratio, _enter(Fraction(0), Fraction(1), pieces_of(first, second))[1])


def _bend(noise: str, promised: Fraction, opponent: _Opponent, trials: int, source: Source) -> Bent:
    first, second = _hits(opponent.root, trials, source)
    log_ratio = log(first / second) if min(first, second) else inf
    return Bent(noise, float(promised), log(opponent.ratio), log_ratio, first, second)


def _hits(node: _Node | _Leaf, trials: int, source: Source) -> tuple[int, int]:
    """Return how often each outcome happens when the adversary makes the given number of draws."""
    if isinstance(node, _Leaf):
        return node.first * trials, node.second * trials
    favoured = int(_falls(trials, source).sum())
    lefts = favoured if node.favours_left else trials - favoured
    first, second = _hits(node.left, lefts, source), _hits(node.right, trials - lefts, source)
    return first[0] + second[0], first[1] + second[1]


def _falls(count: int, source: Source) -> npt.NDArray[np.bool_]:
    """Return for each bit whether it falls on the favoured side: with probability (1 + gamma) / 2."""
    drawn = UniformInteger(2 * GAMMA.denominator).draw(count, source)
    falls: npt.NDArray[np.bool_] = drawn < GAMMA.denominator + GAMMA.numerator
    return falls


def _loss_with_second_answer() -> tuple[tuple[str, float], ...]:
    """Return the loss of one answer alone, and of the same answer with one that does not depend on the data."""
    pair = _SINGLE_ANSWER.worst_cells(GAMMA)
    alone = ("one answer alone", log(_SINGLE_ANSWER.worst_ratio(GAMMA)))
    joint = [
        (
            f"with a second answer {steps} grid steps out" if steps else "with a second answer in the middle",
            log(worst_joint_ratio(*pair, _SINGLE_ANSWER.cell(0, steps), GAMMA)),
        )
        for steps in _LAG_BITS
    ]
    return (alone, *joint)


def _coins(opponent: _Opponent, source: Source) -> bytes:
    """Return the coins of many answers under the opponent, as the health tests get to see them."""
    bits = (fair_signs(_STREAM_ANSWERS * MAX_TREE_BITS, source) > 0).reshape(_STREAM_ANSWERS, MAX_TREE_BITS)
    falls = _falls(_STREAM_ANSWERS * MAX_TREE_BITS, source).reshape(_STREAM_ANSWERS, MAX_TREE_BITS)
    for answer in range(_STREAM_ANSWERS):
        node, place = opponent.root, 0
        while isinstance(node, _Node):
            goes_left = node.favours_left == falls[answer, place]
            bits[answer, place] = not goes_left
            node, place = (node.left if goes_left else node.right), place + 1
    return bytes(np.packbits(bits))
