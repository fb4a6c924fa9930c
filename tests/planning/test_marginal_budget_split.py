"""A price split between margins of one table: the geometric mean of errors is small, and nobody pays for it."""

from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.accounting import pure
from sfumato.errors import BadParameter
from sfumato.planning import ways
from sfumato.planning.marginal_budget_split import (
    MarginalVariances,
    _as_priced,
    geometric_error,
    mean_variance,
    weight_marginals,
)
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent",
    "SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY dept, urgent",
]


def _table(sizes: tuple[int, ...], axes: list[tuple[int, ...]]) -> ContingencyTable:
    margins = tuple(MarginalMeasurement(str(place), "n", one) for place, one in enumerate(axes))
    return ContingencyTable(sizes, (False,) * len(sizes), margins)


def _random_table(random: Random) -> ContingencyTable:
    sizes = tuple(random.choice((2, 3, 5, 12, 100)) for _ in range(random.randint(1, 4)))
    every = [axes for size in range(len(sizes) + 1) for axes in combinations(range(len(sizes)), size)]
    return _table(sizes, random.sample(every, random.randint(2, min(len(every), 8))))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_no_margin_is_more_than_a_tenth_worse_than_by_itself(seed: int, power: int) -> None:
    """Brute force: variances by generalised least squares over the cells of the whole table."""
    table = _random_table(Random(seed))
    count = len(table.margins)
    problem = MarginalVariances.of(table, np.ones(count), power)
    shares = problem.best()
    assert sum(shares) == pytest.approx(1)
    variances = problem.variances(np.array(shares))
    apart, even = float(count) ** power, problem.variances(np.full(count, 1 / count))
    assert (variances <= 1.21 * apart).all()
    priced = problem.variances(_as_priced(np.array(shares)))
    assert (priced <= 1.21 * apart * (1 + 1e-9)).all()  # also as the price is really split
    assert np.log(variances).sum() <= np.log(even).sum() + 1e-6
    if power == 2:
        assert variances == pytest.approx([mean_variance(table, margin, shares) for margin in table.margins])
    if prod(table.sizes) <= 60:
        assert variances == pytest.approx(_by_least_squares(table, np.array(shares) ** power))


def _by_least_squares(table: ContingencyTable, precisions: np.ndarray) -> list[float]:
    cells = np.indices(table.sizes).reshape(len(table.sizes), -1)
    folds = []
    for margin in table.margins:
        shape = tuple(table.sizes[axis] for axis in margin.axes)
        place = (
            np.ravel_multi_index([cells[axis] for axis in margin.axes], shape) if shape else np.zeros(cells.shape[1])
        )
        folds.append(np.equal.outer(np.arange(prod(shape)), place).astype(float))
    information = sum(one * fold.T @ fold for one, fold in zip(precisions, folds, strict=True))
    covariance = np.linalg.pinv(information, rcond=1e-9)
    return [float(np.diag(fold @ covariance @ fold.T).mean()) for fold in folds]


def test_most_goes_to_the_finest_margin_where_it_says_most_of_the_others() -> None:
    table = _table((8, 4), [(), (0,), (1,), (0, 1)])
    problem = MarginalVariances.of(table, np.ones(4), 2)
    apart = np.sqrt(problem.variances(np.array(problem.best()))) / 4
    assert apart == pytest.approx([1.0, 0.6, 0.81, 0.31], abs=0.02)
    heavier = problem.of(table, np.array([10.0, 1, 1, 1]), 2)
    assert np.sqrt(heavier.variances(np.array(heavier.best())))[0] / 4 < 0.8


def test_the_error_of_a_plan_is_that_of_its_margins_together() -> None:
    table = _table((8, 4), [(), (0, 1)])
    apart = {("0", "n"): Fraction(32), ("1", "n"): Fraction(1)}
    assert geometric_error([], apart, {}) == pytest.approx(np.log(32) / 2)
    together = [16.0, 31 / 32 + 16 / 32**2]  # the total is known twice, with the variance 32 each time
    assert geometric_error([table], apart, {}) == pytest.approx(np.log(together).mean())
    huge = {name: variance * 10**400 for name, variance in apart.items()}
    assert geometric_error([table], huge, {}) == pytest.approx(np.log(together).mean() + 400 * np.log(10))


@pytest.fixture
def database(tmp_path: Path) -> sfumato.Database:
    write(tmp_path, a_world(1))
    return sfumato.open(policy(tmp_path, budget={"epsilon": 100, "delta": "1e-6"}))


def _widths(releases: list[sfumato.Release]) -> list[float]:
    bars = [[row["n"] for row in release.intervals(bias=False)] for release in releases]
    return [sum(high - low for low, high in some) / len(some) for some in bars]


def test_a_workload_is_measured_by_the_better_split(
    database: sfumato.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was answered with the split of version 0.12 is still paid for."""
    with database:
        with monkeypatch.context() as before:
            before.setattr(ways, "balance_marginals", lambda needs, tables, *_: weight_marginals(needs, tables))
            old = database.ask_all(QUESTIONS, epsilon="0.5")
        again = database.ask_all(QUESTIONS, epsilon="0.5")
        assert len(database.history()) == 1
        assert [one.rows() for one in again] == [one.rows() for one in old]
        new = database.ask_all(QUESTIONS, epsilon="0.500001")
        ratios = [one / other for one, other in zip(_widths(new), _widths(old), strict=True)]
        assert prod(ratios) ** (1 / 4) < 0.9
        assert ratios[-1] < 0.8


def test_weights_say_whose_error_counts(database: sfumato.Database) -> None:
    with database:
        even = _widths(database.ask_all(QUESTIONS, epsilon="0.5"))
        weighted = database.ask_all(QUESTIONS, epsilon="0.5", weights=[20, 1, 1, 1])
        assert _widths(weighted)[0] < 0.9 * even[0]
        assert len(database.history()) == 2
        again = database.ask_all(QUESTIONS, epsilon="0.5", weights=["20", 1, 1, 1.0])
        assert [one.rows() for one in again] == [one.rows() for one in weighted]
        assert len(database.history()) == 2
        receipt = database.history()[0].receipt
        for place, release in enumerate(weighted, 1):
            reopened = database.reopen(receipt, question=place)
            assert reopened.rows() == release.rows()
            assert reopened.intervals() == release.intervals()


@pytest.mark.parametrize("weights", [None, [1000, 1, 1, 1], [3, 1, "2.5", 7]], ids=str)
def test_all_weights_count_to_the_price(database: sfumato.Database, weights: list[object] | None) -> None:
    with database:
        database.ask_all(QUESTIONS, epsilon="0.5", weights=weights)
        (entry,) = database.history()
        assert entry.loss.epsilon == Fraction(1, 2)
        assert pure.epsilon(entry.event) <= Fraction(1, 2)


@pytest.mark.parametrize("weights", [[1], "1,1,1,1", [1, 1, 1, 0], [1, 1, 1, -2], [1, 1, 1, "x"], [1, 1, 1, 10**6], 3])
def test_weights_that_say_nothing_are_refused_before_anything_is_charged(
    database: sfumato.Database, weights: object
) -> None:
    with database:
        with pytest.raises(BadParameter, match="weight"):
            database.ask_all(QUESTIONS, epsilon="0.5", weights=weights)
        assert not database.history()
