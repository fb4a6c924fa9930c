"""Replies: JSON documents, refusals, and answers in three formats."""

from starlette.responses import Response

from sfumato.errors import Interface, Refusal
from sfumato.release.rendering.escaping import to_json
from sfumato.server.statuses import refusal_document, status_of

MEDIA = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.file",
}
"""The formats in which an answer can be had."""


def json_reply(document: object, status: int = 200) -> Response:
    """Return a document as JSON."""
    return Response(f"{to_json(document, None)}\n".encode(), status, media_type=MEDIA["json"])


def refusal_reply(refusal: Refusal, speaker: Interface = Interface.HTTP) -> Response:
    """Return a refusal as JSON, its remedy in the words of whoever asked."""
    reply = json_reply(refusal_document(refusal, speaker), status_of(refusal))
    if refusal.code == "not_granted":
        reply.headers["www-authenticate"] = "Bearer"
    if refusal.code in ("busy", "still_answering", "stopping"):
        reply.headers["retry-after"] = "2"
    return reply


def file_reply(content: bytes, form: str, name: str) -> Response:
    """Return an answer as a file to keep; its name is made of letters and digits."""
    reply = Response(content, media_type=MEDIA[form])
    reply.headers["content-disposition"] = f'attachment; filename="{name}.{form}"'
    return reply
