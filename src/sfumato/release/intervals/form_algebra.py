"""Arithmetic that stays a weighted sum of noise or a ratio of two: there the law of the error is known."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from typing import ParamSpec

import numpy as np

from sfumato.release.intervals.forms import (
    Affine,
    EnclosedNumbers,
    Ends,
    Events,
    Exact,
    NoiseForm,
    Nulls,
    Opaque,
    Ratio,
    States,
    Truth,
    coalesced,
)
from sfumato.release.intervals.measured_cells import Indices, MeasuredCells
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.intervals.ratio import Flags

_MOST_ENTRIES = 2_000_000
"""A sum of more entries than this is only taken for what its ends are: as many as windows have pairs of rows."""

Linear = Exact | Affine | Ratio
_Arguments = ParamSpec("_Arguments")


def _none_beyond_floats(make: Callable[_Arguments, Linear | None]) -> Callable[_Arguments, Linear | None]:
    """Return None for a sum or ratio that overflows: then its ends are those of the operator (`extension.boxed`)."""

    @wraps(make)
    def total(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> Linear | None:
        with np.errstate(all="ignore"):
            found = make(*arguments, **named)
            return found if found is None or _is_finite(found) else None

    return total


def _is_finite(form: Linear) -> bool:
    match form:
        case Exact(values):
            return not bool(np.isinf(values).any())
        case Affine():
            return bool(np.isfinite(form.constant).all() and np.isfinite(form.weights).all())
        case Ratio():
            return all(bool(_is_finite(part) and np.isfinite(part.centre).all()) for part in (form.over, form.under))


def sum_of(cells: MeasuredCells, label: str, weights: dict[str, float], rows: int) -> Affine:
    """Return a weighted sum of measurements of every cell of a group."""
    parts = [cells.entries(label, name, rows) for name in weights]
    each = [entries[2] * weight for entries, weight in zip(parts, weights.values(), strict=True)]
    listed = (np.concatenate([entries[0] for entries in parts]), np.concatenate([entries[1] for entries in parts]))
    return Affine(cells, np.zeros(rows), *coalesced(*listed, np.concatenate(each)))


@_none_beyond_floats
def added(one: NoiseForm, other: NoiseForm, sign: float = 1.0) -> Linear | None:
    """Return the sum, or with -1 the difference, as a sum or ratio; None where it is neither."""
    match one, other:
        case ((Exact() | Affine()), (Exact() | Affine())):
            if isinstance(one, Exact) and isinstance(other, Exact):
                return Exact(one.values + sign * other.values)
            cells = _cells(one, other)
            (first, gone), (second, lost) = _with_absent(one, cells), _with_absent(other, cells)
            absent = gone | lost
            return replace(_added(first, second, sign), absent=absent if absent.any() else None)
        case Ratio(), (Exact() | Affine()):
            shift = other.values if isinstance(other, Exact) else other.constant
            if (isinstance(other, Affine) and (len(other.rows) or other.absent is not None)) or np.isnan(shift).any():
                return None
            over = _added(one.over, _scaled(one.under, shift), sign)
            return replace(one, over=over, least=one.least + sign * shift, most=one.most + sign * shift, _known={})
        case ((Exact() | Affine()), Ratio()):
            turned = multiplied(other, Exact(np.full(len(other.least), sign)))
            return None if turned is None else added(turned, one)
        case Ratio(), Ratio() if same(one.under, other.under):
            ends = (other.least, other.most) if sign > 0 else (-other.most, -other.least)
            over = _added(one.over, other.over, sign)
            divisors = tuple(dict.fromkeys((*one.divisors, *other.divisors)))
            completed = one.completed or other.completed
            return Ratio(over, one.under, one.least + ends[0], one.most + ends[1], divisors, completed=completed)
    return None


@_none_beyond_floats
def multiplied(one: NoiseForm, other: NoiseForm) -> Linear | None:
    """Return the product where one of the two is exact."""
    if isinstance(one, Exact) and not isinstance(other, Exact):
        return multiplied(other, one)
    if not isinstance(other, Exact) or not isinstance(one, Exact | Affine | Ratio):
        return None
    factor = other.values
    match one:
        case Exact(values):
            return Exact(values * factor)
        case _ if np.isnan(factor).any():
            return None
        case Affine():
            return _scaled(one, factor)
        case Ratio():
            with np.errstate(invalid="ignore"):
                ends = np.nan_to_num(
                    np.vstack([one.least * factor, one.most * factor]), nan=0.0, posinf=np.inf, neginf=-np.inf
                )
            return replace(
                one, over=_scaled(one.over, factor), least=ends.min(axis=0), most=ends.max(axis=0), _known={}
            )


@_none_beyond_floats
def divided(one: NoiseForm, other: NoiseForm) -> Linear | None:
    """Return the quotient as a sum or ratio, with what it can be whatever the data; None where it is neither."""
    match one, other:
        case _, Exact(values):
            return None if (values == 0).any() else multiplied(one, Exact(1 / values))
        case ((Exact() | Affine()), Affine(absent=None)):
            over = as_affine(one, other.cells)
            if over is None:
                return None
            least, most = quotient_ends(over.reach, other.reach)
            share = _share(over, other)
            least, most = np.maximum(least, share[0]), np.minimum(most, share[1])
            return Ratio(over, other, least, most, (other,), completed=True)
        case Ratio(), Ratio() if same(one.under, other.under):
            least, most = quotient_ends((one.least, one.most), (other.least, other.most))
            divisors = tuple(dict.fromkeys((*one.divisors, *other.divisors, other.over)))
            completed = one.completed or other.completed
            return Ratio(one.over, other.over, least, most, divisors, completed=completed)
    return None


def quotient_ends(one: Ends, other: Ends) -> Ends:
    """Return the ends of a quotient: unbounded where the divisor may be 0 inside its ends."""
    low, high = other
    with np.errstate(divide="ignore"):
        inverse = np.where(high == 0, -np.inf, 1 / high), np.where(low == 0, np.inf, 1 / low)
    ends = product_ends(one, inverse)
    across = (low < 0) & (high > 0) | (low == 0) & (high == 0)
    return np.where(across, -np.inf, ends[0]), np.where(across, np.inf, ends[1])


def product_ends(one: Ends, other: Ends) -> Ends:
    """Return the ends of a product; 0 times something unbounded is 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        corners = np.vstack([a * b for a in one for b in other])
    corners[np.isnan(corners)] = 0
    return corners.min(axis=0), corners.max(axis=0)


