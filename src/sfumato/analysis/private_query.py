"""A query over private rows before pricing: its cells, its measurements and its post-processing."""

from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from math import prod

from sfumato.accounting.event import Neighbours
from sfumato.language.rel_nodes import ProjectNode, RelNode
from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import NOWHERE, Position

Cell = int | str | bool
"""A key as an engine keeps it: an integer in steps, a text or a truth value."""


class Absent(Enum):
    """The cell of rows whose key is NULL, where the rest does not hold them: measured and never shown."""

    NULL = "null"


KeyValue = Cell | Absent | None
"""A key, or None for the rest: what is in none of the others, measured for their sake and never shown."""


def visible_key(value: KeyValue) -> Cell | None:
    """Return a key as an answer may show it: cells that are measured for others' sake have none.

    >>> visible_key(Absent.NULL) is None, visible_key("er")
    (True, 'er')
    """
    return None if isinstance(value, Absent) else value


@dataclass(frozen=True, slots=True)
class Key:
    """One grouping key. `cells` are all the values it can have where they are public, else None. NULL is no key.

    With `has_remainder` one more cell is measured, for the rows that are in none of these, so that the cells add up to
    all rows.
    """

    name: str
    scalar: Scalar
    cells: tuple[Cell, ...] | None
    has_remainder: bool = False
    null_is_apart: bool = False
    """Whether NULL has a measured cell of its own: the remainder then holds the values outside bounds alone."""

    @property
    def measured_values(self) -> tuple[KeyValue, ...]:
        """The values of a public key that are measured."""
        rest = (None,) if self.has_remainder else ()
        return (*(self.cells or ()), *rest, *((Absent.NULL,) if self.null_is_apart else ()))


@dataclass(frozen=True, slots=True)
class RequestedAggregate:
    """One aggregate as it was asked; a UNIT argument (always distinct) counts people."""

    name: str
    aggregate: Aggregate[Scalar]
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    values: int | None = None
    """Of a DISTINCT aggregate: how many different values its argument can have, where they are public keys."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """How much one person can put into a group of rows.

    Theorem: in the rows of `Group.rows`, one person owns at most `rows` rows and, after `Group` was bounded, has them
    in at most `groups` cells.  Proof: proofs/lineage.md
    """

    rows: int
    groups: int
    bound_rows: bool
    """Whether `rows` is enforced by the statement: fewer than the copy keeps."""
    bound_groups: bool
    """Whether `groups` is enforced by the statement: fewer than `rows`."""


@dataclass(frozen=True, slots=True)
class Group:
    """One private GROUP BY: the rows, their owner, the keys and what was asked of each cell."""

    label: str
    rows: RelNode
    unit: Scalar
    """The opaque id of the owner of a row of `rows`."""
    identity: bool
    """Whether the id names the person; else (each row its own person) it only tells rows apart."""
    keys: tuple[Key, ...]
    asked: tuple[RequestedAggregate, ...]
    contribution: Contribution
    combinations: tuple[tuple[Cell, ...], ...] | None = None
    """The cells, where fewer can occur than all combinations of public keys: columns of one public table."""

    @property
    def public_keys(self) -> bool:
        """Whether all cells are known before any data is read."""
        return all(key.cells is not None for key in self.keys)

    @property
    def cells(self) -> int:
        """How many cells there are, if they are public; 1 without keys."""
        return (
            prod(len(key.measured_values) for key in self.keys) if self.combinations is None else len(self.combinations)
        )

    def all_cells(self) -> tuple[tuple[KeyValue, ...], ...]:
        """Return every cell of public keys, in canonical order."""
        return (
            tuple(product(*(key.measured_values for key in self.keys)))
            if self.combinations is None
            else self.combinations
        )


@dataclass(frozen=True, slots=True)
class PrivateQuery:
    """A question that can be priced. Without groups it reads public tables alone: it is exact and free.

    `outcome` is what is computed from the noisy groups, each of which is a `Given` without rows under its label, with
    the columns: every key by its name, every aggregate by its name.
    """

    groups: tuple[Group, ...]
    outcome: ProjectNode
    names: tuple[str, ...]
    """The names of the columns of the answer; they may repeat."""
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    """Notes on steps that the text does not show, such as an implied equality of units."""
    first: tuple[ProjectNode, ...] = field(default=(), kw_only=True)
    """Noisy rows that are measured first, because rows of other groups are compared with them, by label."""
    days: frozenset[int] = frozenset()
    """The places of columns that are dates for people, though they are computed as timestamps: DATE_TRUNC of a date."""
    cohorts: tuple[str, ...] | None = None
    """The cohorts that pay, whose people alone are read; None: all of them."""


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """The rows that an extension package measures and does not show.

    Theorem: what `unit` owns of `rows` is a function of that person's own rows and of public tables, and is at most
    `most` rows. In each row every column has a value, one of its cells where they are declared.
    Proof: proofs/measuring.md
    """

    rows: RelNode
    columns: tuple[Key, ...]
    """Scalars over `rows`, and all their values where those are public."""
    unit: Scalar
    identity: bool
    most: int
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
