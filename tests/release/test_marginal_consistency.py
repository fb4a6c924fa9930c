"""Margins of one table: the weights are those of least squares, whole numbers add up, and bars hold."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement
from sfumato.release.marginal_consistency import ConsistentMarginal, _Solved
from sfumato.release.noisy import NoisyGroup

TABLES = [
    ContingencyTable((3,), (False,), (MarginalMeasurement("a", "m", (0,)), MarginalMeasurement("b", "m", ()))),
    ContingencyTable(
        (3, 2),
        (True, False),
        (
            MarginalMeasurement("a", "m", (0,)),
            MarginalMeasurement("b", "m", (1,)),
            MarginalMeasurement("c", "m", (1, 0)),
        ),
    ),
    ContingencyTable(
        (2, 3, 2),
        (True, True, True),
        (
            MarginalMeasurement("a", "m", (2, 0)),
            MarginalMeasurement("b", "m", (1, 0)),
            MarginalMeasurement("c", "m", ()),
        ),
    ),
    ContingencyTable(
        (4, 3),
        (False, True),
        (
            MarginalMeasurement("a", "m", (0, 1)),
            MarginalMeasurement("b", "m", (0, 1)),
            MarginalMeasurement("c", "m", (0,)),
        ),
    ),
    ContingencyTable(
        (3, 1),
        (False, True),
        (MarginalMeasurement("a", "m", (0, 1)), MarginalMeasurement("b", "m", (0,)), MarginalMeasurement("c", "m", ())),
    ),
]
VARIANCES = (2.0, 0.5, 7.0)
Matrix = npt.NDArray[np.float64]


def summing(table: ContingencyTable, margin: MarginalMeasurement) -> Matrix:
    """The matrix of a margin, from its definition."""
    cells = list(product(*map(range, table.sizes)))
    kept = list(product(*(range(table.sizes[axis]) for axis in margin.axes)))
    return np.array([[tuple(cell[axis] for axis in margin.axes) == one for cell in cells] for one in kept], dtype=float)


def group(table: ContingencyTable, margin: MarginalMeasurement, values: npt.ArrayLike) -> NoisyGroup:
    def name(axis: int, place: int) -> int | None:
        return None if table.has_remainder[axis] and place == table.sizes[axis] - 1 else place

    ranges = [[name(axis, place) for place in range(table.sizes[axis])] for axis in margin.axes]
    return NoisyGroup(tuple(product(*ranges)), (("m", tuple(int(value) for value in np.ravel(values))),))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.sizes))
def test_the_weights_are_those_of_generalised_least_squares(table: ContingencyTable) -> None:
    variances = VARIANCES[: len(table.margins)]
    design = np.vstack([summing(table, margin) for margin in table.margins])
    precision = np.diag(
        np.concatenate([np.full(len(summing(table, m)), 1 / v) for m, v in zip(table.margins, variances, strict=True)])
    )
    best = np.linalg.pinv(design.T @ precision @ design) @ design.T @ precision
    solved = _Solved(table, variances)
    for margin in table.margins:
        found = np.hstack([solved._weights(margin, other) for other in table.margins])
        np.testing.assert_allclose(found, summing(table, margin) @ best, atol=1e-12)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.sizes))
def test_margins_are_whole_and_agree(table: ContingencyTable) -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 50, prod(table.sizes))
    groups = [
        group(table, margin, summing(table, margin) @ truth + random.integers(-9, 10, len(summing(table, margin))))
        for margin in table.margins
    ]
    found = _Solved(table, VARIANCES[: len(table.margins)]).margins(groups)
    totals: dict[tuple[int, ...], int] = {}
    for margin in table.margins:
        values = found[margin.label, "m"].values
        assert values.dtype == np.int64
        if not any(table.has_remainder[axis] for axis in margin.axes):  # all cells are shown: they add up to everything
            totals[margin.axes] = int(values.sum())
    assert len(set(totals.values())) <= 1


def test_a_key_of_which_no_cell_can_be_shown_leaves_the_others_as_they_are() -> None:
    table = TABLES[-1]
    truth = np.array([0, 0, 0])  # and so nothing of the rest is clearly there
    groups = [group(table, margin, summing(table, margin) @ truth) for margin in table.margins]
    found = _Solved(table, VARIANCES).margins(groups)
    assert [found[margin.label, "m"].values.tolist() for margin in table.margins] == [[], [0, 0, 0], [0]]


def covered(table: ContingencyTable, truth: npt.NDArray[np.int64], times: int, seed: int) -> Fraction:
    """How many of the shown cells lie in their 95 % bars, with normal noise."""
    random, inside, cells = np.random.default_rng(seed), 0, 0
    deviation = 6.0
    for _ in range(times):
        exact = [summing(table, margin) @ truth for margin in table.margins]
        given = [np.rint(values + random.normal(0, deviation, len(values))) for values in exact]
        groups = [group(table, margin, values) for margin, values in zip(table.margins, given, strict=True)]
        found = _Solved(table, (deviation**2,) * len(table.margins)).margins(groups)
        measured = {("m", margin.label): values for margin, values in zip(table.margins, given, strict=True)}
        for margin, values, one in zip(table.margins, exact, groups, strict=True):
            made = found[margin.label, "m"]
            shown = [place for place, cell in enumerate(one.keys) if None not in cell]
            low, high = bars(made, {label: measured["m", label] for _, label in measured}, deviation, len(shown))
            inside += int(((low <= values[shown]) & (values[shown] <= high)).sum())
            cells += len(shown)
    return Fraction(inside, cells)


def bars(made: ConsistentMarginal, given: dict[str, Matrix], deviation: float, rows: int) -> tuple[Matrix, Matrix]:
    centre, variance = np.zeros(rows), np.zeros(rows)
    for (label, _), places, weights in made.others:
        centre += (weights * given[label][places]).reshape(rows, -1).sum(axis=1)
        variance += (weights**2).reshape(rows, -1).sum(axis=1) * deviation**2
    reach = 1.96 * np.sqrt(variance)
    return np.minimum(centre - reach, made.values), np.maximum(centre + reach, made.values)


@pytest.mark.parametrize("rest", [0, 15, 60])
def test_bars_hold_whatever_is_in_the_rest(rest: int) -> None:
    """At least 92 % of 720 cells of 120 draws, where 95 % are to be expected: with these seeds always the same."""
    table = TABLES[1]
    truth = np.array([[20, 30], [25, 5], [rest, rest // 2]]).ravel()
    assert Fraction(92, 100) <= covered(table, truth, 120, rest)