def same(one: Affine, other: Affine) -> bool:
    """Whether two sums are the same sum."""
    return one is other or all(
        np.array_equal(getattr(one, part), getattr(other, part)) for part in ("constant", "rows", "places", "weights")
    )


def chosen(forms: list[NoiseForm], choices: Indices, cells: MeasuredCells | None) -> Affine | None:
    """Return the sum that is, row by row, the one of these forms that the choices number."""
    sums = [None if cells is None else as_affine(form, cells) for form in forms]
    known = [one for one in sums if one is not None]
    if not known or len(known) < len(sums):
        return None
    constant = np.stack([one.constant for one in known])[choices, np.arange(len(choices))]
    kept = [choices[one.rows] == place for place, one in enumerate(known)]
    parts = [
        np.concatenate([getattr(one, name)[keep] for one, keep in zip(known, kept, strict=True)])
        for name in ("rows", "places", "weights")
    ]
    return Affine(known[0].cells, constant, *coalesced(parts[0], parts[1], parts[2]))


def gathered(form: NoiseForm, places: Indices, leaf: str) -> NoiseForm:
    """Return the rows of a form at these places; -1 is a row that does not exist: all its values are NULL."""
    absent = places < 0
    at = np.where(absent, 0, places)
    match form:
        case Exact(values):
            return Exact(np.where(absent, np.nan, values[at]) if len(values) else np.full(len(places), np.nan))
        case Affine() if (moved := _moved(form, at)) is not None:
            missing = absent if form.absent is None else absent | form.absent[at]
            return _without(moved, missing)
        case Ratio(over, under, least, most, divisors) if not absent.any():
            parts = [_moved(one, at) for one in (over, under, *divisors)]
            found = [part for part in parts if part is not None]
            if len(found) == len(parts):
                ends, divided_by = (least[at], most[at]), tuple(found[2:])
                return Ratio(found[0], found[1], *ends, divided_by, completed=form.completed)
        case Opaque(_, open):
            return Opaque(len(places), open)
        case Truth():
            events = _gathered_events(form.events, at, leaf)
            return Truth(events, _gathered_states(form, at, absent), form.has_no_interval)
    return EnclosedNumbers(
        _gathered_events(form.events, at, leaf),
        _gathered_events(form.null_events, at, leaf),
        _gathered_ends(form.ends, at),
        _gathered_nulls(form.nulls, at, absent),
        form.has_no_interval,
    )


