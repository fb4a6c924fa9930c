"""RAPPOR: a Bloom filter, blurred once and for ever, and blurred again for each report."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between, scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter
from sfumato.exact import rational
from sfumato.local.hashing import places
from sfumato.local.reading import (
    Reals,
    no_reports,
    not_reports,
    one_report,
    read_bits,
    read_integer,
    read_items,
    read_key,
    read_value,
    source_or_system,
)
from sfumato.mechanisms.columns import array_or_none
from sfumato.mechanisms.randomized_response import log_rounded_up
from sfumato.randomness.bernoulli import Bernoulli
from sfumato.randomness.source import Source

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rappor:
    """Set `hashes` of `bits` by the item; keep each with probability 1 - f, else a fair coin, once (`memo`).

    Each report then sends every bit of the memo as 1 with probability q if it is 1, and p if it is 0.
    Theorem: all reports ever made from one memo are together ε∞-DP under replace, e^ε∞ = ((2 - f)/f)^(2·hashes); one
    report alone is ε₁-DP. `event` charges ε∞, for each memo.  [Erlingsson, Pihur, Korolova 2014]
    Proof: proofs/rappor.md

    >>> Rappor(16, 2, "1/2", "1/2", "3/4").epsilon_forever
    Fraction(4394449154673, 1000000000000)
    """

    bits: int
    hashes: int
    f: Fraction
    p: Fraction
    q: Fraction
    key: bytes = b""

    def __post_init__(self) -> None:
        read_integer(self, "bits", 2, 1 << 16)
        read_integer(self, "hashes", 1, min(self.bits, 64))
        for name in ("f", "p", "q"):
            object.__setattr__(self, name, rational(getattr(self, name), name))
        read_key(self)
        if not (0 < self.f < 1 and 0 <= self.p < self.q <= 1):
            raise BadParameter(
                "f, p and q do not fit.",
                "f lies between 0 and 1; p is at least 0, below q, and q at most 1.",
                "Choose for example f = 1/2, p = 1/2, q = 3/4.",
            )
        if (int((2 - self.f) / self.f).bit_length() - 1) * 2 * self.hashes > 1442:  # e^1000 < 2^1443
            raise BadParameter(
                "f is too small.", "The loss of a lifetime would be above 1000.", "Choose a larger f, or fewer hashes."
            )

    @property
    def epsilon_forever(self) -> Fraction:
        """ε∞, for all reports ever made from one memo, rounded up."""
        return log_rounded_up(((2 - self.f) / self.f) ** (2 * self.hashes))

    @property
    def epsilon_once(self) -> Fraction:
        """ε₁, for one report alone, rounded up; at most ε∞."""
        high, low = self.q_star, self.p_star
        return log_rounded_up((high * (1 - low) / (low * (1 - high))) ** self.hashes)

    @property
    def event(self) -> Pure:
        """The privacy loss of one memo, for its person, for ever."""
        return Pure(self.epsilon_forever, Neighbours.REPLACE)

    @property
    def q_star(self) -> Fraction:
        """The chance that a report shows 1 where the Bloom filter has 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.q

    @property
    def p_star(self) -> Fraction:
        """The chance that a report shows 1 where the Bloom filter has 0."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.p

    def bloom(self, items: object) -> Flags:
        """Return the Bloom filter of each item: not private."""
        column = read_items(items)
        filters = np.zeros((len(column), self.bits), dtype=np.bool_)
        for row in range(self.hashes):
            place = places(self.key, self.hashes, self.bits, np.array(row), column)
            filters[np.arange(len(column)), place] = True
        return filters

    def memo(self, items: object, source: Source | None = None) -> Flags:
        """Return the blurred filter of each item: made once, kept on the device, never sent."""
        filters, coins = self.bloom(items), source_or_system(source)
        kept = Bernoulli(1 - self.f).draw(filters.size, coins).reshape(filters.shape)
        fair = Bernoulli(Fraction(1, 2)).draw(filters.size, coins).reshape(filters.shape)
        return np.where(kept, filters, fair)

    def release(self, memo: object, source: Source | None = None) -> Flags:
        """Return one report per memo. Both coins are tossed for every bit."""
        kept, coins = self.checked(memo), source_or_system(source)
        one = Bernoulli(self.q).draw(kept.size, coins).reshape(kept.shape)
        zero = Bernoulli(self.p).draw(kept.size, coins).reshape(kept.shape)
        return np.where(kept, one, zero)

    def set_bits(self, reports: object) -> Reals:
        """Return the unbiased share of people whose filter has each bit; it may leave [0, 1]."""
        rows = self.checked(reports)
        if len(rows) == 0:
            raise no_reports()
        low, high = float(self.p_star), float(self.q_star)
        return np.asarray((rows.mean(axis=0) - low) / (high - low), dtype=np.float64)

    def estimate(self, reports: object, candidates: object) -> tuple[Reals, Reals]:
        """Return the shares of candidate items and their standard errors, by least squares on the bits.

        Unbiased if everybody holds one of the candidates and their filters are linearly independent; else refused.
        """
        design = self.bloom(candidates).T.astype(np.float64)
        shares, size = self.set_bits(reports), len(self.checked(reports))
        if np.linalg.matrix_rank(design) < design.shape[1]:
            raise BadParameter(
                "These candidates cannot be distinguished.",
                "Their Bloom filters are not linearly independent: there are too many of them, or some fall together.",
                "Use fewer candidates or more bits.",
            )
        inverse = np.linalg.pinv(design)
        low, high = float(self.p_star), float(self.q_star)
        held = np.clip(shares, 0.0, 1.0)
        variances = (held * high * (1 - high) + (1 - held) * low * (1 - low)) / (size * (high - low) ** 2)
        return inverse @ shares, np.sqrt(inverse**2 @ variances)

    def likelihood(self, report: object, item: int, bits: int) -> Between:
        """Enclose P[one report | item] * 2**bits: a product of fractions."""
        sent = one_report(report, self.checked)[0]
        filled = self.bloom([read_value(item, 1 << 63, "item")])[0]
        return _enclose_likelihood(self.p_star, self.q_star, sent, filled, read_bits(bits))

    def memo_likelihood(self, memo: object, item: int, bits: int) -> Between:
        """Enclose P[memo | item] * 2**bits: what all reports ever made from it can tell."""
        kept = one_report(memo, self.checked)[0]
        filled = self.bloom([read_value(item, 1 << 63, "item")])[0]
        return _enclose_likelihood(self.f / 2, 1 - self.f / 2, kept, filled, read_bits(bits))

    def checked(self, reports: object) -> Flags:
        """Return rows of `bits` truth values, or refuse them."""
        array = array_or_none(reports)
        if array is not None and array.dtype == np.bool_ and array.shape[1:] == (self.bits,):
            return array
        raise not_reports(f"rows of {self.bits} truth values")


def _enclose_likelihood(zero: Fraction, one: Fraction, sent: Flags, filled: Flags, bits: int) -> Between:
    chance = Fraction(1)
    for bit, set_bit in zip(sent.tolist(), filled.tolist(), strict=True):
        shown = one if set_bit else zero
        chance *= shown if bit else 1 - shown
    return scaled_floor(chance, bits), scaled_ceiling(chance, bits)
