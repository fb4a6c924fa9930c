"""What goes wrong, as PostgreSQL's clients read it: one table from the codes of refusals to SQLSTATE."""

import re
from dataclasses import dataclass, replace

from sfumato.errors import Interface, Refusal

SQLSTATES = {
    "answer_lost": "40003",
    "bad_parameter": "22023",
    "bad_request": "08P01",
    "bad_policy": "58000",
    "bad_source": "58000",
    "bad_sql": "42601",
    "audit_damaged": "58000",
    "backup_damaged": "58000",
    "body_too_large": "54000",
    "budget_exhausted": "53400",
    "busy": "53300",
    "engine_failed": "58000",
    "entropy_failed": "58000",
    "foreign_origin": "28000",
    "free_limit": "54000",
    "grants_damaged": "58000",
    "imperfect_source": "58000",
    "keys_need_delta": "22023",
    "ledger_damaged": "58000",
    "ledger_restored": "55000",
    "ledger_unavailable": "58000",
    "loosened_policy": "42501",
    "malformed_event": "58000",
    "method_not_allowed": "0A000",
    "mixed_neighbours": "58000",
    "no_snapshot": "55000",
    "not_found": "42704",
    "not_granted": "28000",
    "not_known": "55000",
    "other_ledger": "58000",
    "policy_changed": "55000",
    "policy_weakened": "55000",
    "query_too_large": "54001",
    "raw_rows": "42501",
    "request_closed": "55000",
    "restore_goes_back": "55000",
    "still_answering": "57014",
    "stopping": "57P01",
    "store_tampered": "58000",
    "stream_damaged": "58000",
    "stream_unavailable": "58000",
    "too_many_charges": "53400",
    "too_many_requests": "53300",
    "two_owners": "42501",
    "unbounded_sum": "42501",
    "unit_revealed": "42501",
    "unknown_name": "42704",
    "unreachable_margin": "22023",
    "unsafe_join": "42501",
    "unsupported_event": "58000",
    "unsupported_sql": "0A000",
    "wrong_key": "58000",
    "wrong_media_type": "0A000",
}
"""Privilege (42501) is what a policy does not allow; 53400 is a budget that is used up; 58000 is for the owner."""

_AT = re.compile(r"At (\d+):(\d+), ")
_UNKNOWN = {"table": "42P01", "column": "42703", "schema": "3F000", "function": "42883"}


@dataclass(frozen=True, slots=True)
class Reported:
    """The fields of an error or a notice."""

    severity: str
    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    position: int | None = None
    routine: str = ""
    """Only where clients look for it, to prepare a statement again."""


class WireError(Exception):
    """An error that the protocol itself answers with; `fatal` ends the connection."""

    def __init__(
        self,
        sqlstate: str,
        message: str,
        detail: str = "",
        hint: str = "",
        position: int | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.reported = Reported("FATAL" if fatal else "ERROR", sqlstate, message, detail, hint, position)

    @property
    def fatal(self) -> bool:
        """Whether the connection ends with it."""
        return self.reported.severity == "FATAL"


def reported(error: Refusal | WireError, text: str = "", offset: int = 0) -> Reported:
    """Return the fields of a refusal about `text`, which began `offset` characters into what was sent."""
    if isinstance(error, WireError):
        position = error.reported.position
        return error.reported if position is None else replace(error.reported, position=offset + position)
    match = _AT.match(error.what)
    position = None
    if match is not None:
        lines = text.split("\n")
        before = sum(len(line) + 1 for line in lines[: int(match[1]) - 1])
        position = offset + before + int(match[2])
    severity = "FATAL" if error.code in ("not_granted", "stopping") else "ERROR"
    what = error.what if match is None else error.what[match.end() :]  # the position says where
    remedy = error.remedy_for(Interface.SQL)
    return Reported(severity, sqlstate_of(error), with_remedy(what, remedy), error.why, remedy, position)


def with_remedy(what: str, remedy: str) -> str:
    """Return a message that also says what to do next: some clients show no hints (lib/pq, psqlODBC).

    >>> with_remedy("There is no column x.", "Use y.")
    'There is no column x. Use y.'
    """
    return f"{what} {remedy}".strip()


def sqlstate_of(refusal: Refusal) -> str:
    """Return the five characters for a refusal; for a name that does not exist, by what kind of name it is."""
    if refusal.code == "unknown_name":
        kind = re.search(r"there is no (\w+) ", refusal.what, re.IGNORECASE)
        return _UNKNOWN.get(kind[1] if kind else "", SQLSTATES["unknown_name"])
    return SQLSTATES.get(refusal.code, "58000")


def unsupported(what: str, hint: str = "Ask with SELECT.") -> WireError:
    """Refuse a statement that other servers know."""
    return WireError("0A000", what, "Only questions are answered: nothing here can change data or files.", hint)


def stale() -> WireError:
    """Refuse a statement of other settings or another policy; clients know these words, and prepare it again."""
    error = WireError(
        "0A000",
        "cached plan must not change result type",
        "A setting or the policy has changed.",
        "Prepare the statement again.",
    )
    error.reported = replace(error.reported, routine="RevalidateCachedQuery")
    return error


def too_large(message: str, hint: str, fatal: bool = False) -> WireError:
    """Refuse what is over a limit of the protocol."""
    return WireError("54000", message, "Limits keep one client from taking what others need.", hint, fatal=fatal)


def violation(message: str, fatal: bool = True) -> WireError:
    """Refuse bytes that are not the protocol."""
    return WireError("08P01", message, "The bytes do not follow PostgreSQL's protocol 3.0.", "", fatal=fatal)
