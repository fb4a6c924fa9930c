"""Waiting for a statement: until it is done, the client cancels it, or its time is over."""

import asyncio
from collections.abc import Awaitable
from threading import Event
from typing import TypeVar

from sfumato.errors import Refusal
from sfumato.server.wire.sqlstates import WireError

T = TypeVar("T")


class StatementWait:
    """Whether the statement at hand was cancelled; its worker thread looks at `stop`, the event loop is woken."""

    def __init__(self) -> None:
        self.stop = Event()
        self._cancelled = asyncio.Event()

    def cancel(self) -> None:
        """Stop what can be stopped, and wait no longer for what cannot."""
        self.stop.set()
        self._cancelled.set()

    async def result(self, work: Awaitable[T], seconds: float | None) -> T:
        """Return what becomes of some work of a new statement, or refuse to wait longer."""
        self.stop = Event()  # a thread of the statement before keeps its own
        self._cancelled.clear()
        task = asyncio.ensure_future(work)
        cancelled = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait((task, cancelled), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return _result(task)
            why = "user request" if cancelled.done() else "statement timeout"
        finally:
            cancelled.cancel()
            if not task.done():
                self.stop.set()
                task.cancel()
            del task, work  # an error holds this frame, and must not hold itself
        raise WireError(
            "57014",
            f"canceling statement due to {why}",
            "The running question continues: it is charged, and its answer is stored.",
            "Asking the same again costs nothing then.",
        )


def _result(task: "asyncio.Future[T]") -> T:
    """Return what became of something; an unforeseen error becomes one fixed sentence, whatever it says."""
    error = task.exception()
    if error is None:
        return task.result()
    try:
        if isinstance(error, Refusal | WireError):
            raise error
        raise WireError(
            "XX000",
            "The server could not do this.",
            "The error is not shown, because it may contain a data value.",
            "Ask in another way, and tell the owner of the dataset.",
        ) from None
    finally:
        del error, task  # an error holds this frame, and must not hold itself
