"""How fast an account, or an address without a grant, may ask: beyond it, requests wait for their turn."""

import asyncio
from collections.abc import Callable
from time import monotonic

from sfumato.server.connections import network_of

PER_SECOND = 1000.0
BURST_SIZE = 2000.0
MAX_ADDRESSES = 4096
"""Addresses with a bucket of their own. Beyond it the one that came longest ago begins anew."""


class TokenBucket:
    """A bucket that fills steadily. It belongs to one event loop."""

    def __init__(
        self,
        per_second: float = PER_SECOND,
        at_once: float = BURST_SIZE,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._per_second = per_second
        self._most = at_once
        self._left = at_once
        self._clock = clock
        self._seen: float | None = None

    def take(self) -> float:
        """Take one turn, and return for how many seconds to wait for it."""
        self._fill()
        self._left -= 1
        return max(0.0, -self._left / self._per_second)

    def take_now(self) -> bool:
        """Take one turn if there is one, and say so."""
        self._fill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    async def wait(self) -> None:
        """Take one turn; where none is left, wait until there is."""
        seconds = self.take()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def give_back(self) -> None:
        """Give back a turn that was not used."""
        self._left = min(self._most, self._left + 1)

    def _fill(self) -> None:
        now = self._clock()
        passed = 0.0 if self._seen is None else now - self._seen
        self._seen = now
        self._left = min(self._most, self._left + passed * self._per_second)


class AddressBuckets:
    """One bucket per network address, in constant memory. No address can use up another's.

    Where more addresses come than there are buckets, the one that came longest ago is forgotten, which is to its
    advantage: it begins with a full bucket.
    """

    def __init__(self, per_second: float, at_once: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    @property
    def count(self) -> int:
        """How many addresses have a bucket."""
        return len(self._buckets)

    def of(self, address: str) -> TokenBucket:
        """Return the bucket of an address."""
        network = network_of(address)
        bucket = self._buckets.pop(network, None) or TokenBucket(self._per_second, self._at_once, self._clock)
        self._buckets[network] = bucket  # the last one to be forgotten
        if len(self._buckets) > MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return bucket

    def take_now(self, address: str) -> bool:
        """Take a turn of this address if there is one, and say so."""
        return self.of(address).take_now()