def limited(form: Exact | Affine | Ratio | EnclosedNumbers, least: Floats, most: Floats) -> NoiseForm:
    """Return a form of which it is known that it lies between these; the form itself where that says nothing."""
    if np.isneginf(least).all() and np.isposinf(most).all():
        return form

    def ends(tail: Fraction) -> Ends:
        low, high = form.ends(tail)
        return np.minimum(np.maximum(low, least), most), np.maximum(np.minimum(high, most), least)

    return EnclosedNumbers(form.events, form.null_events, ends, form.nulls, form.has_no_interval)


def missed(form: NoiseForm, absent: Flags) -> NoiseForm:
    """Return a form that can be anything where noise may have kept a left join from meeting its row."""
    if isinstance(form, Truth | Opaque):
        return Opaque(len(absent), has_no_interval=True)

    def ends(tail: Fraction) -> Ends:
        low, high = form.ends(tail)
        return np.where(absent, -np.inf, low), np.where(absent, np.inf, high)

    def nulls(tail: Fraction) -> Nulls:
        maybe, surely = form.nulls(tail)
        return maybe | absent, surely & ~absent

    return EnclosedNumbers(form.events, form.null_events, ends, nulls, has_no_interval=True)


def _gathered_events(events: Events, at: Indices, leaf: str) -> Events:
    return {(leaf, key): counts[at] for key, counts in events.items() if len(counts)}


def _gathered_ends(ends: Callable[[Fraction], Ends], at: Indices) -> Callable[[Fraction], Ends]:
    def find(tail: Fraction) -> Ends:
        low, high = ends(tail)
        return low[at], high[at]

    return find


def _gathered_nulls(nulls: Callable[[Fraction], Nulls], at: Indices, absent: Flags) -> Callable[[Fraction], Nulls]:
    def find(tail: Fraction) -> Nulls:
        maybe, surely = nulls(tail)
        return maybe[at] | absent, surely[at] | absent

    return find


def _gathered_states(form: Truth, at: Indices, absent: Flags) -> Callable[[Fraction], States]:
    def find(tail: Fraction) -> States:
        known = form.states(tail)
        return States(known.true[at] & ~absent, known.false[at] & ~absent, known.null[at] | absent)

    return find


def _moved(form: Affine, at: Indices) -> Affine | None:
    """Return the sums at these rows; None where they would be too many entries."""
    starts = np.searchsorted(form.rows, np.arange(len(form.constant) + 1))
    counts = (starts[1:] - starts[:-1])[at]
    if int(counts.sum()) > _MOST_ENTRIES:
        return None
    rows = np.repeat(np.arange(len(at)), counts)
    entries = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts[at], counts)
    return Affine(
        form.cells, form.constant[at], rows, form.places[entries], form.weights[entries], form.has_no_interval
    )


def folded_sum(form: Affine, groups: Indices, size: int, weights: Floats, absent: Flags | None = None) -> Affine:
    """Return the sums of weighted rows, group by group; `absent` groups are NULL."""
    constant = np.bincount(groups, weights=weights * form.constant, minlength=size).astype(np.float64)
    kept = weights[form.rows] != 0
    entries = coalesced(groups[form.rows][kept], form.places[kept], form.weights[kept] * weights[form.rows][kept])
    return Affine(form.cells, constant, *entries, absent=absent)


