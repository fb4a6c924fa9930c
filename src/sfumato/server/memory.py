"""Free memory of the process, returned to the operating system."""

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

RETURN_SECONDS = 60.0
"""Seconds between two returns. The moments depend on the clock alone, never on questions or data."""


async def return_free_memory() -> None:
    """Return free memory from time to time, for as long as the server runs.

    The threads that answer questions allocate from areas of their own, and the C library keeps what they free: pages
    with nothing in them stay resident, more of them every hour, although the objects of the process do not grow.
    """
    trim = _trim()
    while trim is not None:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(trim, 0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return the C library's own function for it; None where it has none (musl, macOS)."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
