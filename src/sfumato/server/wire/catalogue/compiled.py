"""Expressions of catalogue queries, ready to run: a type and a function of the rows in sight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.server.wire import oids
from sfumato.server.wire.catalogue.session_facts import SessionFacts
from sfumato.server.wire.sqlstates import WireError

MOST_STEPS = 1_500_000
MOST_CELLS = 4_000_000
LONGEST_TEXT = 1 << 16

Row = tuple[Any, ...]


class Run:
    """One execution: its session, the values of its parameters, and how much it may still do."""

    __slots__ = ("facts", "held", "steps", "values")

    def __init__(self, facts: SessionFacts, values: dict[str, Any]) -> None:
        self.facts = facts
        self.values = values
        self.steps = MOST_STEPS
        self.held: dict[int, list[Row]] = {}
        """The rows of WITH clauses, by the number that each has."""

    def spend(self, steps: int = 1) -> None:
        """Count steps, and stop when there were too many."""
        self.steps -= steps
        if self.steps < 0:
            raise WireError(
                "54000", "This question about the catalogue takes too long.", "", "Ask for fewer tables at once."
            )

    def room(self, rows: list[Row], width: int) -> None:
        """Stop before the rows of a join fill the memory."""
        if len(rows) * max(width, 1) > MOST_CELLS:
            raise WireError(
                "54000", "This question about the catalogue needs too much memory.", "", "Ask for fewer tables at once."
            )


Frames = tuple[Row, ...]
"""The row in sight, then those of the queries around it."""
Function = Callable[[Run, Frames], Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression: its type, its function, and which columns it reads, as (depth, place)."""

    oid: int
    run: Function
    uses: frozenset[tuple[int, int]] = frozenset()
    literal: str | None = None
    """The text of a bare string, whose type its neighbours decide."""
    parameter: str | None = None
    """The name of a parameter whose type its neighbours decide."""


@dataclass(frozen=True, slots=True)
class Visible:
    """A column in sight."""

    table: str
    name: str
    oid: int
    hidden: bool = False
    """Whether * leaves it out: the second of a USING."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The columns in sight, and those of the query around."""

    fields: tuple[Visible, ...] = ()
    parent: "Sight | None" = None

    def find(self, table: str, name: str) -> tuple[int, int, int] | None:
        """Return depth, place and type of a column; None where there is none."""
        scope: Sight | None = self
        depth = 0
        while scope is not None:
            found = [at for at, field in enumerate(scope.fields) if field.name == name and table in ("", field.table)]
            visible = [at for at in found if not scope.fields[at].hidden] if not table else found
            if visible:
                if len({*visible}) > 1 and not table:
                    raise WireError("42702", f'column reference "{name[:63]}" is ambiguous')
                return depth, visible[0], scope.fields[visible[0]].oid
            scope, depth = scope.parent, depth + 1
        return None


@dataclass(slots=True)
class Learned:
    """The types of parameters, as they are found."""

    declared: dict[str, int]
    types: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        """Return the type that a parameter has so far; UNKNOWN where nothing tells."""
        return self.declared.get(name) or self.types.get(name, oids.UNKNOWN)


def constant(value: Any, oid: int) -> Compiled:
    """Return an expression that is always the same."""
    return Compiled(oid, lambda _run, _frames: value)


def joined_uses(parts: Sequence[Compiled]) -> frozenset[tuple[int, int]]:
    """Return the columns that any of the parts reads."""
    return frozenset().union(*(part.uses for part in parts))


def deeper(parts: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Return what a query inside reads of the rows around it."""
    return frozenset((depth - 1, at) for depth, at in parts if depth > 0)
