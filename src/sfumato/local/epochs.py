"""Memoisation: one report per public epoch, and copies of it for the rest of the epoch."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Event, Repeated
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.mechanisms.columns import array_or_none
from sfumato.randomness.source import Source


class Reporting(Protocol):
    """A mechanism that releases one report per person."""

    @property
    def event(self) -> Event: ...

    def release(self, values: object, source: Source | None = None) -> npt.NDArray[Any]: ...


class Memo:
    """Reports of the same people over several epochs: in each, the value is read once and reported once.

    Theorem: whatever is asked of it, and however the values change, all that it ever returns about one person costs
    Repeated(event, epochs).  Proof: proofs/memo.md

    Further calls in the same epoch return copies, even if values changed meanwhile: a memo that follows changes would
    show when they happen. It lives on people's devices; pickle it to keep it.
    """

    __slots__ = ("_kept", "epochs", "mechanism")

    def __init__(self, mechanism: Reporting, epochs: int) -> None:
        if not hasattr(mechanism, "release") or not hasattr(mechanism, "event"):
            raise BadParameter(
                f"{quote_value(mechanism)} is not a mechanism.",
                "It releases no reports.",
                "Give for example an oracle.",
            )
        self.mechanism = mechanism
        self.epochs = integer(epochs, "epochs", 1)
        self._kept: dict[int, npt.NDArray[Any]] = {}

    @property
    def event(self) -> Repeated:
        """The privacy loss of all epochs together, for each person."""
        return Repeated(self.mechanism.event, self.epochs)

    def release(self, values: object, epoch: int, source: Source | None = None) -> npt.NDArray[Any]:
        """Return one report per person for this epoch 0 … epochs - 1; the first call draws, later ones copy."""
        now = integer(epoch, "epoch", 0)
        if now >= self.epochs:
            raise BadParameter(
                f"epoch = {quote_value(now)} is not one of the {self.epochs} that were paid for.",
                "Each epoch costs one report.",
                f"Give an epoch from 0 to {self.epochs - 1}, or make a memo of more epochs.",
            )
        people = {len(kept) for kept in self._kept.values()}
        column = array_or_none(values)
        if column is None or column.ndim != 1 or (people and len(column) not in people):
            raise BadParameter(
                "values is not one value of each of the same people.",
                "A memo belongs to the people of its first epoch, in the same order.",
                "Give one value per person.",
            )
        if now not in self._kept:
            drawn = self.mechanism.release(values, source)  # if this fails, nothing was reported and nothing is kept
            self._kept[now] = drawn
        return np.array(self._kept[now])

    def __repr__(self) -> str:
        return f"Memo({self.mechanism!r}, {self.epochs})"
