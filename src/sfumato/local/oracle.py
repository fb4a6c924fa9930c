"""The frame of all frequency oracles: a report supports some values, and supports are counted.

For a holder of v a report supports v with probability `hit`, for anybody else with probability `false`. So the support
of v from n people, t of whom hold it, is Bin(t, hit) + Bin(n - t, false). Proof: proofs/local_oracles.md
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Event
from sfumato.certified.binary import Between
from sfumato.errors import BadParameter
from sfumato.local import wire
from sfumato.local.reading import Octets, Reals, not_reports, require_listable
from sfumato.local.tally import Tally, tally_of
from sfumato.mechanisms.columns import integer_column
from sfumato.mechanisms.response_count import Channel
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Rates:
    """The chance that a report supports a value, of a holder and of anybody else, to within 2^-128."""

    hit: Fraction
    false: Fraction

    def spread(self, share: Fraction | int = 0) -> Fraction:
        """Return n times the variance of a share's estimate, what the coins do; linear in the share."""
        held, other = self.hit * (1 - self.hit), self.false * (1 - self.false)
        return (share * held + (1 - share) * other) / (self.hit - self.false) ** 2

    @property
    def channel(self) -> Channel:
        """The same as floats, for intervals."""
        return Channel(float(self.hit), float(self.false))


class Oracle(Protocol):
    """A frequency oracle: people release reports, a server counts supports, shares come out with error bars."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report, for the person who gives it."""

    @property
    def categories(self) -> int:
        """How many values there are: 0 … categories - 1."""

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""

    @property
    def event(self) -> Event:
        """The event of one report."""

    @property
    def report_bits(self) -> int:
        """How many bits a report takes."""

    def release(self, values: object, source: Source | None = None) -> npt.NDArray[Any]:
        """Return one report per value."""

    def support(self, reports: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Count for each value the reports that support it."""

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""

    def report_space(self) -> npt.NDArray[Any]:
        """List all possible reports, sorted."""

    def checked(self, reports: object) -> npt.NDArray[Any]:
        """Return reports that `release` can have returned, or refuse them."""

    def as_bits(self, reports: npt.NDArray[Any]) -> Octets:
        """Return reports as rows of `report_bits` zeros and ones."""

    def from_bits(self, rows: Octets) -> npt.NDArray[Any]:
        """Return what `as_bits` was given, or refuse."""

    def tally(self, reports: object) -> Tally:
        """Count supports."""

    def estimate(self, tally: Tally) -> Reals:
        """Return unbiased shares."""

    def variance(self, tally: Tally) -> Reals:
        """Return unbiased estimates of the variances of the shares."""

    def intervals(self, tally: Tally, confidence: object) -> Reals:
        """Return bounds on each share."""

    def margin(self, confidence: object, reports: int) -> float:
        """Return a half-width that holds before any report is in."""

    def encode(self, reports: object) -> bytes:
        """Write reports as bytes."""

    def decode(self, message: object) -> npt.NDArray[Any]:
        """Read reports back."""


class _Written(Protocol):
    @property
    def report_bits(self) -> int: ...

    def checked(self, reports: object) -> npt.NDArray[Any]: ...

    def as_bits(self, reports: npt.NDArray[Any]) -> Octets: ...

    def from_bits(self, rows: Octets) -> npt.NDArray[Any]: ...


class Wired:
    """Byte encoding of reports, given their bit representation."""

    __slots__ = ()

    def encode(self: _Written, reports: object) -> bytes:
        """Write reports as bytes, `report_bits` each and a head of 32 bytes."""
        rows = self.checked(reports)
        return wire.write_reports(self, self.report_bits, len(rows), lambda start, stop: self.as_bits(rows[start:stop]))

    def decode(self: _Written, message: object) -> npt.NDArray[Any]:
        """Read what `encode` wrote for a mechanism equal to this one; anything else is refused."""
        return wire.read_reports(self, self.report_bits, message, self.from_bits)


class OracleFrame(Wired):
    """Common part of all oracles, given its rates and its support counts. It holds no data of its own."""

    __slots__ = ()

    @property
    def hit(self: Oracle) -> float:
        """The chance that a report supports the value that its person holds."""
        return float(self.rates.hit)

    @property
    def false(self: Oracle) -> float:
        """The chance that a report supports a value that its person does not hold."""
        return float(self.rates.false)

    def tally(self: Oracle, reports: object) -> Tally:
        """Count for each value the reports that support it; tallies of parts add up."""
        rows = self.checked(reports)
        return Tally(self, self.support(rows), len(rows))

    def estimate(self: Oracle, tally: Tally) -> Reals:
        """Return unbiased estimates of these people's shares; they may leave [0, 1]."""
        counted, rates = tally_of(self, tally), self.rates
        share = counted.support / counted.reports
        return np.asarray((share - float(rates.false)) / float(rates.hit - rates.false), dtype=np.float64)

    def variance(self: Oracle, tally: Tally) -> Reals:
        """Return unbiased estimates of what the coins give each share as variance."""
        rates, reports = self.rates, tally_of(self, tally).reports
        absent, present = float(rates.spread(0)), float(rates.spread(1))
        share = self.estimate(tally)
        return np.asarray((share * present + (1 - share) * absent) / reports, dtype=np.float64)

    def intervals(self: Oracle, tally: Tally, confidence: object) -> Reals:
        """Return bounds (low, high) on each share of these people, each covering it on its own at this level."""
        counted = tally_of(self, tally)
        return self.rates.channel.intervals(counted.support, counted.reports, confidence)

    def margin(self: Oracle, confidence: object, reports: int) -> float:
        """Return a half-width within which each estimate from n reports stays at this level, whatever the shares."""
        return self.rates.channel.margin(reports, confidence)


class _Coded(Protocol):
    @property
    def codes(self) -> tuple[int, int]: ...

    @property
    def report_bits(self) -> int: ...

    def checked(self, reports: object) -> npt.NDArray[np.int64]: ...


class Coded:
    """Common part of oracles whose report is one integer, from the first of `codes` to below the second."""

    __slots__ = ()

    @property
    def report_bits(self: _Coded) -> int:
        """How many bits a report takes."""
        return (self.codes[1] - 1).bit_length()

    def report_space(self: _Coded) -> npt.NDArray[np.int64]:
        """List all possible reports, sorted."""
        least, below = self.codes
        require_listable(below - least)
        return np.arange(least, below)

    def checked(self: _Coded, reports: object) -> npt.NDArray[np.int64]:
        """Return reports that `release` can have returned, or refuse them."""
        least, below = self.codes
        try:
            return integer_column(reports, least, below - 1, "reports")
        except BadParameter:
            raise not_reports(f"one integer each, from {least} to {below - 1}") from None

    def as_bits(self: _Coded, reports: npt.NDArray[np.int64]) -> Octets:
        """Return reports as rows of `report_bits` zeros and ones."""
        return wire.bits_of(reports, self.report_bits)

    def from_bits(self: _Coded, rows: Octets) -> npt.NDArray[np.int64]:
        """Return what `as_bits` was given, or refuse."""
        return self.checked(wire.numbers_of(rows))
