"""Count joined rows of different units by key frequency, with bounded sensitivity [JNS18].

No declaration bounds how many rows share a key. So the count is truncated where more units share a key than a public
limit, the key frequency, allows; then its sensitivity is public. Proof: proofs/elastic_joins.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import factorial, prod

from sfumato.accounting.event import Neighbours
from sfumato.exact import integer

MIN_KEY_FREQUENCY = 2
"""From this frequency on, subtracting a unit's own rows never outweighs what it adds. Proof: (3)"""

FrequencyBlock = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CrossUnitSide:
    """One side of the join: the maximum rows per unit, and per unit and key."""

    rows: int
    repeats: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", integer(self.rows, "rows", 1))
        object.__setattr__(self, "repeats", integer(self.repeats, "repeats", 1))


@cache
def blocks(sides: int) -> tuple[FrequencyBlock, ...]:
    """Return the sets of sides by size; a key has one power sum (over units, of products of row counts) for each.

    >>> blocks(2)
    ((0,), (1,), (0, 1))
    """
    return tuple(some for size in range(1, sides + 1) for some in combinations(range(sides), size))


@cache
def _partitions(sides: int) -> tuple[tuple[int, tuple[FrequencyBlock, ...]], ...]:
    """Return the partitions of the sides with their Möbius weights, which count rows of different units.

    >>> _partitions(2)
    ((1, ((0,), (1,))), (-1, ((0, 1),)))
    """
    if sides == 1:
        return ((1, ((0,),)),)
    last, partitions = sides - 1, []
    for _, parts in _partitions(sides - 1):
        partitions.append((*parts, (last,)))
        partitions += [(*parts[:index], (*part, last), *parts[index + 1 :]) for index, part in enumerate(parts)]
    return tuple(
        (prod((-1) ** (len(part) - 1) * factorial(len(part) - 1) for part in partition), partition)
        for partition in partitions
    )


def key_frequency(powers: Sequence[int], sides: tuple[CrossUnitSide, ...]) -> int:
    """Return the number of units with maximum rows that make up the rows of one key.

    `powers` are the power sums of `blocks`, in that order. One unit moves the maximum over keys by at most 1.

    >>> key_frequency((7, 2, 3), (CrossUnitSide(5, 3), CrossUnitSide(5, 5)))
    3
    """
    return max(-(-power // side.repeats) for power, side in zip(powers, sides, strict=False))


def pairs_at_key(powers: Sequence[int], sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return the joined rows of different units at one key; exact if its key frequency is at most `crowd`.

    >>> pairs_at_key((7, 2, 3), (CrossUnitSide(5, 3), CrossUnitSide(5, 5)), 3)
    11
    """
    capped = {
        block: min(power, _max_power(block, sides, crowd))
        for block, power in zip(blocks(len(sides)), powers, strict=True)
    }
    return sum(weight * prod(capped[part] for part in way) for weight, way in _partitions(len(sides)))


def pair_count_sensitivity(sides: tuple[CrossUnitSide, ...], crowd: int, several: bool, neighbours: Neighbours) -> int:
    """Return the sensitivity of the number of joined rows under a key frequency, in L1 over several cells.

    >>> pair_count_sensitivity((CrossUnitSide(1, 1), CrossUnitSide(1, 1)), 10, False, Neighbours.ADD_REMOVE)
    20
    """
    more, less = (
        sum(
            abs(weight) * _partition_increase(way, sides, crowd)
            for weight, way in _partitions(len(sides))
            if (weight > 0) is added
        )
        for added in (True, False)
    )
    if neighbours is Neighbours.ADD_REMOVE:
        return more
    return 2 * more if several else more + less


def _partition_increase(way: tuple[FrequencyBlock, ...], sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return the largest increase by one unit of the product over the blocks of one partition, over all keys."""
    caps = [_max_power(block, sides, crowd) for block in way]
    return sum(
        _unit_contribution(block, sides) * prod(caps[:index] + caps[index + 1 :]) for index, block in enumerate(way)
    )


def _max_power(block: FrequencyBlock, sides: tuple[CrossUnitSide, ...], crowd: int) -> int:
    """Return the largest power sum of a block at a key of this frequency."""
    return crowd * prod(sides[side].repeats for side in block)


def _unit_contribution(block: FrequencyBlock, sides: tuple[CrossUnitSide, ...]) -> int:
    """Return the largest contribution of one unit to the power sum of a block, over all keys."""
    return min(
        sides[counted].rows * prod(sides[side].repeats for side in block if side != counted) for counted in block
    )
