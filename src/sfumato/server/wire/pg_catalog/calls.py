"""The places of a statement where SQLite calls functions of ours, and the constants of its text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.compiled import Compiled, Execution, InferredTypes
from sfumato.server.wire.sqlstates import WireError

MAX_SHORT_BYTES = 64
"""Maximum size of a value that SQLite holds itself; longer ones stay here, and SQLite holds a name of each."""
MAX_ARGUMENTS = 100


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A call of a Python function: it is given the execution, then the values, which have these types."""

    run: Callable[..., Any]
    arguments: tuple[int, ...]
    name: str = ""
    is_strict: bool = False
    """Whether a NULL makes it NULL."""
    is_of_one_item: bool = False
    """Whether it reads one item of an array, or its length, so that the others are no effort."""


class Calls:
    """The calls of one statement; SQLite knows each by its number."""

    def __init__(self, learned: InferredTypes) -> None:
        self.made: list[PythonCall] = []
        self._learned = learned

    def add(
        self, run: Callable[..., Any], gives: int, parts: Sequence[Compiled] = (), name: str = "", strict: bool = False
    ) -> Compiled:
        """Return an expression that calls a function with the values of others."""
        return self._add("call", run, gives, parts, name, strict)

    def item(self, values: Compiled, at: Compiled) -> Compiled:
        """Return an item of an array, counted from 0; NULL beyond its end."""
        made = self.add(_item_at, oids.ELEMENTS[values.oid], [values, at], strict=True)
        self.made[-1] = replace(self.made[-1], is_of_one_item=True)
        return made

    def length(self, values: Compiled) -> Compiled:
        """Return the length of an array; NULL of NULL."""
        made = self.add(lambda _run, listed: len(listed), oids.INT4, [values], "unnest", strict=True)
        self.made[-1] = replace(self.made[-1], is_of_one_item=True)
        return made

    def per_row(self, part: Compiled) -> Compiled:
        """Return a constant that SQLite computes for each row, so that the memory of a row has its instructions."""
        return self._add("per_row", lambda _run, value: value, part.oid, [part], "", False)

    def _add(
        self, function: str, run: Callable[..., Any], gives: int, parts: Sequence[Compiled], name: str, strict: bool
    ) -> Compiled:
        if len(parts) > MAX_ARGUMENTS:
            raise WireError("54023", f"cannot pass more than {MAX_ARGUMENTS} arguments to a function")
        number = self.number(run, tuple(part.oid for part in parts), name, strict)
        sql = f"{function}({', '.join([str(number), *(part.sql for part in parts)])})"
        self._learned.spend_text(sql)
        return Compiled(gives, sql, all(part.is_constant for part in parts))

    def number(self, run: Callable[..., Any], arguments: tuple[int, ...], name: str = "", strict: bool = False) -> int:
        """Return the number of a call that another function of SQLite makes."""
        self._learned.spend(1)
        self.made.append(PythonCall(run, arguments, name, strict))
        return len(self.made) - 1

    def constant(self, value: Any, oid: int) -> Compiled:
        """Return an expression that is always the same."""
        match value:
            case None:
                return Compiled(oid, "NULL", True)
            case bool():
                return Compiled(oid, str(int(value)), True)
            case int() if abs(value) < 1 << 63:
                return Compiled(oid, f"({value})" if value < 0 else str(value), True)
            case str() if "\0" not in value and len(value.encode()) <= MAX_SHORT_BYTES:
                return Compiled(oid, quoted_text(value), True)
        return self.add(lambda _run: value, oid)


def _item_at(_: Execution, values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def quoted_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def is_short(value: Any) -> bool:
    """Whether SQLite holds a value itself."""
    if isinstance(value, str):
        return len(value) <= MAX_SHORT_BYTES and len(value.encode()) <= MAX_SHORT_BYTES
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63)


def array_of(oid: int) -> int:
    """Return the type of an array of a type."""
    return oids.ARRAYS.get(oid, oids.ARRAYS[oids.TEXT])
