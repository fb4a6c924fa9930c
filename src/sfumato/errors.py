"""Every Refusal: what was refused, why, and what to do next; never a data value.

Its text may quote what the asker typed and what the policy says. No data is read before, or it is always the same text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

_MAX_EXCERPT_CHARS, _MAX_WORD_CHARS = 60, 126


def quote_value(value: object, longest: int = 60) -> str:
    """Quote what was typed, cut to what a person reads."""
    try:
        text = str(value) if isinstance(value, Fraction) else repr(value)
    except ValueError:  # Python refuses to write an integer of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def excerpt(text: str) -> str:
    """Quote a piece of a question on one line, printable, and cut to sixty characters."""
    head = " ".join(text[: 4 * _MAX_EXCERPT_CHARS].split())
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in head)
    return f"`{clean}`" if len(clean) <= _MAX_EXCERPT_CHARS else f"`{clean[: _MAX_EXCERPT_CHARS - 1]}…`"


def position_prefix(position: tuple[int, int] | tuple[int, int, str]) -> str:
    """Return the beginning of a message about a place in a question: its line, its column and what stands there.

    >>> position_prefix((1, 8)), position_prefix((1, 8, "cost")), position_prefix((0, 0))
    ('At 1:8: ', 'At 1:8, `cost`: ', '')
    """
    line, column, *words = position
    return f"At {line}:{column}{''.join(f', {excerpt(part)}' for part in words if part)}: " if line else ""


def closest_names(word: object, known: Iterable[str], most: int = 1) -> list[str]:
    """Return those of the known words that the writer of `word` may have meant, the nearest first."""
    if not isinstance(word, str) or len(word) > _MAX_WORD_CHARS:
        return []
    folded = {name.lower(): name for name in known}
    return [folded[close] for close in get_close_matches(word.lower(), list(folded), n=most)]


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return "Did you mean …? " if one of the known words is close, else nothing.

    >>> suggestion("epsilom", ["epsilon", "delta"]), suggestion("x", ["epsilon"])
    ('Did you mean epsilon? ', '')
    """
    return "".join(f"Did you mean {name}? " for name in closest_names(word, known))


class Interface(StrEnum):
    """The interface of a user: each spells the options of a question in its own words."""

    PYTHON = "python"
    COMMAND = "command"
    PROMPT = "prompt"
    HTTP = "http"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a question is asked with (epsilon, within, share, delta, analyst), as a remedy names it; or the name.

    >>> [Setting("epsilon", "0.1").format_for(to) for to in (Interface.PYTHON, Interface.COMMAND, Interface.SQL)]
    ["epsilon='0.1'", '--epsilon 0.1', "SET sfumato.epsilon = '0.1'"]
    >>> Setting("within", "n=25").format_for(Interface.PYTHON), Setting("analyst").format_for(Interface.COMMAND)
    ("within={'n': 25}", '--analyst')
    """

    name: str
    value: str = ""

    def format_for(self, speaker: Interface) -> str:
        """Return it as this speaker writes it."""
        if not self.value:
            return f"--{self.name}" if speaker is Interface.COMMAND else f"`{self.name}`"
        column, equals, margin = self.value.rpartition("=")
        match speaker:
            case Interface.PYTHON:
                return f"{self.name}={{{column!r}: {margin}}}" if equals else f"{self.name}={self.value!r}"
            case Interface.COMMAND:
                return f"--{self.name} {self.value}"
            case Interface.PROMPT:
                return f"\\{self.name} {self.value}"
            case Interface.HTTP:
                return f'"{self.name}": {{"{column}": {margin}}}' if equals else f'"{self.name}": "{self.value}"'
            case Interface.SQL:
                return f"SET sfumato.{self.name} = '{self.value}'"


Remedy = str | tuple[str | Setting, ...]
"""What to do next: a sentence, or its pieces where a setting is part of it."""


class Refusal(Exception):  # noqa: N818  (a refusal is not an error: it is the system working)
    """Something sfumato will not do. `code` is stable; the message says what, why and what next."""

    code: ClassVar[str] = "refused"

    def __init__(self, what: str, why: str, remedy: Remedy) -> None:
        super().__init__(what, why, remedy)
        self.what, self.why = what, why
        self._remedy: Remedy = remedy

    @property
    def remedy(self) -> str:
        """What to do next, in Python's words."""
        return self.remedy_for(Interface.PYTHON)

    def remedy_for(self, speaker: Interface) -> str:
        """Return what to do next, in the words of the user's interface."""
        return "".join(part if isinstance(part, str) else part.format_for(speaker) for part in self._remedy)

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.why, self.remedy) if part)


class BadParameter(Refusal):
    """A number, name or shape that is not valid here: zero noise, NaN, a float where an exact number is needed."""

    code = "bad_parameter"


