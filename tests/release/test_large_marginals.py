"""Tables too large to be written out: their closed forms are those of the weights, cell by cell."""

from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.release.test_marginal_consistency import TABLES, VARIANCES, group, summing

import sfumato
from sfumato.planning import shared_marginals, ways
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement
from sfumato.release.large_marginals import LargeTable
from sfumato.release.marginal_consistency import _estimated, _Solved

FOURTHS = (12.0, 0.0, 5.0)
_LARGER = ContingencyTable(
    (4, 3, 2, 3),
    (False, True, False, True),
    tuple(
        MarginalMeasurement(str(place), "m", axes) for place, axes in enumerate([(1, 0, 2), (3, 1), (0,), (), (2, 3)])
    ),
)
EVERY = [*TABLES, _LARGER]


def _solved(table: ContingencyTable) -> LargeTable:
    count = len(table.margins)
    return LargeTable(table, (*VARIANCES, 1.0, 3.0)[:count], (*FOURTHS, 2.0, 0.0)[:count])


def _weights(solved: LargeTable, margin: MarginalMeasurement) -> list[np.ndarray]:
    dense = _Solved(solved.table, solved.variances)
    return [dense._weights(margin, other) for other in solved.table.margins]


@pytest.mark.parametrize("table", EVERY, ids=lambda table: str(table.sizes))
def test_estimates_and_moments_are_those_of_the_written_out_weights(table: ContingencyTable) -> None:
    solved, random = _solved(table), np.random.default_rng(3)
    measured = [random.integers(-20, 60, [table.sizes[axis] for axis in margin.axes]) for margin in table.margins]
    groups = [group(table, margin, values) for margin, values in zip(table.margins, measured, strict=True)]
    found = _estimated(solved, groups)
    for margin in table.margins:
        weights, made = _weights(solved, margin), found[margin.label, margin.name].estimates
        assert made is not None
        direct = sum(part @ values.ravel() for part, values in zip(weights, measured, strict=True))
        np.testing.assert_allclose(made.values, direct, atol=1e-9)
        axes = tuple(sorted(margin.axes))
        for power, own, total in (
            (2, solved.variances, solved.variance(axes)),
            (4, solved.fourths, solved.fourth(axes)),
        ):
            by_cell = sum((part**power).sum(axis=1) * one for part, one in zip(weights, own, strict=True))
            np.testing.assert_allclose(by_cell, total, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("table", EVERY, ids=lambda table: str(table.sizes))
def test_the_variance_of_a_sum_over_cells_of_several_marginals_is_exact(table: ContingencyTable) -> None:
    solved, random = _solved(table), np.random.default_rng(4)
    rows, cells, weights, direct = [], [], [], []
    for row in range(6):
        total: Any = 0
        for _ in range(4):
            margin = table.margins[random.integers(len(table.margins))]
            sizes = [table.sizes[axis] for axis in margin.axes]
            place, weight = int(random.integers(prod(sizes))), float(random.normal())
            at = dict(zip(margin.axes, np.unravel_index(place, sizes) if sizes else (), strict=True))
            axes = tuple(sorted(margin.axes))
            rows.append(row)
            cells.append((axes, np.array([at[axis] for axis in axes], dtype=np.int64)))
            weights.append(weight)
            total = total + weight * np.concatenate([part[place] for part in _weights(solved, margin)])
        noises = np.concatenate(
            [np.full(len(summing(table, one)), own) for one, own in zip(table.margins, solved.variances, strict=True)]
        )
        direct.append(float((total**2 * noises).sum()))
    found = solved.sum_variances(np.array(rows), cells, np.array(weights), 6)
    np.testing.assert_allclose(found, direct, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("table", EVERY, ids=lambda table: str(table.sizes))
def test_whole_numbers_of_all_marginals_have_one_total(table: ContingencyTable) -> None:
    solved, random = _solved(table), np.random.default_rng(5)
    truth = random.integers(0, 50, prod(table.sizes))
    groups = [
        group(table, margin, summing(table, margin) @ truth + random.integers(-9, 10, len(summing(table, margin))))
        for margin in table.margins
    ]
    found = _estimated(solved, groups)
    whole = [
        found[one.label, one.name].values
        for one in table.margins
        if not any(map(table.has_remainder.__getitem__, one.axes))
    ]
    assert all(values.dtype == np.int64 for values in whole)
    assert len({int(values.sum()) for values in whole}) <= 1


SETS = [(), ("g",), ("h",), ("g", "h")]
QUESTIONS = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT g, COUNT(*) AS n FROM people GROUP BY g",
    "SELECT h, COUNT(*) AS n FROM people GROUP BY h",
    "SELECT g, h, COUNT(*) AS n FROM people GROUP BY g, h",
]


def _database(tmp_path: Path, **budget: object) -> sfumato.Database:
    lines = [f"{who},{who % 7},{who * who % 5}" for who in range(700)]
    (tmp_path / "people.csv").write_text("who,g,h\n" + "\n".join(lines) + "\n", encoding="utf-8")
    keys = {name: {"type": "integer", "bounds": [0, most]} for name, most in (("g", 6), ("h", 4))}
    columns = {"who": {"type": "integer"}, **keys}
    policy: dict[str, object] = {
        "name": "people",
        "source": f"csv:{tmp_path}/people.csv",
        "ledger": f"sqlite:{tmp_path}/ledger",
        "budget": {"epsilon": 10**7, "delta": "1e-6", **budget},
        "tables": {"people": {"unit": "who", "rows_per_unit": 1, "columns": columns}},
    }
    return sfumato.open(policy)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every common table is treated as a large one."""
    monkeypatch.setattr(shared_marginals, "MAX_TABLE_CELLS", 1)


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rests are never left out: then bars are lengthened by rounding alone, and their widths do not depend on luck."""
    for solved in (LargeTable, _Solved):
        monkeypatch.setattr(solved, "_is_there", lambda *_: True)


def _widths(releases: list[sfumato.Release], column: str = "n") -> list[float]:
    bars = [[row[column] for row in release.intervals(bias=False)] for release in releases]
    return [sum(high - low for low, high in some) / len(some) for some in bars]


@pytest.mark.parametrize("epsilon", ["0.5", "0.03"])
def test_large_tables_are_as_exact_as_those_that_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rests: None, epsilon: str
) -> None:
    with _database(tmp_path) as database:
        written_out = _widths(database.ask_all(QUESTIONS, epsilon=epsilon))
        monkeypatch.setattr(shared_marginals, "MAX_TABLE_CELLS", 1)
        estimated = database.ask_all(QUESTIONS, epsilon=epsilon + "0001")
        assert len(database.history()) == 2
        assert _widths(estimated) == pytest.approx(written_out, rel=0.05, abs=2)
        (entry, *_) = database.history()
        for place, release in enumerate(estimated, 1):
            reopened = database.reopen(entry.receipt, question=place)
            assert (reopened.rows(), reopened.intervals()) == (release.rows(), release.intervals())


