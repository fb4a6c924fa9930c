"""When the outcome of a charge may be seen: at once, or where a server pads, at the next multiple of its quantum.

Storing a release, and giving up an attempt, change what others see: history, sequence, the next receipt, who waits for
the same question. How long the engine took would show in them. So a charge waits before either, in the thread that
answers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def _at_once() -> None:
    """Wait for nothing."""


_WAIT: ContextVar[Callable[[], None]] = ContextVar("wait before an outcome", default=_at_once)


@contextmanager
def outcomes_after(wait: Callable[[], None]) -> Iterator[None]:
    """Let every charge of this thread call `wait` before its outcome can be seen."""
    token = _WAIT.set(wait)
    try:
        yield
    finally:
        _WAIT.reset(token)


def wait_for_outcome_time() -> None:
    """Wait as this thread was told to."""
    _WAIT.get()()
