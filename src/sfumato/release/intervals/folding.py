"""Aggregates over noisy rows: sums of sums stay sums, everything else follows from the ends of all its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import AggregateItem
from sfumato.query.functions import DEVIATIONS, SAMPLES, Aggregation
from sfumato.release.intervals.extension import is_exact, rounded, unknown
from sfumato.release.intervals.form_algebra import as_affine, folded_sum
from sfumato.release.intervals.forms import (
    Affine,
    EnclosedNumbers,
    Ends,
    Events,
    Exact,
    NoiseForm,
    Nulls,
    Number,
    Opaque,
    States,
    Truth,
    merged,
)
from sfumato.release.intervals.measured_cells import Indices, MeasuredCells
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.intervals.ratio import Flags


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """The rows of a fold: the group of each, how many groups there are, and what decides whether a row is there."""

    label: str
    groups: Indices
    size: int
    conditions: tuple[Truth, ...]
    """A row is there where all are true; a row for which this is unknown is possibly there."""

    def count(self, flags: Flags) -> Floats:
        """Count rows, group by group."""
        return np.bincount(self.groups, weights=flags.astype(np.float64), minlength=self.size).astype(np.float64)

    def total(self, values: Floats) -> Floats:
        """Add up rows, group by group."""
        return np.bincount(self.groups, weights=values, minlength=self.size).astype(np.float64)

    def extreme(self, function: np.ufunc, values: Floats, start: float) -> Floats:
        """Return the least or greatest, group by group."""
        found = np.full(self.size, start)
        function.at(found, self.groups, values)
        return found

    def events(self, events: Sequence[Events]) -> Events:
        """Return the events of a group: those of all its rows."""
        return {
            (self.label, key): np.bincount(self.groups, weights=counts, minlength=self.size).astype(np.int64)
            for key, counts in merged(events).items()
        }


def folded(measure: AggregateItem, rows: FoldedRows, arguments: Sequence[NoiseForm], cells: MeasuredCells) -> NoiseForm:
    """Return an aggregate, a row per group."""
    if len(arguments) > 1 or measure.aggregate.function not in {Aggregation.COUNT, *_ENDS}:
        return unknown(measure.facts, rows.size)
    argument = arguments[0] if arguments else None
    counts, distinct = measure.aggregate.function is Aggregation.COUNT, measure.aggregate.distinct
    if isinstance(argument, Truth | Opaque):
        if not counts:
            return unknown(measure.facts, rows.size)
        argument = _countable(argument)
    if all(is_exact(condition) for condition in rows.conditions):
        found = _certain(measure, rows, argument, cells)
        if found is not None:
            return found
    events = [condition.events for condition in rows.conditions]
    events += [argument.null_events] if argument is not None else []
    present = _presence(rows, argument)
    open = any(condition.has_no_interval for condition in rows.conditions) or (
        argument is not None and argument.has_no_interval
    )
    if counts:
        always = np.zeros(rows.size, dtype=bool)
        return EnclosedNumbers(
            rows.events(events),
            {},
            _count_ends(rows, present, distinct),
            lambda _: (always, always),
            open,
        )
    if argument is None or (distinct and measure.aggregate.function is Aggregation.SUM):
        return unknown(measure.facts, rows.size)
    number = argument
    scale, find = _scale(measure), _ENDS[measure.aggregate.function]

    def ends(tail: Fraction) -> Ends:
        low, high = number.ends(tail)
        surely, maybe = present(tail)
        if distinct:  # which of the rows are equal is not known either
            surely = np.zeros_like(surely)
        least, most = (end * _unit(measure) for end in find(measure, rows, _Box(low, high, surely, maybe)))
        return (least, most) if scale is None else (rounded(least * scale), rounded(most * scale))

    def nulls(tail: Fraction) -> Nulls:
        surely, maybe = present(tail)
        fewest = 2 if measure.aggregate.function in SAMPLES else 1
        return rows.count(surely) < fewest, rows.count(maybe) < fewest

    of_nulls = rows.events(events)
    return EnclosedNumbers(merged([of_nulls, rows.events([number.events])]), of_nulls, ends, nulls, open)


def doubtful_rows(rows: FoldedRows) -> Truth:
    """Return whether each group is there at all: whether one of its rows is."""
    present = _presence(rows, None)

    def states(tail: Fraction) -> States:
        surely, maybe = present(tail)
        never = np.zeros(rows.size, dtype=bool)
        return States(rows.count(maybe) > 0, rows.count(surely) == 0, never)

    events = rows.events([condition.events for condition in rows.conditions])
    return Truth(events, states, any(condition.has_no_interval for condition in rows.conditions))


@dataclass(frozen=True, slots=True)
class _Box:
    low: Floats
    high: Floats
    surely: Flags
    maybe: Flags
    """Every row that is there surely is there maybe."""


def _presence(rows: FoldedRows, number: Number | None) -> Callable[[Fraction], tuple[Flags, Flags]]:
    def present(tail: Fraction) -> tuple[Flags, Flags]:
        surely, maybe = np.ones(len(rows.groups), dtype=bool), np.ones(len(rows.groups), dtype=bool)
        for condition in rows.conditions:
            states = condition.states(tail)
            surely, maybe = surely & ~states.false & ~states.null, maybe & states.true
        if number is not None:
            may_be_null, is_null = number.nulls(tail)
            surely, maybe = surely & ~may_be_null, maybe & ~is_null
        return surely & maybe, maybe

    return present


def _countable(form: Truth | Opaque) -> Exact | EnclosedNumbers:
    """Return truth values or texts as numbers that are NULL where they are: only that is counted."""
    if isinstance(form, Opaque) and form.codes is not None:
        return Exact(form.codes)
    if isinstance(form, Truth):

        def nulls(tail: Fraction) -> Nulls:
            states = form.states(tail)
            return states.null, states.null & ~states.true & ~states.false

        def ends(tail: Fraction) -> Ends:
            size = len(form.states(tail).null)
            return np.zeros(size), np.ones(size)

        return EnclosedNumbers(form.events, form.events, ends, nulls, form.has_no_interval)
    sure, maybe = np.zeros(form.rows, dtype=bool), np.ones(form.rows, dtype=bool)
    return EnclosedNumbers(
        {}, {}, lambda _: (np.zeros(form.rows), np.ones(form.rows)), lambda _: (maybe, sure), has_no_interval=True
    )


def _first_of_equals(values: Floats, groups: Indices, there: Flags) -> Flags:
    """Return for each different value of a group one of the rows that have it."""
    found = np.zeros(len(values), dtype=bool)
    order = np.lexsort((values, groups))[there[np.lexsort((values, groups))]]
    if len(order):
        new = np.ones(len(order), dtype=bool)
        new[1:] = (groups[order][1:] != groups[order][:-1]) | (values[order][1:] != values[order][:-1])
        found[order[new]] = True
    return found


def _certain(
    measure: AggregateItem, rows: FoldedRows, argument: NoiseForm | None, cells: MeasuredCells
) -> NoiseForm | None:
    """Return an aggregate whose rows are known, where it is a weighted sum of noise or has none."""
    there, _ = _presence(rows, None)(Fraction(1))
    if argument is None:
        return Exact(rows.count(there)) if measure.aggregate.function is Aggregation.COUNT else None
    if isinstance(argument, Exact):
        there = there & ~np.isnan(argument.values)
        argument = Exact(np.nan_to_num(argument.values, nan=0.0))
        if measure.aggregate.distinct:
            there = _first_of_equals(argument.values, rows.groups, there)
    elif measure.aggregate.distinct:
        return None
    elif isinstance(argument, Affine) and argument.absent is not None:
        there = there & ~argument.absent
        argument = replace(argument, absent=None, _known={})
    affine = as_affine(argument, cells)
    if affine is None:
        return None
    count = rows.count(there)
    match measure.aggregate.function:
        case Aggregation.COUNT:
            return Exact(count)
        case Aggregation.SUM | Aggregation.AVG if _scale(measure) is None:
            divisor = np.maximum(count, 1) if measure.aggregate.function is Aggregation.AVG else np.ones(rows.size)
            shares = _unit(measure) / divisor
            absent = None if (count > 0).all() else count == 0
            summed = folded_sum(affine, rows.groups, rows.size, there * shares[rows.groups], absent)
            if isinstance(argument, Exact):
                return Exact(summed.constant if absent is None else np.where(absent, np.nan, summed.constant))
            return summed
    return None


def _unit(measure: AggregateItem) -> float:
    """Return the factor of an average of steps where it is a double: the size of a step."""
    argument = measure.aggregate.argument
    steps = argument is not None and argument.facts.kind is Kind.INTEGER and measure.facts.kind is Kind.REAL
    return float(argument.facts.step) if argument is not None and steps else 1.0


def _scale(measure: AggregateItem) -> float | None:
    """Return the factor of an average before it is rounded to its own grid; None where nothing is rounded."""
    argument = measure.aggregate.argument
    averages = measure.aggregate.function is Aggregation.AVG and measure.facts.kind is Kind.INTEGER
    return float(argument.facts.step / measure.facts.step) if averages and argument is not None else None


def _count_ends(
    rows: FoldedRows, present: Callable[[Fraction], tuple[Flags, Flags]], distinct: bool
) -> Callable[[Fraction], Ends]:
    def ends(tail: Fraction) -> Ends:
        surely, maybe = present(tail)
        least = rows.count(surely)
        return (np.minimum(least, 1) if distinct else least), rows.count(maybe)

    return ends


def _sum(_: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    low = np.where(box.surely, box.low, np.where(box.maybe, np.minimum(box.low, 0), 0))
    high = np.where(box.surely, box.high, np.where(box.maybe, np.maximum(box.high, 0), 0))
    return rows.total(low), rows.total(high)


def _maximum(_: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    sure = rows.extreme(np.maximum, np.where(box.surely, box.low, -np.inf), -np.inf)
    least = rows.extreme(np.minimum, np.where(box.maybe, box.low, np.inf), np.inf)
    low = np.where(np.isneginf(sure) & np.isfinite(least), least, sure)
    return _filled(low, rows.extreme(np.maximum, np.where(box.maybe, box.high, -np.inf), -np.inf))


def _minimum(measure: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    low, high = _maximum(measure, rows, _Box(-box.high, -box.low, box.surely, box.maybe))
    return -high, -low


def _average(_: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    low = rows.extreme(np.minimum, np.where(box.maybe, box.low, np.inf), np.inf)
    high = rows.extreme(np.maximum, np.where(box.maybe, box.high, -np.inf), -np.inf)
    settled = rows.count(box.surely) == rows.count(box.maybe)
    count = np.maximum(rows.count(box.surely), 1)
    means = [rows.total(np.where(box.surely, side, 0)) / count for side in (box.low, box.high)]
    return _filled(np.where(settled, means[0], low), np.where(settled, means[1], high))


def _between(measure: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    """Return the ends of a quantile: between the least and the greatest of all."""
    return _minimum(measure, rows, box)[0], _maximum(measure, rows, box)[1]


def _spread(measure: AggregateItem, rows: FoldedRows, box: _Box) -> Ends:
    """Return the ends of a variance or deviation.

    The deviation is a seminorm: it differs from that of the middles by at most that of the distances to them. Where it
    is not known which rows there are, it lies between 0 and half the range (Popoviciu).
    """
    low, high = _average(measure, rows, _Box(box.low, box.high, np.zeros_like(box.surely), box.maybe))
    count = rows.count(box.maybe)
    less = 1 if measure.aggregate.function in SAMPLES else 0
    divisor = np.maximum(np.where(rows.count(box.surely) < count, 1 + less, count) - less, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        farthest = np.nan_to_num((high - low) / 2, nan=np.inf) * np.sqrt((divisor + less) / divisor)
        middle = np.where(box.maybe, (box.low + box.high) / 2, 0)
        width = np.where(box.maybe, (box.high - box.low) / 2, 0)
        mean = (rows.total(middle) / np.maximum(count, 1))[rows.groups]
        centre = np.sqrt(rows.total(np.where(box.maybe, (middle - mean) ** 2, 0)) / divisor)
        away = np.sqrt(rows.total(width**2) / divisor)
        settled = (rows.count(box.surely) == count) & np.isfinite(centre) & np.isfinite(away)
        least = np.where(settled, np.maximum(centre - away, 0), 0)
        most = np.where(settled, np.minimum(centre + away, farthest), farthest)
        return (least, most) if measure.aggregate.function in DEVIATIONS else (least**2, most**2)


def _filled(low: Floats, high: Floats) -> Ends:
    """Give groups without a row ends that mean nothing: they are NULL."""
    nothing = low > high
    return np.where(nothing, 0, low), np.where(nothing, 0, high)


_ENDS: dict[Aggregation, Callable[[AggregateItem, FoldedRows, _Box], Ends]] = {
    Aggregation.SUM: _sum,
    Aggregation.AVG: _average,
    Aggregation.MIN: _minimum,
    Aggregation.MAX: _maximum,
    Aggregation.VAR_POP: _spread,
    Aggregation.VAR_SAMP: _spread,
    Aggregation.STDDEV_POP: _spread,
    Aggregation.STDDEV_SAMP: _spread,
    Aggregation.QUANTILE_CONT: _between,
    Aggregation.QUANTILE_DISC: _between,
    Aggregation.APPROX_QUANTILE: _between,
}
