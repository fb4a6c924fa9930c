"""Quantiles, extremes and modes: the values of the buckets that were chosen, between the values of their ends."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.quantiles import ENDS_HOLD
from sfumato.mechanisms.spacing import Spacing
from sfumato.planning.aggregates.ranked import Commonest, Ranked
from sfumato.release.bars.forms import Boxed, Ends, Events, Nulls
from sfumato.release.bars.noise_law import Integers


def ranked_point(made: Ranked, measured: Mapping[str, Integers]) -> Integers:
    """Return the value of each cell's bucket: in steps, or the middle of the bucket as a number."""
    chosen = _levels(made, measured)[:, 1].tolist()
    if made.between:
        middles = [Fraction(sum(made.spacing.ends(place)), 2) * made.step for place in chosen]
        return np.array([float(middle) for middle in middles], dtype=np.float64)
    return np.array([_middle(made.spacing, place) for place in chosen], dtype=object)


def ranked_form(label: str, made: Ranked, measured: Mapping[str, Integers]) -> Boxed:
    """Return the box between the ends; where less may be missed than they are good for, all that is possible."""
    chosen = _levels(made, measured)
    step = 1.0 if not made.between else float(made.step)
    low = np.array([float(made.spacing.ends(place)[0]) for place in chosen[:, 0].tolist()]) * step
    high = np.array([float(made.spacing.ends(place)[1]) for place in chosen[:, 2].tolist()]) * step
    return _boxed(label, made, (low, high), step, 1 - ENDS_HOLD if made.ends else Fraction(1))


def commonest_point(made: Commonest, measured: Mapping[str, Integers]) -> Integers:
    """Return the commonest value of each cell, in steps."""
    chosen = measured[made.chosen]
    return np.array([made.spacing.ends(int(place))[0] for place in chosen.ravel()], dtype=object)


def commonest_form(label: str, made: Commonest, measured: Mapping[str, Integers]) -> Boxed:
    """Return a box that holds every value: which is the commonest is not told within a margin."""
    nothing = np.zeros(len(measured[made.chosen]))
    return _boxed(label, made, (nothing, nothing), 1.0, Fraction(1))


def _boxed(label: str, made: Ranked | Commonest, ends: Ends, step: float, least_tail: Fraction) -> Boxed:
    rows = len(ends[0])
    least, most = np.full(rows, made.spacing.low * step), np.full(rows, made.spacing.high * step)

    def find(tail: Fraction) -> Ends:
        return ends if tail >= least_tail else (least, most)

    (measured,) = made.measured  # the ends of all levels that were measured together hold together
    once: Events = {(label, measured): np.ones(rows, dtype=np.int64)}
    return Boxed(once, {}, find, _never(rows))


def _never(rows: int) -> Callable[[Fraction], Nulls]:
    nowhere = np.zeros(rows, dtype=bool)
    return lambda _: (nowhere, nowhere)


def _levels(made: Ranked, measured: Mapping[str, Integers]) -> Integers:
    """Return the lower end, the answer and the upper end of this level, a row per cell."""
    every = measured[made.ranks]
    return every[:, 3 * made.place : 3 * made.place + 3] if len(every) else np.zeros((0, 3), dtype=np.int64)


def _middle(spacing: Spacing, place: int) -> int:
    low, high = spacing.ends(place)
    return (low + high) // 2
