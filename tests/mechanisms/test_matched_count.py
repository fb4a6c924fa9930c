"""Different values by matching: the limit that is enough is chosen, and the margin of its noise covers."""

from collections import Counter
from fractions import Fraction
from math import sqrt

import pytest
from tests.laws.choosing import permute_and_flip_law
from tests.laws.matched import law_of, served
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.choice import permute_and_flip_margin
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


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
@pytest.mark.parametrize("most", [5, 64, 10**6])
def test_a_limit_is_suggested_by_chance_the_less_often_the_higher_it_is(epsilon: str, most: int) -> None:
    """Where one value of each person is enough: exact, by the law of permute-and-flip over all orders."""
    limits = (*(1 << power for power in range((most - 1).bit_length())), most)
    made = MatchedCount(limits, 1, Fraction(epsilon), Neighbours.ADD_REMOVE)
    chances = permute_and_flip_law(made.scores([86] * len(limits)), made.epsilon / 6)
    assert chances[0] >= SURE
    for place in range(1, len(limits)):
        assert chances[place] <= max(Fraction(37, 1000) / 4 ** (place - 1), Fraction(1, 2000) / len(limits))
    assert sum(chances[place] for place in range(4, len(limits))) <= Fraction(13, 10_000)  # sixteen times too high


def test_where_everybody_has_values_of_their_own_all_of_them_count() -> None:
    source, everybody = HashSource("own"), [10_000 * limit for limit in MADE.limits]
    assert {MADE.release(everybody, source)[0] for _ in range(50)} == {4}


def test_with_high_probability_the_next_limit_would_add_less_than_is_told() -> None:
    source, sizes = HashSource("between"), [400, 560, 700, 760, 770]
    found = Counter(MADE.release(sizes, source)[0] for _ in range(TIMES))
    told = [place for place in range(5) if sizes[-1] - sizes[place] <= MADE.unserved(place, SURE)]
    assert sum(found[place] for place in told) / TIMES > 0.95 - FAR


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
@pytest.mark.parametrize("most", [5, 64, 10**6])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_what_is_told_of_the_next_limit_holds_for_answers_of_earlier_versions(
    epsilon: str, most: int, neighbours: Neighbours
) -> None:
    """Up to version 0.14 all limits needed one gain, the margin at 95 % and 1; stored answers are read as new ones."""
    limits = (*(1 << power for power in range((most - 1).bit_length())), most)
    made = MatchedCount(limits, 1, Fraction(epsilon), neighbours)
    rate = made.epsilon / (6 * (2 if neighbours is Neighbours.REPLACE else 1))
    earlier = permute_and_flip_margin(rate, len(limits), SURE) + 1
    for confidence in (SURE, Fraction(99, 100)):
        reach = permute_and_flip_margin(rate, len(limits), confidence)
        for place, limit in enumerate(limits[:-1]):
            assert made.gain_of_next(place, confidence) >= (earlier + reach + 1) * limit - 1
            assert made.gain_of_next(place, confidence) >= (made.wanted_gains[place] + reach + 1) * limit - 1


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
