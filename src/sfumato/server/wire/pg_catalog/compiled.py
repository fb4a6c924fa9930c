"""Catalogue queries as SQLite reads them: expressions with a type and a text, and what one execution may do."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from sys import getsizeof
from time import thread_time
from typing import Any, TypeVar

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.sqlstates import WireError

MAX_STEPS = 10_000_000
"""Maximum effort of one execution. A step is one value or 64 characters that a function of ours reads; an instruction
of SQLite is `STEPS_PER_INSTRUCTION`."""
STEPS_PER_INSTRUCTION = 10
"""SQLite stores at most a few short values per instruction, so that this bounds its memory too."""
MAX_PLANNING_STEPS = 4_000_000
"""Maximum effort of compiling one text: expressions, columns, and columns searched for a name."""
MAX_EVALUATION_BYTES = 64 << 20
"""Maximum memory of the rows that one execution makes, in bytes, counted as Python stores them."""
MAX_STATEMENT_CHARS = 1_000_000
"""Maximum length of the statement that SQLite gets."""
MAX_TEXT_CHARS = 1 << 16
MAX_QUERY_SECONDS = 5.0
"""CPU seconds after which an execution stops, whatever its steps were."""
_CHECK_STEPS = 1024
"""Number of steps after which an execution checks again whether it should stop."""
_CHARS_PER_STEP = 64
_ROW_BYTES, _CELL_BYTES, _VALUE_BYTES = 80, 8, 48
"""A tuple in a list, a slot of it, and a number or moment: sizes of CPython, rounded up."""

CatalogRow = tuple[Any, ...]
T = TypeVar("T")


def weight(value: Any) -> int:
    """Return the steps that reading, copying or comparing a value once takes: 1, and 1 for each 64 characters."""
    if isinstance(value, str):
        return 1 + len(value) // _CHARS_PER_STEP
    if isinstance(value, list | tuple):
        texts = sum(len(item) // _CHARS_PER_STEP for item in value if isinstance(item, str))
        return 1 + len(value) + texts
    return 1


def never() -> bool:
    """Tell that nothing has stopped an execution."""
    return False


class Execution:
    """One execution: its session, the values of its parameters, and how much it may still do."""

    __slots__ = ("_bytes", "_check", "_end", "_stopped", "facts", "steps", "values")

    def __init__(self, facts: SessionFacts, values: dict[str, Any], stopped: Callable[[], bool] = never) -> None:
        self.facts = facts
        self.values = values
        self.steps = MAX_STEPS
        self._check = MAX_STEPS - _CHECK_STEPS
        self._bytes = MAX_EVALUATION_BYTES
        self._end = thread_time() + MAX_QUERY_SECONDS
        self._stopped = stopped

    def spend(self, steps: int = 1) -> None:
        """Count steps before they are taken; stop when there were too many, or when `stopped` says so."""
        self.steps -= steps
        if self.steps < self._check:
            self._look()

    def _look(self) -> None:
        if self.steps < 0 or thread_time() > self._end:
            raise too_long()
        if self._stopped():
            raise WireError("57014", "canceling statement due to user request")
        self._check = max(self.steps - _CHECK_STEPS, 0)

    def read(self, value: Any) -> Any:
        """Return a value of an expression, counted by its size: operators that read each operand once are paid for."""
        if isinstance(value, str):
            if len(value) > MAX_TEXT_CHARS:
                raise text_too_long()
            self.spend(1 + len(value) // _CHARS_PER_STEP)
        else:
            self.spend(weight(value) if isinstance(value, list | tuple) else 1)
        return value

    def each(self, rows: Iterable[T]) -> Iterator[T]:
        """Give rows that something is computed for; each is a step."""
        for row in rows:
            self.spend()
            yield row

    def made(self, value: Any) -> Any:
        """Return a value that was made, and stop before all of them fill the memory."""
        if isinstance(value, list):
            self._hold(getsizeof(value) + _VALUE_BYTES * len(value))
        elif value is not None:
            self._hold(getsizeof(value) if isinstance(value, str) else _VALUE_BYTES)
        return value

    def reserve_rows(self, rows: int, width: int) -> None:
        """Count rows that are made, and stop before they fill the memory."""
        self.spend(rows * (1 + width // 16))
        self._hold(rows * (_ROW_BYTES + _CELL_BYTES * width))

    def _hold(self, count: int) -> None:
        self._bytes -= count
        if self._bytes < 0:
            raise WireError(
                "54000",
                "This question about the catalogue needs too much memory.",
                f"The limit is {MAX_EVALUATION_BYTES >> 20} MiB for the rows and texts of one question.",
                "Ask for fewer tables at once.",
            )


def too_long() -> WireError:
    """Refuse an execution that is beyond the limit."""
    return WireError(
        "54000",
        "This question about the catalogue takes too long.",
        f"The limit is {MAX_STEPS:,} steps or {MAX_QUERY_SECONDS:g} seconds.",
        "Ask for fewer tables at once.",
    )


def text_too_long() -> WireError:
    """Refuse a text beyond the limit."""
    return WireError(
        "54000", "A text is too long.", f"The limit is {MAX_TEXT_CHARS} characters.", "Use a shorter text."
    )


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression: its type, and its text for SQLite."""

    oid: int
    sql: str
    is_constant: bool = False
    """Whether it is the same for every row."""
    literal: str | None = None
    """The text of a bare string, whose type its neighbours decide."""
    parameter: str | None = None
    """The name of a parameter whose type its neighbours decide."""


