"""What is known before any private row is read: from public tables and the text alone.

It is given the public tables and no others, so that a flow over a private one has no statement here.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from sfumato.analysis.flow import Flow
from sfumato.analysis.private_query import Cell
from sfumato.analysis.scalar import Scalar
from sfumato.engines.duckdb_flow import Tables, projected

Rows = list[tuple[Any, ...]]
Fact = TypeVar("Fact")
_KEPT = 10_000
"""How many facts are remembered; then all are forgotten."""


class DuckDBPublic:
    """`analysis.catalog.Public` over the public tables of a copy, whose data does not change while it is open."""

    def __init__(self, tables: Tables, rows: Callable[[str], Rows]) -> None:
        self._tables = tables
        self._rows = rows
        self._known: dict[Hashable, Any] = {}
        self._lock = Lock()

    def most_alike(self, flow: Flow, keys: tuple[Scalar, ...]) -> int:
        """Return the most rows of a public flow that agree in all keys (none NULL); without keys, how many it has."""
        return self._once(("alike", flow, keys), lambda: self._most_alike(flow, keys))

    def reach(self, flow: Flow, scalar: Scalar) -> tuple[int, int] | None:
        """Return the least and greatest integer of an INTEGER scalar over a public flow; None if all are NULL."""
        return self._once(("reach", flow, scalar), lambda: self._reach(flow, scalar))

    def distinct(self, flow: Flow, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        """Return the distinct values of a scalar over a public flow, sorted, without NULL; None if more than `most`."""
        return self._once(("distinct", flow, scalar, most), lambda: self._distinct(flow, scalar, most))

    def rows(
        self, flow: Flow, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        """Return the scalars over every row of a public flow; None if there are more than `most` rows."""
        return self._once(("rows", flow, scalars, most), lambda: self._all_rows(flow, scalars, most))

    def _all_rows(
        self, flow: Flow, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        named = {f"c{at}": scalar for at, scalar in enumerate(scalars)}
        found = self._rows(f"{projected(flow, self._tables, named)} LIMIT {most + 1}")
        return None if len(found) > most else tuple(row[: len(scalars)] for row in found)

    def _most_alike(self, flow: Flow, keys: tuple[Scalar, ...]) -> int:
        named = {f"k{at}": key for at, key in enumerate(keys)}
        rows = projected(flow, self._tables, named)
        if not keys:
            ((most,),) = self._rows(f"SELECT count(*) FROM ({rows})")  # noqa: S608
            return int(most)
        present = " AND ".join(f"{name} IS NOT NULL" for name in named)
        counts = f"SELECT count(*) AS n FROM ({rows}) WHERE {present} GROUP BY {', '.join(named)}"  # noqa: S608
        ((most,),) = self._rows(f"SELECT max(n) FROM ({counts})")  # noqa: S608
        return int(most or 0)

    def _reach(self, flow: Flow, scalar: Scalar) -> tuple[int, int] | None:
        ((low, high),) = self._rows(f"SELECT min(v), max(v) FROM ({projected(flow, self._tables, {'v': scalar})})")  # noqa: S608
        return None if low is None else (low, high)

    def _distinct(self, flow: Flow, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        values = projected(flow, self._tables, {"v": scalar})
        found = self._rows(f"SELECT DISTINCT v FROM ({values}) WHERE v IS NOT NULL LIMIT {most + 1}")  # noqa: S608
        return None if len(found) > most else tuple(sorted(value for (value,) in found))

    def _once(self, question: Hashable, answer: Callable[[], Fact]) -> Fact:
        with self._lock:
            if question in self._known:
                known: Fact = self._known[question]
                return known
        fact = answer()
        with self._lock:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[question] = fact
        return fact
