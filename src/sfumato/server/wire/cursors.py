"""Cursors: a question is asked once, when rows are first fetched, and its rows are read in any order and portion.

They end with their transaction, unless they were declared WITH HOLD. What was charged stays charged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import getsizeof

from sfumato.server.quota import Holding
from sfumato.server.wire.cursor_statements import Declare, Direction
from sfumato.server.wire.memory import POINTER_BYTES, SessionMemory, size_of
from sfumato.server.wire.ready import ReadyStatement
from sfumato.server.wire.sqlstates import WireError, too_large

MAX_CURSORS = 100
"""Maximum number of open cursors of a session."""

CursorRow = Sequence[object]


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The rows of a cursor, and their memory."""

    rows: Sequence[CursorRow] = field(repr=False)
    holding: Holding = field(repr=False)


@dataclass(slots=True)
class Cursor:
    """A declared question, and its rows once it was asked; `position` counts rows from 1, and 0 is before them."""

    declared: Declare
    question: ReadyStatement = field(repr=False)
    values: list[object] = field(repr=False)
    holding: Holding = field(repr=False)
    """The memory of the statement and its values."""
    serial: int
    rows: "HeldRows | None" = field(default=None, repr=False)
    position: int = 0
    is_committed: bool = False
    """Whether the transaction that declared it is over, so that a later one does not undo it."""

    def needs_rows(self, direction: Direction) -> bool:
        """Whether the question has to be asked; before that, the current row is none and costs nothing."""
        return self.rows is None and not (direction.way in ("forward", "relative") and direction.count == 0)

    def move(self, direction: Direction) -> list[CursorRow]:
        """Move, and return the rows passed over, in the order in which they were passed."""
        rows, before = () if self.rows is None else self.rows.rows, self.position
        first, last = 0, len(rows) + 1
        if direction.way != "forward":
            target = self._target(direction, last)
            if target < before and self.declared.scroll is False:
                raise _forward_only()
            self.position = target
            return [rows[target - 1]] if first < target < last else []
        everything = -before if direction.is_all_back else last - before
        count = everything if direction.count is None else direction.count
        if self.declared.scroll is False and (count < 0 or direction.is_all_back):
            raise _forward_only()
        self.position = max(first, min(last, before + count))
        if not count:
            return [rows[before - 1]] if first < before < last else []
        if count > 0:
            return list(rows[before : before + count])
        return list(reversed(rows[max(0, before - 1 + count) : max(0, before - 1)]))

    @staticmethod
    def _clamp(target: int, last: int) -> int:
        return max(0, min(last, target))

    def _target(self, direction: Direction, last: int) -> int:
        count = direction.count or 0
        if direction.way == "relative":
            return self._clamp(self.position + count, last)
        return self._clamp(count if count >= 0 else last + count, last)


class Cursors:
    """The open cursors of one session, by name."""

    def __init__(self, memory: SessionMemory, account: str) -> None:
        self._memory = memory
        self._account = account
        self._cursors: dict[str, Cursor] = {}
        self._serial = 0
        self._savepoints: list[tuple[str, int]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._cursors

    def known(self, name: str) -> Cursor:
        """Return a cursor that there is."""
        found = self._cursors.get(name)
        if found is None:
            raise WireError("34000", f'cursor "{name[:63]}" does not exist')
        return found

    def declare(self, declared: Declare, question: ReadyStatement, values: list[object]) -> None:
        """Open a cursor; nothing is read or charged yet."""
        if declared.name in self._cursors:
            raise already_exists(declared.name)
        if len(self._cursors) >= MAX_CURSORS:
            raise too_large("Too many cursors are open.", f"CLOSE some: a session has at most {MAX_CURSORS}.")
        holding = Holding(self._memory, self._account)
        texts = getsizeof(declared.name) + 2 * getsizeof(declared.sql)
        holding.add(question.size + texts + size_of(values))
        self._serial += 1
        self._cursors[declared.name] = Cursor(declared, question, values, holding, self._serial)

    def hold(self, rows: Iterable[CursorRow]) -> HeldRows:
        """Return rows whose memory is counted as they are made."""
        holding = Holding(self._memory, self._account)
        found: list[CursorRow] = []
        try:
            for row in rows:
                found.append(tuple(row))
                holding.add(size_of(found[-1]) + POINTER_BYTES)
        except BaseException:
            found.clear()  # an error holds on to this frame until it is told
            holding.release()
            raise
        return HeldRows(found, holding)

    def close(self, name: str | None) -> None:
        """Close a cursor that there is, or all."""
        if name is not None:
            self.known(name)
        for closed in list(self._cursors) if name is None else [name]:
            self.forget(closed)

    def forget(self, name: str) -> None:
        """Close a cursor, if there is one of this name."""
        found = self._cursors.pop(name, None)
        if found is not None:
            found.holding.release()
            if found.rows is not None:
                found.rows.holding.release()

    def end_transaction(self, commit: bool) -> None:
        """Close what ends with a transaction: with a rollback, all that it declared."""
        self._savepoints = []
        for name, cursor in list(self._cursors.items()):
            if cursor.is_committed or (commit and cursor.declared.hold):
                cursor.is_committed = True
            else:
                self.forget(name)

    def savepoint(self, verb: str, name: str) -> None:
        """Follow a savepoint that was set, released or returned to; cursors declared after it are closed."""
        name = name[:63]
        if verb == "SAVEPOINT":
            self._savepoints.append((name, self._serial))
            return
        at = next(at for at in reversed(range(len(self._savepoints))) if self._savepoints[at][0] == name)
        serial = self._savepoints[at][1]
        del self._savepoints[at + (verb == "ROLLBACK") :]
        if verb == "ROLLBACK":
            for cursor_name, cursor in list(self._cursors.items()):
                if cursor.serial > serial:
                    self.forget(cursor_name)


def already_exists(name: str) -> WireError:
    """Refuse a name that a cursor or portal has."""
    return WireError("42P03", f'cursor "{name[:63]}" already exists')


def _forward_only() -> WireError:
    return WireError(
        "55000",
        "cursor can only scan forward",
        "It was declared with NO SCROLL.",
        "Declare it with SCROLL option to enable backward scan.",
    )
