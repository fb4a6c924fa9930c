"""Window functions over noisy rows: sums over frames that no noise decides stay sums, all others follow from ends.

Where the order of rows is exact, a value of another row has that row's form. Where noise decides about the order, or
about which rows there are, a rank counts the rows that surely and possibly come before. Proof: proofs/intervals.md, 8
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import SortKeys, WindowAggregate, WindowSpec, WindowValue
from sfumato.query.windows import PLACED, WindowFunction
from sfumato.release.decode import EngineValue
from sfumato.release.intervals.extension import is_exact, unknown
from sfumato.release.intervals.folding import FoldedRows, folded
from sfumato.release.intervals.form_algebra import chosen, gathered
from sfumato.release.intervals.forms import (
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
from sfumato.release.intervals.possible_rows import PossibleRows, unknown_form
from sfumato.release.intervals.ratio import Flags

_MAX_ROW_PAIRS = 2_000_000
"""Maximum pairs of rows that are evaluated; windows over more rows have no intervals."""


def window_form(value: WindowValue | WindowAggregate, rows: PossibleRows, cells: MeasuredCells) -> NoiseForm:
    """Return what a window function says of every row."""
    lost = unknown_form(value.facts, rows.joined.rows)
    partition = _codes_of(rows, value.around)
    if partition is None or _pairs(partition) > _MAX_ROW_PAIRS:
        return lost
    sorting = _sorting(rows, value.around.order)
    if sorting is None:
        return lost
    window = _Window(partition, sorting, value.around, rows)
    if window.settled:
        found = _exact_order(value, window, cells)
        return lost if found is None else found
    found = (
        _noisy_aggregate(value, window, cells) if isinstance(value, WindowAggregate) else _noisy_position(value, window)
    )
    return lost if found is None else found


@dataclass(frozen=True, slots=True)
class _Key:
    """One sort key: a number for each exact value, in its order; or a form with noise. Smaller comes first."""

    codes: Indices | None
    form: Number | None
    descending: bool


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows with their partition, their sort keys, and the conditions under which they are there."""

    partition: Indices
    keys: tuple[_Key, ...]
    around: WindowSpec
    rows: PossibleRows

    @property
    def size(self) -> int:
        return self.rows.joined.rows

    @property
    def settled(self) -> bool:
        """Whether no noise decides about the order, or about which rows there are."""
        ordered = all(key.codes is not None for key in self.keys)
        return ordered and all(is_exact(condition) for condition in self.rows.conditions)

    @property
    def there(self) -> Flags:
        """The rows that are there, where that is settled."""
        found = np.ones(self.size, dtype=bool)
        for condition in self.rows.conditions:
            found &= condition.states(Fraction(1)).true
        return found

    def presence(self, tail: Fraction) -> tuple[Flags, Flags]:
        """Return the rows that are surely there, and those that may be."""
        surely, maybe = np.ones(self.size, dtype=bool), np.ones(self.size, dtype=bool)
        for condition in self.rows.conditions:
            states = condition.states(tail)
            surely, maybe = surely & ~states.false & ~states.null, maybe & states.true
        return surely & maybe, maybe

    def events(self, forms: Sequence[Events]) -> Events:
        """Return the events of all rows of a row's partition."""
        count = int(self.partition.max(initial=-1)) + 1
        return {
            ("window", key): np.bincount(self.partition, weights=counts, minlength=count)[self.partition].astype(int)
            for key, counts in merged(forms).items()
        }

    def order_events(self) -> list[Events]:
        found = [condition.events for condition in self.rows.conditions]
        for key in self.keys:
            found += [] if key.form is None else [key.form.events, key.form.null_events]
        return found

    @property
    def open(self) -> bool:
        return any(condition.has_no_interval for condition in self.rows.conditions) or any(
            key.form is not None and key.form.has_no_interval for key in self.keys
        )

    def compared(self, one: Indices, other: Indices, tail: Fraction) -> tuple[Flags, Flags, Flags]:
        """Return for pairs of rows whether the first may come before the second, be equal to it, come behind it."""
        before, equal = np.zeros(len(one), dtype=bool), np.ones(len(one), dtype=bool)
        behind = np.zeros(len(one), dtype=bool)
        for key in self.keys:
            less, same, more = _possible(key, one, other, tail)
            before, behind, equal = before | (equal & less), behind | (equal & more), equal & same
        here = one == other
        return before & ~here, equal | here, behind & ~here

    def pairs(self) -> tuple[Indices, Indices]:
        """Return all pairs of rows of one partition."""
        order = np.argsort(self.partition, kind="stable")
        counts = np.bincount(self.partition)
        starts = np.cumsum(counts) - counts
        sizes = counts[self.partition]
        one = np.repeat(np.arange(self.size), sizes)
        within = np.arange(len(one)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return one, order[np.repeat(starts[self.partition], sizes) + within]


def _pairs(partition: Indices) -> int:
    return int((np.bincount(partition) ** 2).sum()) if len(partition) else 0


def _codes_of(rows: PossibleRows, around: WindowSpec) -> Indices | None:
    """Return the number of each row's partition; None where noise decides about it."""
    known = rows.exact(list(around.partition))
    if known is None:
        return None
    listed = list(zip(*rows.joined.exact_columns(known), strict=True)) if known else [()] * rows.joined.rows
    numbers: dict[tuple[EngineValue, ...], int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in listed], dtype=np.int64)


