"""The declared sensitivities against every pair of small neighbouring databases: never exceeded, and attained."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from sfumato.accounting.event import GaussianNoise, LaplaceNoise, Neighbours
from sfumato.errors import BadParameter
from sfumato.sensitivity.clipping import to_grid
from sfumato.sensitivity.grid import Grid
from sfumato.sensitivity.norms import (
    Sensitivity,
    cells,
    count,
    counts,
    fixed_total,
    grid_bounds,
    histogram,
    total,
    totals,
)

Rows = tuple[Any, ...]
Vector = tuple[int, ...]
BOTH = (Neighbours.ADD_REMOVE, Neighbours.REPLACE)
HALF = Fraction(1, 2)


def databases(states: Sequence[Rows], neighbours: Neighbours) -> Iterator[tuple[list[Rows], list[Rows]]]:
    """Every pair of neighbours with at most two units, the other unit being in some state or missing."""
    for others in ([], *([state] for state in (states[0], states[len(states) // 2], states[-1]))):
        for state in states:
            if neighbours is Neighbours.ADD_REMOVE:
                yield [*others, state], others
            else:
                yield from (([*others, state], [*others, another]) for another in states)


def furthest(
    aggregate: Callable[[list[Any]], Vector], states: Sequence[Rows], neighbours: Neighbours
) -> tuple[int, int, int]:
    """The largest L1, squared L2 and L-infinity distance of the aggregate over all pairs of neighbours."""
    l1 = l2 = linf = 0
    once = cache(lambda units: aggregate([row for unit in units for row in unit]))
    for left, right in databases(states, neighbours):
        moves = [abs(a - b) for a, b in zip(once(tuple(left)), once(tuple(right)), strict=True)]
        l1, l2, linf = max(l1, sum(moves)), max(l2, sum(m * m for m in moves)), max(linf, *moves)
    return l1, l2, linf


def norms(bound: Sensitivity) -> tuple[int, int, int]:
    return bound.l1, bound.l2_squared, bound.linf


def some_rows(domain: Sequence[Any], most: int) -> list[Rows]:
    """Every multiset of at most `most` rows."""
    return [rows for size in range(most + 1) for rows in combinations_with_replacement(domain, size)]


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_count_moves_by_at_most_the_rows_of_one_unit_and_does(rows: int, neighbours: Neighbours) -> None:
    found = furthest(lambda table: (sum(table),), some_rows((0, 1), rows), neighbours)
    assert found == norms(count(rows, neighbours))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(("queries", "rows"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_several_counts_move_together_by_the_declared_norms(queries: int, rows: int, neighbours: Neighbours) -> None:
    states = some_rows(list(product((0, 1), repeat=queries)), rows)
    found = furthest(lambda table: tuple(sum(row[q] for row in table) for q in range(queries)), states, neighbours)
    assert found == norms(counts(queries, rows, neighbours))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(
    ("rows", "groups", "per_group"),
    [(1, 1, None), (2, 1, None), (2, 2, None), (3, 2, None), (3, 2, 2), (3, 2, 1), (3, 3, 1), (2, 3, 2), (5, 2, 3)],
)
def test_a_histogram_moves_by_the_declared_norms(
    rows: int, groups: int, per_group: int | None, neighbours: Neighbours
) -> None:
    domain = range(2 * min(groups, rows))  # enough cells to leave some and enter others
    states = [
        state
        for state in some_rows(domain, rows)
        if len(set(state)) <= groups and all(state.count(cell) <= (per_group or rows) for cell in state)
    ]
    found = furthest(lambda table: tuple(table.count(cell) for cell in domain), states, neighbours)
    assert found == norms(histogram(rows, groups, neighbours, rows_per_group=per_group))


def on_grid(values: list[Any], low: object, high: object, step: object) -> int:
    grid = Grid(low, high, step)  # type: ignore[arg-type]
    return int(sum(to_grid(values, grid).integers.tolist()))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (-1, 2), (-3, 1), (1, 2), (-2, -1), (2, 2)])
def test_a_sum_moves_by_the_declared_norms_also_when_values_are_absent(
    low: int, high: int, rows: int, neighbours: Neighbours
) -> None:
    domain = [None, float("nan"), *(low + HALF * k for k in range(2 * (high - low) + 1)), high + 9, low - 9]
    found = furthest(lambda table: (on_grid(table, low, high, HALF),), some_rows(domain, rows), neighbours)
    assert found == norms(total(low, high, HALF, rows, neighbours))


@pytest.mark.parametrize("neighbours", BOTH)
def test_bounds_off_the_grid_are_rounded_outwards_and_never_exceeded(neighbours: Neighbours) -> None:
    low, high, step = Fraction(-7, 10), Fraction(13, 10), Fraction(2, 5)
    domain = [None, *(Fraction(k, 20) for k in range(-20, 31))]
    found = furthest(lambda table: (on_grid(table, low, high, step),), some_rows(domain, 1), neighbours)
    bound = norms(total(low, high, step, 1, neighbours))
    assert grid_bounds(low, high, step) == (-2, 4)
    assert all(seen <= declared for seen, declared in zip(found, bound, strict=True))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("rows", [1, 2])
def test_sums_of_several_columns_move_together_by_the_declared_norms(rows: int, neighbours: Neighbours) -> None:
    bounds = [(-1, 2), (1, 3)]
    values = [[None, *range(low, high + 1)] for low, high in bounds]
    states = some_rows(list(product(*values)), rows)

    def aggregate(table: list[Any]) -> Vector:
        return tuple(on_grid([row[c] for row in table], low, high, 1) for c, (low, high) in enumerate(bounds))

    assert furthest(aggregate, states, neighbours) == norms(totals(bounds, 1, rows, neighbours))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (-1, 2), (1, 2), (-3, -1)])
def test_a_sum_of_rows_that_are_always_there_moves_by_the_table_of_accounting(
    low: int, high: int, rows: int, neighbours: Neighbours
) -> None:
    states = list(combinations_with_replacement(range(low, high + 1), rows))
    found = furthest(lambda table: (on_grid(table, low, high, 1),), states, neighbours)
    assert found == norms(fixed_total(low, high, 1, rows, neighbours))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (-1, 2), (-2, 2), (1, 2), (-2, -1), (-1, 5)])
def test_clipped_sums_in_cells_move_by_the_declared_norms(
    low: int, high: int, groups: int, neighbours: Neighbours
) -> None:
    domain = range(2 * groups)
    amounts = sorted({low, high, 0}) if groups == 2 else range(low, high + 1)
    states = [
        tuple(zip(chosen, values, strict=True))
        for size in range(groups + 1)
        for chosen in combinations(domain, size)
        for values in product(amounts, repeat=size)
    ]

    def aggregate(table: list[Any]) -> Vector:
        return tuple(sum(value for cell, value in table if cell == wanted) for wanted in domain)

    assert furthest(aggregate, states, neighbours) == norms(cells(low, high, 1, groups, neighbours))


def test_the_table_of_the_reference_is_reproduced() -> None:
    add, replace = BOTH
    assert norms(count(1, add)) == norms(count(1, replace)) == (1, 1, 1)
    assert norms(histogram(1, 1, add)) == (1, 1, 1)
    assert norms(histogram(1, 1, replace)) == (2, 2, 1)
    assert norms(fixed_total(-3, 5, 1, 1, add)) == (5, 25, 5)
    assert norms(fixed_total(-3, 5, 1, 1, replace)) == (8, 64, 8)
    assert norms(cells(0, 7, 1, 4, add)) == (28, 4 * 49, 7)
    assert norms(cells(0, 7, 1, 4, replace)) == (56, 8 * 49, 7)


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_group_of_units_moves_by_the_chain_of_its_members(neighbours: Neighbours) -> None:
    one = histogram(1, 1, neighbours)
    assert norms(one.group(3)) == (3 * one.l1, 9 * one.l2_squared, 3 * one.linf)


def test_a_sensitivity_goes_into_an_event_as_it_is() -> None:
    bound = histogram(4, 2, Neighbours.REPLACE)
    LaplaceNoise(bound.l1, Fraction(1), bound.neighbours)
    GaussianNoise(bound.l2_squared, Fraction(1), bound.neighbours)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: count(0, Neighbours.REPLACE),
        lambda: count(True, Neighbours.REPLACE),
        lambda: count(1.0, Neighbours.REPLACE),  # type: ignore[arg-type]
        lambda: count(1, "sideways"),  # type: ignore[arg-type]
        lambda: counts(0, 1, Neighbours.REPLACE),
        lambda: histogram(1, 0, Neighbours.REPLACE),
        lambda: histogram(1, 1, Neighbours.REPLACE, rows_per_group=0),
        lambda: total(2, 1, 1, 1, Neighbours.REPLACE),
        lambda: total(0, 0, 1, 1, Neighbours.REPLACE),
        lambda: total(0, 1, 0, 1, Neighbours.REPLACE),
        lambda: total(0.5, 1, 1, 1, Neighbours.REPLACE),
        lambda: total("nan", 1, 1, 1, Neighbours.REPLACE),
        lambda: totals([], 1, 1, Neighbours.REPLACE),
        lambda: totals([(1, 2, 3)], 1, 1, Neighbours.REPLACE),  # type: ignore[list-item]
        lambda: totals("ab", 1, 1, Neighbours.REPLACE),  # type: ignore[arg-type]
        lambda: fixed_total(3, 3, 1, 1, Neighbours.REPLACE),
        lambda: cells(0, 0, 1, 1, Neighbours.REPLACE),
        lambda: Sensitivity(1, 4, 2, Neighbours.REPLACE),
        lambda: Sensitivity(0, 0, 0, Neighbours.REPLACE),
        lambda: count(1, Neighbours.REPLACE).group(0),
    ],
)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        bad()
