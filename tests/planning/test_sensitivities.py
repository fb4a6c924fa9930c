"""Every sensitivity is compared with all neighbours of all small databases, counted by a plain oracle."""

from collections.abc import Callable
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Contribution
from sfumato.planning.sensitivities import of_distinct_values, of_people, of_rows, of_sum
from sfumato.sensitivity.norms import Sensitivity

Row = tuple[int, int, int | None]
"""Whose it is, its cell, its value."""
Aggregate = Callable[[list[Row]], int]


def _present(rows: list[Row]) -> list[int]:
    return [value for _, _, value in rows if value is not None]


AGGREGATES: dict[str, Aggregate] = {
    "people": lambda rows: len({owner for owner, _, _ in rows}),
    "rows": len,
    "present": lambda rows: len(_present(rows)),
    "distinct": lambda rows: len(set(_present(rows))),
    "sum": lambda rows: sum(_present(rows)),
    "sum distinct": lambda rows: sum(set(_present(rows))),
}
RANGES = ((0, 1), (-1, 1), (1, 2), (-2, -1), (-1, 2), (0, 0))
SHAPES = tuple(product((1, 2), (1, 2), (1, 2, 4)))
"""Rows per person, cells per person, cells in all."""


def _claimed(
    name: str, contribution: Contribution, cells: int | None, low: int, high: int, neighbours: Neighbours
) -> Sensitivity:
    match name:
        case "people":
            return of_people(contribution, cells, neighbours)
        case "rows" | "present":
            return of_rows(contribution, cells, neighbours)
        case "distinct":
            return of_distinct_values(contribution, cells, high - low + 1, neighbours)
        case _:
            return of_sum(contribution, cells, low, high, neighbours)


def _persons(rows: int, groups: int, cells: int, low: int, high: int) -> list[list[tuple[int, int | None]]]:
    """Return everything one person can own."""
    single = list(product(range(cells), [None, *range(low, high + 1)]))
    owned = [list(choice) for size in range(rows + 1) for choice in combinations_with_replacement(single, size)]
    return [choice for choice in owned if len({cell for cell, _ in choice}) <= groups]


def _moves(
    aggregate: Aggregate, rows: int, groups: int, cells: int, low: int, high: int, neighbours: Neighbours
) -> npt.NDArray[np.int64]:
    """Return the difference of every pair of neighbours, one row each; another person may own the same values."""
    persons = _persons(rows, groups, cells, low, high)
    others: list[list[Row]] = [[], *([(0, cell, value) for cell, value in other] for other in persons[-3:])]
    others.append([(0, cell, value) for cell in range(cells) for value in range(low, high)])
    found = []
    for other in others:
        databases = [other + [(1, cell, value) for cell, value in person] for person in persons]
        vectors = np.array(
            [[aggregate([row for row in rows if row[1] == cell]) for cell in range(cells)] for rows in databases]
        )
        pairs = vectors[:, None, :] - (vectors[None, :1, :] if neighbours is Neighbours.ADD_REMOVE else vectors[None])
        found.append(pairs.reshape(-1, cells))
    return np.concatenate(found)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("name", AGGREGATES)
def test_no_neighbour_moves_farther_and_one_moves_so_far(name: str, neighbours: Neighbours) -> None:
    for (rows, groups, cells), (low, high) in product(SHAPES, RANGES):
        moves = _moves(AGGREGATES[name], rows, groups, cells, low, high, neighbours)
        largest = (
            np.abs(moves).sum(axis=1).max(),
            (moves * moves).sum(axis=1).max(),
            np.abs(moves).max(),
        )
        contribution = Contribution(rows, groups, False, False)
        for public in (cells, None):
            claimed = _claimed(name, contribution, public, low, high, neighbours)
            bounds = (claimed.l1, claimed.l2_squared, claimed.linf)
            assert all(moved <= bound for moved, bound in zip(largest, bounds, strict=True))
            attained = cells == public == 1 or cells == 4 or (name == "people" and public == cells)
            # different values cannot all be the farthest one: of their sum the bound is only a bound
            if attained and (low, high) != (0, 0) and not (name == "sum distinct" and rows > 1):
                assert largest == bounds


def test_a_sum_of_zeros_gets_the_noise_of_a_sum_that_moves_by_one() -> None:
    zero = of_sum(Contribution(20, 3, False, True), None, 0, 0, Neighbours.ADD_REMOVE)
    assert zero == of_sum(Contribution(20, 3, False, True), None, 0, 1, Neighbours.ADD_REMOVE)


def test_more_cells_than_a_person_touches_change_nothing_and_fewer_help() -> None:
    contribution = Contribution(20, 3, False, True)
    assert of_people(contribution, 6, Neighbours.REPLACE) == of_people(contribution, None, Neighbours.REPLACE)
    assert of_people(contribution, 5, Neighbours.REPLACE).l1 == 5
    assert of_people(Contribution(2, 9, False, False), None, Neighbours.ADD_REMOVE).l1 == 2
