"""Tables as analysis sees them: columns with their facts, units and bounds. Built from policy and copy."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Protocol

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Cell
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import Item, RelNode
from sfumato.language.scalar import Scalar
from sfumato.policy.rights import Rights
from sfumato.query.declared import Admitted, DeclaredBounds, DeclaredValues
from sfumato.query.expression import Value
from sfumato.query.types import Type

_MAX_LISTED_VALUES = 12
"""Maximum number of values that are listed; more consecutive values are shown as a range."""
_FIRST_DAY = date(1970, 1, 1)

_HIDDEN_UNIT = '"unit"'
"""Name of a unit that an account may not use: no declared name holds a quotation mark, so no text can name it."""
REMOVED = ".removed"
"""The ending of the table that says who lost rows, and how many. No declared name of a table holds a dot."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name in queries, its name in the copy, what is known of it."""

    name: str
    stored: str
    facts: Facts
    unique: bool = False
    """Within one person each value occurs once."""
    cells: tuple[Cell, ...] | None = None
    """Its public values, where the policy declares them."""
    has_too_many_cells: bool = dataclasses.field(default=False, kw_only=True)
    """Whether the policy declares more values than an answer shows; then `cells` is None."""
    has_value_ranks: bool = False
    """Within one person its values are numbered in the copy, in the order in which cells are kept."""
    has_value_counts: bool = False
    """The copy says in each row in how many rows of the same person it has a value."""
    has_value_multiplicities: bool = False
    """The copy says in the first row of a person with a value how many rows have it, and 0 in the others."""
    has_bound_index: bool = False
    """The copy says in each row at which levels it counts, by how many of its person have a value up to it."""
    has_running_total: bool = False
    """The copy says in each row how much of it the person has in the rows before, and at which levels that counts."""
    bounds_chosen: bool = False
    """Each question chooses the bounds that its sums are clipped at, within those of its facts."""
    total: int | None = None
    """The most steps that one person adds to a sum of it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a query may name."""

    name: str
    fields: tuple[Field, ...]
    public: bool
    unit: str | None
    """The column that names the owner; None in a public table, where each row is a person, or a path leads to them."""
    owner: Field | None = None
    """The opaque id of the owner of each row, which queries cannot name unless it is `unit`; None if public."""
    identity: bool = False
    """Whether the owner's id is the same in every table; not so where each row is a person."""
    rows_per_unit: int = 1
    groups_per_unit: int | None = None
    rows_chosen: bool = False
    """Each question chooses how many rows of a person count, up to `rows_per_unit`."""
    groups_chosen: bool = False
    """Each question that counts people chooses in how many groups one counts, up to `groups_per_unit`."""
    in_sampling_order: bool = False
    """Rows have ranks in sampling order, in which they count towards a unit's total."""
    people_numbered: bool = False
    """The copy numbers people beside the id of the owner."""
    keys_to_unit: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The columns that lead to the owner by a `via` of the policy, here or from another table, each with its key."""
    pair: tuple[Field, Field] | None = None
    """Both owners of each row, where rows have two: the only thing that may be done with them is in `two_owners`."""
    pair_same_kind: bool = False
    """Whether both owners are of the same kind, so that one person may be the first of some rows and the second of
    others."""
    hidden: frozenset[str] = frozenset()
    """Columns that an account may not use. They are in `fields`, so that a right never changes a plan."""

    previewed: bool = False
    """First rows of it are made up, and marked in one more column."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Every column that a question may name, with its type."""
        return {field.name: str(field.facts.type) for field in self.fields if field.name not in self.hidden}

    def declared(self, column: str) -> Admitted | None:
        """Return the declared values of a private column."""
        field = self.field(column)
        facts, cells = field.facts, field.cells
        if self.public or facts.kind in {Kind.UNIT, Kind.REAL}:
            return None
        if cells is not None and (len(cells) <= _MAX_LISTED_VALUES or len(cells) < facts.span):
            return DeclaredValues(tuple(decode_literal(cell, facts) for cell in cells))
        if not facts.bounded:
            return None
        low, high = decode_literal(facts.low, facts), decode_literal(facts.high, facts)
        return DeclaredBounds(low, high)  # type: ignore[arg-type]

    def field(self, name: str) -> Field:
        """Return the column of this name."""
        return next(field for field in self.fields if field.name == name)


def decode_literal(cell: Cell, facts: Facts) -> Value:
    """Return a public value as a question spells it.

    >>> decode_literal(19_000, Facts(Type.DATE, Kind.INTEGER))
    datetime.date(2022, 1, 8)
    """
    match facts.type:
        case Type.DECIMAL:
            return cell * facts.step if isinstance(cell, int) else cell
        case Type.DATE:
            return _FIRST_DAY + timedelta(days=int(cell))
        case Type.TIMESTAMP:
            return datetime.combine(_FIRST_DAY, time()) + timedelta(microseconds=int(cell))
        case _:
            return cell


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables, and the relation under which their people are protected."""

    tables: Mapping[str, Table]
    neighbours: Neighbours


def visible_catalog(catalog: Catalog, rights: Rights) -> Catalog:
    """Return the catalog in which the names of questions are resolved: other names do not exist for the account.

    Theorem: a question that is accepted under it has the plan that it has under the whole catalog. Proof:
    proofs/rights.md
    """
    if rights.complete:
        return catalog
    visible = {
        name: _visible_table(table, declared, rights)
        for name, table in catalog.tables.items()
        if rights.may_use_table(declared := name.removesuffix(REMOVED))
    }
    return dataclasses.replace(catalog, tables=visible)


def _visible_table(table: Table, declared: str, rights: Rights) -> Table:
    declared_fields = table.fields if declared == table.name else table.fields[:-1]  # the last is `removed_rows`
    hidden = frozenset(field.name for field in declared_fields if not rights.may_use_column(declared, field.name))
    visible = dataclasses.replace(
        table,
        hidden=hidden,
        keys_to_unit={column: key for column, key in table.keys_to_unit.items() if column not in hidden},
    )
    if table.unit is None or table.unit not in hidden or table.owner is None:
        return visible
    return dataclasses.replace(
        visible,
        fields=tuple(_without_name(field) if field.name == table.unit else field for field in table.fields),
        hidden=hidden - {table.unit} | {_HIDDEN_UNIT},
        unit=None,
        owner=_without_name(table.owner),
    )


def _without_name(field: Field) -> Field:
    return dataclasses.replace(field, name=_HIDDEN_UNIT)


class PublicRows(Protocol):
    """Public rows that are computed once and read again from the stored result."""

    @property
    def max_rows_per_key(self) -> int:
        """The most of them that agree in all keys (none NULL); without keys, how many there are."""

    @property
    def size(self) -> int:
        """The approximate number of bytes that they take while they are held."""


class PublicData(Protocol):
    """Computations of an engine before any private row is read: from public tables and the text alone."""

    def materialize(self, flow: RelNode, columns: tuple[Item, ...], keys: tuple[Scalar, ...]) -> PublicRows:
        """Return the rows of a public flow, computed once, with these columns."""

    def value_range(self, flow: RelNode, scalar: Scalar) -> tuple[int, int] | None:
        """Return the least and greatest integer of an INTEGER scalar over a public flow; None if all are NULL."""

    def distinct(self, flow: RelNode, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        """Return the distinct values of a scalar over a public flow, sorted, without NULL; None if more than `most`."""

    def rows(
        self, flow: RelNode, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        """Return the scalars over every row of a public flow; None if there are more than `most` rows."""
