"""The exact law of `Meetings`: crowd and meetings together, on keys and on the same keys with one person more."""

from fractions import Fraction
from typing import Any

from mpmath import exp, mp, mpf
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.meetings import LIMIT_FAILURE, Meetings
from sfumato.sensitivity.cross_unit_joins import MIN_KEY_FREQUENCY, CrossUnitSide

FAR = "far"
"""Outcomes beyond the window are one: what is gathered after the noise can only come nearer."""
WINDOW = 24
PAIR = (CrossUnitSide(1, 1), CrossUnitSide(1, 1))
Cells = tuple[tuple[tuple[tuple[int, ...], int], ...], ...]
THREE: Cells = ((((3, 3, 3), 2),),)
ONE_MORE: Cells = ((((4, 4, 4), 1), ((3, 3, 3), 1)),)
NOBODY: Cells = ((),)
ALONE: Cells = ((((1, 1, 1), 1),),)


def meetings(epsilon: Fraction, neighbours: Neighbours) -> Case:
    mechanism = Meetings(epsilon, PAIR, False, neighbours)
    first, second = (real(part * epsilon) for part in (Fraction(1, 4), Fraction(3, 4)))

    def law(cells: Cells) -> dict[Any, Any]:
        with mp.workdps(60):
            shift = mechanism._frequency_search.margin(1 - 2 * LIMIT_FAILURE)
            x = exp(-first)
            found: dict[Any, Any] = {FAR: mpf(1)}
            for crowd in range(MIN_KEY_FREQUENCY, MIN_KEY_FREQUENCY + 12):
                reach = crowd - shift - mechanism.max_key_frequency(cells)
                chance = (1 - x) / (1 + x) * x ** abs(reach)
                if crowd == MIN_KEY_FREQUENCY:  # everything below is the same
                    chance = x**-reach / (1 + x) if reach <= 0 else 1 - x ** (reach + 1) / (1 + x)
                y = exp(-second / mechanism.noise(crowd).sensitivity)
                (centre,) = mechanism.meetings(cells, crowd)
                for value in range(-WINDOW, WINDOW + 1):
                    found[crowd, value] = chance * (1 - y) / (1 + y) * y ** abs(value - centre)
                    found[FAR] -= found[crowd, value]
            return found

    return Case(f"Meetings at {epsilon}, {neighbours}", mechanism, ((THREE, ONE_MORE), (NOBODY, ALONE)), law, epsilon)


CASES = (meetings(Fraction(4), Neighbours.ADD_REMOVE), meetings(Fraction(2), Neighbours.REPLACE))
