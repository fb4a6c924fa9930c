"""One number from biased bits: within its loss on every source of its bias, and never twice from one source."""

from fractions import Fraction
from math import exp

import pytest
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import BadParameter, EntropyFailed, ImperfectSource
from sfumato.mechanisms.consistent import ConsistentAnswer
from sfumato.randomness.adversary import worst_ratio
from sfumato.randomness.imperfect import Declared, SingleUse
from sfumato.randomness.source import Metered, system_source

ADD = Neighbours.ADD_REMOVE
TENTH = Fraction(1, 10)


def test_it_states_its_loss_and_reads_a_fixed_block() -> None:
    answer = ConsistentAnswer(3, Fraction(1), TENTH, ADD)
    assert answer.event == Pure(Fraction(1), ADD)
    for value in (-(10**20), -1, 0, 5, 10**20):
        metered = Metered(HashSource(value))
        released = answer.release(value, Declared(metered, TENTH, "dice"))
        assert isinstance(released, Fraction)
        assert metered.bits == 8 * answer.noise.block


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 7])
def test_every_neighbour_stays_within_the_loss_for_every_answer(sensitivity: int) -> None:
    """All values in a range, all neighbours, all answers near them, the worst source for each: exact."""
    answer = ConsistentAnswer(sensitivity, Fraction(1), TENTH, ADD)
    noise = answer.noise

    def units(value: int) -> int:
        return (2 * value * noise.reach + sensitivity) // (2 * sensitivity)

    worst = Fraction(0)
    for value in range(2 * sensitivity):
        for other in range(value - sensitivity, value + sensitivity + 1):
            assert abs(units(value) - units(other)) <= noise.reach
            for k in range(-1, 3):
                worst = max(worst, worst_ratio(noise.cell(units(value), k), noise.cell(units(other), k), TENTH))
    assert worst <= Fraction(exp(1))
    assert worst > 1


def test_a_source_that_declares_more_is_refused_and_one_that_declares_less_is_not() -> None:
    answer = ConsistentAnswer(1, Fraction(1), TENTH, ADD)
    metered = Metered(HashSource(1))
    with pytest.raises(ImperfectSource, match="1/5"):
        answer.release(1, Declared(metered, Fraction(1, 5), "worse"))
    assert metered.bits == 0
    answer.release(1, Declared(metered, Fraction(1, 20), "better"))
    answer.release(1, system_source())


def test_a_source_for_single_use_serves_one_number() -> None:
    answer = ConsistentAnswer(1, Fraction(1), TENTH, ADD)
    source = SingleUse(Declared(HashSource(1), TENTH, "dice"))
    answer.release(1, source)
    with pytest.raises(EntropyFailed):
        answer.release(1, source)


def test_the_margin_covers_on_fair_coins() -> None:
    """2,000 draws: the chance that 95 % coverage shows fewer than 1,840 is below 1e-8."""
    answer = ConsistentAnswer(2, Fraction(1), Fraction(0), ADD)
    margin = answer.margin(Fraction(95, 100))
    source = HashSource("margin")
    covered = sum(abs(answer.release(value, source) - value) <= margin for value in range(2_000))
    assert covered >= 1_840


@pytest.mark.parametrize("bad", [(0, 1, 0), (1, 0, 0), (1, 1, 1), (1, 1, 0.1), (1.5, 1, 0)])
def test_parameters_that_mean_nothing_are_refused(bad: tuple[int, Fraction, Fraction]) -> None:
    with pytest.raises(BadParameter):
        ConsistentAnswer(*bad, ADD)
    with pytest.raises(BadParameter):
        ConsistentAnswer(1, Fraction(1), Fraction(0), ADD).release(1.5, HashSource(1))  # type: ignore[arg-type]