def select(columns: str, source: str, rest: str = "") -> str:
    """Return a query of SQLite."""
    return f"SELECT {columns} FROM {source}{rest}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column in sight, and its text for SQLite."""

    table: str
    name: str
    oid: int
    sql: str
    hidden: bool = False
    """Whether * leaves it out: the second of a USING."""


@dataclass(slots=True)
class ColumnScope:
    """The columns in sight, and those of the query around."""

    fields: tuple[ScopeColumn, ...] = ()
    parent: "ColumnScope | None" = None
    is_read: bool = False
    """Whether a column of it was found: a query in FROM that reads those to its left is lateral."""

    def find(self, table: str, name: str) -> ScopeColumn | None:
        """Return a column; None where there is none."""
        scope: ColumnScope | None = self
        while scope is not None:
            found = [field for field in scope.fields if field.name == name and table in ("", field.table)]
            visible = [field for field in found if not field.hidden] if not table else found
            if visible:
                if len(visible) > 1 and not table:
                    raise WireError("42702", f'column reference "{name[:63]}" is ambiguous')
                scope.is_read = True
                return visible[0]
            scope = scope.parent
        return None


@dataclass(slots=True)
class InferredTypes:
    """The types of parameters, as they are found."""

    declared: dict[str, int]
    types: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    """The effort of compiling so far."""
    made: int = 0
    """Expressions and columns that were made: the memory of a plan."""

    def spend(self, steps: int, made: int = 1) -> None:
        """Count the effort of compiling and what it makes, and stop when it is too much."""
        self.steps += steps
        self.made += made
        if self.steps > MAX_PLANNING_STEPS:
            raise WireError(
                "54001",
                "This question about the catalogue is too complex.",
                f"The limit is {MAX_PLANNING_STEPS:,} steps to compile it.",
                "Ask for fewer columns at once.",
            )

    def spend_text(self, sql: str) -> None:
        """Count the effort of writing a part of a statement."""
        self.spend(len(sql) // _CHARS_PER_STEP, 0)
        if len(sql) > MAX_STATEMENT_CHARS:
            self.spend(MAX_PLANNING_STEPS)

    def of(self, name: str) -> int:
        """Return the type that a parameter has so far; UNKNOWN where nothing tells."""
        return self.declared.get(name) or self.types.get(name, oids.UNKNOWN)
