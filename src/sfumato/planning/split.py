"""Shares of a budget: each part gets what makes the expected squared errors of all outputs smallest together.

With weight w the error of a part is w/ε² for Laplace noise and w/ρ for Gaussian noise, so the best shares are
proportional to the cube and the square root of w. Proof: proofs/planning.md, §5
"""

from collections.abc import Sequence
from fractions import Fraction

from sfumato.planning.measurements import Measurement, Needs
from sfumato.query.functions import CHOSEN
from sfumato.sensitivity.norms import Sensitivity

LAPLACE_ROOT = 3
GAUSSIAN_ROOT = 2
_FINENESS = 64


def shares(weights: Sequence[Fraction], root: int) -> tuple[Fraction, ...]:
    """Return shares nearly proportional to the `root`-th roots of positive weights; they sum to 1 exactly.

    Roots are rounded up to 64ths of the largest, by integers, so that every machine splits alike.

    >>> [str(share) for share in shares([Fraction(8), Fraction(1)], 3)]
    ['2/3', '1/3']
    """
    largest = max(weights)
    parts = [_sixty_fourths(weight / largest, root) for weight in weights]
    return tuple(Fraction(part, sum(parts)) for part in parts)


def laplace_weights(needs: tuple[Needs, ...]) -> tuple[Fraction, ...]:
    """Return the weight of every part: first the selections of keys, each as an output of its own, then all noise."""
    keys = tuple(_laplace_weight(need.apart, Fraction(1)) for need in needs if need.apart is not None)
    return keys + tuple(
        _laplace_weight(one.sensitivity, importance(need, one)) for need in needs for one in need.measurements
    )


def gaussian_weights(needs: tuple[Needs, ...]) -> tuple[Fraction, ...]:
    """Return the weight of all that gets noise, in order; keys, quantiles and modes are chosen without it."""
    return tuple(
        importance(need, one) * Fraction(one.sensitivity.l2_squared, one.sensitivity.linf**2)
        for need in needs
        for one in need.measurements
        if one.quantity.function not in CHOSEN
    )


def keys_weights(needs: tuple[Needs, ...]) -> tuple[Fraction, ...]:
    """Return the weight of every selection of keys beside Gaussian noise: each is an output of its own."""
    return tuple(Fraction(need.apart.l2_squared, need.apart.linf**2) for need in needs if need.apart is not None)


def importance(need: Needs, one: Measurement) -> Fraction:
    """Return how much outputs depend on a measurement; the one that keys are selected by counts once more."""
    return one.importance + (1 if need.top is None and one is need.selecting else 0)


def _laplace_weight(sensitivity: Sensitivity, importance: Fraction) -> Fraction:
    return importance * Fraction(sensitivity.l1, sensitivity.linf) ** 2


def _sixty_fourths(ratio: Fraction, root: int) -> int:
    """Return the smallest k with k/64 at least the root of a ratio of at most 1."""
    below, above = 0, _FINENESS
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if middle**root >= ratio * _FINENESS**root else (middle, above)
    return above
