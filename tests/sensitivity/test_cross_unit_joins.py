"""Rows of different people that meet: counted and bounded as by listing them, on all small databases."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, product

import pytest

from sfumato.accounting.event import Neighbours
from sfumato.sensitivity.cross_unit_joins import (
    MIN_KEY_FREQUENCY,
    CrossUnitSide,
    blocks,
    key_frequency,
    pair_count_sensitivity,
    pairs_at_key,
)

Person = tuple[tuple[int, ...], ...]
"""How many rows of each side a person has with each key."""
WORLDS = [
    ((CrossUnitSide(2, 2), CrossUnitSide(1, 1)), 2, 2),
    ((CrossUnitSide(2, 1), CrossUnitSide(2, 2)), 2, 1),
    ((CrossUnitSide(1, 1),) * 3, 1, 3),
    ((CrossUnitSide(2, 2), CrossUnitSide(1, 1), CrossUnitSide(1, 1)), 1, 2),
]
"""Sides, how many keys there are, and how many people beside the one who comes and goes."""


def people(sides: Sequence[CrossUnitSide], keys: int) -> list[Person]:
    """Everything that one person can have."""
    of_side = [
        [rows for rows in product(range(side.repeats + 1), repeat=keys) if sum(rows) <= side.rows] for side in sides
    ]
    return list(product(*of_side))


def powers(world: Sequence[Person], sides: int, keys: int) -> list[tuple[int, ...]]:
    found = []
    for key in range(keys):
        row = []
        for block in blocks(sides):
            total = 0
            for person in world:
                own = 1
                for side in block:
                    own *= person[side][key]
                total += own
            row.append(total)
        found.append(tuple(row))
    return found


def listed(world: Sequence[Person], sides: int, keys: int) -> list[int]:
    """The meetings at every key, one by one."""
    found = []
    for key in range(keys):
        owners = [[who for who, person in enumerate(world) for _ in range(person[side][key])] for side in range(sides)]
        found.append(sum(len(set(met)) == sides for met in product(*owners)))
    return found


def worlds(sides: Sequence[CrossUnitSide], keys: int, size: int) -> Iterator[tuple[Person, ...]]:
    for some in range(size + 1):
        yield from combinations_with_replacement(people(sides, keys), some)


@pytest.mark.parametrize(("sides", "keys", "size"), WORLDS)
def test_meetings_are_those_that_a_list_of_them_has(sides: tuple[CrossUnitSide, ...], keys: int, size: int) -> None:
    for world in worlds(sides, keys, size):
        rows = powers(world, len(sides), keys)
        crowd = max(MIN_KEY_FREQUENCY, *(key_frequency(row, sides) for row in rows))
        assert [pairs_at_key(row, sides, crowd) for row in rows] == listed(world, len(sides), keys)


@pytest.mark.parametrize(("sides", "keys", "size"), WORLDS)
def test_no_person_moves_crowd_or_meetings_further_than_proved(
    sides: tuple[CrossUnitSide, ...], keys: int, size: int
) -> None:
    """Added, removed or replaced; in one cell, and with a cell for each key; cut at the least crowd and above."""

    @cache
    def found(world: tuple[Person, ...], crowd: int) -> tuple[int, ...]:
        return tuple(pairs_at_key(row, sides, crowd) for row in powers(world, len(sides), keys))

    tight = 0
    for around in worlds(sides, keys, size):
        base = max(key_frequency(row, sides) for row in powers(around, len(sides), keys))
        everybody = [(*around, person) for person in people(sides, keys)]
        assert all(
            base <= max(key_frequency(row, sides) for row in powers(world, len(sides), keys)) <= base + 1
            for world in everybody
        )
        for crowd in (MIN_KEY_FREQUENCY, MIN_KEY_FREQUENCY + 1):
            steps = {
                tuple(one - other for one, other in zip(found(world, crowd), found(around, crowd), strict=True))
                for world in everybody
            }
            added = pair_count_sensitivity(sides, crowd, True, Neighbours.ADD_REMOVE)
            tight = max(tight, *(sum(map(abs, step)) for step in steps))
            assert all(sum(map(abs, step)) <= added for step in steps)
            for one, other in product(steps, repeat=2):
                apart = [mine - theirs for mine, theirs in zip(one, other, strict=True)]
                assert sum(map(abs, apart)) <= pair_count_sensitivity(sides, crowd, True, Neighbours.REPLACE)
                assert abs(sum(apart)) <= pair_count_sensitivity(sides, crowd, False, Neighbours.REPLACE)
    assert tight > 0


def test_the_bound_is_reached_where_everybody_meets() -> None:
    """Ten people with one row each share a key: one more meets all of them on either side."""
    sides = (CrossUnitSide(1, 1), CrossUnitSide(1, 1))
    before, after = pairs_at_key((10, 10, 10), sides, 11), pairs_at_key((11, 11, 11), sides, 11)
    assert (before, after) == (90, 110)
    assert after - before == pair_count_sensitivity(sides, 10, False, Neighbours.ADD_REMOVE)
