"""Unary response: a person sends one bit per category, each of them noisy (optimised unary encoding)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between
from sfumato.local.oracle import OracleFrame, Rates
from sfumato.local.reading import (
    BLOCK_COINS,
    Integers,
    Octets,
    octet_rows,
    one_report,
    read_bits,
    read_categories,
    read_value,
    require_listable,
    source_or_system,
)
from sfumato.local.wire import bits_of
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, Probability, logistic
from sfumato.randomness.likelihood import as_fraction, power_ratio
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class UnaryResponse(OracleFrame):
    """Send d bits: the one of the true category is a fair coin, each other is 1 with probability 1 / (e^ε + 1).

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased, variances and intervals hold.
    Nearly least variance, long reports.  [Wang, Blocki, Li, Jha 2017]  Proof: proofs/local_oracles.md
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self)

    @property
    def flip(self) -> Probability:
        """The chance that the bit of another category is 1."""
        return logistic(self.epsilon)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        return Rates(Fraction(1, 2), as_fraction(self.flip))

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def report_bits(self) -> int:
        """One bit per category."""
        return self.categories

    def release(self, values: object, source: Source | None = None) -> Octets:
        """Return one row of packed bits per person. All coins are tossed for everybody."""
        true, coins = integer_column(values, 0, self.categories - 1, "categories"), source_or_system(source)
        fair = Bernoulli(Fraction(1, 2)).draw(len(true), coins)
        reports = np.empty((len(true), -(-self.categories // 8)), dtype=np.uint8)
        step = max(1, BLOCK_COINS // self.categories)
        for start in range(0, len(true), step):
            held = true[start : start + step]
            size = len(held) * self.categories
            bits = Bernoulli(self.flip).draw(size, coins).reshape(len(held), self.categories)
            bits[np.arange(len(held)), held] = fair[start : start + step]
            reports[start : start + step] = np.packbits(bits, axis=1)
        return reports

    def support(self, reports: Octets) -> Integers:
        """Count the ones of each category."""
        total = np.zeros(self.categories, dtype=np.int64)
        step = max(1, BLOCK_COINS // self.categories)
        for start in range(0, len(reports), step):
            total += self.as_bits(reports[start : start + step]).sum(axis=0, dtype=np.int64)
        return total

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits: half of x^ones / (1 + x)^(d - 1), x = e^-ε, `ones` of the others."""
        sent, true = self.as_bits(one_report(report, self.checked))[0], read_value(value, self.categories)
        ones = int(sent.sum()) - int(sent[true])
        return power_ratio(self.epsilon, ones, self.categories - 1, 2, read_bits(bits))

    def report_space(self) -> Octets:
        """List all possible reports, sorted."""
        count = require_listable(1 << min(self.categories, 64))
        return np.packbits(bits_of(np.arange(count), self.categories), axis=1)

    def checked(self, reports: object) -> Octets:
        """Return reports that `release` can have returned, or refuse them."""
        octets = -(-self.categories // 8)
        return octet_rows(reports, octets, self.categories, f"rows of {octets} octets, one bit per category")

    def as_bits(self, reports: Octets) -> Octets:
        """Return reports as rows of zeros and ones."""
        return np.unpackbits(reports, axis=1, count=self.categories)

    def from_bits(self, rows: Octets) -> Octets:
        """Return what `as_bits` was given."""
        return self.checked(np.packbits(rows, axis=1))
