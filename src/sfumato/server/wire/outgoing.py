"""Outgoing messages: they are gathered, and written while the client reads them."""

import asyncio
from collections.abc import Iterable

from sfumato.server.wire.frames import notice_frame
from sfumato.server.wire.sqlstates import Reported

SECONDS_TO_WRITE = 60.0
"""A client that reads nothing for so long is let go."""
_BUFFER_BYTES = 1 << 16


class Outgoing:
    """The messages of one connection that have not left yet."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._data = bytearray()

    def send(self, data: bytes) -> None:
        """Add a message."""
        self._data += data

    async def send_all(self, messages: Iterable[bytes]) -> None:
        """Add messages, and write while they gather."""
        for message in messages:
            self.send(message)
            await self.drain()

    def notify(self, notices: Iterable[Reported]) -> None:
        """Add notices."""
        for notice in notices:
            self.send(notice_frame(notice))

    async def drain(self) -> None:
        """Write if much has gathered."""
        if len(self._data) > _BUFFER_BYTES:
            await self.flush()

    async def give_turn(self) -> None:
        """Write if much has gathered, and let others go on: thousands of messages may have come at once."""
        await self.drain()
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Write all of it, and wait until the client has room for more."""
        if self._data:
            self._writer.write(bytes(self._data))
            self._data.clear()
            async with asyncio.timeout(SECONDS_TO_WRITE):
                await self._writer.drain()
            await asyncio.sleep(0)  # a client that reads fast would otherwise keep the event loop for itself
