"""How fast one account may ask: beyond it, requests wait for their turn."""

import asyncio

PER_SECOND = 1000.0
AT_ONCE = 2000.0


class Pace:
    """A bucket that fills steadily. It belongs to one event loop."""

    def __init__(self, per_second: float = PER_SECOND, at_once: float = AT_ONCE) -> None:
        self._per_second = per_second
        self._most = at_once
        self._left = at_once
        self._seen: float | None = None

    async def wait(self) -> None:
        """Take one turn; where none is left, wait until there is."""
        now = asyncio.get_running_loop().time()
        passed = 0.0 if self._seen is None else now - self._seen
        self._seen = now
        self._left = min(self._most, self._left + passed * self._per_second) - 1
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_second)