def _sorting(rows: PossibleRows, order: SortKeys) -> tuple[_Key, ...] | None:
    keys = []
    for scalar, descending, nulls_first in order:
        known = rows.exact([scalar])
        if known is not None:
            codes = _ranks(rows.joined.exact_columns(known)[0], descending, nulls_first)
            keys.append(_Key(codes, None, False))
            continue
        form = rows.form(scalar)
        if isinstance(form, Truth | Opaque):
            return None
        keys.append(_Key(None, form, descending))
    return tuple(keys)


def _ranks(values: Sequence[EngineValue], descending: bool, nulls_first: bool) -> Indices:
    """Return exact values as numbers in the order that they have; texts are ordered by their code points."""
    different = sorted({value for value in values if value is not None}, reverse=descending)
    ranks: dict[EngineValue, int] = {value: at for at, value in enumerate(different)}
    ranks[None] = -1 if nulls_first else len(different)
    return np.array([ranks[value] for value in values], dtype=np.int64)


def _possible(key: _Key, one: Indices, other: Indices, tail: Fraction) -> tuple[Flags, Flags, Flags]:
    if key.codes is not None or key.form is None:
        codes = np.zeros(0, dtype=np.int64) if key.codes is None else key.codes
        return codes[one] < codes[other], codes[one] == codes[other], codes[one] > codes[other]
    (low, high), (null, _) = key.form.ends(tail), key.form.nulls(tail)
    anything = null[one] | null[other]
    less, more = (low[one] < high[other]) | anything, (high[one] > low[other]) | anything
    same = ((low[one] <= high[other]) & (low[other] <= high[one])) | anything
    return (more, same, less) if key.descending else (less, same, more)


