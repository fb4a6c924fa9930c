"""How often a Poisson sample is cut, and how often a unit is kept then: enclosed binomial tails.

Proof: proofs/truncated_sampling.md
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from sfumato.accounting.binomial import log_factorial
from sfumato.accounting.event import TruncatedPoissonSampled
from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, lower, refine, upper

_NEGLIGIBLE_SHARE = Fraction(1, 10**45)  # of a tail: its terms beyond are bounded, not added


@dataclass(frozen=True, slots=True)
class Truncation:
    """Bounds on τ, the probability that other units alone fill the sample, and on a unit's rate in that case."""

    least: Fraction
    most: Fraction
    least_rate: Fraction
    most_rate: Fraction

    def min_inclusion_rate(self, rate: Fraction) -> Fraction:
        """Return a lower bound on the probability that a unit is in the cut sample."""
        return (1 - self.most) * rate + self.least * self.least_rate


@remembered(1024)
def truncation(event: TruncatedPoissonSampled) -> Truncation:
    """Enclose τ = P[Bin(n-1, q) ≥ B], and (B/n)·P[Bin(n, q) > B]/τ: what is drawn if the sample is cut."""
    others, limit, rate = event.units - 1, event.limit, event.rate
    if limit > others:
        return Truncation(Fraction(0), Fraction(0), Fraction(0), Fraction(0))
    if rate == 1:
        kept = Fraction(limit, event.units)
        return Truncation(Fraction(1), Fraction(1), kept, kept)
    full = refine(lambda digits: _tail(others, limit, rate, digits))
    kept_there = refine(
        lambda digits: (
            _tail(event.units, limit + 1, rate, digits)
            * Fraction(limit, event.units)
            / _tail(others, limit, rate, digits)
        )
    )
    return Truncation(
        max(Fraction(0), Fraction(lower(full))),
        min(Fraction(1), Fraction(upper(full))),
        max(Fraction(0), Fraction(lower(kept_there))),
        min(rate, Fraction(upper(kept_there))),  # truncation keeps no person more often
    )


def _tail(trials: int, first: int, rate: Fraction, digits: int) -> Enclosure:
    """Enclose P[Bin(trials, rate) ≥ first] for 0 < rate < 1: the shorter tail is added up."""
    if first > trials:
        return enclose(0, digits)
    mean = floor(trials * rate)
    if first > mean:
        return _add_binomial_tail(trials, first, rate / (1 - rate), rate, digits)
    return -_add_binomial_tail(trials, trials - first + 1, (1 - rate) / rate, 1 - rate, digits) + 1


def _add_binomial_tail(trials: int, first: int, odds: Fraction, rate: Fraction, digits: int) -> Enclosure:
    """Add C(m,k) r^k (1-r)^(m-k) for k ≥ first; once the ratio of neighbours is below 1 it only falls."""
    logs = log_factorial(trials, digits) - log_factorial(first, digits) - log_factorial(trials - first, digits)
    term = (logs + enclose(rate, digits).ln() * first + enclose(1 - rate, digits).ln() * (trials - first)).exp()
    total = term
    for k in range(first, trials):
        ratio = odds * Fraction(trials - k, k + 1)
        if ratio < 1:
            rest = term * (ratio / (1 - ratio))
            if (rest - total * _NEGLIGIBLE_SHARE).high <= 0:
                return total + Enclosure(enclose(0, digits).low, rest.high, digits)
        term = term * ratio
        total = total + term
    return total
