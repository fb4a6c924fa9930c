"""Consistent sampling under the laws: its exact law on fair coins, and on the coins that an opponent bends most."""

from fractions import Fraction
from typing import Any

from mpmath import mp
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.consistent import ConsistentAnswer


def consistent(sensitivity: int, epsilon: Fraction, gamma: Fraction, *pairs: tuple[int, int]) -> Case:
    mechanism = ConsistentAnswer(sensitivity, epsilon, gamma, Neighbours.ADD_REMOVE)
    noise = mechanism.noise

    def law(values: tuple[int, ...]) -> dict[Any, Any]:
        (value,) = values
        units = (2 * value * noise.reach + sensitivity) // (2 * sensitivity)
        with mp.workdps(60):
            cells = {k: noise.cell(units, k) for k in range(-200, 201)}
            return {k: real(high - low) for k, (low, high) in cells.items()}

    return Case(
        f"ConsistentAnswer {sensitivity} at {epsilon}, gamma {gamma}",
        mechanism,
        tuple(((one,), (other,)) for one, other in pairs),
        law,
        epsilon,
    )


CASES: tuple[Case, ...] = (
    consistent(1, Fraction(1), Fraction(0), (0, 1), (7, 6), (-3, -2)),
    consistent(3, Fraction(1, 2), Fraction(0), (0, 3), (10, 8), (-1, 1)),
    consistent(1, Fraction(1), Fraction(1, 100), (0, 1), (10, 9)),
)
