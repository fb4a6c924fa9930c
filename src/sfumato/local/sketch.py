"""Sketches: shares of items from a domain too large to list, from rows of hashed counters (Apple's CMS and HCMS)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between, exp_fraction
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.local.hashing import places
from sfumato.local.oracle import Coded, Wired
from sfumato.local.reading import (
    BLOCK_COINS,
    Integers,
    Octets,
    Reals,
    not_reports,
    octet_rows,
    one_report,
    read_bits,
    read_epsilon,
    read_integer,
    read_items,
    read_key,
    read_shares,
    read_value,
    require_listable,
    source_or_system,
)
from sfumato.local.tally import Tally, tally_of
from sfumato.local.walsh import parities, transform
from sfumato.local.wire import bits_of
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio, Probability, logistic
from sfumato.randomness.likelihood import as_fraction, divide_probability, power_ratio
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

_MAX_HASHES = 1 << 16
_MAX_WIDTH = 1 << 16


class Sketch(Protocol):
    """Rows of counters, each person in one of them."""

    @property
    def hashes(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def key(self) -> bytes: ...

    def checked(self, reports: object) -> Any: ...

    def counters(self, reports: Any) -> Integers: ...

    def sums(self, support: Integers) -> Reals:
        """Return for each row and place the unbiased sum over its reports of [the item fell there]."""

    def bit_variance(self, shares: Reals) -> Reals: ...


class SketchFrame(Wired):
    """Common part of both sketches. It holds no data of its own."""

    __slots__ = ()

    def tally(self: Sketch, reports: object) -> Tally:
        """Count the reports; tallies of parts add up."""
        rows = self.checked(reports)
        return Tally(self, self.counters(rows), len(rows))

    def estimate(self: Sketch, tally: Tally, items: object) -> Reals:
        """Return the shares of these items, unbiased over the draw of the hash family; they may leave [0, 1]."""
        counted, column = tally_of(self, tally), read_items(items)
        sums, total = self.sums(counted.support), np.zeros(len(column))
        for row in range(self.hashes):
            total += sums[row, places(self.key, self.hashes, self.width, np.array(row), column)]
        return self.width / (self.width - 1) * (total / counted.reports - 1 / self.width)

    def variance(self: Sketch, shares: object, reports: int) -> Reals:
        """Return the variances of the estimates, given the shares of all items that occur.

        Estimates of shares may be given as well: those outside 0 … 1 count as the nearest possible share.
        Over coins and hash families: the term of collisions, Σ f²/(hashes·width), does not shrink with more reports.
        """
        share, size = np.clip(read_shares(shares), 0, 1), integer(reports, "reports", 1)
        k, m = self.hashes, self.width
        others = (share**2).sum() - share**2
        collisions = (1 / m) * (1 - 1 / m) * (others / k + (1 - share) * (1 - 1 / k) / size)
        return np.asarray((m / (m - 1)) ** 2 * (self.bit_variance(share) / size + collisions), dtype=np.float64)


def _check_sketch(sketch: Any) -> None:
    read_epsilon(sketch)
    read_integer(sketch, "hashes", 1, _MAX_HASHES)
    read_integer(sketch, "width", 2, _MAX_WIDTH)
    read_key(sketch)
    if sketch.hashes * sketch.width > 1 << 26:
        raise BadParameter("The sketch is too large.", "At most 2^26 counters are kept.", "Use fewer hashes.")


@dataclass(frozen=True, slots=True)
class CountMeanSketch(SketchFrame):
    """Draw a row; send it with one bit per place, that of the hashed item 1, each flipped by chance 1/(1 + e^(ε/2)).

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased over the hash family, variances
    hold with the term of collisions.  [Apple 2017]  Proof: proofs/local_sketches.md

    A report is a row of octets: two for the row, then the packed bits.
    """

    epsilon: Fraction
    hashes: int
    width: int
    key: bytes = b""

    def __post_init__(self) -> None:
        _check_sketch(self)

    @property
    def flip(self) -> Probability:
        """The chance that a bit is flipped."""
        return logistic(self.epsilon / 2)

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def report_bits(self) -> int:
        """Two octets for the row, one bit per place."""
        return 16 + self.width

    def release(self, items: object, source: Source | None = None) -> Octets:
        """Return one row of octets per person. All coins are tossed for everybody."""
        column, coins = read_items(items), source_or_system(source)
        drawn = UniformInteger(self.hashes).draw(len(column), coins)
        place = places(self.key, self.hashes, self.width, drawn, column)
        reports = np.empty((len(column), 2 + self._octets), dtype=np.uint8)
        reports[:, 0], reports[:, 1] = drawn >> 8, drawn & 255
        step = max(1, BLOCK_COINS // self.width)
        for start in range(0, len(column), step):
            here = place[start : start + step]
            bits = Bernoulli(self.flip).draw(len(here) * self.width, coins).reshape(len(here), self.width)
            bits[np.arange(len(here)), here] ^= True
            reports[start : start + step, 2:] = np.packbits(bits, axis=1)
        return reports

    def counters(self, reports: Octets) -> Integers:
        """Count the ones of each place, row by row; the last column counts the reports of the row."""
        row = self._row(reports)
        counted = np.zeros((self.hashes, self.width + 1), dtype=np.int64)
        counted[:, -1] = np.bincount(row, minlength=self.hashes)
        order, step = np.argsort(row, kind="stable"), max(1, BLOCK_COINS // self.width)
        for start in range(0, len(order), step):
            here = order[start : start + step]
            first = np.flatnonzero(np.diff(row[here], prepend=-1))
            bits = np.unpackbits(reports[here, 2:], axis=1, count=self.width)
            counted[row[here][first], :-1] += np.add.reduceat(bits, first, axis=0, dtype=np.int64)
        return counted

    def sums(self, support: Integers) -> Reals:
        """Return for each row and place the unbiased sum over its reports of [the item fell there]."""
        flip = float(as_fraction(self.flip))
        return (support[:, :-1] - flip * support[:, -1:]) / (1 - 2 * flip)

    def bit_variance(self, shares: Reals) -> Reals:
        """Return e^(ε/2) / (e^(ε/2) - 1)²: what the coins do to one report."""
        factor = exp_fraction(self.epsilon / 2)
        return np.full(len(shares), float(factor / (factor - 1) ** 2))

    def likelihood(self, report: object, item: int, bits: int) -> Between:
        """Enclose P[report | item] * 2**bits: x^flips / (1 + x)^width over the rows, x = e^(-ε/2)."""
        sent = one_report(report, self.checked)
        row, digits = self._row(sent), read_bits(bits)
        shown = np.unpackbits(sent[0, 2:], count=self.width)
        held = places(self.key, self.hashes, self.width, row, np.array([read_value(item, 1 << 63, "item")]))[0]
        flips = int(shown.sum()) + 1 - 2 * int(shown[held])
        return power_ratio(self.epsilon / 2, flips, self.width, self.hashes, digits)

    def report_space(self) -> Octets:
        """List all possible reports, sorted."""
        count = require_listable(self.hashes << min(self.width, 64)) // self.hashes
        bits = np.packbits(bits_of(np.arange(count), self.width), axis=1)
        rows = np.repeat(np.arange(self.hashes), count)
        heads = np.column_stack([rows >> 8, rows & 255]).astype(np.uint8)
        return np.hstack([heads, np.tile(bits, (self.hashes, 1))])

    def checked(self, reports: object) -> Octets:
        """Return reports that `release` can have returned, or refuse them."""
        meaning = f"rows of {2 + self._octets} octets: the row, then one bit per place"
        rows = octet_rows(reports, 2 + self._octets, 16 + self.width, meaning)
        if len(rows) == 0 or int(self._row(rows).max()) < self.hashes:
            return rows
        raise not_reports(meaning)

    def as_bits(self, reports: Octets) -> Octets:
        """Return reports as rows of zeros and ones."""
        return np.unpackbits(reports, axis=1, count=self.report_bits)

    def from_bits(self, rows: Octets) -> Octets:
        """Return what `as_bits` was given, or refuse."""
        return self.checked(np.packbits(rows, axis=1))

    def _row(self, reports: Octets) -> Integers:
        return reports[:, 0].astype(np.int64) * 256 + reports[:, 1]

    @property
    def _octets(self) -> int:
        return -(-self.width // 8)


@dataclass(frozen=True, slots=True)
class HadamardSketch(SketchFrame, Coded):
    """Draw a row and a column of the Hadamard matrix; send them with one bit, true with probability e^ε / (e^ε + 1).

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased over the hash family, variances
    hold with the term of collisions.  [Apple 2017]  Proof: proofs/local_sketches.md

    A report is the integer 2·(row·width + column) + bit; the width is a power of two.
    """

    epsilon: Fraction
    hashes: int
    width: int
    key: bytes = b""

    def __post_init__(self) -> None:
        _check_sketch(self)
        if self.width & (self.width - 1):
            raise BadParameter(
                f"width = {quote_value(self.width)} is not a power of two.",
                "A Hadamard matrix is needed.",
                "Give 2, 4, 8, …",
            )

    @property
    def keep(self) -> ExpRatio:
        """The chance that the bit is true."""
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=1)

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def codes(self) -> tuple[int, int]:
        """A report is a row, a column and a bit."""
        return 0, 2 * self.hashes * self.width

    def release(self, items: object, source: Source | None = None) -> Integers:
        """Return one integer per person. All draws are made for everybody."""
        column, coins = read_items(items), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(column), coins)
        row, spot = (UniformInteger(below).draw(len(column), coins) for below in (self.hashes, self.width))
        place = places(self.key, self.hashes, self.width, row, column)
        return 2 * (row * self.width + spot) + (parities(spot & place) ^ ~kept)

    def counters(self, reports: Integers) -> Integers:
        """Return for each row and column the zeros less the ones."""
        counts = np.bincount(reports, minlength=self.codes[1]).reshape(self.hashes, self.width, 2)
        return counts[..., 0] - counts[..., 1]

    def sums(self, support: Integers) -> Reals:
        """Return for each row and place the unbiased sum over its reports of [the item fell there]."""
        factor = exp_fraction(self.epsilon)
        return np.asarray(transform(support) * float((factor + 1) / (factor - 1)), dtype=np.float64)

    def bit_variance(self, shares: Reals) -> Reals:
        """Return ((e^ε + 1)/(e^ε - 1))² less f + (1 - f)/width: what coins and columns do to one report."""
        factor = exp_fraction(self.epsilon)
        return float(((factor + 1) / (factor - 1)) ** 2) - shares - (1 - shares) / self.width

    def likelihood(self, report: object, item: int, bits: int) -> Between:
        """Enclose P[report | item] * 2**bits."""
        (sent,) = one_report(report, self.checked)
        row, spot = divmod(int(sent) >> 1, self.width)
        items = np.array([read_value(item, 1 << 63, "item")])
        held = int(places(self.key, self.hashes, self.width, np.array(row), items)[0])
        true, other = divide_probability(self.keep, self.hashes * self.width, self.hashes * self.width, read_bits(bits))
        return true if int(sent) & 1 == (spot & held).bit_count() & 1 else other
