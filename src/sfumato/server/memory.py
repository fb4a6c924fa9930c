"""Free memory of the process: kept in few places, and returned to the operating system."""

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

RETURN_SECONDS = 60.0
"""Seconds between two returns. The moments depend on the clock alone, never on questions or data."""
MAX_ARENAS = 2
MAPPED_BYTES = 128 << 10
"""Blocks of at least this size are mapped by themselves, and returned as soon as they are free."""
_ARENAS_PARAMETER, _MAPPED_PARAMETER = -8, -3
"""The parameters of `mallopt` for both, as <malloc.h> numbers them."""


def limit_free_memory() -> None:
    """Let all threads allocate small blocks from the same few areas; to be called before there are any.

    By default the C library has up to eight areas for each core, and each keeps the most that it ever held; and it
    raises the size from which blocks are mapped, so that large ones leave holes between small ones. Threads that answer
    questions come and go, so the memory of a server would rise for hours, although its objects do not.
    """
    choose = _c_function("mallopt")
    if choose is not None:
        choose(_ARENAS_PARAMETER, MAX_ARENAS)
        choose(_MAPPED_PARAMETER, MAPPED_BYTES)


async def return_free_memory() -> None:
    """Return pages with nothing in them from time to time, for as long as the server runs."""
    trim = _c_function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(trim, 0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None where it has none of that name (musl, macOS)."""
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return found
