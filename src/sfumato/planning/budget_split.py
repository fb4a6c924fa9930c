"""Shares of a budget: each part gets what makes the expected squared errors of all outputs smallest together.

With weight w the error of a part is w/ε² for Laplace noise and w/ρ for Gaussian noise, so the best shares are
proportional to the cube and the square root of w. Proof: proofs/planning.md, §5
"""

from collections.abc import Sequence
from fractions import Fraction

from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.query.functions import CHOSEN
from sfumato.randomness.max_norm import MAX_PARTS
from sfumato.sensitivity.norms import Sensitivity

LAPLACE_ROOT = 3
GAUSSIAN_ROOT = 2
SHARE_FINENESS = 64
"""Shares are rounded up to such parts of the largest."""
_MIN_ERROR_GAIN = 1e-6
"""Least relative reduction of the error for which another noise is chosen."""

Shared = Sequence[tuple[Measurement, ...]]
"""For each group the measurements that share their noise, in its order; () where none do."""


def shares(weights: Sequence[Fraction], root: int) -> tuple[Fraction, ...]:
    """Return shares nearly proportional to the `root`-th roots of positive weights; they sum to 1 exactly.

    Roots are rounded up to 64ths of the largest, by integers, so that every machine splits alike.

    >>> [str(share) for share in shares([Fraction(8), Fraction(1)], 3)]
    ['2/3', '1/3']
    """
    largest = max(weights)
    parts = [_sixty_fourths(weight / largest, root) for weight in weights]
    return tuple(Fraction(part, sum(parts)) for part in parts)


def laplace_weights(needs: tuple[MeasurementSet, ...], shared: Shared = ()) -> tuple[Fraction, ...]:
    """Return the weight of every part: first the selections of keys, each as an output of its own, then all noise.

    Measurements that share their noise are one part (`parts_of`).
    """
    keys = tuple(
        _laplace_weight(need.key_sensitivity, Fraction(1)) for need in needs if need.key_sensitivity is not None
    )
    return keys + tuple(
        _together_weight(need, part)
        if len(part) > 1
        else _laplace_weight(part[0].sensitivity, importance(need, part[0]))
        for need, part in parts_of(needs, shared)
    )


def parts_of(
    needs: tuple[MeasurementSet, ...], shared: Shared = ()
) -> list[tuple[MeasurementSet, tuple[Measurement, ...]]]:
    """Return what gets an epsilon of its own: each measurement, or all of a group that share their noise, as one."""
    found: list[tuple[MeasurementSet, tuple[Measurement, ...]]] = []
    for index, need in enumerate(needs):
        together = shared[index] if shared else ()
        for measurement in need.measurements:
            if measurement not in together:
                found.append((need, (measurement,)))
            elif measurement is together[0]:
                found.append((need, together))
    return found


def shared_noise(needs: tuple[MeasurementSet, ...]) -> Shared:
    """Return for each group the measurements whose errors are least together if they share their noise; () if none.

    Which do is a question of usefulness alone: floats may decide it. Proof: proofs/planning.md, §9
    """
    return tuple(_shared(need) for need in needs)


def vector_of(need: MeasurementSet) -> tuple[Measurement, ...]:
    """Return the measurements that are charged as one vector, because a row moves one of them at most; () for none.

    Each is moved by all rows of a person together by its own sensitivity at most, and by a row by that part of it.
    Proof: proofs/disjoint_conditions.md
    """
    found = tuple(
        measurement
        for measurement in need.measurements
        if measurement.name in need.vector
        and measurement is not need.selecting
        and measurement.bound is None
        and measurement.side is not None
        and measurement.sensitivity.l1 >= measurement.side * need.moved_rows
    )
    return found if len(found) > 1 else ()


def _shared(need: MeasurementSet) -> tuple[Measurement, ...]:
    if vector := vector_of(need):
        return vector
    moved = [
        measurement
        for measurement in need.measurements
        if measurement.side is not None and measurement is not need.selecting
    ]
    roots = {one: _root(_laplace_weight(one.sensitivity, importance(need, one))) for one in moved}
    moved.sort(key=lambda one: -roots[one])  # stable: equal ones stay in their order
    best = _MIN_ERROR_GAIN * sum(roots.values())
    found: tuple[Measurement, ...] = ()
    for size in range(2, min(len(moved), MAX_PARTS) + 1):
        some = tuple(measurement for measurement in need.measurements if measurement in moved[:size])
        gain = sum(roots[one] for one in some) - _root(_together_weight(need, some))
        if gain > best:
            best, found = gain, some
    return found


