"""Padding: with it, everything that can be observed of a request moves at multiples of a quantum after its arrival.

The thread that answers waits for a multiple before it stores the outcome of its charge. So history, sequence, kept
answers, the account's share of threads and the audit log change then, and the reply leaves right after. What charges
nothing is padded when it leaves. Time comes from a clock that tests replace. Proof: proofs/padding.md
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from time import monotonic, sleep
from typing import Protocol, TypeVar

from sfumato.ledger.outcome_time import outcomes_after

T = TypeVar("T")
_EXACT_SECONDS = 0.005
"""Time before a padded reply in which a thread waits instead of the loop, which counts in milliseconds."""
_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


class PaddingClock(Protocol):
    """Seconds, and how to wait for them."""

    def now(self) -> float:
        """Return the time."""

    def wait_until(self, end: float) -> None:
        """Wait in a thread."""

    async def sleep_until(self, end: float) -> None:
        """Wait in the event loop, and wake up to the microsecond."""


class MonotonicClock:
    """The clock of the machine that is never set."""

    def now(self) -> float:
        return monotonic()

    def wait_until(self, end: float) -> None:
        sleep(max(0.0, end - monotonic()))

    async def sleep_until(self, end: float) -> None:
        await asyncio.sleep(end - monotonic() - _EXACT_SECONDS)
        await asyncio.to_thread(self.wait_until, end)


@dataclass(slots=True)
class Arrival:
    """One request: when it came, and whether its outcome has waited for a multiple of the quantum."""

    time: float
    has_waited: bool = False


class TimePadding:
    """The quantum of a policy, or none."""

    def __init__(self, quantum: Fraction | None, clock: PaddingClock | None = None) -> None:
        self._quantum = quantum
        self._clock = clock or MonotonicClock()

    def arrival(self) -> Arrival:
        """Return a request that comes now."""
        return Arrival(self._clock.now())

    @property
    def timing(self) -> str:
        """The timing mode, as receipts say it."""
        return "none" if self._quantum is None else f"padded to multiples of {self._quantum} s"

    def next_multiple(self, arrived: float) -> float:
        """Return the first multiple of the quantum after an arrival that has not passed; the first is one quantum."""
        if self._quantum is None:
            return self._clock.now()
        quantum = float(self._quantum)
        return arrived + max(1, ceil((self._clock.now() - arrived) / quantum)) * quantum

    @contextmanager
    def outcomes_of(self, arrival: Arrival) -> Iterator[None]:
        """Let what this thread charges have its outcome at multiples of the quantum."""
        if self._quantum is None:
            yield
            return

        def wait() -> None:
            self._clock.wait_until(self.next_multiple(arrival.time))
            arrival.has_waited = True

        with outcomes_after(wait):
            yield

    def padded(self, arrival: Arrival, action: Callable[[], T]) -> Callable[[], T]:
        """Return an action whose charges have their outcome at multiples of the quantum."""

        def run() -> T:
            with self.outcomes_of(arrival):
                return action()

        return run

    async def leave(self, arrival: Arrival) -> None:
        """Wait until a reply may leave: at once where an outcome has waited, since only noisy numbers decide the rest.

        The event loop wakes up whole milliseconds after it began to wait, and so would say within which part of one an
        answer was ready. The clock waits to the microsecond.
        """
        if self._quantum is not None and not arrival.has_waited:
            await self._clock.sleep_until(self.next_multiple(arrival.time))

    def round_time(self, time: datetime) -> datetime:
        """Return a time of the ledger as it is shown: the last multiple of the quantum since 1970."""
        if self._quantum is None:
            return time
        microseconds = (time - _FIRST_INSTANT) // timedelta(microseconds=1)
        quantum = self._quantum * 1_000_000
        return _FIRST_INSTANT + timedelta(microseconds=int(microseconds // quantum * quantum))
