"""The exact law of `MatchedCount`, from the definition; an input is what each person has."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from mpmath import mp
from tests.laws.additive import middle
from tests.laws.case import Case
from tests.laws.choosing import permute_and_flip_law

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.randomness.discrete_laplace import DiscreteLaplace

People = tuple[str, ...]
"""The values that each person has, a letter each."""


def served(people: Sequence[str], limit: int) -> int:
    """How many values find somebody who has them and serves no more than `limit`: by augmenting paths."""
    places = [letters for letters in people for _ in range(limit)]
    owner: dict[int, str] = {}

    def finds(letter: str, seen: set[int]) -> bool:
        for place, letters in enumerate(places):
            if letter in letters and place not in seen:
                seen.add(place)
                if place not in owner or finds(owner[place], seen):
                    owner[place] = letter
                    return True
        return False

    return sum(finds(letter, set()) for letter in sorted(set("".join(people))))


def law_of(mechanism: MatchedCount, people: People) -> dict[Any, Any]:
    limits, sizes = mechanism.limits, [served(people, limit) for limit in mechanism.limits]
    gains = [(sizes[at + 1] - sizes[at]) // limits[at] for at in range(len(limits) - 1)]
    scores = []
    for at in range(len(limits)):
        lacking = [gains[at] - mechanism.wanted_gains[at]] if at < len(gains) else []
        lacking += [mechanism.wanted_gains[at - 1] - gains[at - 1]] if at else []
        scores.append(-max(0, *lacking))
    moved = 1 if mechanism.neighbours is Neighbours.ADD_REMOVE else 2
    chances = permute_and_flip_law(scores, mechanism.epsilon / 3 / mechanism.cells / (2 * moved))
    law: dict[Any, Any] = {}
    for place, limit in enumerate(limits):
        pmf = middle(DiscreteLaplace(limit * mechanism.cells * 3 / (2 * mechanism.epsilon)))
        with mp.workdps(60):
            law |= {(place, noisy): chances[place] * pmf(noisy - sizes[place]) for noisy in range(-30, 40)}
    return law


def _case(name: str, mechanism: MatchedCount, pairs: tuple[tuple[People, People], ...]) -> Case:
    return Case(name, mechanism, pairs, lambda people: law_of(mechanism, people), mechanism.epsilon)


_SIX = Fraction(6)
_MORE: tuple[tuple[People, People], ...] = (
    ((), ("abcd",)),
    (("abcd",), ("abcd", "abcd")),
    (("abcd", "efgh"), ("abcd", "efgh", "ijkl")),
    (("ab", "cd", "ef", "gh"), ("ab", "cd", "ef", "gh", "bdfh")),
)
_OTHER: tuple[tuple[People, People], ...] = (
    (("abcd", "efgh"), ("abcd", "abcd")),
    (("ab", "cd", "ef", "gh", "bdfh"), ("ab", "cd", "ef", "gh", "ijkl")),
    (("abcd",), ("a",)),
)

CASES: tuple[Case, ...] = (
    _case("different values by matching", MatchedCount((1, 2, 4), 1, _SIX, Neighbours.ADD_REMOVE), _MORE),
    _case("different values by matching, replace", MatchedCount((1, 2, 4), 1, _SIX, Neighbours.REPLACE), _OTHER),
)
