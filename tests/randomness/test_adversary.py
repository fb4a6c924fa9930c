"""The worst that biased bits can do, against brute force over all extreme sources."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.errors import BadParameter
from sfumato.randomness.adversary import worst_joint_ratio, worst_mean, worst_ratio

DEPTH = 3
LEAVES = 1 << DEPTH
GAMMAS = st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])


def every_source(gamma: Fraction) -> list[tuple[Fraction, ...]]:
    """The probabilities of all leaves, for every choice of a favoured side at every node: the extreme sources."""
    nodes = [(level, place) for level in range(DEPTH) for place in range(1 << level)]
    laws = []
    for choice in product((0, 1), repeat=len(nodes)):
        favoured = dict(zip(nodes, choice, strict=True))
        law = []
        for leaf in range(LEAVES):
            chance = Fraction(1)
            for level in range(DEPTH):
                bit = (leaf >> (DEPTH - 1 - level)) & 1
                chance *= (1 + gamma) / 2 if favoured[level, leaf >> (DEPTH - level)] == bit else (1 - gamma) / 2
            law.append(chance)
        laws.append(tuple(law))
    return laws


LAWS = {gamma: every_source(gamma) for gamma in (Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))}
LAWS[Fraction(9, 10)] = every_source(Fraction(9, 10))
INTERVALS = st.tuples(st.integers(0, LEAVES), st.integers(0, LEAVES)).map(lambda ends: (min(ends), max(ends)))


def as_coins(interval: tuple[int, int]) -> tuple[Fraction, Fraction]:
    return Fraction(interval[0], LEAVES), Fraction(interval[1], LEAVES)


@given(INTERVALS, INTERVALS, GAMMAS)
def test_the_worst_ratio_is_that_of_the_worst_extreme_source(
    first: tuple[int, int], second: tuple[int, int], gamma: Fraction
) -> None:
    assume(second[0] < second[1])
    brute = max(sum(law[slice(*first)], Fraction(0)) / sum(law[slice(*second)]) for law in LAWS[gamma])
    assert worst_ratio(as_coins(first), as_coins(second), gamma) == brute


@given(st.lists(st.integers(-5, 5), min_size=LEAVES, max_size=LEAVES), GAMMAS)
def test_the_worst_mean_is_that_of_the_worst_extreme_source(values: list[int], gamma: Fraction) -> None:
    cells = [(*as_coins((place, place + 1)), Fraction(value)) for place, value in enumerate(values)]
    brute = max(sum(chance * value for chance, value in zip(law, values, strict=True)) for law in LAWS[gamma])
    assert worst_mean(cells, gamma) == brute


def test_a_second_answer_costs_more_although_it_is_about_nobody() -> None:
    first, second, later = as_coins((0, 3)), as_coins((1, 4)), as_coins((0, 1))
    for gamma, law in LAWS.items():
        alone = worst_ratio(first, second, gamma)
        joint = worst_joint_ratio(first, second, later, gamma)
        # the later coins may fall in any extreme way, chosen for each place where the first ones fell
        rare, likely = (Fraction((1 - gamma) / 2) ** 3, Fraction((1 + gamma) / 2) ** 3)
        brute = max(
            sum(chance[place] * (likely if place < 1 else rare) for place in range(3))
            / sum(chance[place] * (likely if place < 1 else rare) for place in range(1, 4))
            for chance in law
        )
        assert joint >= max(alone, brute)
        assert (joint == alone) == (gamma == 0)


@pytest.mark.parametrize(
    "interval", [(Fraction(0), Fraction(1, 3)), (Fraction(-1, 2), Fraction(1)), (Fraction(1), Fraction(1, 2))]
)
def test_what_is_no_interval_of_coins_is_refused(interval: tuple[Fraction, Fraction]) -> None:
    whole = (Fraction(0), Fraction(1))
    with pytest.raises(BadParameter):
        worst_ratio(interval, whole, 0)
    with pytest.raises(BadParameter):
        worst_ratio(whole, interval, 0)


def test_what_means_nothing_is_refused() -> None:
    whole, empty = (Fraction(0), Fraction(1)), (Fraction(1, 2), Fraction(1, 2))
    assert worst_ratio(empty, whole, 0) == 0
    for gamma in (1, 0.1, "2"):
        with pytest.raises(BadParameter):
            worst_ratio(whole, whole, gamma)
    with pytest.raises(BadParameter):
        worst_ratio(whole, empty, 0)
    half = (Fraction(0), Fraction(1, 2), Fraction(1))
    for cells in ([], [half], [half, half], [half, (Fraction(3, 4), Fraction(1), Fraction(0))]):
        with pytest.raises(BadParameter):
            worst_mean(cells, 0)
