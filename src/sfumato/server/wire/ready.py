"""A statement before it runs, and its answer as the messages that carry it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from sys import getsizeof

from sfumato.query.describe import QueryDescription
from sfumato.server.quota import Holding
from sfumato.server.wire.oids import Column
from sfumato.server.wire.sqlstates import Reported
from sfumato.server.wire.statements import Statement
from sfumato.server.wire.view_expansion import Expansion


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows as the messages that carry them, and what is said after them; `count` adds how many were shown."""

    columns: tuple[Column, ...]
    messages: Sequence[bytes] = field(repr=False)
    holding: Holding | None = field(default=None, repr=False)
    """The memory of the messages."""
    tag: str = "SELECT"
    count: bool = True
    notices: tuple[Reported, ...] = ()
    """The messages beside the rows: the price, what is left, and how near the numbers are."""


@dataclass(frozen=True, slots=True)
class ReadyStatement:
    """A statement before it runs: its parameters and columns have types; nothing was read or charged."""

    statement: Statement
    parameters: tuple[int, ...] = ()
    columns: tuple[Column, ...] | None = None
    outline: QueryDescription | None = field(default=None, repr=False)
    is_catalogue: bool = False
    """Whether the catalogue answers it. The catalogue keeps the last plans, within a limit; here is none."""
    declared: tuple[tuple[str, int], ...] = ()
    """The parameters whose types the client has named."""
    intervals: Fraction | None = None
    offset: int = 0
    """Where the statement begins in the text that was sent."""
    text_bytes: int = 0
    """The memory of that text."""
    question: "ReadyStatement | None" = field(default=None, repr=False)
    """The question inside a DECLARE or COPY."""
    is_binary: bool = False
    """Whether the rows of a simple query leave in binary: those of a BINARY cursor do."""
    policy_number: int = 0
    """The number of the policy under which its columns were described."""
    price: Mapping[str, object] | None = None
    """The price at which a cursor was declared; None for the one that is set when the statement runs."""

    expansion: Expansion | None = field(default=None, repr=False)
    """The text that is asked, with temporary views written out; None where there is no question."""

    @property
    def asked(self) -> Expansion:
        """The text that is asked."""
        if self.expansion is None:
            raise AssertionError("only a question is asked")
        return self.expansion

    @property
    def size(self) -> int:
        """The memory of a prepared statement, in bytes, as an upper bound."""
        names = sum(getsizeof(column.name) for column in self.columns or ())
        described = len(self.columns or ()) * (2 if self.outline is None else 4) + len(self.parameters) * 2
        inner = 0 if self.question is None else self.question.size
        inner += 0 if self.expansion is None or not self.expansion.views else 2 * getsizeof(self.expansion.sql)
        return 2000 + 2 * self.text_bytes + 2 * names + 150 * (described + len(self.declared)) + inner
