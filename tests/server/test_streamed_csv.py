"""A long answer as CSV leaves in pieces of one size, and is in memory as a whole at no time."""

import asyncio
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message

from sfumato.errors import Busy
from sfumato.server.limits import ServerLimits
from sfumato.server.replies import PIECE_BYTES, ReplyQuota, count_pieces, counted_reply

ROWS, LINE = 40_000, b"er,133,121,145," + b"x" * 984 + b"\n"


def lines(rows: int) -> Iterator[bytes]:
    yield from (LINE for _ in range(rows))


def request(limits: ServerLimits | None = None) -> Any:
    quota = ReplyQuota(limits or ServerLimits())
    return SimpleNamespace(scope={"replies": quota, "caller": SimpleNamespace(account="research", holder="research")})


def sent(asked: Any, rows: int) -> tuple[int, int, int]:
    """Write and send a reply; return its bytes, its largest piece, and the length that its headers say."""
    reply = counted_reply(asked, count_pieces(asked, lines)(rows), "csv")
    total = largest = 0

    async def send(message: Message) -> None:
        nonlocal total, largest
        body = message.get("body", b"")
        total, largest = total + len(body), max(largest, len(body))

    asyncio.run(reply({}, None, send))  # type: ignore[arg-type]  # it reads nothing
    return total, largest, int(reply.headers["content-length"])


def test_forty_megabytes_take_less_than_one_of_memory() -> None:
    asked = request()
    tracemalloc.start()
    try:
        total, largest, said = sent(asked, ROWS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == said == ROWS * len(LINE)
    assert largest <= PIECE_BYTES
    assert peak < 1 << 20


@pytest.mark.parametrize("rows", [0, 1, PIECE_BYTES // len(LINE), PIECE_BYTES // len(LINE) + 1])
def test_replies_of_any_length_leave_whole(rows: int) -> None:
    total, _, said = sent(request(), rows)
    assert total == said == rows * len(LINE)


def test_a_reply_above_the_limit_is_refused_while_it_is_written() -> None:
    asked = request(ServerLimits(reply_bytes_per_account=1 << 20))
    made = 0

    def counted(rows: int) -> Iterator[bytes]:
        nonlocal made
        for line in lines(rows):
            made += 1
            yield line

    with pytest.raises(Busy):
        count_pieces(asked, counted)(ROWS)
    assert made < ROWS // 20  # no further line is made
    assert asked.scope["replies"].held == 0