class BadPolicy(Refusal):
    """The policy cannot be read, or something in it is missing or contradictory. No data was read."""

    code = "bad_policy"


class BadSource(Refusal):
    """The data is not where the policy says, or its columns do not fit what the policy declares."""

    code = "bad_source"


class EngineFailed(Refusal):
    """The database engine failed. Its own message is not shown, because it could contain a data value."""

    code = "engine_failed"
    cause = ""  # the resource that ran out, "memory" or "disk": for code that speaks to the owner, never shown

    def __init__(
        self,
        what: str = "The engine could not finish.",
        why: str = "Its own message is not shown, because it could contain a data value.",
        remedy: str = "Nothing was released. Check that the machine has enough disk space and memory, and try again.",
    ) -> None:
        super().__init__(what, why, remedy)


class EntropyFailed(Refusal):
    """The operating system gave no random bits, or bits that fail the health tests. Nothing was released."""

    code = "entropy_failed"


class ImperfectSource(Refusal):
    """The source of random bits is declared to be less than fair, and this noise needs fair bits."""

    code = "imperfect_source"


class MalformedEvent(Refusal):
    """A stored event cannot be read back as exactly one known event."""

    code = "malformed_event"


class MixedNeighbours(Refusal):
    """Losses under different neighbour relations were combined; such a sum is not defined."""

    code = "mixed_neighbours"


class UnsupportedEvent(Refusal):
    """The accountant has no proved bound for this event. Events are never skipped."""

    code = "unsupported_event"

    def __init__(self, event: object, accountant: str, why: str = "", remedy: str = "") -> None:
        super().__init__(
            f"The {accountant} accountant cannot bound {quote_value(event, 300)}.",
            why or "It has no proved bound for this event, and skipping the event would understate the loss.",
            remedy or "Use another accountant, or describe the release by an event whose loss is known.",
        )
        self.event, self.accountant = event, accountant

    def __reduce__(self) -> tuple[type["UnsupportedEvent"], tuple[object, str, str, str]]:
        return (type(self), (self.event, self.accountant, self.why, self.remedy))


class BudgetExhausted(Refusal):
    """The question costs more than is left of the budget. Nothing was charged."""

    code = "budget_exhausted"


class Busy(Refusal):
    """More was asked at once than a server does for one account. Nothing was charged."""

    code = "busy"


class BadSql(Refusal):
    """The text is not valid SQL, or its types do not fit."""

    code = "bad_sql"


class FreeLimit(Refusal):
    """A free question (public tables, VALUES, quotes) would take too many rows, bytes or seconds."""

    code = "free_limit"


class QueryTooLarge(Refusal):
    """The text is longer, deeper or wider than a query may be."""

    code = "query_too_large"


class UnknownName(Refusal):
    """A table, column, function or option that does not exist here."""

    code = "unknown_name"
    undeclared: tuple[str, str] | None = None  # "table" or "column", and a name that an owner could grant


class UnsupportedSql(Refusal):
    """Valid SQL that sfumato does not support."""

    code = "unsupported_sql"


class RawRows(Refusal):
    """The query would show rows of people. Only aggregates are answered."""

    code = "raw_rows"


class UnboundedSum(Refusal):
    """A sum or average of values without bounds: one person could change it by any amount."""

    code = "unbounded_sum"


class UnitRevealed(Refusal):
    """The query shows, groups by or computes with the column that names people."""

    code = "unit_revealed"


class UnsafeJoin(Refusal):
    """A join whose rows belong to nobody, or combine rows of different people."""

    code = "unsafe_join"


class TwoOwners(Refusal):
    """Rows that belong to two people are counted or added up, and nothing else; or a question joins them."""

    code = "two_owners"


class KeysNeedDelta(Refusal):
    """The groups are not declared, and selecting them privately needs a delta above 0."""

    code = "keys_need_delta"


class LoosenedPolicy(Refusal):
    """The query asks for more than the policy allows; it may only ask for less."""

    code = "loosened_policy"


class UnreachableMargin(Refusal):
    """The margin cannot be reached: it depends on the data, or costs more than the whole budget."""

    code = "unreachable_margin"


class AnswerLost(Refusal):
    """A question was charged, and answering it failed after noise was drawn. It stays charged, and is not repeated."""

    code = "answer_lost"


class TooManyCharges(Refusal):
    """The account has made as many charges as one account may. Nothing was charged."""

    code = "too_many_charges"


class TooManyRequests(Refusal):
    """An account has filed as many requests, or notes on one, as it may."""

    code = "too_many_requests"


class RequestClosed(Refusal):
    """A request was decided already: somebody else was faster, or its grant is used."""

    code = "request_closed"


class LedgerDamaged(Refusal):
    """The ledger was changed from outside: shortened, replaced by an older copy, edited or unreadable."""

    code = "ledger_damaged"


