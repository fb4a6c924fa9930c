"""Limits of free answers: an account that asks for them cannot keep the engine busy, nor fill the memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from sfumato.errors import EngineFailed, FreeLimit

FREE_QUERY_SECONDS = 20.0
"""So long may one question take before anything is charged, and one exact answer over public tables."""
PLANNING_SECONDS = 30.0
"""Seconds that reading and planning one question may take; its other limits are counted, this one is the last."""
MAX_PUBLIC_RESULT_ROWS = 1_000_000
MAX_PUBLIC_RESULT_CHARS = 100_000_000
"""Maximum number of rows of an exact answer over public tables, and of characters in them."""


class TimeLimit:
    """One allowance of seconds, from now on: for all the statements of one question together."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = FREE_QUERY_SECONDS if seconds is None else seconds
        self._end = time.monotonic() + self._seconds

    @contextmanager
    def running(self, stop: Callable[[], None]) -> Iterator[None]:
        """Run the body. When time is up, call `stop` from another thread, and refuse if the body failed."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        timer = Timer(left, stop)
        timer.daemon = True
        timer.start()
        late = False
        try:
            yield
        except EngineFailed:
            late = time.monotonic() >= self._end
            if not late:
                raise
        finally:
            timer.cancel()
        if late:
            raise self._late()

    def _late(self) -> FreeLimit:
        return FreeLimit(
            f"Computing the public part of this question takes longer than {self._seconds:g} seconds.",
            "It is free, so its time is limited.",
            "Choose fewer public rows with WHERE, join them by an equality, or use shorter lists and fewer tables.",
        )


class PlanningClock:
    """One allowance of seconds for reading and planning, which see no private row."""

    def __init__(self) -> None:
        self._end = time.monotonic() + PLANNING_SECONDS

    def check(self) -> None:
        """Refuse to go on when the time is up."""
        if time.monotonic() > self._end:
            raise FreeLimit(
                f"Preparing this question takes longer than {PLANNING_SECONDS:g} seconds.",
                "Reading and planning are free, so their time is limited.",
                "Ask for fewer columns or conditions at once. Nothing was charged.",
            )


def too_long_an_answer() -> FreeLimit:
    """Return the refusal of an answer over public tables that is too large to hold."""
    return FreeLimit(
        f"The answer has more than {MAX_PUBLIC_RESULT_ROWS:,} rows or {MAX_PUBLIC_RESULT_CHARS:,} characters.",
        "Answers over public tables are free, so their size is limited.",
        "Choose rows with WHERE or LIMIT, or aggregate them.",
    )
