"""Every Refusal: what was refused, why, and what to do next; never a data value.

A refusal is an answer, not an accident. Its text may quote what the asker typed and what the policy says; it is
written before any data is read, or is the same sentence whatever the data holds.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import ClassVar

_LONGEST_EXCERPT = 60
_LONGEST_WORD = 126


def shown(value: object, longest: int = 60) -> str:
    """Quote what was typed, cut to what a person reads."""
    try:
        text = str(value) if isinstance(value, Fraction) else repr(value)
    except ValueError:  # Python refuses to write an integer of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def excerpt(text: str) -> str:
    """Quote a piece of a question on one line, printable, and cut to sixty characters."""
    head = " ".join(text[: 4 * _LONGEST_EXCERPT].split())
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in head)
    return f"`{clean}`" if len(clean) <= _LONGEST_EXCERPT else f"`{clean[: _LONGEST_EXCERPT - 1]}…`"


def at(position: tuple[int, int], fragment: str = "") -> str:
    """Return the beginning of a message about a place in a question: its line, its column and what stands there.

    >>> at((1, 8)), at((1, 8), "cost"), at((0, 0))
    ('At 1:8: ', 'At 1:8, `cost`: ', '')
    """
    line, column = position
    quoted = f", {excerpt(fragment)}" if fragment else ""
    return f"At {line}:{column}{quoted}: " if line else ""


def nearest(word: object, known: Iterable[str], most: int = 1) -> list[str]:
    """Return those of the known words that somebody who wrote `word` may have meant, the nearest first."""
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        return []
    folded = {name.lower(): name for name in known}
    return [folded[close] for close in get_close_matches(word.lower(), list(folded), n=most)]


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return "Did you mean …? " if one of the known words is close, else nothing.

    >>> suggestion("epsilom", ["epsilon", "delta"]), suggestion("x", ["epsilon"])
    ('Did you mean epsilon? ', '')
    """
    return "".join(f"Did you mean {name}? " for name in nearest(word, known))


class Refusal(Exception):  # noqa: N818  (a refusal is not an error: it is the system working)
    """Something sfumato will not do. `code` is stable; the message says what, why and what next."""

    code: ClassVar[str] = "refused"

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.why} {self.remedy}"


class BadParameter(Refusal):
    """A number, name or shape that cannot mean anything here: zero noise, NaN, a float where exactness matters."""

    code = "bad_parameter"


class BadPolicy(Refusal):
    """A policy that cannot be read, or that leaves out or contradicts what it must promise. No data was read."""

    code = "bad_policy"


class BadSource(Refusal):
    """The data does not lie where the policy says, or its columns cannot hold what the policy declares."""

    code = "bad_source"


class EngineFailed(Refusal):
    """The engine stopped. What it said is not repeated, because its words may hold a value."""

    code = "engine_failed"

    def __init__(
        self,
        what: str = "The engine could not finish.",
        why: str = "What it said is not repeated: it may hold a value.",
        remedy: str = "Nothing was released. Check that the machine has disk and memory, and try again.",
    ) -> None:
        super().__init__(what, why, remedy)


class EntropyFailed(Refusal):
    """The operating system gave no random bits, or bits that no working generator gives. Nothing was released."""

    code = "entropy_failed"


class ImperfectSource(Refusal):
    """The source of random bits is declared to be less than fair, and this noise needs fair bits."""

    code = "imperfect_source"


class MalformedEvent(Refusal):
    """A stored event that does not read back as exactly one known event."""

    code = "malformed_event"


class MixedNeighbours(Refusal):
    """Losses under different neighbour relations were put together; their sum means nothing."""

    code = "mixed_neighbours"


class UnsupportedEvent(Refusal):
    """An accountant met an event that it has no theorem for. It is never skipped."""

    code = "unsupported_event"

    def __init__(self, event: object, accountant: str, why: str = "", remedy: str = "") -> None:
        super().__init__(
            f"The {accountant} accountant cannot bound {shown(event, 300)}.",
            why or "It has no theorem for this event, and an event that is skipped is privacy that is lost.",
            remedy or "Use another accountant, or describe the release by an event whose loss is known.",
        )
        self.event = event
        self.accountant = accountant

    def __reduce__(self) -> tuple[type["UnsupportedEvent"], tuple[object, str, str, str]]:
        return (type(self), (self.event, self.accountant, self.why, self.remedy))


class BudgetExhausted(Refusal):
    """The event does not fit into what is left of the budget. Nothing was charged."""

    code = "budget_exhausted"


