"""Skewness and kurtosis are DuckDB's, of exact integers; their bars end at what so many values can have."""

from fractions import Fraction
from math import isclose, sqrt

import duckdb
import numpy as np
import pytest

from sfumato.planning.aggregates.centred_sums import Centred
from sfumato.planning.aggregates.moments import MomentColumn
from sfumato.release.aggregates.moments import _limits, moment_point

OFFSET = 1_000_000
TABLES = [
    *([], [5], [1, 2], [5, 5, 5], [5, 5, 5, 5], [1, 2, 4], [0, 0, 1, 1], [1, 2, 4, 9], [0] * 99 + [1]),
    [OFFSET + at * at % 17 for at in range(40)],
    np.random.default_rng(3).gamma(2, 300, 500).astype(int).tolist(),
]
FUNCTIONS = {3: "skewness", 4: "kurtosis"}


def _column(order: int) -> MomentColumn:
    grid = Centred(Fraction(1), OFFSET, 0, 2 * OFFSET)
    return MomentColumn("x", "n", tuple(f"s{power}" for power in range(1, order + 1)), grid)


def _measured(values: list[int]) -> dict[str, "np.ndarray[tuple[int], np.dtype[np.object_]]"]:
    sums = {f"s{power}": sum((value - OFFSET) ** power for value in values) for power in range(1, 5)}
    return {name: np.array([number], dtype=object) for name, number in {"n": len(values), **sums}.items()}


@pytest.mark.parametrize("order", FUNCTIONS)
@pytest.mark.parametrize("values", TABLES, ids=len)
def test_without_noise_they_are_those_of_duckdb(values: list[int], order: int) -> None:
    (found,) = moment_point(_column(order), _measured(values))
    small = [value - min(values) for value in values]  # DuckDB adds up plain powers in doubles
    asked = f"SELECT {FUNCTIONS[order]}(x) FROM (SELECT unnest(?::DOUBLE[]) AS x)"  # noqa: S608
    expected = duckdb.execute(asked, [small]).fetchall()[0][0]
    assert np.isnan(found) if expected is None else isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("order", FUNCTIONS)
@pytest.mark.parametrize("size", [4, 5, 10, 1000])
def test_their_limits_are_reached_and_not_passed(order: int, size: int) -> None:
    """One value apart from all others is farthest; a kurtosis is least where half of the values is each of two."""
    rows = np.array([float(size)])
    low, high = (float(end[0]) for end in _limits(_column(order), rows, rows))
    (apart,) = moment_point(_column(order), _measured([0] * (size - 1) + [9]))
    assert isclose(apart, high, rel_tol=1e-9)
    if order == 3:
        assert (low, high) == (-sqrt(size), sqrt(size))
    elif size % 2 == 0:
        (halves,) = moment_point(_column(order), _measured([0, 9] * (size // 2)))
        assert isclose(halves, low, rel_tol=1e-9)


@pytest.mark.parametrize("order", FUNCTIONS)
def test_noise_moves_no_estimate_beyond_its_limits(order: int) -> None:
    random = np.random.default_rng(4)
    noisy = {
        name: np.array([int(number) for number in random.integers(-(10**6), 10**6, 2000)], dtype=object)
        for name in _column(order).measured
    }
    found = moment_point(_column(order), noisy)
    rows = noisy["n"].astype(np.float64)
    known = ~np.isnan(found)
    assert known.any()
    assert (rows[known] >= order).all()
    low, high = _limits(_column(order), rows[known], rows[known])
    assert ((low <= found[known]) & (found[known] <= high)).all()
