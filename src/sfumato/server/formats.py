"""Which format a client wants an answer in: by `format` in the address, or by the header Accept."""

from collections.abc import Callable
from functools import partial

from starlette.requests import Request

from sfumato.errors import BadParameter, quote_value
from sfumato.release.intervals.confidence import LEVEL
from sfumato.release.release import Release
from sfumato.release.rendering.encoding import csv_pieces, encoded
from sfumato.server.remote_json import answer_document
from sfumato.server.replies import MEDIA, EncodedReply, count_bytes, count_pieces, json_bytes

_RANGES = {"*/*": "json", "application/*": "json", "text/*": "csv"}
_FORM_OF = {media.partition(";")[0]: form for form, media in MEDIA.items()} | _RANGES
_MAX_RANGES = 50


def requested_format(request: Request) -> str:
    """Return one of the formats of MEDIA: `format` counts before Accept, and JSON is for all who name none of them."""
    named = request.query_params.getlist("format")
    if not named:
        return accepted_format(request.headers.get("accept", ""))
    if len(named) == 1 and named[0] in MEDIA:
        return named[0]
    raise BadParameter(
        f"format = {quote_value(named[0])} is unknown.",
        f"Answers are written as {', '.join(MEDIA)}.",
        "Send one of them, or leave it out for JSON.",
    )


def accepted_format(accept: str) -> str:
    """Return the format that an Accept header prefers; of equal ones the first.

    >>> accepted_format("text/html, text/csv;q=0.9, application/json;q=0.5")
    'csv'
    """
    best, found = 0.0, "json"
    for written in accept.split(",")[:_MAX_RANGES]:
        media, *parameters = [part.strip().lower() for part in written.split(";")]
        weight = next((_weight(parameter[2:]) for parameter in parameters if parameter.startswith("q=")), 1.0)
        if media in _FORM_OF and weight > best:
            best, found = weight, _FORM_OF[media]
    return found


def _weight(text: str) -> float:
    try:
        return float(text) if len(text) <= 5 else 0.0
    except ValueError:
        return 0.0


def encoder(request: Request, form: str, level: object = LEVEL) -> Callable[[Release], EncodedReply]:
    """Return what writes an answer in a format and counts its bytes; CSV is made and sent in pieces."""
    if form == "csv":
        return count_pieces(request, partial(csv_pieces, level=level))
    if form == "json":
        return count_bytes(request, lambda release: json_bytes(answer_document(release, level)))
    return count_bytes(request, partial(encoded, form=form, level=level))
