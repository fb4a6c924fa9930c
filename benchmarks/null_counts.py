"""How near can COUNT(*) and AVG of a column with NULLs come to what each is alone, with pure losses? (any noise)

A row is in one of three cells: without a value, with the least value, with the greatest. Pure epsilon-DP of integers
with added noise f means f(x) <= e^epsilon * f(y) for x and y that differ by one row in one cell. Subject to that, a
linear programme finds the f with the least largest ratio of variances to those alone: of the count (all cells), which
has one Laplace noise alone, and of the average's error, S - m * N, for a mean in the middle (m = 0) and at the end
(m = 1) of the range, which has two (max-norm noise). Outside a box, where f is not written out, every point costs more
than the optimum by the dual prices, so that no larger box has less than the ratio that is printed.

    python benchmarks/null_counts.py [epsilon] [box]
"""

import sys
from itertools import product
from math import exp, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

Cell = tuple[int, int, int]
Floats = npt.NDArray[np.float64]


def main() -> None:
    """Print the ratios of deviations at the optimum, and that of 95 % intervals there."""
    epsilon, box = (float(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (1.0, 10)
    steps = range(-box, box + 1)
    points = list(product(steps, steps, steps))
    alike = [_alike(point) for point in points]
    places = {point: place for place, point in enumerate(dict.fromkeys(alike))}
    many = np.bincount([places[one] for one in alike]).astype(np.float64)
    forms, alone = _forms(), _alone(epsilon)
    listed = np.array(list(places), dtype=np.float64)
    costs = [np.einsum("ni,ij,nj->n", listed, form, listed) / scale for form, scale in zip(forms, alone, strict=True)]
    pairs = {
        (place, places[_alike(near)])
        for point, place in places.items()
        for near in _near(point)
        if max(map(abs, near)) <= box
    }
    rows, columns, values = [], [], []
    for row, (one, other) in enumerate(pair for pair in pairs if pair[0] != pair[1]):
        rows += [row, row]
        columns += [one, other]
        values += [1.0, -exp(epsilon)]
    size, laws = len(places), 1 + max(rows)
    for nth, cost in enumerate(costs):
        rows += [laws + nth] * (size + 1)
        columns += range(size + 1)
        values += [*(many * cost), -1.0]
    limits = coo_matrix((values, (rows, columns)), shape=(laws + len(costs), size + 1)).tocsr()
    found = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=limits,
        b_ub=np.zeros(laws + len(costs)),
        A_eq=np.append(many, 0.0)[None, :],
        b_eq=[1.0],
        method="highs",
    )
    prices = -found.ineqlin.marginals[laws:]
    weighed = sum(price * form / scale for price, form, scale in zip(prices, forms, alone, strict=True))
    if float(np.linalg.eigvalsh(weighed)[0]) * (box + 1) ** 2 < found.fun:
        raise SystemExit("the box is too small: a point outside may cost less than the optimum")
    law = found.x[:size] * many
    decay = exp(-epsilon) ** np.abs(np.arange(-200, 201))
    single = decay / decay.sum()
    both = np.convolve(single, single)
    count = _reach(listed.sum(axis=1), law) / _reach(np.arange(-200, 201), single)
    total = _reach(listed[:, 1] - listed[:, 2], law) / _reach(np.arange(-400, 401), both)
    print(f"ε = {epsilon}: at the optimum 95 % intervals have {count:.3f} (count) and {total:.3f} times (mean in the")
    print("middle) the length that they have alone; no form of this noise is known")
    print(f"largest of both deviations / those alone, least of any noise = {sqrt(found.fun):.3f}x")


def _alike(point: Cell) -> Cell:
    """Return one of the points that the best noise treats alike: the ends change places, and so do the signs."""
    none, low, high = point
    return min(point, (none, high, low), (-none, -low, -high), (-none, -high, -low))


def _near(point: Cell) -> list[Cell]:
    none, low, high = point
    steps = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    return [(none + way * a, low + way * b, high + way * c) for a, b, c in steps for way in (1, -1)]


def _forms() -> list[Floats]:
    """Return the squares of the count, of S, and of S beside N, as forms of the three cells."""
    count, total, present = (np.array(row, dtype=np.float64) for row in ((1, 1, 1), (0, 1, -1), (0, 1, 1)))
    square = [np.outer(one, one) for one in (count, total, present)]
    return [square[0], square[1], square[1] + square[2]]


def _alone(epsilon: float) -> list[float]:
    """Return the variances alone: one Laplace noise, two, and two for each of S and N."""
    one = 2 * exp(-epsilon) / (1 - exp(-epsilon)) ** 2
    return [one, 2 * one, 4 * one]


def _reach(values: npt.NDArray[Any], law: Floats) -> float:
    """Return where 95 % of a law lie around 0, as if each integer were spread over its step."""
    ends = np.unique(np.abs(values))
    inside = [float(law[np.abs(values) <= end].sum()) for end in ends]
    return float(np.interp(0.95 * inside[-1], inside, ends + 0.5))


if __name__ == "__main__":
    main()
