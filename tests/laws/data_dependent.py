"""Mechanisms whose noise looks at the data: exact laws on whole data sets and their neighbours."""

from fractions import Fraction
from typing import Any

from mpmath import cos, cosh, coth, exp, mp, mpf, pi, sin, sinh, sqrt
from tests.laws.case import Case
from tests.laws.divergence import real

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.inverse_sensitivity import InverseSensitivity, rank_distances
from sfumato.mechanisms.propose_test_release import ProposeTestRelease
from sfumato.mechanisms.smooth_noise import SmoothNoise
from sfumato.sensitivity.order_statistics import OrderStatistic
from sfumato.sensitivity.smooth import distance_beyond, smooth

Data = tuple[int, ...]
HALF = Fraction(1, 2)
WINDOW, FAR = 400, "far"
"""Outcomes beyond the window are one: what is gathered after the noise can only come nearer."""
REACH = 6
MEDIAN = OrderStatistic(HALF, 0, REACH, Neighbours.REPLACE)
COUNTED = OrderStatistic(HALF, 0, REACH, Neighbours.ADD_REMOVE)
# the widest gap beside the median, closed and opened by one person; the first pair moves the value and the scale
REPLACED = (((0, 0, 0, 6, 6), (0, 0, 6, 6, 6)), ((2, 3, 3, 3, 4), (2, 3, 3, 4, 6)), ((2,), (6,)))
ADDED = (((0, 0, 6, 6), (0, 0, 6, 6, 6)), ((), (6,)), ((3, 3, 3), (3, 3)))


def total_weight(scale: Any, power: int) -> Any:
    """Σ 1/(s^power + z^power) over all integers, by partial fractions of the cotangent."""
    if power == 2:
        return pi * coth(pi * scale) / scale
    turn = sqrt(mpf(2)) * pi * scale
    return pi / (sqrt(mpf(2)) * scale**3) * (sinh(turn) + sin(turn)) / (cosh(turn) - cos(turn))


def smooth_noise(
    statistic: OrderStatistic, epsilon: Fraction, power: int, pairs: tuple[tuple[Data, Data], ...]
) -> Case:
    mechanism = SmoothNoise(epsilon, statistic.neighbours, power)

    def law(values: Data) -> dict[Any, Any]:
        bound = smooth(lambda k: statistic.at_distance(values, k), mechanism.decay, statistic.reach)
        with mp.workdps(60):
            steepest = 1 if power == 2 else real(Fraction(22_796, 10_000))
            scale = max(mpf(2), 2 * steepest * real(bound) / real(epsilon))
            whole, centre = total_weight(scale, power), statistic.value(values)
            near = {z: 1 / (scale**power + abs(z - centre) ** power) / whole for z in range(-WINDOW, WINDOW + 1)}
            return {**near, FAR: 1 - sum(near.values())}

    name = f"SmoothNoise of the {statistic.neighbours} median, power {power} at {epsilon}"
    return Case(name, mechanism, pairs, law, epsilon)


def proposed(sensitivity: int, pairs: tuple[tuple[Data, Data], ...]) -> Case:
    test, answer, delta = Fraction(1), Fraction(1), Fraction(1, 1000)
    mechanism = ProposeTestRelease(sensitivity, test, answer, delta, Neighbours.REPLACE)

    def law(values: Data) -> dict[Any, Any]:
        far = distance_beyond(lambda k: MEDIAN.at_distance(values, k), sensitivity, MEDIAN.farthest(values))
        with mp.workdps(60):
            x = exp(-real(test))
            need = 0 if far is None else mechanism.threshold - far
            passes = mpf(1) if far is None else (x**need / (1 + x) if need > 0 else 1 - x ** (1 - need) / (1 + x))
            y = exp(-real(answer / sensitivity))
            centre = MEDIAN.value(values)
            told: dict[Any, Any] = {z: passes * (1 - y) / (1 + y) * y ** abs(z - centre) for z in range(-60, 67)}
            return {None: 1 - passes, **told}

    return Case(f"ProposeTestRelease of {sensitivity}", mechanism, pairs, law, test + answer, delta)


def inverse(epsilon: Fraction, pairs: tuple[tuple[Data, Data], ...]) -> Case:
    mechanism = InverseSensitivity(epsilon, Neighbours.REPLACE)

    def law(values: Data) -> dict[int, Any]:
        starts, widths, far = rank_distances(values, MEDIAN.rank(len(values)), 0, REACH)
        with mp.workdps(60):
            weights = {
                start + step: exp(-real(epsilon / 2 * distance))
                for start, width, distance in zip(starts, widths, far, strict=True)
                for step in range(width)
            }
            whole = sum(weights.values())
            return {point: weight / whole for point, weight in weights.items()}

    return Case(f"InverseSensitivity of the median at {epsilon}", mechanism, pairs, law, epsilon)


CASES: tuple[Case, ...] = (
    smooth_noise(MEDIAN, Fraction(1), 4, REPLACED),
    smooth_noise(COUNTED, HALF, 4, ADDED),
    smooth_noise(MEDIAN, Fraction(3), 2, REPLACED[:1]),
    proposed(2, (((0, 0, 0, 6, 6), (0, 0, 6, 6, 6)), ((3,) * 9, (*(3,) * 8, 4)), ((3,) * 8 + (5,), (3,) * 9))),
    inverse(Fraction(1), REPLACED),
)
