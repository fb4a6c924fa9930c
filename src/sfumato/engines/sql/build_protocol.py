"""Interface of a running build that the bounded copy needs, in any engine."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.sql.column import Part, ValueForms
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import COHORTS, TOTALS
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.policy import Policy, fold_name

Source = TypeVar("Source")
_KINDS = {REMOVED: "r", CUT: "l", TOTALS: "a"}


class Building(Protocol):
    """One build under way in one engine: its source, intermediate tables that are thrown away, and the copy."""

    @property
    def dialect(self) -> Dialect:
        """The engine's SQL."""

    @property
    def reading(self) -> ValueForms:
        """How the engine reads the values of its source."""

    @property
    def policy(self) -> Policy:
        """What the owner promises."""

    @property
    def salt_sql(self) -> str:
        """What stands for the salt in hexadecimal: 64 characters, one block of SHA-256. It is never the salt itself."""

    @property
    def salt_join(self) -> str:
        """What is joined to the rows of a query that holds `salt_sql`; empty where nothing needs to be."""

    @property
    def read(self) -> Mapping[str, int]:
        """How many rows each table of the source has, by those who count them without reading them.

        Of a table to which rows only arrived, how many did.
        """

    def parts(self, table: str) -> Sequence[Part]:
        """Return the rows of a table of the source, those together that are stored alike."""

    def new_files(self, table: str) -> Sequence[Part] | None:
        """Return the rows of a private table that were added since the copy before; None: it is written anew."""

    def before(self, table: str) -> str:
        """Return how a table of the copy before is named."""

    def stage(self, name: str) -> str:
        """Return how an intermediate table is named."""

    def copy_relation(self, table: str) -> str:
        """Return how a table of the copy is named."""

    def create_table_as(self, relation: str, query: str, *, salted: bool = False) -> None:
        """Write the rows of a query, in its order, into a new table; `salted`: the query holds `salt_sql`."""

    def append_rows(self, relation: str, query: str) -> None:
        """Write the rows of a query, in its order, behind those of a table of the copy."""

    def is_carried_over(self, relation: str) -> bool:
        """Whether a table of the copy holds what the copy before has of it; else it does not exist yet."""

    def delete_rows(self, relation: str, where: str) -> None:
        """Remove rows of a table that was carried over."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the build itself: sums and counts, which are never shown."""

    def drop(self, names: Sequence[str]) -> None:
        """Throw intermediate tables away that there may be."""


def source_table(sources: Mapping[str, Source], name: str) -> Source:
    """Return the source's table of this name, in any case."""
    return next(source for known, source in sources.items() if fold_name(known) == fold_name(name))


def copied_name(policy: Policy, table: str) -> str:
    """Return what a table of the copy is to us: the number of the table, and whether it is of what belongs to it."""
    if table == COHORTS:
        return "k"
    kind = next((kind for ending, kind in _KINDS.items() if table.endswith(ending)), "t")
    name = fold_name(table.removesuffix(REMOVED).removesuffix(CUT).removesuffix(TOTALS))
    return f"{kind}{next(at for at, one in enumerate(policy.tables) if fold_name(one.name) == name)}"
