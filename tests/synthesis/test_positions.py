"""Positions inside cells: finer cells divide cells, cost what is charged, and show where numbers lie."""

import pickle
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refusing
from tests.sources import HashSource
from tests.synthesis.tables import made
from tests.synthesis.test_database import ROWS, opened

from sfumato.accounting import pld
from sfumato.accounting.event import Composed, GaussianNoise, Neighbours
from sfumato.errors import BadParameter, UnknownName
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.synthesis.design import POSITIONS_SHARE, all_pairs, sensitivity_squared
from sfumato.synthesis.domain import ColumnDomain, Nullable, Range, read_domain
from sfumato.synthesis.positions import MAX_FINE_CELLS, Positions, finer, first_cells, split_shares
from sfumato.synthesis.selecting import make_selection
from sfumato.synthesis.synthesize import synthesize

BIG: dict[str, Any] = {"epsilon": 10_000, "delta": "0.4"}  # noise far below 1
RANGES = [
    Range(0, 99, 10, whole=True),
    Range(-7, 7, 4, whole=True),
    Range(0, 10**6, 16, whole=True),
    Range(3, 9001, 7, whole=True),
    Range(0, 5000, 16),
    Range(0, 1, 1000),
    Range(date(2024, 1, 1), date(2024, 12, 31), 12),
]


def column_of(domain: Range, nulls: bool) -> ColumnDomain:
    (column,) = read_domain({"c": domain})
    return Nullable(column) if nulls else column


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("domain", RANGES, ids=repr)
def test_each_value_is_in_one_finer_cell_and_that_lies_in_its_cell(domain: Range, nulls: bool) -> None:
    column, random = column_of(domain, nulls), np.random.default_rng(1)
    fine = finer(column)
    assert column.size <= fine.size <= MAX_FINE_CELLS + nulls
    starts = first_cells(column, fine)
    held = column.size - nulls
    values: list[Any] = column.drawn(random.integers(0, held, 4000), random.random(4000)).to_pylist()
    values += [None, float("nan"), "x", domain.low, domain.high]
    coarse, inner = column.codes(values), fine.codes(values)
    assert ((coarse < 0) == (inner < 0)).all()
    known = (coarse >= 0) & (coarse < held)
    assert (np.searchsorted(starts, inner[known], side="right") - 1 == coarse[known]).mean() > 0.999  # float bounds
    assert (inner[(coarse == held) & nulls] == fine.size - 1).all()


def test_finer_histograms_are_part_of_the_certified_price() -> None:
    sizes, epsilon, delta, neighbours = (10, 8), Fraction(1), Fraction(1, 10**6), Neighbours.REPLACE
    moved, plan = sensitivity_squared(2, neighbours), all_pairs(sizes, epsilon, delta, 2, neighbours, 2)
    assert plan.fine_variance is not None
    variances = [*plan.sigma_squared, plan.fine_variance, plan.fine_variance]
    assert plan.event == Composed(tuple(GaussianNoise(moved, variance, neighbours) for variance in variances))
    assert Fraction(97, 100) * epsilon <= Fraction(pld.bounds(plan.event, delta)[1]) <= epsilon
    total = sum(1 / variance for variance in variances)
    assert float(2 / plan.fine_variance / total) == pytest.approx(float(POSITIONS_SHARE), rel=1e-6)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("fine", [1, 2])
def test_rounds_and_finer_histograms_spend_no_more_than_rho(fine: int, neighbours: Neighbours) -> None:
    sizes, epsilon, delta = (16,) * 20, Fraction(1), Fraction(1, 10**6)
    plan = make_selection(sizes, epsilon, delta, 3, neighbours, fine)
    assert plan.event == make_selection(sizes, epsilon, delta, 3, neighbours).event
    rho, moved = concentrated_loss(epsilon, delta), sensitivity_squared(3, neighbours)
    assert rho is not None
    assert plan.fine_variance is not None
    spent = fine * moved / (2 * plan.fine_variance) + len(sizes) * moved / (2 * plan.one_way) + plan.rho
    assert Fraction(999, 1000) * rho < spent <= rho


