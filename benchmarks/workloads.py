"""How near do the planned workloads come to the best Gaussian strategies? (ratios of root mean squared errors)

All 2-way and 3-way marginals of the domains of Adult (14 attributes), beside the optimum of ResidualPlanner
[arXiv 2305.08175] and the lower bound by singular values [Li and Miklau, 2013], both for Gaussian noise of the same
zCDP loss; roll-ups of the dashboards of TPC-H; ranges of 1,024 cells; and the time to plan all pairs of 100 attributes.
"""

from collections.abc import Sequence
from itertools import combinations
from math import exp, log, prod, sqrt
from time import process_time

import numpy as np

from sfumato.planning.marginal_budget_split import MarginalVariances
from sfumato.planning.range_strategies import OrderedSum, SumKind, level_shares, variance_ratios
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement, subsets

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
"""Sizes of the attributes of Adult, as in the papers."""
DASHBOARD = (84, 5, 25, 7)
"""Months, order priorities, nations and ship modes of TPC-H."""


def marginals(sizes: Sequence[int], axes: Sequence[tuple[int, ...]]) -> ContingencyTable:
    """Return the common table of marginals of these axes."""
    named = tuple(MarginalMeasurement(str(place), "n", own) for place, own in enumerate(axes))
    return ContingencyTable(tuple(sizes), (False,) * len(sizes), named)


def residual_planner(table: ContingencyTable) -> float:
    """Return the least sum of variances of all cells for Σ 1/σ² = 1: (Σ_B √(p_B·v_B))².

    p_B = Π(1 - 1/nᵢ) is what a residual costs, v_B what its variance adds to all cells that are asked for.
    """
    adds: dict[frozenset[int], float] = {}
    for margin in table.margins:
        for axes in subsets(margin.axes):
            more = prod(table.sizes[axis] - 1 for axis in axes) / table.folded(margin, axes)
            adds[axes] = adds.get(axes, 0.0) + more
    costs = {axes: prod(1 - 1 / table.sizes[axis] for axis in axes) for axes in adds}
    return sum(sqrt(costs[axes] * add) for axes, add in adds.items()) ** 2


def singular_values_bound(table: ContingencyTable) -> float:
    """Return the lower bound (Σ singular values)² / cells of the sum of variances, in closed form by residuals."""
    cells = prod(map(float, table.sizes))
    squares: dict[frozenset[int], float] = {}
    for margin in table.margins:
        for axes in subsets(margin.axes):
            beyond = prod(float(size) for axis, size in enumerate(table.sizes) if axis not in margin.axes)
            squares[axes] = squares.get(axes, 0.0) + beyond
    values = sum(prod(table.sizes[axis] - 1 for axis in axes) * sqrt(one) for axes, one in squares.items())
    return values**2 / cells


def planned(table: ContingencyTable, *, least_sum: bool) -> float:
    """Return the sum of variances of all cells at the shares that are planned, for Σ 1/σ² = 1."""
    cells = np.array([float(prod(table.sizes[axis] for axis in margin.axes)) for margin in table.margins])
    problem = MarginalVariances.of(table, cells if least_sum else np.ones(len(cells)), 1)
    shares = problem.least_sum()[0] if least_sum else problem.best()
    return float(cells @ problem.variances(np.array(shares)))