class BadSql(Refusal):
    """The text is not SQL, or its types do not fit: nothing else could have been meant by it."""

    code = "bad_sql"


class FreeLimit(Refusal):
    """What costs nothing (public tables, VALUES, quotes) would take too many rows, bytes or seconds."""

    code = "free_limit"


class QueryTooLarge(Refusal):
    """The text is longer, deeper or wider than a query may be."""

    code = "query_too_large"


class UnknownName(Refusal):
    """A table, column, function or option that does not exist here."""

    code = "unknown_name"


class UnsupportedSql(Refusal):
    """SQL that other databases may answer and this one does not."""

    code = "unsupported_sql"


class RawRows(Refusal):
    """The query would show rows of people as they are. Only aggregates get noise."""

    code = "raw_rows"


class UnboundedSum(Refusal):
    """A sum or average of values that nothing bounds: one person could move it by any amount."""

    code = "unbounded_sum"


class UnitRevealed(Refusal):
    """The query shows, groups by or computes with the column that names people."""

    code = "unit_revealed"


class UnsafeJoin(Refusal):
    """A join in which nobody owns a row, or one person meets the rows of another."""

    code = "unsafe_join"


class KeysNeedDelta(Refusal):
    """The groups are not declared, and choosing them privately needs a delta that there is not."""

    code = "keys_need_delta"


class LoosenedPolicy(Refusal):
    """The query asks for more than the policy allows; it may only ask for less."""

    code = "loosened_policy"


class UnreachableMargin(Refusal):
    """The margin that was asked for cannot be had: it is no fixed number, or the whole budget does not buy it."""

    code = "unreachable_margin"


class AnswerLost(Refusal):
    """A question of this key was charged, and its answer was lost before it was stored. It stays charged."""

    code = "answer_lost"


class LedgerDamaged(Refusal):
    """The ledger is not what was written: cut, rewound, edited or unreadable. Nothing was released."""

    code = "ledger_damaged"


class LedgerUnavailable(Refusal):
    """The ledger could not be read or written durably now. Nothing was released."""

    code = "ledger_unavailable"


class NoSnapshot(Refusal):
    """There is no snapshot of the data yet. Why not is for the owner to see."""

    code = "no_snapshot"

    def __init__(
        self,
        what: str = "There is no snapshot of the data to answer from.",
        why: str = "Its owner has not taken one of what this policy declares; what stood in the way is theirs to see.",
        remedy: str = "Ask the owner to run: sfumato refresh POLICY.",
    ) -> None:
        super().__init__(what, why, remedy)


class OtherLedger(Refusal):
    """The ledger that the policy names is another dataset's. Nothing was changed."""

    code = "other_ledger"


class PolicyChanged(Refusal):
    """Another policy was recorded in the ledger since this handle was opened."""

    code = "policy_changed"


class PolicyWeakened(Refusal):
    """The policy protects other units or bounds than the one under which the budget was spent."""

    code = "policy_weakened"


class StoreTampered(Refusal):
    """A sealed store answered what no honest store answers. Nothing is asked of it again until its owner rotates."""

    code = "store_tampered"


class StreamDamaged(Refusal):
    """The file of a stream is not what was written: cut, edited, or older than what was already released."""

    code = "stream_damaged"


class StreamUnavailable(Refusal):
    """A stream is open elsewhere, or its file could not be read or written durably. The step does not count."""

    code = "stream_unavailable"


class WrongKey(Refusal):
    """The key of a sealed database is missing, readable by others, or not the one that it was sealed with."""

    code = "wrong_key"


REFUSALS: tuple[type[Refusal], ...] = (
    AnswerLost,
    BadParameter,
    BadPolicy,
    BadSource,
    BadSql,
    BudgetExhausted,
    EngineFailed,
    EntropyFailed,
    FreeLimit,
    ImperfectSource,
    KeysNeedDelta,
    LedgerDamaged,
    LedgerUnavailable,
    LoosenedPolicy,
    MalformedEvent,
    MixedNeighbours,
    NoSnapshot,
    OtherLedger,
    PolicyChanged,
    PolicyWeakened,
    QueryTooLarge,
    RawRows,
    StoreTampered,
    StreamDamaged,
    StreamUnavailable,
    UnboundedSum,
    UnitRevealed,
    UnknownName,
    UnreachableMargin,
    UnsafeJoin,
    UnsupportedEvent,
    UnsupportedSql,
    WrongKey,
)
"""Every refusal there is, by code: `sfumato codes` prints this list and the docs are checked against it."""