def stacked(one: NoiseForm, other: NoiseForm, sizes: tuple[int, int], cells: MeasuredCells) -> NoiseForm:
    """Return the rows of one form and then those of another."""
    match one, other:
        case Exact(), Exact():
            return Exact(np.concatenate([one.values, other.values]))
        case Truth(), Truth():
            return Truth(
                _stacked_events(one.events, other.events, sizes), _stacked_states(one, other), _open(one, other)
            )
        case ((Exact() | Affine()), (Exact() | Affine())):
            (first, gone), (second, lost) = _with_absent(one, cells), _with_absent(other, cells)
            absent = np.concatenate([gone, lost])
            return Affine(
                cells,
                np.concatenate([first.constant, second.constant]),
                np.concatenate([first.rows, second.rows + sizes[0]]),
                np.concatenate([first.places, second.places]),
                np.concatenate([first.weights, second.weights]),
                _open(one, other),
                absent if absent.any() else None,
            )
    if isinstance(one, Truth | Opaque) or isinstance(other, Truth | Opaque):
        return Opaque(sum(sizes), has_no_interval=True)
    first_number, second_number = one, other

    def ends(tail: Fraction) -> Ends:
        (low, high), (least, most) = first_number.ends(tail), second_number.ends(tail)
        return np.concatenate([low, least]), np.concatenate([high, most])

    def nulls(tail: Fraction) -> Nulls:
        (maybe, surely), (perhaps, certainly) = first_number.nulls(tail), second_number.nulls(tail)
        return np.concatenate([maybe, perhaps]), np.concatenate([surely, certainly])

    return EnclosedNumbers(
        _stacked_events(one.events, other.events, sizes),
        _stacked_events(one.null_events, other.null_events, sizes),
        ends,
        nulls,
        _open(one, other),
    )


def _open(one: NoiseForm, other: NoiseForm) -> bool:
    return one.has_no_interval or other.has_no_interval


def _stacked_events(one: Events, other: Events, sizes: tuple[int, int]) -> Events:
    before, behind = (np.zeros(size, dtype=np.int64) for size in sizes)
    found: dict[object, Indices] = {("left", key): np.concatenate([counts, behind]) for key, counts in one.items()}
    return found | {("right", key): np.concatenate([before, counts]) for key, counts in other.items()}


def _stacked_states(one: Truth, other: Truth) -> Callable[[Fraction], States]:
    def find(tail: Fraction) -> States:
        first, second = one.states(tail), other.states(tail)
        parts = ((getattr(first, name), getattr(second, name)) for name in ("true", "false", "null"))
        return States(*(np.concatenate(pair) for pair in parts))

    return find


def as_affine(form: NoiseForm, cells: MeasuredCells) -> Affine | None:
    """Return exact numbers and sums as a sum; None for anything else, and where a number is NULL."""
    if isinstance(form, Affine):
        return form if form.absent is None else None
    if not isinstance(form, Exact) or np.isnan(form.values).any():
        return None
    nothing = np.zeros(0, dtype=np.int64)
    return Affine(cells, form.values, nothing, nothing, np.zeros(0))


def _with_absent(form: Exact | Affine, cells: MeasuredCells) -> tuple[Affine, Flags]:
    """Return numbers as a sum, and the rows of it that are NULL."""
    if isinstance(form, Affine):
        none = np.zeros(len(form.constant), dtype=bool)
        return form, none if form.absent is None else form.absent
    nothing = np.zeros(0, dtype=np.int64)
    values = np.nan_to_num(form.values, nan=0.0)
    return Affine(cells, values, nothing, nothing, np.zeros(0)), np.isnan(form.values)


def _without(form: Affine, absent: Flags) -> Affine:
    """Return sums of which these rows are NULL: nothing is added up there."""
    if not absent.any():
        return replace(form, absent=None, _known={})
    kept = ~absent[form.rows]
    entries = form.rows[kept], form.places[kept], form.weights[kept]
    return Affine(form.cells, np.where(absent, 0.0, form.constant), *entries, form.has_no_interval, absent)


