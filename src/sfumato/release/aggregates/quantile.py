"""Quantiles, extremes and modes: the values of the buckets that were chosen, between the values of their ends."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.quantile_ends import farther
from sfumato.mechanisms.quantiles import distances_further
from sfumato.mechanisms.spacing import Spacing
from sfumato.planning.aggregates.quantile import ModeColumn, QuantileColumn
from sfumato.release.intervals.forms import NEVER, EnclosedNumbers, Ends, Events, Nulls
from sfumato.release.intervals.noise_law import Integers


def ranked_point(made: QuantileColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the value of each cell's bucket: in steps, or the middle of the bucket as a number."""
    chosen = _levels(made, measured)[:, 1].tolist()
    if made.between:
        middles = [Fraction(sum(made.spacing.ends(place)), 2) * made.step for place in chosen]
        return np.array([float(middle) for middle in middles], dtype=np.float64)
    return np.array([_middle(made.spacing, place) for place in chosen], dtype=object)


def ranked_form(label: str, made: QuantileColumn, measured: Mapping[str, Integers]) -> EnclosedNumbers:
    """Return the box between the ends: further out, the less may be missed. Proof: proofs/quantiles.md, 5."""
    chosen = _levels(made, measured).tolist()
    step = 1.0 if not made.between else float(made.step)

    def find(tail: Fraction) -> Ends:
        further = distances_further(tail)
        ends = [_further(made, selection, further) for selection in chosen]
        low = np.array([float(made.spacing.ends(one)[0]) for one, _ in ends]) * step
        return low, np.array([float(made.spacing.ends(other)[1]) for _, other in ends]) * step

    return _boxed(label, made, len(chosen), step, find if made.ends else None, (made.place,))


def _further(made: QuantileColumn, chosen: Sequence[int], further: int) -> tuple[int, int]:
    """Return the ends that lie `further` distances further out than those that were chosen."""
    low, answer, high = chosen
    last = made.spacing.buckets - 1
    sides = ([answer - low] if low > 0 else []) + ([high - answer] if high < last else [])
    if not sides or not further:  # both reach to the end of the range
        return low, high
    far = farther(made.spacing.buckets, sides[0], further)
    return low if made.level == 0 else max(0, answer - far), high if made.level == 1 else min(last, answer + far)


def commonest_point(made: ModeColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the commonest value of each cell, in steps."""
    chosen = measured[made.chosen]
    return np.array([made.spacing.ends(int(place))[0] for place in chosen.ravel()], dtype=object)


def commonest_form(label: str, made: ModeColumn, measured: Mapping[str, Integers]) -> EnclosedNumbers:
    """Return a box that holds every value: which is the commonest is not told within a margin."""
    return _boxed(label, made, len(measured[made.chosen]), 1.0, None)


def _boxed(
    label: str,
    made: QuantileColumn | ModeColumn,
    rows: int,
    step: float,
    ends: Callable[[Fraction], Ends] | None,
    part: tuple[int, ...] = (),
) -> EnclosedNumbers:
    """Return a box between these ends, or between those of the range."""
    least, most = np.full(rows, made.spacing.low * step), np.full(rows, made.spacing.high * step)

    def find(tail: Fraction) -> Ends:
        return (least, most) if ends is None or tail == NEVER else ends(tail)

    once: Events = {(label, made.measured, part): np.ones(rows, dtype=np.int64)}
    return EnclosedNumbers(once, {}, find, _never(rows))


def _never(rows: int) -> Callable[[Fraction], Nulls]:
    nowhere = np.zeros(rows, dtype=bool)
    return lambda _: (nowhere, nowhere)


def _levels(made: QuantileColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the lower end, the answer and the upper end of this level, a row per cell."""
    every = measured[made.ranks]
    return every[:, 3 * made.place : 3 * made.place + 3] if len(every) else np.zeros((0, 3), dtype=np.int64)


def _middle(spacing: Spacing, place: int) -> int:
    low, high = spacing.ends(place)
    return (low + high) // 2
