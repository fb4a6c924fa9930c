"""Replies: JSON documents, refusals, and answers in four formats; and the bytes of unread ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sfumato.errors import Busy, Interface, Refusal
from sfumato.release.rendering.escaping import to_json
from sfumato.server.limits import ServerLimits
from sfumato.server.quota import ByteQuota, Holding
from sfumato.server.statuses import refusal_document, status_of

T = TypeVar("T")
PIECE_BYTES = 64 << 10
"""A reply is handed to the transport in pieces of at most this size. One that fits into a piece is not counted."""
MEDIA = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.file",
    "parquet": "application/vnd.apache.parquet",
}
"""The formats in which an answer can be had."""


class ReplyQuota:
    """The bytes of encoded replies that have not been handed to the transport; threads may share it."""

    def __init__(self, limits: ServerLimits) -> None:
        self._quota = ByteQuota(limits.reply_bytes, limits.reply_bytes_per_account)
        self.of = self._quota.of
        self.give_back = self._quota.give_back

    @property
    def held(self) -> int:
        """How many bytes are held now."""
        return self._quota.held

    def take(self, account: str, count: int) -> None:
        """Count a reply, or refuse it."""
        if not self._quota.take(account, count):
            raise _too_many_replies(count, self._quota)

    def hold(self, account: str, content: bytes) -> Holding:
        """Count a reply until what is returned is released, or refuse it."""
        holding = Holding(self, account)
        if len(content) > PIECE_BYTES:
            holding.add(len(content))
        return holding


class ReplyFile:
    """A reply that is written in pieces and read once: in memory up to one piece, then in a file without a name."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=PIECE_BYTES)  # noqa: SIM115  (it is closed with the reply)
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        self._file.write(piece)
        self.size += len(piece)

    def pieces(self) -> Iterator[bytes]:
        """Give all of it in pieces, from the start, and close it."""
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece
        self._file.close()

    def __del__(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class EncodedReply:
    """A reply as bytes, which are counted for its account."""

    content: bytes | ReplyFile = field(repr=False)
    """All of it, or a file whose pieces leave one after the other."""
    holding: Holding = field(repr=False)


def count_bytes(request: Request, encode: Callable[[T], bytes]) -> Callable[[T], EncodedReply]:
    """Return an encoder of replies to a caller that counts their bytes and refuses replies above the limit."""
    quota: ReplyQuota = request.scope["replies"]
    account: str = request.scope["caller"].holder

    def run(value: T) -> EncodedReply:
        content = encode(value)
        return EncodedReply(content, quota.hold(account, content))

    return run


def count_pieces(request: Request, encode: Callable[[T], Iterator[bytes]]) -> Callable[[T], EncodedReply]:
    """Return the same for a reply that is made in pieces: above the limit, no further piece is made.

    Neither the answer nor its text stays in memory while the client reads, however long it is and takes.
    """
    quota: ReplyQuota = request.scope["replies"]
    account: str = request.scope["caller"].holder

    def run(value: T) -> EncodedReply:
        holding, written = Holding(quota, account), ReplyFile()
        try:
            for piece in encode(value):
                written.write(piece)
                if written.size > PIECE_BYTES:
                    holding.add(written.size - holding.size)
        except BaseException:
            holding.release()
            raise
        return EncodedReply(written, holding)

    return run


def counted_reply(request: Request, encoded: EncodedReply, form: str = "json") -> Response:
    """Return a reply that is given back to the quota when the request has ended."""
    request.scope["reply"] = encoded.holding
    if isinstance(encoded.content, bytes):
        return Response(encoded.content, media_type=MEDIA[form])
    return PiecesReply(encoded.content, MEDIA[form])


class PiecesReply(Response):
    """A reply whose pieces leave one after the other: the next is read when the transport has taken the last."""

    def __init__(self, written: ReplyFile, media_type: str) -> None:
        super().__init__(b"", media_type=media_type)
        self.headers["content-length"] = str(written.size)
        self._written = written

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, then piece by piece."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._written.pieces():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def json_bytes(document: object) -> bytes:
    """Return a document as a line of JSON."""
    return f"{to_json(document, None)}\n".encode()


def json_reply(document: object, status: int = 200) -> Response:
    """Return a document as JSON."""
    return Response(json_bytes(document), status, media_type=MEDIA["json"])


def refusal_reply(refusal: Refusal, speaker: Interface = Interface.HTTP) -> Response:
    """Return a refusal as JSON, its remedy in the words of the interface."""
    reply = json_reply(refusal_document(refusal, speaker), status_of(refusal))
    if refusal.code == "not_granted":
        reply.headers["www-authenticate"] = "Bearer"
    if refusal.code in ("busy", "still_answering", "stopping"):
        reply.headers["retry-after"] = "2"
    return reply


def file_reply(request: Request, encoded: EncodedReply, form: str, name: str) -> Response:
    """Return an answer as a file to keep; its name is made of letters and digits."""
    reply = counted_reply(request, encoded, form)
    reply.headers["content-disposition"] = f'attachment; filename="{name}.{form}"'
    return reply


def _too_many_replies(count: int, quota: ByteQuota) -> Busy:
    limits = f"{quota.per_account:,} bytes of unread replies for one account, and {quota.total:,} for all"
    if count > quota.per_account:
        return Busy(
            f"The reply has {count:,} bytes.",
            f"The server holds at most {limits}.",
            "If the question was charged, its answer is kept: get it in another format, or ask for fewer rows.",
        )
    return Busy(
        "Too many replies have not been read.",
        f"The server holds at most {limits}.",
        "Read the earlier replies, then send this request again. If the question was charged, its answer is kept, and "
        "getting it again costs nothing.",
    )