def _cells(one: Exact | Affine, other: Exact | Affine) -> MeasuredCells:
    for form in (one, other):
        if isinstance(form, Affine):
            return form.cells
    raise AssertionError("one of the two has noise")


def _added(one: Affine, other: Affine, sign: float) -> Affine:
    entries = coalesced(
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.places, other.places]),
        np.concatenate([one.weights, sign * other.weights]),
    )
    kept = entries[2] != 0
    return Affine(one.cells, one.constant + sign * other.constant, *(part[kept] for part in entries))


def _scaled(one: Affine, factor: Floats) -> Affine:
    weights = one.weights * factor[one.rows]
    kept = weights != 0
    parts = one.rows[kept], one.places[kept], weights[kept]
    return Affine(one.cells, one.constant * factor, *parts, absent=one.absent)


def _share(over: Affine, under: Affine) -> Ends:
    """Return what a ratio to counts can be, where the rows of every part are rows that are counted in its cell.

    In one cell a part lies between multiples of the count, or of a step of it; the ratio of sums lies between the least
    and the greatest of these ratios, for counts are not below 0.
    """
    size, cells = len(over.constant), under.cells
    nothing = np.full(size, -np.inf), np.full(size, np.inf)
    targets = _counted_by(over, under)
    if targets is None:
        return nothing
    many = len(cells.measured) + 1
    whole = _cell_numbers(under) * many + cells.kinds[under.places]
    part = _cell_numbers(over) * many + targets
    rising = bool((under.weights > 0).all()) and len(whole) > 0 and not under.constant.any() and not over.constant.any()
    order = np.argsort(whole)
    ordered = whole[order]
    if not rising or not len(part) or bool((ordered[1:] == ordered[:-1]).any()):
        return nothing
    at = order[np.minimum(np.searchsorted(ordered, part), len(order) - 1)]
    if not np.array_equal(whole[at], part):
        return nothing
    parts, counts = cells.kinds[over.places], cells.kinds[under.places][at]
    spans = {
        pair: (1.0, 1.0) if pair[0] == pair[1] else cells.share(*pair)
        for pair in set(zip(parts.tolist(), counts.tolist(), strict=True))
    }
    if any(span is None for span in spans.values()):
        return nothing
    low, high = np.zeros(len(part)), np.zeros(len(part))
    for (one, count), span in spans.items():
        here = (parts == one) & (counts == count)
        low[here], high[here] = span or (0.0, 0.0)
    weights = over.weights / under.weights[at]
    each = [
        np.bincount(at, weights=function(weights * low, weights * high), minlength=len(whole))
        for function in (np.minimum, np.maximum)
    ]
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(least, under.rows, each[0])
    np.maximum.at(most, under.rows, each[1])
    empty = least > most
    return np.where(empty, -np.inf, least), np.where(empty, np.inf, most)


def _counted_by(over: Affine, under: Affine) -> Indices | None:
    """Return for every entry which of the counts counts its rows: itself, or the first that does; None if none does."""
    cells, counts = under.cells, np.unique(under.cells.kinds[under.places]).tolist()
    if len(counts) > 1 and any(cells.reach(count)[0] < 0 for count in counts):
        return None
    found = np.zeros(len(cells.measured), dtype=np.int64)
    for kind in np.unique(cells.kinds[over.places]).tolist():
        shared = (count for count in counts if cells.share(kind, count) is not None)
        target = kind if kind in counts else next(shared, None)
        if target is None:
            return None
        found[kind] = target
    return np.asarray(found[cells.kinds[over.places]])


def _cell_numbers(form: Affine) -> Indices:
    """Return one number for the row, the group and the cell of every entry."""
    cells = form.cells
    kinds = cells.kinds[form.places]
    groups = np.array([cells.labels.index(label) for label in cells.labels], dtype=np.int64)[kinds]
    cell = form.places - np.searchsorted(cells.kinds, kinds)
    return np.asarray((form.rows * len(cells.labels) + groups) * (len(cells.kinds) + 1) + cell)
