"""Edited rows: they come nearer to every measured pair, follow from the seed, and keep what was not measured apart."""

from collections.abc import Sequence
from itertools import combinations
from math import pi

import numpy as np

from sfumato.synthesis.editing import edited, fit_rows
from sfumato.synthesis.model import draw_along_tree, draw_pool, fit_weights
from sfumato.synthesis.rows import count_rows, distance

SIZES = (3, 4, 2, 5, 3)


def _shares(seed: int) -> dict[tuple[int, ...], np.ndarray]:
    """Return the exact shares of some pairs of one table, and of all its columns."""
    random = np.random.default_rng(seed)
    whole = random.dirichlet(np.full(int(np.prod(SIZES)), 0.3)).reshape(SIZES)
    wanted: list[tuple[int, ...]] = [(axis,) for axis in range(5)] + [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3)]
    return {axes: whole.sum(axis=tuple(set(range(5)) - set(axes))) for axes in wanted}


def test_an_edit_keeps_the_first_column_and_brings_the_pair_nearer() -> None:
    random = np.random.default_rng(1)
    for turn in range(20):
        goal = random.dirichlet(np.ones(12)).reshape(3, 4)
        kept, before = random.integers(0, 3, 4000), random.integers(0, 4, 4000)
        after = edited(kept, before, goal, 1.0, turn * 100, b"seed")
        given = goal * (np.bincount(kept, minlength=3) / 4000 / goal.sum(axis=1))[:, None]  # what one column can reach
        far, near = (distance(count_rows([kept, column], (3, 4)), given) for column in (before, after))
        assert near < 0.05 * far + 12 / 4000
        assert set(after) <= set(range(4))
        assert (edited(kept, before, goal, 1.0, turn * 100, b"seed") == after).all()


def test_a_share_of_nothing_moves_nothing() -> None:
    kept, changed = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    goal = np.array([[0.5, 0.5], [0.0, 0.0]])
    assert edited(kept, changed, goal, 1.0, 0, b"seed").tolist() == changed.tolist()


def test_edited_rows_match_all_pairs_also_those_outside_the_tree() -> None:
    shares = _shares(2)
    found = fit_rows(shares, SIZES, b"seed", rows=8000)
    assert abs(found.weights.sum() - 1) < 1e-9
    for axes in [axes for axes in shares if len(axes) == 2]:
        model = count_rows([found.rows[axis] for axis in axes], [SIZES[axis] for axis in axes], found.weights)
        assert distance(model, shares[axes]) < 0.01
    again = fit_rows(shares, SIZES, b"seed", rows=8000)
    assert (again.weights == found.weights).all()


def test_columns_that_were_measured_apart_stay_independent() -> None:
    """Column 4 is in no pair: edits of others must not align it with them."""
    shares = _shares(3)
    found = fit_rows(shares, SIZES, b"seed", rows=8000)
    sum_of_squares = float((found.weights**2).sum())
    for other in range(4):
        goal = np.outer(shares[(other,)], shares[(4,)])
        model = count_rows([found.rows[other], found.rows[4]], [SIZES[other], SIZES[4]], found.weights)
        noise = float(np.sqrt(goal * (1 - goal) * sum_of_squares / (2 * pi)).sum())
        assert distance(model, goal) < 3 * noise


def test_many_pairs_leave_weight_on_most_rows() -> None:
    """Weights of fixed candidates collapse there: 1 / Σ weight² falls below an eighth of the rows."""
    random = np.random.default_rng(4)
    sizes = (4,) * 30
    base = random.normal(size=(3000, 3))
    codes = [
        np.clip((base @ random.normal(size=3) + random.normal(size=3000)) * 0.8 + 2, 0, 3).astype(np.int64)
        for _ in sizes
    ]
    wanted: list[tuple[int, ...]] = [*((axis,) for axis in range(30)), *list(combinations(range(30), 2))[::3]]
    shares = {axes: count_rows([codes[axis] for axis in axes], [4] * len(axes)) / 3000 for axes in wanted}

    def far(rows: Sequence[np.ndarray], weights: np.ndarray) -> float:
        pairs = [axes for axes in wanted if len(axes) == 2]
        tables = [count_rows([rows[axis] for axis in axes], [4, 4], weights) for axes in pairs]
        return float(np.mean([distance(table, shares[axes]) for axes, table in zip(pairs, tables, strict=True)]))

    found = fit_rows(shares, sizes, b"seed", rows=5000)
    candidates, drawn = draw_pool(shares, sizes, b"seed", 5000)
    weighed, _, _ = fit_weights(candidates, shares, sizes, start=np.log(drawn))
    tree = draw_along_tree(shares, sizes, b"seed", 5000, 0)
    assert far(found.rows, found.weights) < 0.6 * far(tree, np.full(5000, 1 / 5000))
    assert 1 / float((found.weights**2).sum()) > 0.5 * 5000 > 4 / float((weighed**2).sum())


def test_editing_ends_in_time_and_says_how_far_it_came() -> None:
    shares = _shares(5)
    assert fit_rows(shares, SIZES, b"seed", rows=500, seconds=0.0).steps <= 1
    assert fit_rows(shares, SIZES, b"seed", rows=500, passes=2).steps == 2 * 5 + 40
