"""Recorded statements: how they are stored in `recorded/`, sent again, and explained.

A file begins with lines of comments: the tool with its version, and whether the statements were recorded or rebuilt
from the tool's public source. Each statement follows a line `-- => VERDICT`: free, charged, or the SQLSTATE of its
refusal; `-- values: [...]` has its parameters, where it was sent by the extended protocol.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.server.wire.served import SYNC, Bare, Message, bind, describe, execute, parse

RECORDED = Path(__file__).with_name("recorded")
COST = re.compile(r"\(cost=0\.\.([\d.]+)")
_VERDICT = re.compile(r"(?m)^-- => (\w+)\n(?:-- values: (.*)\n)?")
_CURSOR = re.compile(
    r"(?is)\s*(?:begin;)?\s*declare \S+ (?:no scroll )?cursor (?:with(?:out)? hold )?for (.*?)(?:;\s*fetch .*)?"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a tool sent, and what becomes of it here."""

    sql: str
    verdict: str = "free"
    values: tuple[str | None, ...] | None = None
    """The parameters of a statement that was sent by the extended protocol; None for the simple protocol."""

    @property
    def question(self) -> str:
        """The question itself, also that of a cursor."""
        declared = _CURSOR.fullmatch(self.sql)
        return declared[1] if declared else self.sql


@dataclass(frozen=True, slots=True)
class Recording:
    """The statements of one tool."""

    header: tuple[str, ...]
    statements: tuple[Statement, ...]


def read(tool: str, folder: Path = RECORDED) -> Recording:
    """Return the recording of a tool."""
    text = (folder / f"{tool}.sql").read_text(encoding="utf-8")
    head, *parts = _VERDICT.split(text)
    header = tuple(line.removeprefix("-- ") for line in head.strip().splitlines())
    found = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return Recording(header, tuple(Statement(sql.strip(), said, _values(given)) for said, given, sql in found))


def write(tool: str, recording: Recording) -> None:
    """Store the recording of a tool."""
    blocks = ["\n".join(f"-- {line}" for line in recording.header)]
    for one in recording.statements:
        given = "" if one.values is None else f"-- values: {json.dumps(one.values)}\n"
        blocks.append(f"-- => {one.verdict}\n{given}{one.sql}")
    (RECORDED / f"{tool}.sql").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def send(client: Bare, sql: str, values: Sequence[str | None] | None) -> list[Message]:
    """Send a statement by the protocol that its tool used."""
    if values is None:
        return client.query(sql)
    given = tuple(None if value is None else value.encode() for value in values)
    return client.send(parse(sql), bind(given), describe(), execute(), SYNC).until(b"Z")


def explained(client: Bare, statement: Statement) -> float:
    """Return what EXPLAIN says that a question costs."""
    found = send(client, f"EXPLAIN {statement.question}", statement.values)
    lines: Iterable[bytes] = (body for kind, body in found if kind == b"D")
    cost = COST.search(next(iter(lines), b"").decode(errors="replace"))
    if cost is None:
        raise AssertionError(f"EXPLAIN does not say what this costs: {statement.sql}")
    return float(cost[1])


def _values(text: str | None) -> tuple[str | None, ...] | None:
    return None if text is None else tuple(json.loads(text))
