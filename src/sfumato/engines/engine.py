"""What the path needs of an engine: a catalog, statements before the charge, exact and secret integers after it."""

from typing import Any, Protocol

from sfumato.analysis.catalog import Catalog
from sfumato.analysis.flow import Show
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.aggregates import Aggregates
from sfumato.engines.sql.public import DuckDBPublic
from sfumato.planning.plan import Plan


class Engine(Protocol):
    """Data that questions can be asked about. Threads may share one."""

    @property
    def catalog(self) -> Catalog:
        """The tables that a question may name."""

    @property
    def public(self) -> DuckDBPublic:
        """What may be computed before anything is charged."""

    @property
    def version(self) -> str:
        """The data's version: a counter or random id."""

    def check(self, private: PrivateQuery) -> None:
        """Refuse what this engine cannot answer, from the text alone."""

    def prepare(self, plan: Plan) -> Any:
        """Return what will be run. No data is read: whatever can be refused is refused here."""

    def run(self, job: Any) -> Aggregates:
        """Return the exact aggregates of a plan that has been charged."""

    def exact(self, show: Show) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""

    def close(self) -> None:
        """Let go of the data."""

    def retire(self) -> None:
        """Let go of it when the last question about it is answered."""
