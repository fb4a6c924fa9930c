"""All small neighbours, in integers: one person moves every marginal by at most what the event says, and by that."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.synthesis.counting import count_marginal, one_each, present_codes
from sfumato.synthesis.design import all_marginals, sensitivity_squared
from sfumato.synthesis.domain import read_domain

SIZES = (2, 3, 2)
CELLS = list(product(*(range(size) for size in SIZES)))
ABSENT = (-1, 0, 0)
COLUMNS = read_domain({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})


def marginals(rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    present = [row for row in rows if min(row) >= 0]
    codes = [np.array([row[axis] for row in present], dtype=np.int64) for axis in range(3)]
    return [count_marginal(codes, axes, SIZES) for axes in all_marginals(3)]


def squared(first: list[np.ndarray], second: list[np.ndarray]) -> list[int]:
    return [int(((one - other) ** 2).sum()) for one, other in zip(first, second, strict=True)]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_adding_a_person_moves_each_marginal_by_at_most_the_square_of_their_rows(rows: int) -> None:
    others: list[tuple[int, ...]] = [(0, 0, 0), (1, 2, 1), (1, 2, 1)]
    before, reached = marginals(others), set()
    for person in combinations_with_replacement([*CELLS, ABSENT], rows):
        moves = squared(before, marginals([*others, *person]))
        assert max(moves) <= sensitivity_squared(rows, Neighbours.ADD_REMOVE)
        reached.update(moves)
    assert max(reached) == sensitivity_squared(rows, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("rows", [1, 2])
def test_replacing_a_person_moves_each_marginal_by_at_most_twice_that(rows: int) -> None:
    people = [marginals(list(person)) for person in combinations_with_replacement([*CELLS, ABSENT], rows)]
    most = max(max(squared(first, second)) for first in people for second in people)
    assert most == sensitivity_squared(rows, Neighbours.REPLACE)


def test_a_row_is_in_one_cell_of_every_marginal_or_in_none() -> None:
    for row in [*CELLS, ABSENT]:
        assert {int(table.sum()) for table in marginals([row])} == ({1} if min(row) >= 0 else {0})


def test_of_each_person_one_row_is_kept_and_nobody_else_decides_which() -> None:
    people = ["ann", "bob", "ann", "cy", "bob", "ann", None, float("nan"), "bob"]
    present = np.array([True, True, True, True, False, True, True, True, True])
    salt = bytes(range(32))
    kept = one_each(people, present, salt)
    chosen = Counter(people[place] for place in np.flatnonzero(kept))
    assert chosen == {"ann": 1, "bob": 1, "cy": 1}
    for gone in ("ann", "bob", "cy"):
        left = [place for place, person in enumerate(people) if person != gone]
        again = one_each([people[place] for place in left], present[left], salt)
        assert [left[place] for place in np.flatnonzero(again)] == [
            place for place in np.flatnonzero(kept) if people[place] != gone
        ]


def test_the_row_that_is_kept_differs_from_salt_to_salt() -> None:
    people, present = ["ann"] * 4, np.ones(4, dtype=bool)
    kept = {int(np.flatnonzero(one_each(people, present, bytes([salt] * 32)))[0]) for salt in range(60)}
    assert kept == {0, 1, 2, 3}  # P[one is missed in 60 fair choices] < 4 · (3/4)^60 < 2e-7, and the salts are fixed


@pytest.mark.parametrize("groups", [None, ["p", "p", "q", "r", "r"]])
def test_neighbouring_arrays_differ_by_one_person_in_every_marginal(groups: list[str] | None) -> None:
    rows = [(0, 1, 1), (1, 1, 0), (0, 2, 0), (1, 0, 1), (1, 0, 0)]
    names = groups or [str(place) for place in range(len(rows))]

    def counted(left: list[int]) -> list[np.ndarray]:
        data = {name: [rows[place][axis] for place in left] for axis, name in enumerate("abc")}
        given = None if groups is None else [groups[place] for place in left]
        codes = present_codes(data, COLUMNS, given, HashSource("salt"))  # neighbours share the salt
        return [count_marginal(codes, axes, SIZES) for axes in all_marginals(3)]

    everybody = counted(list(range(len(rows))))
    for person in set(names):
        without = counted([place for place in range(len(rows)) if names[place] != person])
        assert set(squared(everybody, without)) == {1}
