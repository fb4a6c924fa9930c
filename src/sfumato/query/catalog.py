"""Tables as the parser sees them; the policy provides them."""

from collections.abc import Mapping
from typing import Protocol

from sfumato.query.declared import Admitted


class Table(Protocol):
    """One table a query may name."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Every declared column with its type: integer, decimal, boolean, date, timestamp or text."""

    @property
    def public(self) -> bool:
        """Whether the table is public."""

    @property
    def unit(self) -> str | None:
        """The column that names the privacy unit; None in a public table, or where each row is its own person."""

    @property
    def keys_to_unit(self) -> Mapping[str, str]:
        """The columns that lead to the person by a path of the policy, each with the key that it leads by."""

    @property
    def previewed(self) -> bool:
        """Whether first rows of it are made up, and marked in one more column; counted rows are not marked."""

    def declared(self, column: str) -> Admitted | None:
        """Return the declared values of a private column; None for public tables and where none are declared."""


class Catalog(Protocol):
    """The tables of a policy by name."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table, public and private."""
