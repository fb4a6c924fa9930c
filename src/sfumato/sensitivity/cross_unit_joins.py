"""Rows of different people that meet by a key: how many there are, and how far one person moves that [JNS18].

No declaration bounds how many rows share a key. So the number is cut where more people share one than a public limit,
the crowd, says; then one person moves it by a public amount. Proof: proofs/elastic_joins.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial, prod

from sfumato.accounting.event import Neighbours
from sfumato.exact import integer

MIN_KEY_FREQUENCY = 2
"""From it on, what is taken away for one person's own rows never outweighs what is added. Proof: (3)"""

FrequencyBlock = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CrossUnitSide:
    """One of the relations that meet: how many rows a person has in it, and how many of them with one key."""

    rows: int
    repeats: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", integer(self.rows, "rows", 1))
        object.__setattr__(self, "repeats", integer(self.repeats, "repeats", 1))


@cache
def blocks(sides: int) -> tuple[FrequencyBlock, ...]:
    """Return the sets of sides, by their size: of each, a key has the sum over people of the products of their rows.

    >>> blocks(2)
    ((0,), (1,), (0, 1))
    """
    return tuple(some for size in range(1, sides + 1) for some in combinations(range(sides), size))


@cache
def _partitions(sides: int) -> tuple[tuple[int, tuple[FrequencyBlock, ...]], ...]:
    """Return the ways to part the sides, each with its Möbius weight: rows of different people, by counting all rows.

    >>> _partitions(2)
    ((1, ((0,), (1,))), (-1, ((0, 1),)))
    """
    if sides == 1:
        return ((1, ((0,),)),)
    last, found = sides - 1, []
    for _, parts in _partitions(sides - 1):
        found.append((*parts, (last,)))
        found += [(*parts[:at], (*part, last), *parts[at + 1 :]) for at, part in enumerate(parts)]
    return tuple((prod((-1) ** (len(part) - 1) * factorial(len(part) - 1) for part in way), way) for way in found)


def key_frequency(powers: Sequence[int], sides: tuple[CrossUnitSide, ...]) -> int:
    """Return how many people, each with as many rows as a person can have there, make the rows of one key.

    `powers` are the numbers of `blocks`, in that order. One person moves the largest of all keys by at most 1.

    >>> key_frequency((7, 2, 3), (CrossUnitSide(5, 3), CrossUnitSide(5, 5)))
    3
    """
    return max(-(-power // side.repeats) for power, side in zip(powers, sides, strict=False))


def pairs_at_key(powers: Sequence[int], sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return how many rows of different people meet at one key; exactly, if its crowd is no larger than `crowd`.

    >>> pairs_at_key((7, 2, 3), (CrossUnitSide(5, 3), CrossUnitSide(5, 5)), 3)
    11
    """
    kept = {
        block: min(power, _cap(block, sides, crowd)) for block, power in zip(blocks(len(sides)), powers, strict=True)
    }
    return sum(weight * prod(kept[part] for part in way) for weight, way in _partitions(len(sides)))


def pair_count_sensitivity(sides: tuple[CrossUnitSide, ...], crowd: int, several: bool, neighbours: Neighbours) -> int:
    """Return how far one person moves the number of meetings under a crowd, in L1 over the cells if there are several.

    >>> pair_count_sensitivity((CrossUnitSide(1, 1), CrossUnitSide(1, 1)), 10, False, Neighbours.ADD_REMOVE)
    20
    """
    more, less = (
        sum(abs(weight) * _rise(way, sides, crowd) for weight, way in _partitions(len(sides)) if (weight > 0) is added)
        for added in (True, False)
    )
    if neighbours is Neighbours.ADD_REMOVE:
        return more
    return 2 * more if several else more + less


def _rise(way: tuple[FrequencyBlock, ...], sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return how far one person raises the product of the blocks of one parting, over all keys."""
    caps = [_cap(block, sides, crowd) for block in way]
    return sum(_own(block, sides) * prod(caps[:at] + caps[at + 1 :]) for at, block in enumerate(way))


def _cap(block: FrequencyBlock, sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return the largest power of a block at a key with such a crowd."""
    return crowd * prod(sides[side].repeats for side in block)


def _own(block: FrequencyBlock, sides: tuple[CrossUnitSide, ...]) -> int:
    """Return what one person adds to the power of a block at most, over all keys."""
    return min(sides[one].rows * prod(sides[side].repeats for side in block if side != one) for one in block)
