"""An answer that was rendered in its thread: no request holds the answer itself while it waits."""

from collections.abc import Callable
from traceback import clear_frames
from typing import Generic, TypeVar

from sfumato.caches import size_of
from sfumato.release.release import Release

T = TypeVar("T")
K = TypeVar("K")
_RELEASE_BYTES, _CELL_BYTES, _TEXT_BYTES = 1 << 14, 400, 4
"""Bytes of an answer with its intervals: by itself, for each cell, and for each character of a text (measured)."""


def release_bytes(release: Release) -> int:
    """Return about how many bytes an answer has once its intervals are known.

    It holds all cells that were measured, also those that LIMIT or HAVING leaves out of its rows.
    """
    texts = sum(len(value) for column in release.values for value in column if isinstance(value, str))
    shown = _CELL_BYTES * len(release) * len(release.columns) + _TEXT_BYTES * texts
    return max(_RELEASE_BYTES + shown, size_of(release))


class RenderedAnswer(Generic[T]):
    """Outcome of rendering an answer in its thread: the reply, or the error."""

    __slots__ = ("_failure", "_value", "receipt")

    def __init__(self, answer: K, render: Callable[[K], T]) -> None:
        self.receipt = answer.receipt.id if isinstance(answer, Release) else None
        self._value: T | None = None
        self._failure: Exception | None = None
        try:
            self._value = render(answer)
        except Exception as error:
            self._failure = error
            clear_frames(error.__traceback__)  # they hold the answer, and the refusal may wait for its reader
        finally:
            del answer

    def take(self) -> T:
        """Return or raise it; it is not held here any longer."""
        value, failure = self._value, self._failure
        self._value = self._failure = None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # it holds this frame, and must not hold itself
        return value  # type: ignore[return-value]  # there is a failure, or a value