def test_without_noise_large_tables_show_the_truth(tmp_path: Path, large: None) -> None:
    with _database(tmp_path) as database:
        found = database.ask_all(QUESTIONS, epsilon=10**5)
    truth = [(who % 7, who * who % 5) for who in range(700)]
    for keys, release in zip(SETS, found, strict=True):
        for row in release.rows():
            wanted = {name: row[name] for name in keys}
            assert row["n"] == sum(
                all(dict(zip("gh", one, strict=True))[k] == v for k, v in wanted.items()) for one in truth
            )


def test_an_answer_of_version_0_14_is_still_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rests: None
) -> None:
    monkeypatch.setattr(shared_marginals, "MAX_TABLE_CELLS", 1)
    with _database(tmp_path) as database:
        with monkeypatch.context() as before:
            before.setattr(ways, "has_large_table", lambda groups: False)
            old = database.ask_all(QUESTIONS, epsilon="0.5")
        again = database.ask_all(QUESTIONS, epsilon="0.5")
        assert [one.rows() for one in again] == [one.rows() for one in old]
        assert len(database.history()) == 1
        new = database.ask_all(QUESTIONS, epsilon="0.500001")
        assert np.prod(_widths(new)) < 0.5 * np.prod(_widths(old))


def test_sums_and_shares_over_cells_of_a_large_table_have_bars_that_hold(
    tmp_path: Path, large: None, rests: None
) -> None:
    """Totals after the noise, and shares of them: of 12 bars at 95 % of each, 6 fail with probability 1.1e-5."""
    text = (
        "SELECT g, SUM(n) OVER () AS total, n, 1.0 * n / SUM(n) OVER () AS part "
        "FROM (SELECT g, COUNT(*) AS n FROM people GROUP BY g) t"
    )
    missed = dict.fromkeys(("total", "n", "part"), 0)
    with _database(tmp_path) as database:
        for more in range(12):
            release = database.ask_all([*QUESTIONS[:1], text, *QUESTIONS[2:]], epsilon=f"0.5{more:03d}1")[1]
            row = release.intervals(bias=False)[3]
            for name, true in (("total", 700), ("n", 100), ("part", 1 / 7)):
                low, high = row[name]
                missed[name] += not low <= true <= high
            total = row["total"]
            assert total[1] - total[0] < 3 * (row["n"][1] - row["n"][0])
    assert max(missed.values()) <= 5


@pytest.mark.parametrize("size", [2, 3])
def test_a_workload_of_many_attributes_is_planned_by_closed_forms(size: int) -> None:
    """The domains of Adult have 10^16 cells; nothing of that size is written out."""
    domains = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    axes = list(combinations(range(len(domains)), size))
    margins = tuple(MarginalMeasurement(str(place), "m", one) for place, one in enumerate(axes))
    table = ContingencyTable(domains, (False,) * len(domains), margins)
    solved = LargeTable(table, (1.0,) * len(margins), (0.0,) * len(margins))
    assert all(solved.variance(margin.axes) < 1 for margin in margins)
