"""The numbers that the copy gives the values of a key within each person, where a question groups by that key.

They follow the order in which cells are kept, so that keeping the first cells needs neither a hash nor a window: where
no row was left out before, the number is the rank of a cell, and else a person's numbers are gathered as the bits of a
few integers.  Proof: proofs/lineage.md §6
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.auxiliary_columns import Hidden, keeps_all_rows, rows_are_distinct, with_auxiliary_column
from sfumato.engines.sql.builder import select, subquery, union_all, with_tables
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import OWN, value_multiplicity_column, value_rank_column
from sfumato.language.outside import bare
from sfumato.language.rel_nodes import RelNode, ScanNode
from sfumato.language.scalar import Scalar

_NUMBERS = Hidden(value_rank_column, lambda read: read.numbered)
_MULTIPLICITY = Hidden(value_multiplicity_column, lambda read: read.numbered)
_REPEATS = Hidden(value_multiplicity_column, lambda read: read.multiplied)
BITS = 60
"""Number of ranks that are bits of one integer: 2 to that power still fits."""
MAX_RANK_WORDS = 8
"""With more integers than that for one person, ranking costs no more."""


def _all_stored(read: ScanNode) -> tuple[str, ...]:
    return tuple(stored for _, stored, _ in read.columns) if read.numbered else ()


_OWN = Hidden(lambda _: OWN, _all_stored)


@dataclass(frozen=True, slots=True)
class NumberedCells:
    """The rows of a group with more columns: the number of each row's cell, and how many rows its owner has."""

    rows: RelNode
    number: Scalar
    own: Scalar
    alike: Scalar | None
    """How many rows of the person are in the cell, in the first of them, else 0; None where rows met other rows."""
    whole: bool
    """Whether they are all rows that the copy keeps of a person: then the number is the rank of the cell."""


@dataclass(frozen=True, slots=True)
class OwnRows:
    """The rows of a group with one more column: how many rows the copy keeps of the owner, and so at most these."""

    rows: RelNode
    own: Scalar


@dataclass(frozen=True, slots=True)
class CellColumns:
    """Names of the columns by which cells are kept."""

    owner: str
    number: str
    own: str


def numbered_cells(group: Group) -> NumberedCells | None:
    """Return the rows with their cells' numbers; None unless the only key is a column that the copy numbers."""
    if len(group.keys) != 1 or not group.identity:
        return None
    key = bare(group.keys[0].scalar)
    numbered = with_auxiliary_column(group.rows, key, _NUMBERS)
    owned = None if numbered is None else with_auxiliary_column(numbered[0], key, _OWN)
    if numbered is None or owned is None:
        return None
    rows, own = owned
    found = with_auxiliary_column(rows, key, _MULTIPLICITY) if rows_are_distinct(rows) else None
    rows, alike = (rows, None) if found is None else found
    return NumberedCells(
        rows, numbered[1], own, alike, whole=keeps_all_rows(group.rows) and not group.contribution.bound_rows
    )


@dataclass(frozen=True, slots=True)
class RepeatedValues:
    """The rows of a group with one more column: how many rows of the person have the value of a key."""

    rows: RelNode
    alike: Scalar
    """In the first of them, else 0. A person who has a value in one row has one row in each of its cells."""
    whole: bool
    """Whether the key is the only one and all rows of the copy are there: each cell of a person has a first row."""


def repeated_values(group: Group) -> RepeatedValues | None:
    """Return the rows with these numbers; None unless they are rows of the copy, which says it of one of the keys."""
    if not group.identity or not rows_are_distinct(group.rows):
        return None
    found = (with_auxiliary_column(group.rows, bare(key.scalar), _REPEATS) for key in group.keys)
    if (first := next((one for one in found if one is not None), None)) is None:
        return None
    whole = len(group.keys) == 1 and keeps_all_rows(group.rows) and not group.contribution.bound_rows
    return RepeatedValues(*first, whole)


def own_rows(group: Group) -> OwnRows | None:
    """Return the rows with how many their owner has in the copy; None where it may be more here, or is unknown."""
    if not group.identity or not rows_are_distinct(group.rows):
        return None
    found = with_auxiliary_column(group.rows, group.unit, _OWN)
    return None if found is None else OwnRows(*found)


def first_numbered(
    rows: str, names: Sequence[str], at: CellColumns, highest: int, most: int, dialect: Dialect, *, once: bool
) -> str | None:
    """Return a query for the rows of each person's `most` cells of the least numbers; None for very many numbers.

    A number up to `most` always counts. The numbers of people who may have higher ones are the bits of integers, so
    that their bits up to a number are its rank. `rows` is read three times, or `once` if it is costly.
    """
    words = -(-highest // BITS)
    if words > MAX_RANK_WORDS:
        return None
    number, source = f"CAST({at.number} AS {dialect.bigint})", "cut" if once else subquery(rows)
    bits = [f"{dialect.bit_or(bit_of(number, word, words, dialect))} AS m{word}" for word in range(words)]
    held = f"{at.number} <= {words * BITS}"
    masks = select([f"{at.owner} AS o", *bits], f"{source} AS g", where=[f"{at.own} > {most}", held], group_by=at.owner)
    rank = " + ".join(bits_up_to(number, word, f"m{word}", dialect) for word in range(words))
    low = select(names, f"{source} AS l", where=f"{at.number} <= {most}")
    joined = f"{source} AS h JOIN {subquery(masks, 'm')} ON h.{at.owner} = m.o"
    high = select(names, joined, where=[f"{at.number} > {most}", held, f"{rank} <= {most}"])
    kept = union_all([low, high])
    return with_tables({"cut": rows}, kept) if once else kept


def bit_of(number: str, word: int, words: int, dialect: Dialect) -> str:
    """Return the bit that stands for a number in one of the words; 0 in the others."""
    low = word * BITS
    if words == 1:
        return dialect.power_of_two(f"{number} - 1")
    here = f"{number} > {low} AND {number} <= {low + BITS}"
    return f"CASE WHEN {here} THEN {dialect.power_of_two(f'{number} - {low + 1}')} ELSE 0 END"


def bits_up_to(number: str, word: int, bits: str, dialect: Dialect) -> str:
    """Return how many bits of a word stand for numbers up to this one; `bits` is what the word is called."""
    low = word * BITS
    power = f"greatest(least({number} - {low}, {BITS}), 0)"
    return dialect.popcount(f"({bits} & ({dialect.power_of_two(power)} - 1))")