def gaussian_vector_of(need: MeasurementSet) -> tuple[Measurement, ...]:
    """Return the measurements whose Gaussian noise is charged as that of one vector; () for none.

    Proof: proofs/null_counts.md, 1
    """
    found = () if need.together else vector_of(need)
    moved = need.moved_rows
    return found if all(one.sensitivity.l2_squared >= ((one.side or 0) * moved) ** 2 for one in found) else ()


def gaussian_parts(needs: tuple[MeasurementSet, ...]) -> list[tuple[Measurement, ...]]:
    """Return all that gets noise, in order, a vector as one part; keys, quantiles and modes are chosen without it."""
    found: list[tuple[Measurement, ...]] = []
    for need in needs:
        vector = gaussian_vector_of(need)
        found += [
            vector if vector and measurement is vector[0] else (measurement,)
            for measurement in need.measurements
            if measurement.quantity.function not in CHOSEN and measurement not in vector[1:]
        ]
    return found


def gaussian_weights(needs: tuple[MeasurementSet, ...]) -> tuple[Fraction, ...]:
    """Return the weight of each of `gaussian_parts`."""
    weights = {
        id(measurement): importance(need, measurement)
        * Fraction(measurement.sensitivity.l2_squared, measurement.sensitivity.linf**2)
        for need in needs
        for measurement in need.measurements
    }
    return tuple(sum((weights[id(one)] for one in part), Fraction(0)) for part in gaussian_parts(needs))


def _together_weight(need: MeasurementSet, part: tuple[Measurement, ...]) -> Fraction:
    """Return w such that shared noise errs by 2w/ε²: its variance is (d + 1)(d + 2)/3 of squared scales.

    In a vector each has Laplace noise, or those that the same rows move share theirs, for the whole ε.
    """
    if part == vector_of(need):
        inner = tuple(one for one in part if one.name in need.together)
        apart = [one for one in part if one not in inner or len(inner) == 1]
        found = sum((_laplace_weight(one.sensitivity, importance(need, one)) for one in apart), Fraction(0))
        return found + (_joint_weight(need, inner) if len(inner) > 1 else 0)
    return _joint_weight(need, part)


def _joint_weight(need: MeasurementSet, part: tuple[Measurement, ...]) -> Fraction:
    units = [Fraction((one.side or 1) * need.moved_rows, one.sensitivity.linf) ** 2 for one in part]
    error = sum((importance(need, one) * unit for one, unit in zip(part, units, strict=True)), Fraction(0))
    return error * Fraction((len(part) + 1) * (len(part) + 2), 6)


def _root(weight: Fraction) -> float:
    return float(float(weight) ** (1 / 3))


def keys_weights(needs: tuple[MeasurementSet, ...]) -> tuple[Fraction, ...]:
    """Return the weight of every selection of keys beside Gaussian noise: each is an output of its own."""
    return tuple(
        Fraction(need.key_sensitivity.l2_squared, need.key_sensitivity.linf**2)
        for need in needs
        if need.key_sensitivity is not None
    )


def importance(need: MeasurementSet, one: Measurement) -> Fraction:
    """Return how much outputs depend on a measurement; the one that keys are selected by counts once more."""
    return one.importance + 1 if need.top is None and one is need.selecting else one.importance


def _laplace_weight(sensitivity: Sensitivity, importance: Fraction) -> Fraction:
    return importance * Fraction(sensitivity.l1**2, sensitivity.linf**2)


def _sixty_fourths(ratio: Fraction, root: int) -> int:
    """Return the smallest k with k/64 at least the root of a ratio of at most 1."""
    below, above = 0, SHARE_FINENESS
    least, unit = ratio.numerator * SHARE_FINENESS**root, ratio.denominator
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if middle**root * unit >= least else (middle, above)
    return above
