"""Any finite law drawn by inversion, exactly: a guide table whose every cell is certified.

Sixteen bits of U choose one of 65,536 cells [Chen, Asau 1974]. A cell that lies wholly inside one outcome's stretch of
[0, 1] answers at once; the others draw more bits until certified bounds decide. Proof: proofs/guide.md
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.randomness.bernoulli import LONGEST
from sfumato.randomness.source import Source, broken_source, read_exactly

_FIRST = 16
_MORE = 32
_SECOND = _FIRST + _MORE
_UNDECIDED = -1


class FiniteLaw(Hashable, Protocol):
    """A law on 0, 1, …, n - 1 known by enclosures of its cumulative distribution.

    Where `tail` is not None, the last outcome stands for "n - 1 or more", and tail(source) draws how much more.
    """

    @property
    def tail(self) -> Callable[[Source], int] | None:
        """How to draw what the last outcome leaves open."""

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return low and high with low[k] <= 2**bits * P[K <= k] <= high[k], both nondecreasing, both 2**bits last."""


@dataclass(frozen=True, slots=True)
class Guide:
    """A prepared table for one law: it depends on public parameters only."""

    law: FiniteLaw
    cells: npt.NDArray[np.signedinteger[Any]] = field(compare=False, repr=False)
    low: npt.NDArray[np.int64] = field(compare=False, repr=False)
    high: npt.NDArray[np.int64] = field(compare=False, repr=False)

    def outcomes(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.int64]:
        """Return the outcome for each first word of U; the undecided ones draw more bits from `source`."""
        chosen = self.cells.take(words)
        undecided = (chosen < 0).nonzero()[0]
        outcomes = chosen.astype(np.int64)
        if undecided.size:
            outcomes[undecided] = self._decide(words[undecided], source)
        return outcomes

    def _decide(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.int64]:
        more = np.frombuffer(read_exactly(source, _MORE // 8 * words.size), dtype="<u4").astype(np.int64)
        known = (words.astype(np.int64) << _MORE) | more
        found = np.searchsorted(self.high, known, side="right").astype(np.int64)
        for place in np.flatnonzero(known >= self.low[found]):
            found[place] = _refine(self.law, int(known[place]), _SECOND, source)
        if self.law.tail is not None:
            for place in np.flatnonzero(found == len(self.high)):
                found[place] += self.law.tail(source)
        return found


@lru_cache(maxsize=512)
def prepare(law: FiniteLaw) -> Guide:
    """Build the table of a law, once per process."""
    low, high = _rounded(law, _SECOND)
    edges = np.arange((1 << _FIRST) + 1, dtype=np.int64) << _MORE
    found = np.searchsorted(high[:-1], edges[:-1], side="right")
    decided = edges[1:] <= low[found]
    if law.tail is not None:
        decided &= found < len(low) - 1  # so that whoever looks up a decided cell need not look for the tail
    narrow = len(low) <= 1 << 15  # 128 KiB of cells stay in the processor's cache
    cells = np.where(decided, found, _UNDECIDED)
    return Guide(law, cells.astype(np.int16) if narrow else cells, low, high[:-1])


def _rounded(law: FiniteLaw, bits: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    guard = 24
    low, high = law.cumulative(bits + guard)
    return (
        np.array([bound >> guard for bound in low], dtype=np.int64),
        np.array([-(-bound >> guard) for bound in high], dtype=np.int64),
    )


def _refine(law: FiniteLaw, known: int, bits: int, source: Source) -> int:
    """Find the outcome whose stretch holds U, of which the first `bits` bits are `known`."""
    while bits < LONGEST:
        more = max(64, bits)
        known = (known << more) | int.from_bytes(read_exactly(source, more // 8), "big")
        bits += more
        low, high = _cumulative(law, bits)
        outcome = bisect_right(high, known, hi=len(high) - 1)
        if known < low[outcome]:  # P[K < outcome] <= U, and U < (known + 1) / 2^bits <= P[K <= outcome]
            return outcome
    raise broken_source()


@lru_cache(maxsize=64)
def _cumulative(law: FiniteLaw, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return law.cumulative(bits)
