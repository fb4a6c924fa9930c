"""A largest matching is found exactly; one person moves it, and what a higher limit adds, as far as the proof says."""

from itertools import combinations_with_replacement
from random import Random

import numpy as np
from tests.laws.matched import served

from sfumato.sensitivity.matching import matched_values

LIMITS = (1, 2, 3)
EVERY_SET = ("", "a", "b", "c", "ab", "ac", "bc", "abc")


def _found(people: list[str], limits: tuple[int, ...]) -> list[int]:
    """What the house finds, with values of one owner told apart, as an engine does."""
    letters = sorted(set("".join(people)))
    shared = [letter for letter in letters if sum(letter in own for own in people) > 1]
    pairs = [(at, shared.index(letter)) for at, own in enumerate(people) for letter in own if letter in shared]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    alone = np.array([sum(letter not in shared for letter in own) for own in people], dtype=np.int64)
    shared_ones = matched_values(ends[:, 0], ends[:, 1], alone, limits)
    own = [int(np.minimum(alone, limit).sum()) for limit in limits]
    return [one + other for one, other in zip(shared_ones, own, strict=True)]


def test_as_many_values_are_served_as_can_be() -> None:
    random = Random(5)
    for _ in range(120):
        letters = "abcdefghij"[: random.randint(1, 10)]
        people = ["".join(sorted(random.sample(letters, random.randint(0, len(letters))))) for _ in range(6)]
        assert _found(people, (1, 2, 4)) == [served(people, limit) for limit in (1, 2, 4)]


def test_one_person_moves_a_matching_by_the_limit_and_a_gain_by_the_lower_limit() -> None:
    farthest = dict.fromkeys(LIMITS, 0)
    for people in combinations_with_replacement(EVERY_SET, 3):
        before = [served(people, limit) for limit in LIMITS]
        assert before == sorted(before)
        assert before[-1] == len(set("".join(people)))  # nobody has more than three, so nothing is left out
        assert before[1] - before[0] >= before[2] - before[1]  # a higher limit adds less and less
        for more in EVERY_SET:
            after = [served((*people, more), limit) for limit in LIMITS]
            for place, limit in enumerate(LIMITS):
                moved = after[place] - before[place]
                assert 0 <= moved <= limit
                farthest[limit] = max(farthest[limit], moved)
            for low, high in ((0, 1), (1, 2), (0, 2)):
                gained = (after[high] - after[low]) - (before[high] - before[low])
                assert -LIMITS[low] <= gained <= LIMITS[high] - LIMITS[low]
    assert farthest == {1: 1, 2: 2, 3: 3}  # it is attained


def test_many_people_are_matched_within_a_moment() -> None:
    random = np.random.default_rng(7)
    people, values = np.unique(random.integers(0, 20_000, (60_000, 2)), axis=0).T
    sizes = matched_values(people, values, np.zeros(20_000, dtype=np.int64), (1, 2, 4))
    assert sizes == sorted(sizes)
    assert sizes[-1] <= len(np.unique(values))