class LedgerUnavailable(Refusal):
    """The ledger could not be read or written durably now. Nothing was released."""

    code = "ledger_unavailable"


class LedgerRestored(Refusal):
    """The ledger was restored from a backup, and the owner has not yet accepted what it may have lost."""

    code = "ledger_restored"

    def __init__(
        self,
        what: str = "The ledger was restored from a backup and answers nothing yet.",
        why: str = "Answers that were given after the backup are not counted in it.",
        remedy: str = "The owner checks the latest receipts (sfumato verify POLICY --receipt SEQUENCE:HEAD), and then "
        "accepts the restore in words: sfumato restore DIR --accept SENTENCE.",
    ) -> None:
        super().__init__(what, why, remedy)


class RestoreGoesBack(Refusal):
    """The ledger in place has entries that the backup lacks. Nothing was changed."""

    code = "restore_goes_back"


class AuditDamaged(Refusal):
    """A line of the audit log does not follow from the line before it: it was changed, removed or inserted."""

    code = "audit_damaged"


class BackupDamaged(Refusal):
    """The folder is not a backup, or not as it was written. Nothing was changed."""

    code = "backup_damaged"


class NoSnapshot(Refusal):
    """There is no snapshot of the data yet. The reason is shown to the owner only."""

    code = "no_snapshot"

    def __init__(
        self,
        what: str = "There is no snapshot of the data to answer from.",
        why: str = "The owner has not taken one for this policy yet; the reason is shown to the owner only.",
        remedy: str = "Ask the owner to run: sfumato refresh POLICY.",
    ) -> None:
        super().__init__(what, why, remedy)


class OtherLedger(Refusal):
    """The ledger named in the policy belongs to another dataset. Nothing was changed."""

    code = "other_ledger"


class NotKnown(Refusal):
    """The question was asked for what is already known, and earlier answers do not tell it."""

    code = "not_known"


class PolicyChanged(Refusal):
    """Another policy was recorded in the ledger since this handle was opened."""

    code = "policy_changed"


class PolicyWeakened(Refusal):
    """The policy protects other people, or with other limits, than the one under which the budget was spent."""

    code = "policy_weakened"


class StoreTampered(Refusal):
    """A sealed store gave an answer that an honest one cannot give. It is not used until its owner rotates the key."""

    code = "store_tampered"


class StreamDamaged(Refusal):
    """The file of a stream was changed from outside: shortened, edited, or replaced by an older copy."""

    code = "stream_damaged"


class StreamUnavailable(Refusal):
    """A stream is open elsewhere, or its file could not be read or written durably. The step does not count."""

    code = "stream_unavailable"


class WrongKey(Refusal):
    """The key of a sealed database is missing, readable by others, or not the one that it was sealed with."""

    code = "wrong_key"


class BadRequest(Refusal):
    """A server was sent something that is no request of its protocol, or whose parts do not fit."""

    code = "bad_request"


class BodyTooLarge(Refusal):
    """A request is longer than a question can be. It was not read."""

    code = "body_too_large"


class ForeignOrigin(Refusal):
    """A request comes from a page of somebody else, or is meant for another server."""

    code = "foreign_origin"


class MethodNotAllowed(Refusal):
    """A page of a server was asked for in a way that it does not know."""

    code = "method_not_allowed"


class NotFound(Refusal):
    """A server has no page of this name."""

    code = "not_found"


class WrongMediaType(Refusal):
    """A request is not written in the format that the server reads."""

    code = "wrong_media_type"


class GrantsDamaged(Refusal):
    """The file of tokens and passwords cannot be used: readable by others, missing or not what was written."""

    code = "grants_damaged"


class NotGranted(Refusal):
    """The token or password is missing, wrong, revoked or replaced; which of them is not said."""

    code = "not_granted"

    def __init__(
        self,
        what: str = "Access was denied.",
        why: str = "The token or password is missing or wrong, or was revoked or replaced.",
        remedy: str = "Ask the owner for a new one: sfumato grant POLICY NAME.",
    ) -> None:
        super().__init__(what, why, remedy)


class StillAnswering(Refusal):
    """The question was charged and takes longer than a server lets anybody wait. Its answer will be kept."""

    code = "still_answering"


class Stopping(Refusal):
    """The server is being stopped: questions that run are answered, new ones are not begun."""

    code = "stopping"

    def __init__(
        self,
        what: str = "The server is being stopped.",
        why: str = "Running questions are finished, and new ones are refused.",
        remedy: str = "Nothing was charged. Ask again when it has been started.",
    ) -> None:
        super().__init__(what, why, remedy)


REFUSALS: tuple[type[Refusal], ...] = tuple(sorted(Refusal.__subclasses__(), key=lambda kind: kind.code))
"""Every refusal there is, by code: `sfumato codes` prints this list and the docs are checked against it."""
