"""Lineage: who owns the rows of a flow, and how many of them one person can have.

Theorem: for every database and every person, the rows of an `UnitLineage` flow whose `unit` is that person's id are a
function of the person's own rows and of public tables, there are at most `rows` of them, and every row has an owner.
Proof: proofs/lineage.md
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from sfumato.analysis.possible_cells import Computation, PossibleCells
from sfumato.analysis.private_query import Cell
from sfumato.language.facts import Kind
from sfumato.language.lowering import ScalarScope
from sfumato.language.rel_nodes import RelNode
from sfumato.language.scalar import Scalar, columns_read

OWNER = '"owner"'
"""The column of the owner's id: no query can spell a name that holds a quotation mark like this."""


class Visibility(Enum):
    """Visibility of rows without a unit."""

    PUBLIC = auto()
    """It reads public tables and the text alone."""
    RELEASED = auto()
    """It is computed from noisy groups."""


@dataclass(frozen=True, slots=True)
class UnitLineage:
    """The owner of every row of a private flow."""

    unit: Scalar
    shared_ids: bool
    """Whether the id names the same person in every table."""
    rows: int
    """The most rows of one person."""
    groups: int | None
    """The most groups that a policy lets one person touch in one answer."""
    unique: frozenset[tuple[str, str]]
    """Columns in which two rows of one person never hold the same value."""
    names: tuple[str, ...]
    """Names of the unit column in the tables."""
    constant_per_unit: frozenset[tuple[str, str]] = frozenset()
    """Columns that hold one value in all rows of a person: those of a table with one row per person, after a join."""

    def is_settled(self, scalar: Scalar) -> bool:
        """Whether a scalar has one value in all rows of a person."""
        return self.rows == 1 or columns_read(scalar) <= self.constant_per_unit


@dataclass(frozen=True, slots=True)
class Analysed:
    """A relation with its flow: its columns, the units they belong to, and which of their values are public."""

    flow: RelNode
    scope: ScalarScope
    state: Visibility | UnitLineage
    """Public, released, or owned by people."""
    cells: PossibleCells = field(default_factory=lambda: PossibleCells({}))
    origins: Mapping[str, RelNode] = field(default_factory=dict)
    """The public flow that a label's columns come from."""

    marks: Mapping[tuple[str, str], tuple[Computation, tuple[Cell, ...]]] = field(default_factory=dict)
    """For a truth value that says whether something is among public values: what is, and which values those are."""

    def with_flow(self, flow: RelNode, scope: ScalarScope, cells: PossibleCells | None = None) -> "Analysed":
        """Return the same lineage over another flow of the same rows, or of some of them."""
        return replace(self, flow=flow, scope=scope, cells=self.cells if cells is None else cells)


def is_unit_id(scalar: Scalar) -> bool:
    """Whether a scalar of a private flow is the id of the row's owner, on every row."""
    return scalar.facts.kind is Kind.UNIT and not scalar.facts.nullable
