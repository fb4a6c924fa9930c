"""Aggregates that SQLite lacks: of ordered values, into arrays and texts, and of exact numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sfumato.server.wire.pg_catalog.compiled import CatalogRow, Execution, weight
from sfumato.server.wire.pg_catalog.functions import joined_texts
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate; its rows are arguments, then the keys that they are ordered by."""

    name: str
    width: int
    """How many arguments it has."""
    descending: tuple[bool, ...] = ()
    distinct: bool = False

    def __call__(self, run: Execution, rows: list[CatalogRow]) -> Any:
        """Return the aggregate of the rows of one group, of which there is at least one."""
        if self.name == "single_value" and len(rows) > 1:
            raise WireError("21000", "more than one row returned by a subquery used as an expression")
        if self.name == "rows":
            return [list(row) for row in rows]
        for index, descending in reversed([*enumerate(self.descending, self.width)]):
            rows = _sort(rows, [row[index] for row in run.each(rows)], descending, run)
        values = [row[0] for row in run.each(rows)]
        if self.distinct:
            values = list(dict.fromkeys(tuple(value) if isinstance(value, list) else value for value in values))
        if self.name == "array_agg":
            return values
        there = [value for value in values if value is not None]
        return self._of(there, rows) if there else None

    def _of(self, there: list[Any], rows: list[CatalogRow]) -> Any:
        match self.name:
            case "single_value":
                return there[0]
            case "max":
                return max(there)
            case "min":
                return min(there)
            case "sum":
                return sum(there)
        separator = rows[0][1] if self.width > 1 else ""
        texts = [value if isinstance(value, str) else (text_of(value, 0) or b"").decode() for value in there]
        return joined_texts(str(separator or ""), texts)


def _sort(items: Sequence[T], values: list[Any], descending: bool, run: Execution) -> list[T]:
    """Return items in the order of their values; each value is compared at most log n times."""
    run.spend(sum(map(weight, values)) * len(values).bit_length())
    run.reserve_rows(len(values), 2)
    try:
        places = sorted(range(len(items)), key=lambda at: _sortable(values[at]), reverse=descending)
    except TypeError:
        raise WireError("42883", "values of different types have no order") from None
    return [items[at] for at in places]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)
