"""Direct response: a person names the true category with a known chance, else another one."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours, RandomizedResponse
from sfumato.certified.binary import Between
from sfumato.local.oracle import Coded, OracleFrame, Rates
from sfumato.local.reading import Integers, one_report, read_bits, read_categories, read_value, source_or_system
from sfumato.mechanisms.columns import integer_column
from sfumato.mechanisms.k_ary_response import KAryResponse
from sfumato.randomness.bernoulli import ExpRatio
from sfumato.randomness.likelihood import as_fraction, divide_probability
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class DirectResponse(OracleFrame, Coded):
    """Report the true category with probability e^ε / (e^ε + d - 1), else one of the others uniformly.

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased, variances and intervals hold.
    Best for few categories.  [Kairouz, Oh, Viswanath 2015]  Proof: proofs/local_oracles.md
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self)

    @property
    def keep(self) -> ExpRatio:
        """The chance of a true report."""
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=self.categories - 1)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        hit = as_fraction(self.keep)
        return Rates(hit, (1 - hit) / (self.categories - 1))

    @property
    def event(self) -> RandomizedResponse:
        """The privacy loss of one report, for the person who gives it."""
        return RandomizedResponse(self.epsilon, self.categories, Neighbours.REPLACE)

    @property
    def codes(self) -> tuple[int, int]:
        """A report is a category."""
        return 0, self.categories

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one category per person. Both draws are made for everybody."""
        true = integer_column(values, 0, self.categories - 1, "categories")
        return KAryResponse(self.epsilon, self.categories).release(true, source_or_system(source))

    def support(self, reports: Integers) -> Integers:
        """Count the reports that name each category."""
        return np.bincount(reports, minlength=self.categories)

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        (named,) = one_report(report, self.checked)
        true, false_bounds = divide_probability(self.keep, 1, self.categories - 1, read_bits(bits))
        return true if named == read_value(value, self.categories) else false_bounds