def test_rows_lie_where_the_data_lies() -> None:
    random = np.random.default_rng(2)
    usual = np.clip(random.gamma(2.0, 150.0, 6000), 0, 5000)
    cost = np.where(random.random(6000) < 0.3, 250.0, usual).round(2)
    given: dict[str, Any] = {
        "data": {"dept": random.choice(["er", "icu"], 6000).tolist(), "cost": cost.tolist()},
        "domain": {"dept": ["er", "icu"], "cost": Range(0, 5000, 16)},
    }

    def shown(positions: list[str]) -> Any:
        return made(HashSource("positions"), positions=positions, **given).table()["cost"].to_numpy()

    near = np.mean(np.abs(cost - 250) < 2)
    assert abs(np.mean(np.abs(shown(["Cost"]) - 250) < 2) - near) < 0.02
    assert np.mean(np.abs(shown([]) - 250) < 2) < 0.05 < 0.3 < near
    assert (np.histogram(shown(["cost"]), 16, (0, 5000))[0] == np.histogram(shown(["cost"]), 16, (0, 5000))[0]).all()


def test_halves_within_noise_are_spread_evenly_and_shares_add_up() -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 3, 7, 256):
        widths = random.integers(1, 5, size).astype(float)
        noise = random.normal(0, 10, size)
        shares = split_shares(noise + 1e6 * widths, widths, 1e-9, 1e6 * widths.sum())
        assert shares.sum() == pytest.approx(1.0)
        assert shares == pytest.approx(widths / widths.sum(), rel=1e-3)
        for total in (0.0, 1.0, 1e9):
            found = split_shares(noise, widths, 100.0, total)
            assert (found >= 0).all()
            assert found.sum() == pytest.approx(1.0)
        assert split_shares(np.zeros(size), widths, 1.0, 50.0) == pytest.approx(widths / widths.sum())


@pytest.mark.parametrize("nulls", [False, True])
def test_drawn_values_lie_in_their_cells_whatever_the_noise(nulls: bool) -> None:
    random = np.random.default_rng(4)
    for domain in RANGES:
        column = column_of(domain, nulls)
        fine = finer(column)
        for counts in (np.zeros(fine.size), random.normal(0, 1000, fine.size), np.full(fine.size, -5.0)):
            positions = Positions(0, column, fine, counts.astype(np.int64), Fraction(100))
            codes = np.repeat(np.arange(column.size), 3)
            within = np.tile([1e-6, 0.5, 1 - 1e-6], column.size)
            drawn = positions.drawn(codes, within, random.normal(500, 500, column.size))
            assert drawn.type == column.arrow
            assert (column.codes(drawn.to_pylist()) == codes).all()


def test_through_the_database_positions_are_counted_and_charged_once(tmp_path: Path) -> None:
    given = [row for place, row in enumerate(ROWS) if place != 2]  # at most two rows of each person
    with opened(tmp_path, given, epsilon=100_000) as db:
        plain = synthesize(db, "visits", columns=["age", "dept"], **BIG, bins=11)
        found = synthesize(db, "visits", columns=["dept", "age"], **BIG, bins=11, positions=["AGE"], nulls=["age"])
        assert found.receipt != plain.receipt
        used = db.budget().used
        same = synthesize(db, "visits", columns=["age", "dept"], **BIG, bins=11, positions=["age"], nulls=["age"])
        assert (same.receipt, db.budget().used) == (found.receipt, used)
        assert same.sample(50).to_pydict() == found.sample(50).select(same.sample(50).column_names).to_pydict()
        values = synthesize(db, "visits", columns=["age", "dept"], **BIG, bins=200, positions=["age"])
        bare = synthesize(db, "visits", columns=["age", "dept"], **BIG, bins=200)
        assert values.receipt == bare.receipt  # each cell is one value already
    (positions,) = found.positions
    wanted = np.zeros(122, dtype=int)
    for row in given:
        if row[0] is not None and row[2] != "nowhere":
            wanted[121 if row[1] is None else min(max(row[1], 0), 120)] += 1
    assert positions.counts.tolist() == wanted.tolist()
    copied = pickle.loads(pickle.dumps(found))
    assert copied.sample(20).equals(found.sample(20))


def test_names_of_positions_are_checked_before_anything_is_charged(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        given: dict[str, Any] = {"columns": ["age", "dept"], "epsilon": 1, "delta": "1e-6"}
        for wrong, kind in (("age", BadParameter), (["urgent"], UnknownName), (["dept"], BadParameter)):
            with refusing() as caught:
                synthesize(db, "visits", **given, positions=wrong)
            assert isinstance(caught.value, kind)
        assert db.budget().used == 0
