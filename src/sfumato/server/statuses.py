"""Refusals over HTTP: one table from code to status, and the document that is sent."""

import re
from collections.abc import Mapping

from sfumato.errors import REFUSALS, Interface, Refusal

_BY_STATUS: Mapping[int, tuple[str, ...]] = {
    400: ("bad_parameter", "bad_request", "bad_sql", "unknown_name", "malformed_event"),
    401: ("not_granted",),
    402: ("budget_exhausted", "not_known", "too_many_charges"),
    403: ("foreign_origin",),
    404: ("not_found",),
    405: ("method_not_allowed",),
    409: ("answer_lost", "policy_changed", "policy_weakened", "request_closed", "still_answering"),
    413: ("body_too_large",),
    415: ("wrong_media_type",),
    422: (
        *("engine_failed", "free_limit", "imperfect_source", "keys_need_delta", "loosened_policy", "mixed_neighbours"),
        *("query_too_large", "raw_rows", "unbounded_sum", "unit_revealed", "unreachable_margin", "unsafe_join"),
        *("two_owners", "unsupported_event", "unsupported_sql"),
    ),
    429: ("busy", "too_many_requests"),
    503: (
        *("bad_policy", "bad_source", "entropy_failed", "grants_damaged", "ledger_damaged", "ledger_unavailable"),
        *("audit_damaged", "backup_damaged", "ledger_restored", "restore_goes_back"),
        *("no_snapshot", "other_ledger", "stopping", "store_tampered", "stream_damaged", "stream_unavailable"),
        "wrong_key",
    ),
}
STATUS = {code: status for status, codes in _BY_STATUS.items() for code in codes}
"""Status of each refusal code: 4xx for client errors, 503 for errors that only the owner can fix."""
UNKNOWN = 422
"""A refusal that the table does not name: the question was understood and is not answered."""
KINDS = {kind.code: kind for kind in REFUSALS}
_PLACE = re.compile(r"At (\d{1,9}):(\d{1,9})[,:]")


def status_of(refusal: Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return STATUS.get(refusal.code, UNKNOWN)


def position_of(refusal: Refusal) -> tuple[int, int] | None:
    """Return line and column in the question, where the refusal names a place.

    >>> from sfumato.errors import BadSql
    >>> position_of(BadSql("At 1:8, `x`: no.", "Why.", "Next."))
    (1, 8)
    """
    match_ = _PLACE.match(refusal.what)
    return (int(match_[1]), int(match_[2])) if match_ else None


SPEAKER = "Sfumato-Speaker"
"""The header by which `sfumato.connect` says that remedies are for people who write Python."""


def refusal_document(refusal: Refusal, speaker: Interface = Interface.HTTP) -> dict[str, object]:
    """Return a refusal as it is sent: code, message, remedy, and the place in the question if there is one."""
    document: dict[str, object] = {
        "code": refusal.code,
        "message": f"{refusal.what} {refusal.why}",
        "remedy": refusal.remedy_for(speaker),
    }
    place = position_of(refusal)
    return document if place is None else document | {"position": {"line": place[0], "column": place[1]}}


def refusal_of(document: Mapping[str, object]) -> Refusal:
    """Return the refusal that a server sent: of the same class, with the same words.

    >>> refusal_of({"code": "budget_exhausted", "message": "It costs 1.", "remedy": "Ask for less."})
    BudgetExhausted('It costs 1.', '', 'Ask for less.')
    """
    code, message, remedy = (str(document.get(key, "")) for key in ("code", "message", "remedy"))
    kind = KINDS.get(code, Refusal)
    refusal = kind.__new__(kind, message, "", remedy)
    Refusal.__init__(refusal, message, "", remedy)
    return refusal
