"""Which ratios the noise of two numbers leaves possible: Fieller's set, inside the range that the ratio can have."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sfumato.release.intervals.noise_law import Floats, Law, quantile_of_sum, tail_of_two

FloatPair = tuple[Floats, Floats]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Possible = Callable[[Floats, Floats], Flags]
"""Whether |p·A - q·B| is within the noise of p·A - q·B: whether the ratio q/p is possible; p = 0 is a ratio of ∞."""

_HALVINGS = 46


def ratio_interval(
    over: Floats, under: Floats, possible: Possible, reach: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return the ends of the set of possible ratios A*/B*, inside their public reach, whose ends may be infinite.

    Theorem: if `possible` holds for the true ratio with some probability, it lies between the ends with at least that
    probability. A side on which the noise leaves everything possible is the public end; so are both where B is 0.
    [Fieller 1954]  Proof: proofs/intervals.md
    """
    known = under != 0
    with np.errstate(all="ignore"):
        centre = np.where(known, over / np.where(known, under, 1), 0)
        unit = np.maximum(np.abs(centre), 1)
        ends = []
        for end in reach:
            # the centre is always possible; if the public end is not, exactly one border lies between them
            far = np.isinf(end)
            p, q = np.where(far, 0, 1), np.where(far, np.sign(end) * unit, end)
            whole = possible(p, q)
            inside, outside = np.zeros_like(centre), np.ones_like(centre)
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                kept = possible(1 + middle * (p - 1), centre + middle * (q - centre))
                inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
            border = (centre + outside * (q - centre)) / (1 + outside * (p - 1))
            ends.append(np.where(whole | ~known, end, np.clip(border, *reach)))
        # the centre may lie beyond the public reach; then one end is the same as that of the reach
        low = np.where(known & (centre < reach[0]), reach[0], ends[0])
        high = np.where(known & (centre > reach[1]), reach[1], ends[1])
    return low, np.maximum(low, high)


def of_two(over: Floats, under: Floats, laws: tuple[Law, Law], weights: tuple[Floats, Floats], tail: float) -> Possible:
    """Return what is possible where A and B are sums of the same two noisy integers.

    `weights` are those of A and of B, a column for each of the two. For Laplace noise this is exact up to the lattice.
    """

    def possible(p: Floats, q: Floats) -> Flags:
        sizes = np.abs(p[:, None] * weights[0] - q[:, None] * weights[1])
        slack = sizes[:, 0] * laws[0].lattice + sizes[:, 1] * laws[1].lattice  # integers lie this far from real twins
        distance = np.maximum(np.abs(p * over - q * under) - slack, 0)
        return np.asarray(tail_of_two(distance, *laws, (sizes[:, 0], sizes[:, 1])) >= tail)

    return possible


def of_pair(over: Floats, under: Floats, scales: tuple[float, float], weights: FloatPair, tail: float) -> Possible:
    """Return what is possible where A and B are sums of the same two noisy integers, which share their noise.

    Its real law is that of two independent Laplace laws, turned: proofs/max_norm.md.
    """

    def possible(p: Floats, q: Floats) -> Flags:
        sizes = np.abs(p[:, None] * weights[0] - q[:, None] * weights[1])
        distance = np.maximum(np.abs(p * over - q * under) - sizes.sum(axis=1) / 2, 0)
        one, other = sizes[:, 0] * scales[0], sizes[:, 1] * scales[1]
        turned = tail_of_two(distance, Law(True, 1.0), Law(True, 1.0), (one + other, np.abs(one - other)))
        return np.asarray(turned >= tail)

    return possible


def of_reaches(over: Floats, under: Floats, reaches: tuple[float, float], weights: FloatPair) -> Possible:
    """Return what is possible where each of two noisy integers is within its reach, whatever their law together."""

    def possible(p: Floats, q: Floats) -> Flags:
        sizes = np.abs(p[:, None] * weights[0] - q[:, None] * weights[1])
        return np.asarray(np.abs(p * over - q * under) <= sizes[:, 0] * reaches[0] + sizes[:, 1] * reaches[1])

    return possible


def of_few(
    over: Floats, under: Floats, moments: tuple[Floats, Floats, Floats], draws: Indices, weights: FloatPair, tail: float
) -> Possible:
    """Return what is possible where A and B are sums of a few noisy integers, a column for each.

    `moments` are their variances, fourth cumulants and what they share with others of the same of `draws`.
    """
    # a row for each integer: adding up rows is several times as fast as adding up along them
    first, second, variances, fourths, shared = (np.ascontiguousarray(part.T) for part in (*weights, *moments))
    same = [
        (index, other, alike)
        for other in range(draws.shape[1])
        for index in range(other)
        if (alike := (draws[:, index] == draws[:, other]) & (draws[:, index] >= 0)).any()
    ]

    def possible(p: Floats, q: Floats) -> Flags:
        sizes = np.abs(p * first - q * second)
        squares = sizes**2
        parts = squares * shared
        variance, fourth = (squares * variances).sum(axis=0), (squares**2 * fourths + parts**2).sum(axis=0)
        for one, other, alike in same:
            fourth = fourth + 2 * parts[one] * parts[other] * alike
        return np.asarray(np.abs(p * over - q * under) <= quantile_of_sum(variance, fourth, sizes.max(axis=0), tail))

    return possible


def of_many(
    over: Floats, under: Floats, products: Callable[[int, int], Floats], largest: tuple[Floats, Floats], tail: float
) -> Possible:
    """Return what is possible where A and B are sums of many noisy integers.

    `products(i, j)` is the sum over them of the cumulant of order i + j (2 or 4), times the weight in A to the i-th
    and that in B to the j-th power; `largest` are the largest weights.
    """
    second = [products(2 - power, power) for power in range(3)]
    fourth = [products(4 - power, power) for power in range(5)]

    def possible(p: Floats, q: Floats) -> Flags:
        variance = p**2 * second[0] - 2 * p * q * second[1] + q**2 * second[2]
        steep = p**4 * fourth[0] - 4 * p**3 * q * fourth[1] + 6 * p**2 * q**2 * fourth[2]
        steep = steep - 4 * p * q**3 * fourth[3] + q**4 * fourth[4]
        reach = quantile_of_sum(np.maximum(variance, 0), steep, p * largest[0] + np.abs(q) * largest[1], tail)
        return np.asarray(np.abs(p * over - q * under) <= reach)

    return possible
