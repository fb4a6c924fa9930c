"""Any finite law drawn by inversion, exactly: a guide table whose every cell is certified.

Sixteen bits of U choose one of 65,536 cells [Chen, Asau 1974]. A cell that lies wholly inside one outcome's stretch of
[0, 1] answers at once; the others draw more bits until certified bounds decide. Proof: proofs/guide.md
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.randomness.bernoulli import MAX_COMPARED_BITS
from sfumato.randomness.source import Source, broken_source, read_exactly

_FIRST_BITS = 16
_SECOND_WORD_BITS = 32
_TOTAL_BITS = _FIRST_BITS + _SECOND_WORD_BITS
_UNDECIDED_INDEX = -1


DrawTail = Callable[[int, Source], npt.NDArray[np.int64]]


class FiniteLaw(Hashable, Protocol):
    """A law on 0, 1, …, n - 1 known by enclosures of its cumulative distribution.

    Where `tail` is not None, the last outcome stands for "n - 1 or more", and tail(count, source) draws how much more.
    """

    @property
    def tail(self) -> DrawTail | None:
        """How to draw what the last outcome leaves open."""

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return low and high with low[k] <= 2**bits * P[K <= k] <= high[k], both nondecreasing, both 2**bits last."""


@dataclass(frozen=True, slots=True, eq=False)
class Guide:
    """The prepared tables of some laws, looked up together: they depend on public parameters only.

    Row i of the words is for law i. Of the undecided words, row by row and in a row from first to last, each draws four
    bytes more; then, in the same order, those draw that are still open; then the tails, law by law.
    """

    laws: tuple[FiniteLaw, ...]
    tables: npt.NDArray[np.int64]  # which table each law has, in a column: laws with equal seams at 48 bits share one
    cells: npt.NDArray[np.signedinteger[Any]]  # all tables, one after another
    low: npt.NDArray[np.int64]  # the seams of all tables at 48 bits, those of table t raised by t·2^48
    high: npt.NDArray[np.int64]
    first: npt.NDArray[np.intp]  # where each table's seams start
    offsets: npt.NDArray[np.intp]  # where each law's cells start, in a column

    @property
    def law(self) -> FiniteLaw:
        """The first law: of a guide that `build_guide` made, the only one."""
        return self.laws[0]

    def outcomes(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.int64]:
        """Return the outcome for each first word of U; the undecided ones draw more bits from `source`."""
        chosen = self.cells.take(words + self.offsets if len(self.laws) > 1 else words)
        undecided = (chosen < 0).ravel().nonzero()[0]
        outcomes = chosen.astype(np.int64)
        if undecided.size:
            rows = undecided // (chosen.size // len(self.laws))
            outcomes.reshape(-1)[undecided] = self._decide(rows, words.ravel()[undecided], source)
        return outcomes

    def _decide(
        self, rows: npt.NDArray[np.intp], words: npt.NDArray[np.uint16], source: Source
    ) -> npt.NDArray[np.int64]:
        more = np.frombuffer(read_exactly(source, _SECOND_WORD_BITS // 8 * words.size), dtype="<u4")
        tables = self.tables.ravel()[rows]
        known = (tables << _TOTAL_BITS) + (words.astype(np.int64) << _SECOND_WORD_BITS) + more
        position = self.high.searchsorted(known, side="right")
        outcomes: npt.NDArray[np.int64] = position - self.first[tables]
        for index in (known >= self.low[position]).nonzero()[0]:
            bits = int(known[index]) & ((1 << _TOTAL_BITS) - 1)
            outcomes[index] = _refine(self.laws[rows[index]], bits, _TOTAL_BITS, source)
        last = (outcomes == np.diff(self.first)[tables] - 1).nonzero()[0]
        for row in sorted(set(rows[last].tolist())):  # np.unique would import masked arrays, at the first tail
            if (tail := self.laws[row].tail) is not None:
                beyond = last[rows[last] == row]
                outcomes[beyond] += tail(beyond.size, source)
        return outcomes


@lru_cache(maxsize=256)  # 128 KiB each
def build_guide(law: FiniteLaw) -> Guide:
    """Build the table of one law, once per process."""
    return stack((law,))


def stack(laws: tuple[FiniteLaw, ...]) -> Guide:
    """Build the tables of some laws."""
    distinct: dict[tuple[bytes, bytes, bool], int] = {}
    tables: list[int] = []
    cells: list[npt.NDArray[np.signedinteger[Any]]] = []
    low, high = [], []
    for law in laws:
        seams = _rounded_law(law, _TOTAL_BITS)
        table = distinct.setdefault((seams[0].tobytes(), seams[1].tobytes(), law.tail is None), len(distinct))
        tables.append(table)
        if table == len(cells):
            cells.append(_guide_cells(*seams, tail=law.tail is not None))
            low.append(seams[0] + (table << _TOTAL_BITS))
            high.append(seams[1] + (table << _TOTAL_BITS))
    column = np.array(tables, dtype=np.int64).reshape(-1, 1)
    first = np.cumsum([0, *(len(seams) for seams in low)], dtype=np.intp)
    return Guide(
        laws,
        column,
        np.concatenate(cells),
        np.concatenate(low),
        np.concatenate(high),
        first,
        (column << _FIRST_BITS).astype(np.intp),
    )


def _guide_cells(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], *, tail: bool
) -> npt.NDArray[np.signedinteger[Any]]:
    # outcome k has the cells from the first that starts at or after high[k - 1] to the last that ends by low[k]
    starts = np.zeros(len(low), dtype=np.int64)
    starts[1:] = -(-high[:-1] >> _SECOND_WORD_BITS)
    ends = np.maximum(low >> _SECOND_WORD_BITS, starts)
    if tail:
        ends[-1] = starts[-1]  # so that the look-up of a decided cell need not check for the tail
    counts = np.empty(2 * len(low), dtype=np.int64)
    counts[::2] = ends - starts
    counts[1:-1:2] = starts[1:] - ends[:-1]
    counts[-1] = (1 << _FIRST_BITS) - ends[-1]
    cells: npt.NDArray[np.signedinteger[Any]] = np.repeat(_alternating(len(low)), counts)
    return cells


@lru_cache(maxsize=64)
def _alternating(outcomes: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Return 0, undecided, 1, undecided, … as cells hold them."""
    # the smaller they are, the longer the cells stay in the processor's cache
    kind = next(kind for kind in (np.int8, np.int16, np.int64) if outcomes <= np.iinfo(kind).max + 1)
    answers: npt.NDArray[np.signedinteger[Any]] = np.full(2 * outcomes, _UNDECIDED_INDEX, dtype=kind)
    answers[::2] = np.arange(outcomes)
    answers.flags.writeable = False
    return answers


def _rounded_law(law: FiniteLaw, bits: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    guard = 24
    low, high = law.cumulative(bits + guard)
    return (
        np.array([bound >> guard for bound in low], dtype=np.int64),
        np.array([-(-bound >> guard) for bound in high], dtype=np.int64),
    )


def _refine(law: FiniteLaw, known: int, bits: int, source: Source) -> int:
    """Find the outcome whose stretch holds U, of which the first `bits` bits are `known`."""
    while bits < MAX_COMPARED_BITS:
        more = max(64, bits)
        known = (known << more) | int.from_bytes(read_exactly(source, more // 8), "big")
        bits += more
        low, high = _cumulative(law, bits)
        outcome = bisect_right(high, known, hi=len(high) - 1)
        if known < low[outcome]:  # P[K < outcome] <= U, and U < (known + 1) / 2^bits <= P[K <= outcome]
            return outcome
    raise broken_source()


@lru_cache(maxsize=16)
def _cumulative(law: FiniteLaw, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return law.cumulative(bits)
