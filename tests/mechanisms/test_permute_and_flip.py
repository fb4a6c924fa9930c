"""Permute-and-flip: its price, its accuracy, and why it is never worse than the exponential mechanism."""

from fractions import Fraction
from itertools import product
from time import process_time
from typing import Any

import pytest
from mpmath import exp, log, mpf, quad, workdps
from tests.laws.choosing import CASES, exponential_law, permute_and_flip_law, real

from sfumato.accounting.event import LaplaceBounded, Neighbours
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
MINE = [case for case in CASES if isinstance(case.mechanism, PermuteAndFlip)]


@pytest.mark.parametrize("scores", [(0, 1, 3), (2, 2, 0, -5), (0, 0, 0, 0, -1)], ids=str)
def test_the_law_over_all_orders_is_the_integral_of_the_proof(scores: tuple[int, ...]) -> None:
    rate = Fraction(1, 2)
    law = permute_and_flip_law(scores, rate)
    with workdps(40):
        coins = [exp(real(rate * (score - max(scores)))) for score in scores]

        def density(place: int, time: Any) -> Any:
            chance = coins[place]
            for other, coin in enumerate(coins):
                chance *= 1 if other == place else 1 - time * coin
            return chance

        for place in range(len(scores)):
            assert abs(quad(lambda time, place=place: density(place, time), [0, 1]) - law[place]) < mpf(10) ** -30


def test_the_expected_error_is_never_above_the_exponential_mechanisms() -> None:
    strictly = 0
    for gaps in product((0, 1, 2, 7), repeat=3):
        scores, rate = (0, *(-gap for gap in gaps)), Fraction(1, 2)
        with workdps(60):
            flip, exponential = (
                sum(-score * law[place] for place, score in enumerate(scores))
                for law in (permute_and_flip_law(scores, rate), exponential_law(scores, rate))
            )
            assert flip <= exponential + mpf(10) ** -50
            strictly += flip < exponential - mpf(10) ** -5
    assert strictly == 63  # all but the vector without any gap


def test_it_is_not_bounded_range_so_the_event_is_laplace_bounded() -> None:
    mechanism = PermuteAndFlip(1, Fraction(1), REPLACE)
    with workdps(60):
        one, other = (permute_and_flip_law(scores, mechanism.rate) for scores in ((-3, 0), (-2, -1)))
        losses = [log(one[place] / other[place]) for place in one]
        assert max(losses) - min(losses) > real(mechanism.epsilon) + mpf(1) / 100
    assert mechanism.event == LaplaceBounded(Fraction(1), REPLACE)


@pytest.mark.parametrize("monotone", [False, True])
def test_no_test_of_neighbours_beats_one_after_real_laplace_noise(monotone: bool) -> None:
    """Part (5) of the proof: every set of candidates, every neighbour of a family of scores, both directions."""
    mechanism = PermuteAndFlip(1, Fraction(3, 4), REPLACE, monotone=monotone)
    largest, reached = real(mechanism.epsilon), mpf(0)
    with workdps(40):
        for gaps in product((0, 1, 3), repeat=2):
            scores = (0, *(-gap for gap in gaps))
            for moves in product((0, 1) if monotone else (-1, 0, 1), repeat=3):
                one, other = (
                    permute_and_flip_law(found, mechanism.rate)
                    for found in (scores, tuple(a + b for a, b in zip(scores, moves, strict=True)))
                )
                for mask in range(1, 7):
                    p, q = (sum(law[place] for place in range(3) if mask >> place & 1) for law in (one, other))
                    apart = abs(_laplace_place(p) - _laplace_place(q))
                    assert apart <= largest + mpf(10) ** -30
                    reached = max(reached, apart)
    assert reached > largest - mpf(10) ** -30  # two candidates and a threshold reach it


def _laplace_place(share: Any) -> Any:
    """Return the quantile of the Laplace law of scale 1: a test of this size is a threshold there."""
    return log(2 * share) if 2 * share <= 1 else -log(2 * (1 - share))


def test_a_margin_is_found_at_once_however_large_epsilon_is() -> None:
    begun = process_time()
    assert PermuteAndFlip(1, Fraction(10**9), ADD).margin(Fraction(95, 100), 20) == 0
    assert process_time() - begun < 1
