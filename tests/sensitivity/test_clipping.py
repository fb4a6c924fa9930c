"""Clipping and rounding to the grid against plain rational arithmetic: every kind of number, no float deciding."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadParameter
from sfumato.sensitivity.clipping import clip_l2, to_grid
from sfumato.sensitivity.grid import Grid
from sfumato.sensitivity.norms import grid_bounds

STEPS = [Fraction(1), Fraction(1, 2), Fraction(1, 100), Fraction(1, 3), Fraction(7, 5), Fraction(64), Fraction(10**20)]
fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    low, high = sorted((draw(fractions), draw(fractions)))
    return Grid(low, high, draw(st.sampled_from(STEPS)))


def plainly(value: Any, grid: Grid) -> int:
    """The definition: absent is 0; clip, divide, round half to even."""
    if value is None or not isfinite(value):
        return 0
    return round(min(max(Fraction(value), grid.low), grid.high) / grid.step)


def check(values: Any, grid: Grid) -> None:
    quantised = to_grid(values, grid)
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    assert quantised.integers.tolist() == [plainly(value, grid) for value in plain]
    assert quantised.present.tolist() == [value is not None and isfinite(value) for value in plain]
    least, greatest = grid_bounds(grid.low, grid.high, grid.step)
    assert all(least <= number <= greatest for number in quantised.integers[quantised.present].tolist())


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(width=64)), grids())
def test_floats_become_what_their_exact_binary_value_becomes(values: list[float], grid: Grid) -> None:
    check(np.array(values, dtype=np.float64), grid)
    check(values, grid)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-4000, 4000)), grids())
def test_floats_at_and_next_to_ties_are_rounded_half_to_even(halves: list[int], grid: Grid) -> None:
    ties = [float(Fraction(half, 2) * grid.step) for half in halves]
    near = [float(np.nextafter(tie, side)) for tie in ties for side in (-np.inf, np.inf)]
    check(np.array(ties + near), grid)
    wide = Grid(Fraction(-(10**30)), Fraction(10**30), grid.step)
    check(np.array(ties + near), wide)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32)), grids())
def test_narrow_floats_keep_their_value(values: list[float], grid: Grid) -> None:
    check(np.array(values, dtype=np.float32), grid)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2000, 2000)), grids())
def test_integers_of_every_width_become_the_same(values: list[int], grid: Grid) -> None:
    check(np.array(values, dtype=np.int64), grid)
    check(values, grid)
    check(np.array([value % 2**64 for value in values], dtype=np.uint64), grid)
    check(np.array([value % 2**8 - 2**7 for value in values], dtype=np.int8), grid)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | fractions | st.decimals(allow_nan=True) | st.floats() | st.integers()), grids())
def test_mixed_columns_become_what_their_members_become(values: list[Any], grid: Grid) -> None:
    quantised = to_grid(values, grid)
    finite = [v is not None and (v.is_finite() if isinstance(v, Decimal) else isfinite(v)) for v in values]
    expected = [plainly(v, grid) if there else 0 for v, there in zip(values, finite, strict=True)]
    assert quantised.integers.tolist() == expected
    assert quantised.present.tolist() == finite


def test_huge_grids_are_computed_with_python_integers() -> None:
    grid = Grid(Fraction(0), Fraction(10**40), Fraction(1, 10**5))
    for values in ([1e300, 0.1, 12345], np.array([1e300, 0.1]), np.array([2**62, 3])):
        check(values, grid)


def test_booleans_count_as_zero_and_one() -> None:
    assert to_grid(np.array([True, False]), Grid(Fraction(0), Fraction(1), Fraction(1))).integers.tolist() == [1, 0]


def test_a_decimal_with_a_monstrous_exponent_is_clipped_at_once() -> None:
    values = [Decimal("1e999999"), Decimal("-1e999999"), Decimal("1e-999999"), Decimal("sNaN"), Decimal("0e-999999")]
    quantised = to_grid(values, Grid(Fraction(-5), Fraction(5), Fraction(1)))
    assert quantised.integers.tolist() == [5, -5, 0, 0, 0]
    assert quantised.present.tolist() == [True, True, True, False, True]


tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(-(10**12), 10**12) | st.integers(-5, 5), min_size=width, max_size=width)
    )
)


@settings(deadline=None)
@given(tables.filter(bool), st.integers(1, 10**6))
def test_clipped_rows_lie_in_the_ball_keep_their_signs_and_are_scaled_by_less_than_one_step_too_much(
    table: list[list[int]], bound: int
) -> None:
    for before, after in zip(table, clip_l2(np.array(table), bound).tolist(), strict=True):
        norm = sum(entry**2 for entry in before)
        assert sum(entry**2 for entry in after) <= bound
        for old, new in zip(before, after, strict=True):
            squared = old**2 * min(Fraction(1), Fraction(bound, max(norm, 1)))
            assert new * old >= 0
            assert new**2 <= squared < (abs(new) + 1) ** 2


def test_a_quantised_column_does_not_show_its_values() -> None:
    assert "7" not in repr(to_grid([7], Grid(Fraction(0), Fraction(9), Fraction(1))))


GRID = Grid(Fraction(0), Fraction(1), Fraction(1))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Grid(Fraction(2), Fraction(1), Fraction(1)),
        lambda: Grid(Fraction(0), Fraction(1), Fraction(0)),
        lambda: Grid(0.5, Fraction(1), Fraction(1)),  # type: ignore[arg-type]
        lambda: to_grid(["secret"], GRID),
        lambda: to_grid("secret", GRID),
        lambda: to_grid(7, GRID),
        lambda: to_grid([[1, 2], [3, 4]], GRID),
        lambda: to_grid([1 + 2j], GRID),
        lambda: to_grid(np.array(["secret"]), GRID),
        lambda: to_grid(np.array([[1]]), GRID),
        lambda: clip_l2([1], 1),
        lambda: clip_l2([[1], [1, 2]], 1),
        lambda: clip_l2([[True]], 1),
        lambda: clip_l2([[1]], 0),
    ],
)
def test_what_is_no_column_of_numbers_is_refused_without_repeating_it(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter) as refusal:
        bad()
    assert "secret" not in str(refusal.value)
