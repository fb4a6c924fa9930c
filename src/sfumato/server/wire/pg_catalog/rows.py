"""Rows of catalogue queries: shown, put in order, made unique and cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from sqlglot import exp

from sfumato.server.wire.pg_catalog.compiled import Compiled, Execution, Frames, Row
from sfumato.server.wire.pg_catalog.trees import identifier
from sfumato.server.wire.sqlstates import WireError

_MOST_SERIES = 100_000
_KEYWORDS: tuple[str, ...] = (
    "analyse",
    "analyze",
    "asc",
    "deferrable",
    "desc",
    "do",
    "freeze",
    "ilike",
    "initially",
    "isnull",
    "limit",
)
_KEYWORDS += ("notnull", "offset", "placing", "returning", "variadic", "verbose")
_PAIR = ("option_name", "option_value")
LISTS: dict[str, tuple[tuple[str, ...], list[Row]]] = {
    "pg_get_keywords": (("word", "catcode", "catdesc"), [(word, "R", "reserved") for word in _KEYWORDS]),
    "pg_options_to_table": (_PAIR, []),
    "pg_listening_channels": (("pg_listening_channels",), []),
    "pg_get_publication_tables": (("relid",), []),
}
"""Functions that give rows which never differ."""


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """One column of a SELECT."""

    name: str
    value: Compiled
    is_set: bool = False
    """Whether its list makes as many rows."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order; `shown` where it is a column of what is shown."""

    value: Compiled
    shown: bool
    descending: bool
    nulls_first: bool


Shown = tuple[Row, Row]
"""A row as it is shown, and the one it was made of."""


def column_at(at: int, oid: int) -> Compiled:
    """Return the expression that reads a column of the row."""
    return Compiled(oid, lambda run, frames: run.read(frames[0][at]), frozenset({(0, at)}))


def chosen(node: exp.Expr, items: list[CatalogueItem]) -> int | None:
    """Return which column of the answer an ordinal or a name means; None if it is an expression of its own."""
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this).isdigit():
        at = int(str(node.this)[:6]) - 1
        if not 0 <= at < len(items):
            raise WireError("42P10", f"ORDER BY position {at + 1} is not in select list")
        return at
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        name = identifier(node.this)
        return next((at for at, item in enumerate(items) if item.name == name), None)
    return None


def series(name: str, values: list[Any], run: Execution) -> list[Any]:
    """Return the rows of a function that gives several."""
    if any(value is None for value in values):
        return []
    if name in ("unnest", "generate_subscripts"):
        if not values or not isinstance(values[0], list):
            raise WireError("42883", f"{name} needs an array")
        if name == "unnest":
            return list(values[0])
        return list(range(1, len(values[0]) + 1)) if len(values) < 2 or values[1] == 1 else []
    if len(values) not in (2, 3) or not all(isinstance(value, int) for value in values):
        raise WireError("42883", "generate_series needs two or three integers")
    step = values[2] if len(values) > 2 else 1
    series = range(values[0], values[1] + (1 if step > 0 else -1), step or 1)
    if len(series) > _MOST_SERIES:
        raise WireError("54000", "A series has too many values.", f"The limit is {_MOST_SERIES:,}.", "Use fewer.")
    run.spend(len(series))
    return list(run.made(list(series)))


def numbered(rows: list[Row], number: int | None, run: Execution) -> list[Row]:
    """Return the rows of a relation with its own number at their end."""
    run.room(len(rows), len(rows[0]) if rows else 0)
    return [(*row, number) for row in rows]


def projected(items: list[CatalogueItem], rows: list[Row], run: Execution, frames: Frames) -> list[Shown]:
    """Return the columns of a SELECT for each row; a function that gives rows multiplies them."""
    shown: list[Shown] = []
    sets = [at for at, item in enumerate(items) if item.is_set]
    for row in run.each(rows):
        made = tuple(item.value.run(run, (row, *frames)) for item in items)
        run.room(1 if not sets else max(len(made[at]) for at in sets), len(items))
        if not sets:
            shown.append((made, row))
            continue
        for turn in range(max(len(made[at]) for at in sets)):
            cells = list(made)
            for at in sets:
                cells[at] = made[at][turn] if turn < len(made[at]) else None
            shown.append((tuple(cells), row))
    return shown


def ordered(shown: list[Shown], order: list[Key], run: Execution, frames: Frames) -> list[Shown]:
    """Return the rows in an order."""
    if not order:
        return shown
    run.room(len(shown), len(order))
    keyed = [
        (tuple(key.value.run(run, ((one[0] if key.shown else one[1]), *frames)) for key in order), one)
        for one in run.each(shown)
    ]

    def compare(left: tuple[Row, Shown], right: tuple[Row, Shown]) -> int:
        for one, other, key in zip(left[0], right[0], order, strict=True):
            run.read(one)
            found = _compare(one, other, key)
            if found:
                return found
        return 0

    return [one for _, one in sorted(keyed, key=cmp_to_key(compare))]


def _compare(left: Any, right: Any, key: Key) -> int:
    if left is None or right is None:
        if left is right:
            return 0
        return (-1 if left is None else 1) * (1 if key.nulls_first else -1)
    if type(left) is not type(right) and (isinstance(left, str) or isinstance(right, str)):
        left, right = str(left), str(right)
    return int((left > right) - (left < right)) * (-1 if key.descending else 1)


def row_key(row: Row, run: Execution) -> Row:
    """Return a row as something that can be looked up."""
    return tuple(tuple(run.read(value)) if isinstance(value, list) else run.read(value) for value in row)


def unique(rows: list[Row], run: Execution) -> list[Row]:
    """Return each row once, in the order in which they come."""
    run.room(len(rows), 1)
    return list({row_key(row, run): row for row in reversed(rows)}.values())[::-1]


def first_of_each(shown: list[Shown], on: list[Key] | None, run: Execution, frames: Frames) -> list[Shown]:
    """Return the first row of each kind: DISTINCT, or DISTINCT ON."""
    found: dict[Row, Shown] = {}
    run.room(len(shown), 1)
    for one in run.each(shown):
        key = one[0] if on is None else tuple(part.value.run(run, (one[1], *frames)) for part in on)
        found.setdefault(row_key(key, run), one)
    return list(found.values())


def cut(
    shown: list[Shown], counts: tuple[Compiled | None, Compiled | None], run: Execution, frames: Frames
) -> list[Shown]:
    """LIMIT and OFFSET."""
    count, offset = (None if part is None else part.run(run, ((), *frames)) for part in counts)
    start = max(int(offset or 0), 0)
    return shown[start:] if count is None else shown[start : start + max(int(count), 0)]


def single_value(rows: Sequence[Row]) -> Any:
    """Return the one value of a subquery that is used as an expression; NULL where it has no row."""
    if len(rows) > 1:
        raise WireError("21000", "more than one row returned by a subquery used as an expression")
    return rows[0][0] if rows else None
