"""What a column of an answer is in terms of the noise: exact, a weighted sum, a ratio of two, or something in a box.

Every form can say where its true values lie, all at once but for a tail: `ends`. It says so because of `events`, the
number of statements about noise per row, each wrong with at most the tail's probability. For a row at a level, divide
what may be missed by the number of its events (proofs/intervals.md, 6).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from sfumato.release.block_trees import JointMoments
from sfumato.release.intervals.measured_cells import Indices, MeasuredCells
from sfumato.release.intervals.noise_law import Floats, quantile_of_sum
from sfumato.release.intervals.ratio import (
    Flags,
    Possible,
    of_few,
    of_many,
    of_pair,
    of_reaches,
    of_two,
    ratio_interval,
)

Ends = tuple[Floats, Floats]
Events = Mapping[object, Indices]
"""Statements about noise, by what they are about, with how many of them each row needs."""
Nulls = tuple[Flags, Flags]
"""Where a value may be NULL, and where it surely is; of such rows the ends mean nothing."""
NEVER = Fraction(0)
"""The tail at which ends are what the truth can be, whatever the data and the noise."""
_LARGEST_FLOAT = float(np.finfo(np.float64).max)
_DENSE = 8
"""Maximum number of noisy integers per row that are written out beside each other."""


def outward(ends: Ends) -> Ends:
    """Return ends that hold overflowed values: beyond all floats, but not infinite. An end that is no number is open.

    >>> [end.tolist() for end in outward((np.array([np.inf, np.nan]), np.array([np.inf, -np.inf])))]
    [[1.7976931348623157e+308, -inf], [inf, -1.7976931348623157e+308]]
    """
    low, high = ends
    return (
        np.minimum(np.where(np.isnan(low), -np.inf, low), _LARGEST_FLOAT),
        np.maximum(np.where(np.isnan(high), np.inf, high), -_LARGEST_FLOAT),
    )


class Number(Protocol):
    """A column of numbers, row by row."""

    @property
    def events(self) -> Events:
        """What `ends` rests on."""
        ...

    @property
    def null_events(self) -> Events:
        """What `nulls` rests on."""
        ...

    @property
    def has_no_interval(self) -> bool:
        """Whether something was computed of which nothing is known."""
        ...

    def ends(self, tail: Fraction) -> Ends:
        """Return where the true values lie, inside what they can be."""
        ...

    def nulls(self, tail: Fraction) -> Nulls:
        """Return where true values are NULL."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Numbers without noise; NaN is NULL."""

    values: Floats
    events: Events = field(default_factory=dict)
    null_events: Events = field(default_factory=dict)
    has_no_interval: bool = False

    def ends(self, tail: Fraction) -> Ends:
        known = np.nan_to_num(self.values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return outward((known, known))

    def nulls(self, tail: Fraction) -> Nulls:
        missing = np.isnan(self.values)
        return missing, missing


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """`constant` + the sum of weights times noisy integers: one entry per row and integer, in the order of rows.

    `absent` are the rows that are NULL, whatever the noise; None where there are none.
    """

    cells: MeasuredCells
    constant: Floats
    rows: Indices
    places: Indices
    weights: Floats
    has_no_interval: bool = False
    absent: Flags | None = None
    _known: dict[Fraction, Floats] = field(default_factory=dict)

    @property
    def events(self) -> Events:
        return {self: np.ones(len(self.constant), dtype=np.int64)}

    @property
    def null_events(self) -> Events:
        return {}

    @property
    def centre(self) -> Floats:
        """Return the sums as they were measured."""
        return self.constant + self.total(self.weights * self.cells.values[self.places])

    @property
    def addition(self) -> Floats:
        """Return what is shown beyond what was measured."""
        return self.total(self.weights * self.cells.additions(self.places))

    @property
    def reach(self) -> Ends:
        """Return what the true sums can be, whatever the data."""
        spans = np.array([self.cells.reach(kind) for kind in range(len(self.cells.measured))]).reshape(-1, 2)
        least, most = spans[self.cells.kinds[self.places]].T
        with np.errstate(invalid="ignore"):  # what weighs nothing adds nothing, however far it reaches
            one, other = (np.where(self.weights == 0, 0.0, self.weights * end) for end in (least, most))
        return self.constant + self.total(np.minimum(one, other)), self.constant + self.total(np.maximum(one, other))

    def total(self, parts: Floats) -> Floats:
        """Add up what each entry brings to its row."""
        return np.bincount(self.rows, weights=parts, minlength=len(self.constant)).astype(np.float64)

    def largest(self) -> Floats:
        """Return the largest weight of each row."""
        found = np.zeros(len(self.constant))
        np.maximum.at(found, self.rows, np.abs(self.weights))
        return found

    def margin(self, tail: Fraction) -> Floats:
        """Return how far each sum may be from the truth: exact for one integer, nearly exact for more."""
        if tail not in self._known:
            self._known[tail] = self._margin(tail)
        return self._known[tail]

    def _margin(self, tail: Fraction) -> Floats:
        size = len(self.constant)
        counts, estimated = np.bincount(self.rows, minlength=size), self.cells.are_estimated(self.places)
        apart = (self.rows[~estimated], self.places[~estimated], self.weights[~estimated])
        with np.errstate(over="ignore"):
            noises = apart[2] ** 2 * self.cells.variances[apart[1]]
            variance = np.bincount(apart[0], weights=noises, minlength=size).astype(np.float64)
            fourth = self.cells.fourth(*apart, size)
            if bool(estimated.any()):
                entries = (self.rows[estimated], self.places[estimated], self.weights[estimated])
                more = self.cells.estimated_moments(*entries, size)
                variance, fourth = variance + more[0], fourth + more[1]
        found = quantile_of_sum(variance, fourth, self.largest(), float(tail))
        alone = (counts[self.rows] == 1) & ~estimated
        found[counts == 0] = 0
        kinds = self.cells.kinds[self.places[alone]]
        found[self.rows[alone]] = np.abs(self.weights[alone]) * self.cells.margins(kinds, tail)
        return found

    def bar(self, tail: Fraction) -> Ends:
        """Return where each sum lies, whatever it can be.

        What was added to the sum lies inside: the bar is longer by it, so that it holds the sum without it.
        """
        (low, high), addition = self.measured_bar(tail), self.addition
        return low + np.minimum(addition, 0), high + np.maximum(addition, 0)

    def measured_bar(self, tail: Fraction) -> Ends:
        """Return where each sum lies without what was added: around the centre, but for cells near their threshold.

        There each true integer lies in its own interval, given that it was released. Proof: proofs/counted_keys.md
        """
        centre, margin = self.centre, self.margin(tail)
        low, high = centre - margin, centre + margin
        counts = np.bincount(self.rows, minlength=len(self.constant))
        near = self.near(tail)
        for count in np.unique(counts[near]).tolist():
            rows = near & (counts == count)
            entries = rows[self.rows]
            least, most = self.cells.bars(self.places[entries], tail / count)
            one, other = self.weights[entries] * least, self.weights[entries] * most
            places = self.rows[entries]
            for ends, parts in ((low, np.minimum(one, other)), (high, np.maximum(one, other))):
                total = np.bincount(places, weights=parts, minlength=len(ends))
                ends[rows] = self.constant[rows] + total[rows]
        return low, high

    @property
    def depends(self) -> Flags:
        """Return the rows that are sums over estimates of a large table, whose errors depend on each other."""
        found = np.zeros(len(self.constant), dtype=bool)
        found[self.rows[self.cells.are_estimated(self.places)]] = True
        return found

    def near(self, tail: Fraction) -> Flags:
        """Return the rows that depend on an integer near the threshold that released it."""
        found = np.zeros(len(self.constant), dtype=bool)
        found[self.rows[self.cells.near(self.places, tail)]] = True
        return found

    def ends(self, tail: Fraction) -> Ends:
        if tail == NEVER:
            return outward(self.reach)
        (low, high), (least, most) = self.bar(tail), self.reach
        return outward((np.clip(low, least, most), np.clip(high, least, most)))

    def nulls(self, tail: Fraction) -> Nulls:
        missing = np.zeros(len(self.constant), dtype=bool) if self.absent is None else self.absent
        return missing, missing


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """A weighted sum over another; NULL where the other, or one that it was divided by before, is not what it must be.

    `least` and `most` are what the ratio can be, whatever the data.
    """

    over: Affine
    under: Affine
    least: Floats
    most: Floats
    divisors: tuple[Affine, ...]
    has_no_interval: bool = False
    completed: bool = False
    """Whether what is shown divides sums with what was added to each: then both ends of each sum are tried."""
    _known: dict[Fraction, Ends] = field(default_factory=dict)

    @property
    def events(self) -> Events:
        return {self: np.ones(len(self.least), dtype=np.int64)}

    @property
    def null_events(self) -> Events:
        return merged([divisor.events for divisor in self.divisors])

    def ends(self, tail: Fraction) -> Ends:
        if tail == NEVER:
            return self.least, self.most
        if tail not in self._known:
            self._known[tail] = self._all_ends(tail)
        return self._known[tail]

    def _all_ends(self, tail: Fraction) -> Ends:
        """Return the possible ratios; where a part is near its threshold, the quotients of what the parts can be.

        So are they where something was added to a part, by itself: the ends of each part hold it with and without.
        """
        joint = self._joint_moments()
        low, high = self._ends(float(tail), joint)
        near = self.over.near(tail) | self.under.near(tail)
        if joint is None:
            near |= self.over.depends | self.under.depends
        if self.completed:
            near |= (self.over.addition != 0) | (self.under.addition != 0)
        if not near.any():
            return low, high
        over, under = self.over.ends(tail / 2), self.under.ends(tail / 2)
        with np.errstate(all="ignore"):
            corners = np.stack([one / other for one in over for other in under])
        known = under[0] > 0
        least, most = np.where(known, corners.min(axis=0), -np.inf), np.where(known, corners.max(axis=0), np.inf)
        within = np.clip(least, self.least, self.most), np.clip(most, self.least, self.most)
        return np.where(near, within[0], low), np.where(near, within[1], high)

    def _ends(self, tail: float, joint: JointMoments | None) -> Ends:
        over, under = self.over.centre, self.under.centre
        impossible = (under < 0) & (self.under.reach[0] >= 0)  # a count below 0 says nothing about its ratio
        under = np.where(impossible, 0, under)
        return ratio_interval(over, under, self._possible(over, under, tail, joint), (self.least, self.most))

    def _possible(self, over: Floats, under: Floats, tail: float, joint: JointMoments | None) -> Possible:
        """Choose by how many noisy integers a row has."""
        if joint is not None:
            largest = (self.over.largest(), self.under.largest())
            return of_many(over, under, lambda one, other: joint[one, other], largest, tail)
        cells, rows = self.over.cells, len(self.least)
        both = coalesced(
            np.concatenate([self.over.rows, self.under.rows]),
            np.concatenate([self.over.places, self.under.places]),
            np.vstack([_beside(self.over.weights, 0), _beside(self.under.weights, 1)]),
        )
        counts = np.bincount(both[0], minlength=rows)
        most = int(counts.max(initial=0))
        if most > _DENSE:
            return self._possible_of_many(both, over, under, tail)
        column = np.arange(len(both[0])) - np.repeat(np.cumsum(counts) - counts, counts)
        weights = np.zeros((2, rows, max(most, 1)))
        kinds = np.full((rows, max(most, 1)), -1)
        weights[:, both[0], column] = both[2].T
        kinds[both[0], column] = cells.kinds[both[1]]
        draws = np.full((rows, max(most, 1)), -1)
        draws[both[0], column] = cells.draws[both[1]]
        if most == 2 and bool((kinds == kinds[:1]).all()):
            one, other = cells.laws[int(kinds[0, 0])], cells.laws[int(kinds[0, 1])]
            if one is not None and other is not None:
                return of_two(over, under, (one, other), (weights[0], weights[1]), tail)
            if bool(((draws[:, 0] == draws[:, 1]) & (draws[:, 0] >= 0)).all()):
                if cells.coarse(int(kinds[0, 0])):
                    reaches = cells.margins(kinds[0], Fraction(tail) / 2)
                    return of_reaches(over, under, (reaches[0], reaches[1]), (weights[0], weights[1]))
                if (scales := cells.pair(kinds[0])) is not None:
                    return of_pair(over, under, scales, (weights[0], weights[1]), tail)
        moments = np.zeros((3, rows, max(most, 1)))
        for place, each in enumerate((cells.variances, cells.fourths, cells.shared)):
            moments[place][both[0], column] = each[both[1]]
        return of_few(over, under, (moments[0], moments[1], moments[2]), draws, (weights[0], weights[1]), tail)

    def _joint_moments(self) -> JointMoments | None:
        """Return the joint cumulants of both sums, if they are over cells that were measured in blocks; else None."""
        sums = [(part.rows, part.places, part.weights) for part in (self.over, self.under)]
        blocks = self.over.cells.blocks_of(np.concatenate([places for _, places, _ in sums]))
        if blocks is None:
            return None
        estimates, start = blocks
        one, other = ((rows, places - start, weights) for rows, places, weights in sums)
        return estimates.joint_moments(one, other, len(self.least))

    def _possible_of_many(
        self, both: tuple[Indices, Indices, Floats], over: Floats, under: Floats, tail: float
    ) -> Possible:
        rows, places, weights = both
        cells = self.over.cells
        a, b = weights.T
        # (p²A - 2pqB + q²C)², of every draw that the sums share noise of, brings so much to each product
        row, (aa, ab, bb) = cells.joined(rows, places, (a**2, a * b, b**2))
        shared = (aa**2, aa * ab, (2 * ab**2 + aa * bb) / 3, ab * bb, bb**2)

        def products(first: int, second: int) -> Floats:
            cumulants = (cells.variances if first + second == 2 else cells.fourths)[places]
            found = np.bincount(rows, weights=cumulants * a**first * b**second, minlength=len(over))
            if first + second == 4:
                found = found + np.bincount(row, weights=shared[second], minlength=len(over))
            return found.astype(np.float64)

        return of_many(over, under, products, (self.over.largest(), self.under.largest()), tail)

    def nulls(self, tail: Fraction) -> Nulls:
        maybe = np.zeros(len(self.least), dtype=bool)
        for divisor in self.divisors:
            low, high = divisor.ends(tail)
            maybe |= (low <= 0) & (high >= 0)
        return maybe, np.zeros_like(maybe)


@dataclass(frozen=True, slots=True, eq=False)
class EnclosedNumbers:
    """Numbers that follow from others: the ends from ends, by an extension that holds whatever lies inside."""

    events: Events
    null_events: Events
    find_ends: Callable[[Fraction], Ends]
    find_nulls: Callable[[Fraction], Nulls]
    has_no_interval: bool = False
    _ends: dict[Fraction, Ends] = field(default_factory=dict)
    _nulls: dict[Fraction, Nulls] = field(default_factory=dict)

    def ends(self, tail: Fraction) -> Ends:
        if tail not in self._ends:
            self._ends[tail] = self.find_ends(tail)
        return self._ends[tail]

    def nulls(self, tail: Fraction) -> Nulls:
        if tail not in self._nulls:
            self._nulls[tail] = self.find_nulls(tail)
        return self._nulls[tail]


@dataclass(frozen=True, slots=True)
class States:
    """Which truth values are possible, row by row."""

    true: Flags
    false: Flags
    null: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A column of truth values; without events the tail does not matter, and it is exact where one is possible."""

    events: Events
    find: Callable[[Fraction], States]
    has_no_interval: bool = False
    _known: dict[Fraction, States] = field(default_factory=dict)

    def states(self, tail: Fraction) -> States:
        """Return what is possible but for this tail."""
        if tail not in self._known:
            self._known[tail] = self.find(tail)
        return self._known[tail]


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A column that is neither: a text. Without noise it has a number for each different one, NaN for NULL."""

    rows: int
    has_no_interval: bool = False
    codes: Floats | None = None


NoiseForm = Exact | Affine | Ratio | EnclosedNumbers | Truth | Opaque


def merged(events: Sequence[Events]) -> dict[object, Indices]:
    """Put events together; the same statement counts once."""
    found: dict[object, Indices] = {}
    for several in events:
        for key, counts in several.items():
            found[key] = np.maximum(found[key], counts) if key in found else counts
    return found


def coalesced(rows: Indices, places: Indices, weights: Floats) -> tuple[Indices, Indices, Floats]:
    """Put entries in the order of rows, and add up those of the same row and place; weights are rows of numbers."""
    order = np.lexsort((places, rows))
    rows, places, weights = rows[order], places[order], weights[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (places[1:] != places[:-1])
    starts = np.flatnonzero(first)
    summed = np.add.reduceat(weights, starts, axis=0) if len(starts) else weights
    return rows[starts], places[starts], summed


def _beside(weights: Floats, column: int) -> Floats:
    found = np.zeros((len(weights), 2))
    found[:, column] = weights
    return found