def marginal_workloads() -> None:
    """Print the ratios for marginals."""
    print("workload                          planned / ResidualPlanner   planned / singular values   apart / planned")
    tables = {
        "Adult, all 2-way": marginals(ADULT, list(combinations(range(14), 2))),
        "Adult, all 3-way": marginals(ADULT, list(combinations(range(14), 3))),
        "Adult, all up to 2-way": marginals(ADULT, [own for k in range(3) for own in combinations(range(14), k)]),
        "14 booleans, all 2-way": marginals((2,) * 14, list(combinations(range(14), 2))),
        "TPC-H dashboard, up to 2-way": marginals(
            DASHBOARD, [own for k in range(3) for own in combinations(range(4), k)]
        ),
        "TPC-H roll-up of three keys": marginals(DASHBOARD, [(), (0,), (0, 1), (0, 1, 3)]),
    }
    for name, table in tables.items():
        best, bound = residual_planner(table), singular_values_bound(table)
        total = planned(table, least_sum=True)
        cells = sum(prod(table.sizes[axis] for axis in margin.axes) for margin in table.margins)
        apart = cells * len(table.margins)
        ratios = sqrt(total / best), sqrt(total / bound), sqrt(apart / total)
        print(f"{name:32s}  {ratios[0]:24.4f}  {ratios[1]:26.4f}  {ratios[2]:16.3f}")
    print(
        "\ngeometric mean of deviations, as `ask_all` plans it, beside each table apart for an even part of the price:"
    )
    for name, table in tables.items():
        count = len(table.margins)
        problem = MarginalVariances.of(table, np.ones(count), 1)
        variances = problem.variances(np.array(problem.best()))
        ratio = exp(float(np.mean([log(one) for one in variances])) / 2) / sqrt(count)
        worst = sqrt(float(variances.max()) / count)
        print(f"{name:32s}  {ratio:.3f}, the worst table {worst:.3f}")


def ranges(cells: int = 1024) -> None:
    """Print what sums along an ordered key cost from blocks and from its cells alone, beside the lower bound.

    Gaussian noise as above; the last columns say how much smaller the deviations are than from the cells alone, with
    Gaussian and with Laplace noise of the same loss.
    """
    place = np.arange(cells)
    least, most = np.minimum.outer(place, place), np.maximum.outer(place, place)
    single, running, every = (OrderedSum(kind) for kind in (SumKind.CELLS, SumKind.RUNNING, SumKind.RANGES))
    # Gram matrices: how many of the sums hold both of two cells
    grams = {"all ranges": (every, (least + 1.0) * (cells - most)), "running totals": (running, cells - 1.0 * most)}
    print(
        f"\n{cells} ordered cells       cells / bound   planned / bound   cells / planned (Gaussian, Laplace)   levels"
    )
    for name, (kind, gram) in grams.items():
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
        flat = float(np.trace(gram)) / (values.sum() ** 2 / cells)
        ratios, sizes = _blocks(cells, (kind,))
        planned_ratio = sqrt(flat) / ratios[0][0]
        print(
            f"{name:28s}  {sqrt(flat):9.2f}  {planned_ratio:16.3f}  {ratios[0][0]:16.2f}  {ratios[1][0]:8.2f}  {sizes}"
        )
    (gaussian, laplace), sizes = _blocks(cells, (single, running))
    print("beside each other, as one question shows them (deviations from the cells alone / planned):")
    print(f"single cells and running totals: {gaussian} Gaussian, {laplace} Laplace, blocks of {sizes}")


def _blocks(cells: int, sums: tuple[OrderedSum, ...]) -> tuple[list[list[float]], tuple[int, ...]]:
    """Return how many times smaller deviations are by blocks, for both kinds of noise, and the sizes for Gaussian."""
    found = list[list[float]]()
    sizes: tuple[int, ...] = ()
    for power in (2, 1):
        shares = level_shares(cells, sums, power)
        if shares is None:
            found.append([1.0] * len(sums))
            continue
        precisions = [float(part) ** power for part in shares.parts]
        ratios = variance_ratios(cells, shares.sizes, sums, precisions)
        found.append([round(1 / sqrt(one), 3) for one in ratios])
        sizes = shares.sizes
    return found[::-1], sizes


def main() -> None:
    """Print all ratios, and the time to plan ranges and all pairs of 100 attributes."""
    marginal_workloads()
    start = process_time()
    _blocks(1023, (OrderedSum(SumKind.RANGES),))
    print(f"\nranges of 1,023 cells are planned in {process_time() - start:.2f} s of CPU")
    ranges()
    sizes = (ADULT * 8)[:100]
    table = marginals(sizes, list(combinations(range(100), 2)))
    start = process_time()
    MarginalVariances.of(table, np.ones(len(table.margins)), 1).best()
    print(f"all {len(table.margins):,} pairs of 100 attributes are planned in {process_time() - start:.2f} s of CPU")


if __name__ == "__main__":
    main()
