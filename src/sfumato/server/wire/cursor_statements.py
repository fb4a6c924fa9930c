"""DECLARE, FETCH, MOVE and CLOSE: which cursor they name, and which of its rows."""

import re
from dataclasses import dataclass
from typing import Literal

from sfumato.server.wire.sql_words import NAME, is_question, name_of
from sfumato.server.wire.sqlstates import WireError, unsupported

MAX_STEP = 2**31 - 1
"""Maximum number in a FETCH or MOVE."""


@dataclass(frozen=True, slots=True)
class Declare:
    """A question gets a cursor; it is asked when rows are first fetched."""

    name: str
    sql: str
    offset: int
    """Where the question begins in the statement."""
    hold: bool
    """Whether the cursor stays open after its transaction."""
    scroll: bool | None
    """Whether rows before the current one can be fetched; None where nothing is said, which allows it."""
    binary: bool


@dataclass(frozen=True, slots=True)
class Direction:
    """Which rows a FETCH means."""

    way: Literal["forward", "absolute", "relative"]
    count: int | None
    """How many rows, backward below zero; or which row. None for all rows forward; -1 as a row is the last."""
    is_all_back: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows of a cursor."""

    name: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class Move:
    """A cursor moves as FETCH would move it, and shows no rows."""

    name: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """A cursor is closed; None for all."""

    name: str | None


_DECLARE = re.compile(
    rf"DECLARE\s+(?P<name>{NAME})(?P<options>(?:\s+(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL|SCROLL))*)"
    rf"\s+CURSOR(?:\s+(?P<hold>WITH|WITHOUT)\s+HOLD)?\s+FOR\s+",
    re.IGNORECASE,
)
_COUNT = r"[+-]?\d{1,10}"
_DIRECTION = (
    rf"NEXT|PRIOR|FIRST|LAST|(?:ABSOLUTE|RELATIVE)\s+{_COUNT}|(?:FORWARD|BACKWARD)(?:\s+(?:ALL|{_COUNT}))?|"
    rf"ALL|{_COUNT}"
)
_FETCH = re.compile(
    rf"(?:FETCH|MOVE)\s+(?:(?P<direction>{_DIRECTION})\s+(?:FROM|IN)\s+|(?:FROM|IN)\s+|(?P<bare>{_DIRECTION})\s+)?"
    rf"(?P<name>{NAME})",
    re.IGNORECASE,
)
_ENDING_PATTERN = re.compile(rf"CLOSE\s+(?P<name>{NAME})", re.IGNORECASE)


def read_declare(text: str) -> Declare | None:
    """Return the cursor that a text declares."""
    match = _DECLARE.match(text)
    if match is None:
        return None
    sql = text[match.end() :]
    if not is_question(sql):
        raise unsupported("Only questions have a cursor.", "DECLARE name CURSOR FOR SELECT …")
    options = " ".join(match["options"].upper().split())
    scroll = None if "SCROLL" not in options else "NO SCROLL" not in options
    hold = (match["hold"] or "").upper() == "WITH"
    return Declare(name_of(match["name"]), sql, match.end(), hold, scroll, "BINARY" in options)


def read_fetch(text: str) -> Fetch | None:
    """Return which rows a FETCH means."""
    match = _FETCH.fullmatch(text)
    return None if match is None else Fetch(name_of(match["name"]), _direction(match))


def read_move(text: str) -> Move | None:
    """Return where a MOVE goes."""
    match = _FETCH.fullmatch(text)
    return None if match is None else Move(name_of(match["name"]), _direction(match))


def read_close(text: str) -> CloseCursor | None:
    """Return which cursor is closed."""
    match = _ENDING_PATTERN.fullmatch(text)
    if match is None:
        return None
    return CloseCursor(None if match["name"].upper() == "ALL" else name_of(match["name"]))


def _direction(match: re.Match[str]) -> Direction:
    words = (match["direction"] or match["bare"] or "NEXT").upper().split()
    number = _number(words[-1])
    match words[0]:
        case "NEXT":
            return Direction("forward", 1)
        case "PRIOR":
            return Direction("forward", -1)
        case "FIRST":
            return Direction("absolute", 1)
        case "LAST":
            return Direction("absolute", -1)
        case "ABSOLUTE":
            return Direction("absolute", number)
        case "RELATIVE":
            return Direction("relative", number)
        case "BACKWARD" if words[-1] == "ALL":
            return Direction("forward", None, is_all_back=True)
        case "BACKWARD":
            return Direction("forward", -1 if number is None else -number)
        case "FORWARD" if len(words) == 1:
            return Direction("forward", 1)
    return Direction("forward", number)


def _number(word: str) -> int | None:
    """Return the number at the end of a direction; None where there is none."""
    if not word.lstrip("+-").isdigit():
        return None
    number = int(word)
    if abs(number) > MAX_STEP:
        raise WireError("22003", "value is out of range for type integer", f"The limit is {MAX_STEP}.", "FETCH ALL …")
    return number
