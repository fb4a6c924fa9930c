"""Rows that are edited until their pairs match: the model of tables with many columns, where weights would collapse.

Weights of fixed candidate rows need about as many rows as there are cells to match. With hundreds of measured pairs few
rows would carry all the weight. Here the rows themselves change: in turn, for each measured pair, rows move from cells
that hold too many to cells that hold too few, and keep all their other columns [Zhang et al. 2021, PrivSyn].
Everything here is a function of released numbers and a public seed.
"""

from collections.abc import Mapping, Sequence
from time import monotonic

import numpy as np

from sfumato.synthesis.design import Axes
from sfumato.synthesis.domain import Codes, Floats
from sfumato.synthesis.model import Fitted, distinct_rows, draw_along_tree, fit_weights, uniforms

EDITED_ROWS = 40_000
"""Number of rows of the model."""
EDIT_PASSES = 12
"""Number of times that each pair is matched."""
WEIGHT_STEPS, WEIGHT_RATE = 40, 0.05
"""Number and size of the steps that weigh the edited rows: small ones, so that all rows keep some weight."""
_RATE_DECAY = 0.85
"""The first pass removes a whole difference, each further pass this part of what the one before it did."""


def fit_rows(
    shares: Mapping[Axes, Floats],
    sizes: Sequence[int],
    seed: bytes,
    *,
    seconds: float = float("inf"),
    rows: int = EDITED_ROWS,
    passes: int = EDIT_PASSES,
) -> Fitted:
    """Return rows drawn along the tree of the pairs, edited towards all of them, then weighed; in about `seconds`."""
    found = draw_along_tree(shares, sizes, seed, rows, 0)
    pairs = [axes for axes in shares if len(axes) == 2]
    begun, done = monotonic(), 0
    for turn in range(passes):
        luck = uniforms(seed, f"edit {turn}", 3 * len(pairs))
        rate = _RATE_DECAY**turn
        for index in np.argsort(luck[: len(pairs)], kind="stable").tolist():
            if monotonic() - begun > seconds:
                break
            axes = pairs[index]
            kept, changed = axes if luck[len(pairs) + index] < 0.5 else axes[::-1]
            goal = shares[axes] if kept == axes[0] else shares[axes].T
            start = int(luck[2 * len(pairs) + index] * rows)
            found[changed] = edited(found[kept], found[changed], goal, rate, start, seed + f"{turn} {axes}".encode())
            done += 1
    different, counts = distinct_rows(found)
    weights, _, steps = fit_weights(
        different,
        shares,
        sizes,
        steps=WEIGHT_STEPS,
        seconds=seconds - (monotonic() - begun),
        start=np.log(counts),
        rate=WEIGHT_RATE,
    )
    return Fitted(different, weights, done + steps)


def edited(kept: Codes, changed: Codes, goal: Floats, rate: float, start: int, seed: bytes) -> Codes:
    """Return the second column with some values changed, so that the pair comes nearer to the shares of `goal`.

    The first column stays, so only the shares of the second given the first can be matched. Of the rows in a cell
    that holds too many, those are changed that come first from `start` on, around the end.
    """
    rows, (first, second) = len(kept), goal.shape
    place = kept * second + changed
    have = np.bincount(place, minlength=first * second).reshape(first, second).astype(np.float64)
    given = goal.sum(axis=1, keepdims=True)
    wanted = np.where(given > 0, goal * have.sum(axis=1, keepdims=True) / np.where(given > 0, given, 1.0), have)
    excess = rate * (have - wanted)
    luck = uniforms(seed, "cells", excess.size).reshape(excess.shape)
    leaving = np.where(excess > 0, np.floor(excess + luck), 0.0).astype(np.int64).ravel()
    if not leaving.any():
        return changed
    turned = np.roll(place, -start)
    narrow = turned.astype(np.uint16) if leaving.size <= 2**16 else turned  # 16 bits are sorted in linear time
    order = np.argsort(narrow, kind="stable")
    ordered = turned[order]
    rank = np.arange(rows) - np.searchsorted(ordered, np.arange(leaving.size))[ordered]
    moved = (order[rank < leaving[ordered]] + start) % rows
    ends = np.cumsum(np.maximum(-excess, 0.0), axis=1)
    moved = moved[ends[kept[moved], -1] > 0]
    targets = uniforms(seed, "targets", len(moved)) * ends[kept[moved], -1]
    found = changed.copy()
    found[moved] = np.minimum((ends[kept[moved]] <= targets[:, None]).sum(axis=1), second - 1)
    return found
