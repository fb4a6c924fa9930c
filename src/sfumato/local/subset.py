"""Subset response: a person sends k of the d categories, the true one among them with a known chance."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from math import comb

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between, exp_minus_bounds
from sfumato.local.oracle import OracleFrame, Rates
from sfumato.local.reading import (
    BLOCK_COINS,
    Integers,
    Octets,
    not_reports,
    octet_rows,
    one_report,
    read_bits,
    read_categories,
    read_value,
    require_listable,
    source_or_system,
)
from sfumato.local.wire import bits_of, numbers_of
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.likelihood import as_fraction, divide_probability
from sfumato.randomness.source import Source, read_exactly
from sfumato.randomness.uniform import UniformInteger

MAX_SUBSET_CATEGORIES = 2**16
"""A person draws a key for each of them, and likelihoods count their subsets."""


@dataclass(frozen=True, slots=True)
class SubsetResponse(OracleFrame):
    """Send k categories: the true one and others with probability k·e^ε / (k·e^ε + d - k), else k others, uniformly.

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased, variances and intervals hold.
    The least variance of all, long reports.  [Ye, Barg 2018]  Proof: proofs/local_oracles.md

    A report is a row of packed bits, one per category, k of them 1; k is d / (e^ε + 1), rounded.
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self, MAX_SUBSET_CATEGORIES)

    @property
    def size(self) -> int:
        """How many categories a report names."""
        return _best_subset_size(self.epsilon, self.categories)

    @property
    def keep(self) -> ExpRatio:
        """The chance that the true category is among those sent."""
        return ExpRatio(self.epsilon, self.size, 0, self.size, self.categories - self.size)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        hit, size = as_fraction(self.keep), self.size
        return Rates(hit, (hit * (size - 1) + (1 - hit) * size) / (self.categories - 1))

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def report_bits(self) -> int:
        """The names of k categories, or one bit for each of the d, whichever is shorter."""
        return min(self.categories, self.size * self._name_bits)

    def release(self, values: object, source: Source | None = None) -> Octets:
        """Return one row of packed bits per person, k of them 1. All draws are made for everybody."""
        true, coins = integer_column(values, 0, self.categories - 1, "categories"), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(true), coins)
        reports = np.empty((len(true), self._octets), dtype=np.uint8)
        step = max(1, BLOCK_COINS // (4 * self.categories))
        for start in range(0, len(true), step):
            here = slice(start, start + step)
            reports[here] = np.packbits(self._draw_subsets(true[here], kept[here], coins), axis=1)
        return reports

    def _draw_subsets(self, true: Integers, kept: npt.NDArray[np.bool_], source: Source) -> npt.NDArray[np.bool_]:
        """Choose the k - 1 or k others with the least random keys, and the true one if it is kept.

        Rows in which keys tie at either border are drawn again by another exact way. Whether they do depends on the
        keys alone, not on the true category nor on whether it is kept. Proof: proofs/local_oracles.md §5
        """
        people, others = np.arange(len(true)), self.categories - 1
        words = np.dtype("<u2" if self.categories <= 4096 else "<u4")
        drawn = read_exactly(source, words.itemsize * len(true) * others)
        keys = np.empty((len(true), self.categories), dtype=np.uint32)
        keys[:, :others] = np.frombuffer(drawn, dtype=words).reshape(len(true), others) >> 1
        # the ends of the three stretches: without a key, with k - 1 and with k
        ordered = np.sort(keys[:, :others], axis=1)
        borders = np.zeros((len(true), 2), dtype=np.int64)
        borders[:, 0] = ordered[:, self.size - 2] if self.size > 1 else -1
        borders[:, 1] = ordered[:, self.size - 1]
        after = ordered[:, self.size] if self.size < others else np.full(len(true), 1 << 31)
        tied = (borders[:, 0] == borders[:, 1]) | (borders[:, 1] == after)
        keys[:, others] = keys[people, np.minimum(true, others - 1)]  # the key of the true one belongs to the last
        chosen: npt.NDArray[np.bool_] = keys <= np.where(kept, borders[:, 0], borders[:, 1])[:, np.newaxis]
        chosen[people, true] = kept
        chosen[tied] = self._draw_by_shuffle(true[tied], kept[tied], source)
        return chosen

    def _draw_by_shuffle(self, true: Integers, kept: npt.NDArray[np.bool_], source: Source) -> npt.NDArray[np.bool_]:
        """Shuffle the others step by step and take the first k, or the true one and the first k - 1."""
        people = np.arange(len(true))
        order = np.tile(np.arange(self.categories - 1), (len(true), 1))
        for index in range(self.size):
            other = index + UniformInteger(self.categories - 1 - index).draw(len(true), source)
            order[people, index], order[people, other] = order[people, other], order[people, index]
        rows = order[:, : self.size]
        rows = rows + (rows >= true[:, np.newaxis])
        rows[kept, self.size - 1] = true[kept]
        chosen = np.zeros((len(true), self.categories), dtype=np.bool_)
        np.put_along_axis(chosen, rows, True, axis=1)
        return chosen

    def support(self, reports: Octets) -> Integers:
        """Count the reports that name each category."""
        total = np.zeros(self.categories, dtype=np.int64)
        step = max(1, BLOCK_COINS // self.categories)
        for start in range(0, len(reports), step):
            total += self._unpack_bits(reports[start : start + step]).sum(axis=0, dtype=np.int64)
        return total

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        sent, d, k = self._unpack_bits(one_report(report, self.checked))[0], self.categories, self.size
        true, false_bounds = divide_probability(self.keep, comb(d - 1, k - 1), comb(d - 1, k), read_bits(bits))
        return true if sent[read_value(value, d)] else false_bounds

    def report_space(self) -> Octets:
        """List all possible reports, sorted."""
        named = self.categories if self.size == 1 else comb(self.categories, 2)  # at most all, and quickly known
        count = comb(self.categories, self.size) if require_listable(named) else 0
        require_listable(count)
        rows_of = chain.from_iterable(combinations(range(self.categories), self.size))
        rows = np.zeros((count, self.categories), dtype=np.uint8)
        places = np.fromiter(rows_of, dtype=np.int64, count=count * self.size).reshape(count, self.size)
        np.put_along_axis(rows, places, 1, axis=1)
        return np.packbits(rows, axis=1)[::-1]  # the combinations come with the highest bits first

    def checked(self, reports: object) -> Octets:
        """Return reports that `release` can have returned, or refuse them."""
        meaning = f"rows of {self._octets} octets, one bit per category, {self.size} of them 1"
        rows = octet_rows(reports, self._octets, self.categories, meaning)
        step = max(1, BLOCK_COINS // self.categories)
        for start in range(0, len(rows), step):
            if (self._unpack_bits(rows[start : start + step]).sum(axis=1, dtype=np.int64) != self.size).any():
                raise not_reports(meaning)
        return rows

    def as_bits(self, reports: Octets) -> Octets:
        """Return reports as rows of `report_bits` zeros and ones."""
        rows = self._unpack_bits(reports)
        if not self._unpack_names:
            return rows
        return bits_of(np.nonzero(rows)[1], self._name_bits).reshape(len(reports), self.report_bits)

    def from_bits(self, rows: Octets) -> Octets:
        """Return what `as_bits` was given, or refuse."""
        if not self._unpack_names:
            return self.checked(np.packbits(rows, axis=1))
        names = numbers_of(rows.reshape(-1, self._name_bits)).reshape(-1, self.size)
        if names.size and (int(names.max()) >= self.categories or (np.diff(names, axis=1) <= 0).any()):
            raise not_reports(f"{self.size} categories each, in rising order")
        chosen = np.zeros((len(names), self.categories), dtype=np.uint8)
        np.put_along_axis(chosen, names, 1, axis=1)
        return np.packbits(chosen, axis=1)

    def _unpack_bits(self, reports: Octets) -> Octets:
        return np.unpackbits(reports, axis=1, count=self.categories)

    @property
    def _octets(self) -> int:
        return -(-self.categories // 8)

    @property
    def _name_bits(self) -> int:
        return (self.categories - 1).bit_length()

    @property
    def _unpack_names(self) -> bool:
        return self.size * self._name_bits < self.categories


@lru_cache(maxsize=1024)
def _best_subset_size(epsilon: Fraction, categories: int) -> int:
    """Return d / (e^ε + 1) = d·x / (1 + x) to the nearest integer, at least 1."""
    bits = 64 + 2 * int(epsilon)
    while True:
        one = 1 << bits
        near = {(2 * categories * x + one + x) // (2 * (one + x)) for x in exp_minus_bounds(epsilon, bits)}
        if len(near) == 1:
            return max(1, near.pop())
        bits *= 2  # ends: e^-ε is irrational
