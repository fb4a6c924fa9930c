"""The optimal composition of different pure losses that are multiples of one unit, bounded from above [MV16]."""

from fractions import Fraction
from functools import reduce
from math import fsum, gcd

import numpy as np

from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper
from sfumato.errors import BadParameter

_MAX_CELLS = 1 << 20
_MAX_WORK_CELLS = 1 << 28
_ROUNDING_ERROR = Fraction(1, 2**52)
_UNDERFLOW_PROBABILITY = Fraction(1, 10**290)


def common_unit(counts: dict[Fraction, int]) -> Fraction | None:
    """Return the largest number of which all epsilons are multiples; None if the lattice would be too long."""
    denominator = reduce(lambda a, b: a * b // gcd(a, b), (epsilon.denominator for epsilon in counts))
    unit = Fraction(reduce(gcd, (int(epsilon * denominator) for epsilon in counts)), denominator)
    cells = sum(times * int(epsilon / unit) for epsilon, times in counts.items())
    return unit if cells <= _MAX_CELLS and cells * sum(counts.values()) <= _MAX_WORK_CELLS else None


def lattice_delta(counts: dict[Fraction, int], target: Fraction) -> Fraction:
    """Return δ at ε = target, rounded up: Σ p(y)·(1 - e^(target - y))₊ over all sums y of losses ±epsilon.

    Only positive numbers are added and multiplied, four roundings per release; proofs/composition.md, Lemma 3.
    """
    unit = common_unit(counts)
    if unit is None:
        raise BadParameter(
            "These epsilons have no common unit that is coarse enough.",
            f"Their lattice has more than {_MAX_CELLS} cells; in general the optimum is #P-hard [MV16].",
            "Round each epsilon up to a multiple of a coarser unit, or use `sharper` or an accountant.",
        )
    mass = np.ones(1)
    with np.errstate(under="ignore"):
        for epsilon, times in counts.items():
            for _ in range(times):
                mass = _convolve_event(mass, int(epsilon / unit), *_loss_weights(epsilon))
        span = len(mass) - 1  # cell s holds the loss (2s - span)·unit
        first = max(0, (target / unit + span) // 2 + 1)
        if first > span:
            return Fraction(0)
        gap = float_above((2 * first - span) * unit - target) + 2 * min(float_above(unit), 1e200) * np.arange(
            span - first + 1
        )
        total = fsum((mass[first:] * -np.expm1(-gap)).tolist())
    return min(
        Fraction(1),
        (Fraction(total) + _UNDERFLOW_PROBABILITY) * (1 + (16 * sum(counts.values()) + 64) * _ROUNDING_ERROR),
    )


def _convolve_event(
    mass: "np.ndarray[tuple[int], np.dtype[np.float64]]", step: int, minus: float, plus: float
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    wider = np.zeros(len(mass) + step)
    wider[: len(mass)] = mass * minus
    wider[step:] += mass * plus
    return wider


def _loss_weights(epsilon: Fraction) -> tuple[float, float]:
    """Return the chances of the losses -epsilon and +epsilon, right to the last place."""

    def _minus(digits: int) -> Enclosure:
        falling = (-enclose(epsilon, digits)).exp()
        return falling / (falling + 1)

    minus = upper(refine(_minus))
    return float_above(minus), float_above(upper(refine(lambda digits: -(_minus(digits) - 1))))
