"""Losses of a source on its way into the copy: exact numbers, for its owner's eyes alone, kept nowhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    """What becomes of the values of one column."""

    table: str
    column: str
    type: str
    present: int
    """Values that are there."""
    unreadable: int = 0
    """Of these, how many are not of the declared type, and so absent."""
    remedy: str = ""
    """What the policy would have to say to read them; empty where nothing was found."""
    below: int = 0
    above: int = 0
    """Values beyond the bounds, which are moved to them."""
    undeclared: int = 0
    """Values that are none of the public keys, and so absent."""
    cut: int = 0
    """Texts that are longer than what is kept of them."""
    rounded: int = 0
    """Values of an integer column that have decimals, and so are rounded."""
    marked: int = 0
    """Names of people that look like a mark for a missing value: all who have the same one are one person."""
    total: int = 0
    """The sum of a bounded number without its sign, in steps, over all rows that have an owner."""
    clipped: int = 0
    """What bounds take from that sum."""
    reads_as: str = ""
    """For a column of text, the type as which its values read, with the words for the policy; empty where none."""
    capped: int = 0
    """What `rows_per_unit` takes from it, on average over the rows that are drawn."""

    @property
    def whole(self) -> bool:
        """Whether nothing is lost."""
        return not (self.unreadable or self.below or self.above or self.undeclared or self.cut or self.marked)


@dataclass(frozen=True, slots=True)
class InspectedCap:
    """The rows that another `rows_per_unit` would leave out."""

    rows: int
    units_over_bound: int
    """People who have more rows."""
    removed: int
    """The rows that they would lose."""


@dataclass(frozen=True, slots=True)
class InspectedTable:
    """What becomes of the rows of one table."""

    table: str
    rows: int
    rows_without_unit: int
    """Rows without a unit, which are therefore left out."""
    people: int
    units_over_bound: int
    """People who have more rows than count."""
    removed: int
    """The rows that they lose."""
    repeated: int
    """Rows that repeat a unique key of the same person."""
    caps: tuple[InspectedCap, ...] = ()
    """The rows that other caps would leave out, up to the first cap that leaves out nothing."""
    shared_keys: int = 0
    """Keys of the table's path that lead to more than one person: with one of them, no snapshot can be taken."""
    key_column: str = ""
    """The column of these keys; empty where there is no path."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A whole source."""

    tables: tuple[InspectedTable, ...]
    columns: tuple[InspectedColumn, ...]

    @property
    def people(self) -> int:
        """The most people of any table."""
        return max((table.people for table in self.tables), default=0)
