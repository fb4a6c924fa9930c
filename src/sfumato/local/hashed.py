"""Hashed response: each person draws a hash function of few buckets, and sends it with a noisy bucket."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between, exp_rounded
from sfumato.errors import BadParameter
from sfumato.local.hashing import PRIME, bucket, line
from sfumato.local.oracle import OracleFrame, Rates
from sfumato.local.reading import (
    BLOCK_COINS,
    Integers,
    Octets,
    integer_rows,
    not_reports,
    one_report,
    read_bits,
    read_categories,
    read_value,
    source_or_system,
)
from sfumato.local.wire import bits_of, numbers_of
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.likelihood import as_fraction, divide_probability
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

_MAX_BUCKETS = 1 << 16
_HASH_BITS = 61


@dataclass(frozen=True, slots=True)
class HashedResponse(OracleFrame):
    """Draw h(v) = ⌊((av + b) mod P)·g/P⌋; send a, b and h(v) with probability e^ε / (e^ε + g - 1), else another bucket.

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased up to g/P < 2^-45, variances
    and intervals hold. For values that cannot be listed.  [Wang, Blocki, Li, Jha 2017]  Proof: proofs/local_oracles.md

    A report is the row (a, b, bucket); g is e^ε rounded, plus 1, and at most 65,536.
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self)

    @property
    def buckets(self) -> int:
        """The number of buckets g that errs least."""
        return _buckets(self.epsilon)

    @property
    def keep(self) -> ExpRatio:
        """The chance of the true bucket."""
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=self.buckets - 1)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        return Rates(as_fraction(self.keep), Fraction(1, self.buckets))

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def report_bits(self) -> int:
        """Two coefficients and a bucket."""
        return 2 * _HASH_BITS + self._bucket_bits

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one row (a, b, bucket) per person. All draws are made for everybody."""
        true, coins = integer_column(values, 0, self.categories - 1, "categories"), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(true), coins)
        slope, shift = (UniformInteger(PRIME).draw(len(true), coins) for _ in range(2))
        held = bucket(line(slope, shift, true), self.buckets)
        other = UniformInteger(self.buckets - 1).draw(len(true), coins)
        return np.column_stack([slope, shift, np.where(kept, held, other + (other >= held))])

    def support(self, reports: Integers) -> Integers:
        """Count for each value the reports whose bucket it hashes to: one addition per report and value."""
        total = np.zeros(self.categories, dtype=np.int64)
        step = BLOCK_COINS // 512  # a block of people stays in the processor's cache
        for start in range(0, len(reports), step):
            slope, place, sent = reports[start : start + step].T.copy()
            # the numbers of bucket y are those from ⌈yP/g⌉ to below ⌈(y + 1)P/g⌉
            first = _edges(self.buckets)[sent]
            width = (_edges(self.buckets)[sent + 1] - first).astype(np.uint64)
            for value in range(self.categories):
                total[value] += np.count_nonzero((place - first).view(np.uint64) < width)
                place = place + slope
                place -= PRIME * (place >= PRIME)
        return total

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        slope, shift, sent = one_report(report, self.checked)[0]
        held = bucket(line(slope[None], shift[None], np.array([read_value(value, self.categories)])), self.buckets)
        true, false_bounds = divide_probability(self.keep, PRIME**2, PRIME**2 * (self.buckets - 1), read_bits(bits))
        return true if sent == held[0] else false_bounds

    def report_space(self) -> NoReturn:
        """Refuse: there are more than 2^122 reports."""
        raise BadParameter(
            "There are too many possible reports to list.", "Each names its own hash.", "Use `likelihood`."
        )

    def checked(self, reports: object) -> Integers:
        """Return reports that `release` can have returned, or refuse them."""
        meaning = f"rows of two integers below 2^61 - 1 and a bucket below {self.buckets}"
        rows = integer_rows(reports, 3, meaning)
        if len(rows) == 0 or bool((rows < (PRIME, PRIME, self.buckets)).all()):
            return rows
        raise not_reports(meaning)

    def as_bits(self, reports: Integers) -> Octets:
        """Return reports as rows of `report_bits` zeros and ones."""
        widths = (_HASH_BITS, _HASH_BITS, self._bucket_bits)
        return np.hstack([bits_of(reports[:, index], width) for index, width in enumerate(widths)])

    def from_bits(self, rows: Octets) -> Integers:
        """Return what `as_bits` was given, or refuse."""
        parts = np.split(rows, [_HASH_BITS, 2 * _HASH_BITS], axis=1)
        return self.checked(np.column_stack([numbers_of(part) for part in parts]))

    @property
    def _bucket_bits(self) -> int:
        return (self.buckets - 1).bit_length()


@lru_cache(maxsize=1024)
def _buckets(epsilon: Fraction) -> int:
    return min(exp_rounded(1, epsilon) + 1, _MAX_BUCKETS) if epsilon < 12 else _MAX_BUCKETS


@lru_cache(maxsize=64)
def _edges(buckets: int) -> Integers:
    return np.array([-(-bucket * PRIME // buckets) for bucket in range(buckets + 1)], dtype=np.int64)
