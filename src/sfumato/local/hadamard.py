"""Hadamard response: a person sends one noisy bit of a row that coins chose."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between
from sfumato.local.oracle import Coded, OracleFrame, Rates
from sfumato.local.reading import Integers, one_report, read_bits, read_categories, read_value, source_or_system
from sfumato.local.walsh import parities, transform
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.likelihood import as_fraction, divide_probability
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger


@dataclass(frozen=True, slots=True)
class HadamardResponse(OracleFrame, Coded):
    """Draw a row r of the Hadamard matrix; send it with the bit of column v + 1, true with probability e^ε / (e^ε + 1).

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased, variances and intervals hold.
    A report is 2r + bit. Good for epsilon up to 1.  [Acharya, Sun, Zhang 2019]  Proof: proofs/local_oracles.md
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self)

    @property
    def rows(self) -> int:
        """Rows of the matrix: a power of two above the number of categories; column 0 carries no information."""
        return 1 << self.categories.bit_length()

    @property
    def keep(self) -> ExpRatio:
        """The chance that the bit is true."""
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=1)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        return Rates(as_fraction(self.keep), Fraction(1, 2))

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def codes(self) -> tuple[int, int]:
        """A report is a row and a bit."""
        return 0, 2 * self.rows

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one report per person: twice the row, plus the bit."""
        true, coins = integer_column(values, 0, self.categories - 1, "categories"), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(true), coins)
        row = UniformInteger(self.rows).draw(len(true), coins)
        return 2 * row + (parities(row & (true + 1)) ^ ~kept)

    def support(self, reports: Integers) -> Integers:
        """Count the reports whose bit is the one of each value, by one fast transform."""
        counts = np.bincount(reports, minlength=2 * self.rows).reshape(self.rows, 2)
        agree = transform(counts[:, 0] - counts[:, 1])[1 : self.categories + 1]
        return (len(reports) + agree) // 2

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        (sent,) = one_report(report, self.checked)
        true, false_bounds = divide_probability(self.keep, self.rows, self.rows, read_bits(bits))
        column = read_value(value, self.categories) + 1
        return true if int(sent) & 1 == (int(sent) >> 1 & column).bit_count() & 1 else false_bounds
