"""Floats prefer a noise where they differ clearly, and exact numbers then prefer the same one."""

from fractions import Fraction
from random import Random

import pytest

from sfumato.accounting.event import Composed, Event, GaussianNoise, LaplaceNoise, Neighbours, Pure, Repeated
from sfumato.accounting.loss import PrivacyLoss
from sfumato.planning import fresh_budget
from sfumato.planning.fresh_budget import is_clearly_less, used_of_fresh

CAPS = [
    PrivacyLoss(Fraction(epsilon), Fraction(delta))
    for epsilon in (1, 3, 30, 10**5)
    for delta in ("0", "1/1000000", "9/10")
]
RELATION = Neighbours.ADD_REMOVE


def _some_event(random: Random, loss: float) -> Composed:
    """Return an event of about this pure loss: one vector, or noise of several measurements."""
    exact = Fraction(loss).limit_denominator(10**6)
    rows, side = random.choice((1, 3, 20, 50)), random.choice((1, 25_000, 10**6))
    parts: list[Event] = [
        Pure(exact, RELATION),
        LaplaceNoise(rows * side, rows * side / exact, RELATION),
        Repeated(LaplaceNoise(1, rows / exact, RELATION), rows),
    ]
    return Composed(tuple(random.sample(parts, random.randrange(1, 4))))


def test_estimates_are_near_the_certified_shares() -> None:
    """The factor at which floats decide is 1.001, more than a thousand times their error."""
    random, compared = Random(7), 0
    for _ in range(300):
        event, cap = _some_event(random, 10 ** random.uniform(-2.5, 1.5)), random.choice(CAPS)
        rough, exact = fresh_budget._estimate(event, cap), used_of_fresh(event, cap)
        if rough is not None and exact:
            compared += 1
            assert abs(rough / float(exact) - 1) < 1e-7, (event, cap)
    assert compared > 200


def test_floats_and_digits_prefer_the_same_noise() -> None:
    random, decided = Random(8), 0
    for _ in range(150):
        one, other = (_some_event(random, random.uniform(0.05, 2)) for _ in range(2))
        cap, times = random.choice(CAPS), Fraction(random.randrange(900, 1100), 1000)
        found = is_clearly_less(one, other, times, cap)
        exact = [used_of_fresh(event, cap) for event in (one, other)]
        if found is not None and exact[0] is not None and exact[1] is not None:
            decided += 1
            assert found == (exact[0] <= times * exact[1])
    assert decided > 100


@pytest.mark.parametrize(
    "event",
    [
        None,
        Composed((Pure(Fraction(1, 10**6), RELATION),)),
        Composed((Repeated(LaplaceNoise(1, Fraction(10**6), RELATION), 10**6),)),
        Composed((LaplaceNoise(10**10, Fraction(10**10), RELATION),)),
        Composed((GaussianNoise(1, Fraction(1), RELATION),)),
    ],
)
def test_what_floats_may_miss_is_left_to_digits(event: Event | None) -> None:
    """Losses so small that their squares are lost in rounding, and noise that is not pure."""
    assert is_clearly_less(event, Composed((Pure(Fraction(1), RELATION),)), Fraction(2), CAPS[1]) is None
