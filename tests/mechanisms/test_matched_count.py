"""Different values by matching: the limit that is enough is chosen, and the margin of its noise covers."""

from collections import Counter
from fractions import Fraction
from math import sqrt

import pytest
from tests.laws.matched import law_of, served
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.matched_count import MatchedCount

SURE = Fraction(95, 100)
MADE = MatchedCount((1, 2, 4, 8, 10), 2, Fraction(1), Neighbours.ADD_REMOVE)
TIMES = 250
FAR = 4.9 * sqrt(0.95 * 0.05 / TIMES)
"""A share of 95 % stays above 95 % less this, but for one in a million."""


def test_where_one_value_of_each_person_is_enough_nearly_always_one_is_chosen() -> None:
    source = HashSource("enough")
    found = [MADE.release([86] * 5, source) for _ in range(TIMES)]
    assert Counter(place for place, _ in found)[0] / TIMES > 0.95 - FAR
    held = [abs(number - 86) <= MADE.noise(place).margin(SURE) for place, number in found]
    assert sum(held) / TIMES > 0.95 - FAR
    assert sum(held) < TIMES


def test_where_everybody_has_values_of_their_own_all_of_them_count() -> None:
    source, everybody = HashSource("own"), [10_000 * limit for limit in MADE.limits]
    assert {MADE.release(everybody, source)[0] for _ in range(50)} == {4}


def test_with_high_probability_the_next_limit_would_add_less_than_is_told() -> None:
    source, sizes = HashSource("between"), [400, 560, 700, 760, 770]
    found = Counter(MADE.release(sizes, source)[0] for _ in range(TIMES))
    told = [place for place in range(4) if sizes[place + 1] - sizes[place] < MADE.missed * MADE.limits[place]] + [4]
    assert sum(found[place] for place in told) / TIMES > 0.95 - FAR


def test_draws_follow_the_law_with_error_rate_one_in_a_million() -> None:
    made = MatchedCount((1, 2, 4), 1, Fraction(3), Neighbours.REPLACE)
    people = ("abcd", "abef", "gh", "ijkl")
    source, law = HashSource("law"), law_of(made, people)
    found = Counter(made.release([served(people, limit) for limit in made.limits], source) for _ in range(TIMES))
    for place in range(3):
        chance = float(sum(mass for (where, _), mass in law.items() if where == place))
        share = sum(times for (where, _), times in found.items() if where == place) / TIMES
        assert abs(share - chance) < 4.9 * sqrt(chance * (1 - chance) / TIMES)


@pytest.mark.parametrize("limits", [(), (2, 4), (1, 3), (1, 2, 5)])
def test_a_limit_is_at_most_twice_the_one_before(limits: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        MatchedCount(limits, 1, Fraction(1), Neighbours.ADD_REMOVE)