# ── the order is exact ──


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The rows of a partition in their order: where each row stands, and which rows are equal to it."""

    rows: Indices
    """The rows that are there, partition by partition, in order."""
    first: Indices
    """For each row where its partition begins in `rows`, and where it ends."""
    last: Indices
    at: Indices
    """Where it stands itself; -1 if it is not there."""
    equal_first: Indices
    equal_last: Indices


def _sorted(window: _Window) -> _Sorted:
    keys = [key.codes for key in window.keys if key.codes is not None]
    order = np.lexsort((*reversed(keys), window.partition)) if keys else np.argsort(window.partition, kind="stable")
    order = order[window.there[order]]
    columns = [window.partition[order], *(codes[order] for codes in keys)]
    new_part, new_key = _changes(columns[:1], len(order)), _changes(columns, len(order))
    spans = [_spans(new) for new in (new_part, new_key)]
    at = np.full(window.size, -1)
    at[order] = np.arange(len(order))
    (first, last), (equal_first, equal_last) = (
        tuple(_scattered(part, order, window.size) for part in span) for span in spans
    )
    return _Sorted(order, first, last, at, equal_first, equal_last)


def _changes(columns: Sequence[Indices], size: int) -> Flags:
    new = np.zeros(size, dtype=bool)
    new[:1] = True
    for values in columns:
        new[1:] |= values[1:] != values[:-1]
    return new


def _spans(new: Flags) -> tuple[Indices, Indices]:
    """Return for each place where its run begins and where it ends."""
    run = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(new)) - 1
    return starts[run], ends[run]


def _scattered(values: Indices, order: Indices, size: int) -> Indices:
    found = np.full(size, -1)
    found[order] = values
    return found


def _exact_order(value: WindowValue | WindowAggregate, window: _Window, cells: MeasuredCells) -> NoiseForm | None:
    ordered = _sorted(window)
    if isinstance(value, WindowAggregate):
        return _framed(value, window, ordered, cells)
    function, size = value.call.function, ordered.last - ordered.first + 1
    if function in PLACED or value.call.arguments:
        return _of_another(value, window, ordered, cells)
    number = ordered.at - ordered.first
    rank, count = ordered.equal_first - ordered.first, np.maximum(size, 1)
    match function:
        case WindowFunction.ROW_NUMBER:
            return Exact((number + 1).astype(float))
        case WindowFunction.RANK:
            return Exact((rank + 1).astype(float))
        case WindowFunction.DENSE_RANK:
            new = np.zeros(len(ordered.rows) + 1, dtype=int)
            new[ordered.equal_first[ordered.rows]] = 1
            runs = np.cumsum(new)
            return Exact((runs[ordered.at] - runs[ordered.first] + 1).astype(float))
        case WindowFunction.PERCENT_RANK:
            return Exact(rank / np.maximum(count - 1, 1))
        case WindowFunction.CUME_DIST:
            return Exact((ordered.equal_last - ordered.first + 1) / count)
    return Exact(_tile(number.astype(float), count, value.call.count))


def _tile(number: Floats, size: Indices, tiles: int) -> Floats:
    """Return the tile of a row from its number, from 0: the first tiles have one row more than the last."""
    each, more = size // tiles, size % tiles
    large = more * (each + 1)
    behind = more + np.floor((number - large) / np.maximum(each, 1))
    return np.asarray(np.where(number < large, np.floor(number / (each + 1)), behind) + 1)


def _ends_of(window: _Window, ordered: _Sorted) -> tuple[Indices, Indices] | None:
    """Return where the frame of each row begins and ends; None where it is measured along the sort key."""
    frame, found = window.around.frame, []
    for end, whole, equal in (
        (frame.start, ordered.first, ordered.equal_first),
        (frame.end, ordered.last, ordered.equal_last),
    ):
        if end is None:
            found.append(whole)
        elif frame.rows:
            found.append(ordered.at + int(end))
        elif end == 0:
            found.append(equal if window.keys else whole)
        else:
            return None
    return np.maximum(found[0], ordered.first), np.minimum(found[1], ordered.last)


def _along(window: _Window, ordered: _Sorted) -> tuple[Indices, Indices] | None:
    """Return the frames of a RANGE with distances: the key is one exact number."""
    scalar, descending, _ = window.around.order[0]
    known = window.rows.exact([scalar])
    values = [] if known is None else window.rows.joined.exact_columns(known)[0]
    if not values or any(value is None or isinstance(value, str) for value in values):
        return None
    numbers = np.array([-int(value) if descending else int(value) for value in values if value is not None])
    start, end = np.zeros(window.size, dtype=int), np.zeros(window.size, dtype=int)
    frame = window.around.frame
    for row in ordered.rows.tolist():
        first, last = int(ordered.first[row]), int(ordered.last[row])
        along = numbers[ordered.rows[first : last + 1]]
        low = 0 if frame.start is None else np.searchsorted(along, numbers[row] + int(frame.start), "left")
        high = len(along) if frame.end is None else np.searchsorted(along, numbers[row] + int(frame.end), "right")
        start[row], end[row] = first + int(low), first + int(high) - 1
    return start, end


def _framed(value: WindowAggregate, window: _Window, ordered: _Sorted, cells: MeasuredCells) -> NoiseForm | None:
    """Return an aggregate of the rows of each frame: it is folded as a group of these rows."""
    ends = _ends_of(window, ordered) or _along(window, ordered)
    if ends is None:
        return None
    counts = np.where(window.there, np.maximum(ends[1] - ends[0] + 1, 0), 0)
    if int(counts.sum()) > _MAX_ROW_PAIRS:
        return None
    groups = np.repeat(np.arange(window.size), counts)
    within = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    members = ordered.rows[np.repeat(ends[0], counts) + within] if len(groups) else groups
    return _aggregated(value, window, groups, members, (), cells)


def _aggregated(
    value: WindowAggregate,
    window: _Window,
    groups: Indices,
    members: Indices,
    conditions: tuple[Truth, ...],
    cells: MeasuredCells,
) -> NoiseForm:
    aggregate, rows = value.folded.aggregate, window.rows
    if aggregate.where is not None:
        where = gathered(rows.form(aggregate.where), members, "frame")
        if not isinstance(where, Truth):
            return unknown(value.facts, window.size)
        conditions = (*conditions, where)
    arguments = [_moved(rows.form(argument), members) for argument in aggregate.arguments]
    return folded(value.folded, FoldedRows("frame", groups, window.size, conditions), arguments, cells)


def _moved(form: NoiseForm, at: Indices) -> NoiseForm:
    if isinstance(form, Opaque) and form.codes is not None:
        return Opaque(len(at), form.has_no_interval, form.codes[at])
    return gathered(form, at, "frame")


def _of_another(value: WindowValue, window: _Window, ordered: _Sorted, cells: MeasuredCells) -> NoiseForm | None:
    """Return the form of another row: LAG, LEAD, and the first, last or n-th of a frame."""
    function = value.call.function
    if function in {WindowFunction.LAG, WindowFunction.LEAD}:
        step = value.call.count if function is WindowFunction.LEAD else -value.call.count
        at = ordered.at + step
        inside = (at >= ordered.first) & (at <= ordered.last)
    else:
        ends = _ends_of(window, ordered)
        if ends is None:
            return None
        at = ends[1] if function is WindowFunction.LAST_VALUE else ends[0]
        at = at + (value.call.count - 1 if function is WindowFunction.NTH_VALUE else 0)
        inside = (at >= ends[0]) & (at <= ends[1])
    inside &= ordered.at >= 0
    row = np.where(inside, ordered.rows[np.where(inside, at, 0)] if len(ordered.rows) else 0, -1)
    form = window.rows.form(value.call.arguments[0])
    if len(value.call.arguments) == 1:
        return gathered(form, row, "shifted")
    other = window.rows.form(value.call.arguments[1])
    return chosen([gathered(form, np.maximum(row, 0), "shifted"), other], (row < 0).astype(int), cells)


# ── noise decides about the order, or about which rows there are ──


def _noisy_aggregate(value: WindowAggregate, window: _Window, cells: MeasuredCells) -> NoiseForm | None:
    """Return an aggregate of rows that are possibly in the frame: of a whole partition, or of all rows so far."""
    frame = window.around.frame
    if not frame.whole and (frame.start is not None or frame.end != 0):
        return None
    groups, members = window.pairs()
    conditions = [gathered(condition, members, "member") for condition in window.rows.conditions]
    known = [condition for condition in conditions if isinstance(condition, Truth)]
    if not frame.whole and window.keys:
        known.append(_so_far(window, groups, members))
    return _aggregated(value, window, groups, members, tuple(known), cells)


def _so_far(window: _Window, groups: Indices, members: Indices) -> Truth:
    """Return whether a member comes before the row, or is equal to it."""
    tied = window.around.frame.rows  # then of equal rows only some come before

    def states(tail: Fraction) -> States:
        before, equal, behind = window.compared(members, groups, tail)
        here = members == groups
        true = before | equal
        false = (behind | (equal & ~here)) if tied else behind
        return States(true, false & ~here, np.zeros(len(groups), dtype=bool))

    events = merged(window.order_events())
    found: dict[object, Indices] = {("row", key): counts[groups] for key, counts in events.items()}
    found |= {("member", key): counts[members] for key, counts in events.items()}
    return Truth(found, states, window.open)


def _noisy_position(value: WindowValue, window: _Window) -> NoiseForm | None:
    if value.call.arguments:
        return _anywhere(value, window)
    events = window.events(window.order_events())
    never = np.zeros(window.size, dtype=bool)
    one, other = window.pairs()

    def ends(tail: Fraction) -> Ends:
        surely, maybe = window.presence(tail)
        before, equal, behind = window.compared(other, one, tail)
        here = one == other

        def count(flags: Flags) -> Floats:
            return np.bincount(one, weights=flags.astype(np.float64), minlength=window.size).astype(np.float64)

        certain = surely[other] & ~behind & ~equal & ~here
        possible = maybe[other] & before & ~here
        low, high = count(certain), count(possible)
        total = count(surely[other] | here), count(maybe[other] | here)
        tied = high + count(maybe[other] & equal & ~before & ~here)
        match value.call.function:
            case WindowFunction.RANK:
                return low + 1, high + 1
            case WindowFunction.DENSE_RANK:
                return np.minimum(low, 1) + 1, high + 1
            case WindowFunction.ROW_NUMBER:
                return low + 1, tied + 1
            case WindowFunction.NTILE:
                return _tiles(low, tied, total, value.call.count)
            case WindowFunction.PERCENT_RANK:
                return _shares(low, high, (total[0] - 1, total[1] - 1))
            case _:
                reached = count(surely[other] & ~behind & ~here) + 1
                return _shares(reached, tied + 1, total)

    return EnclosedNumbers(events, {}, ends, lambda _: (never, never), window.open)


def _tiles(low: Floats, high: Floats, total: Ends, tiles: int) -> Ends:
    known = total[0] == total[1]
    size = total[1].astype(np.int64)
    least = np.where(known, _tile(low, size, tiles), 1)
    return least, np.where(known, _tile(np.minimum(high, size - 1), size, tiles), np.minimum(tiles, total[1]))


def _shares(low: Floats, high: Floats, total: Ends) -> Ends:
    """Return the ends of a part of a whole, both of which are counts."""
    return low / np.maximum(total[1], 1), np.minimum(high / np.maximum(total[0], 1), 1)


def _anywhere(value: WindowValue, window: _Window) -> NoiseForm | None:
    """Return what may be the value of any row of the partition, or none."""
    forms = [window.rows.form(argument) for argument in value.call.arguments]
    numbers = [form for form in forms if not isinstance(form, Truth | Opaque)]
    if len(numbers) < len(forms) or value.facts.kind not in {Kind.INTEGER, Kind.REAL}:
        return None
    number, *defaults = numbers
    count = int(window.partition.max(initial=-1)) + 1

    def ends(tail: Fraction) -> Ends:
        (low, high), maybe = number.ends(tail), window.presence(tail)[1]
        least, most = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(least, window.partition, np.where(maybe, low, np.inf))
        np.maximum.at(most, window.partition, np.where(maybe, high, -np.inf))
        first, last = least[window.partition], most[window.partition]
        for default in defaults:
            first, last = np.minimum(first, default.ends(tail)[0]), np.maximum(last, default.ends(tail)[1])
        empty = first > last
        return np.where(empty, 0, first), np.where(empty, 0, last)

    def nulls(_: Fraction) -> Nulls:
        return np.ones(window.size, dtype=bool), np.zeros(window.size, dtype=bool)

    found = window.events([number.events, *window.order_events()])
    everything = merged([found, *(default.events for default in defaults)])
    return EnclosedNumbers(everything, {}, ends, nulls, window.open or any(form.has_no_interval for form in forms))
