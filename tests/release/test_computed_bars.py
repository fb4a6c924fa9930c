"""Bars of computed columns, on the whole path: bounded by what is possible, and open where nothing is known."""

from collections.abc import Iterator
from typing import Any

import pytest

import sfumato

CELLS = "SELECT dept, COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY dept"
OVER_50 = "SELECT dept, COUNT(*) AS n FROM visits WHERE age > 50 GROUP BY dept"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return 600 visits in two departments, three in a third, and none in the fourth."""
    folder = tmp_path_factory.mktemp("clinic")
    visits = [f"{row},{('er', 'icu')[row % 2]},{18 + row % 60},{row % 400}" for row in range(600)]
    visits += [f"{row},ward,40,100" for row in range(600, 603)]
    (folder / "visits.csv").write_text("\n".join(["patient,dept,age,cost", *visits]), encoding="utf-8")
    columns = {
        "patient": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu", "ward", "hospice"]},
        "age": {"type": "integer", "bounds": [0, 100]},
        "cost": {"type": "integer", "bounds": [0, 500]},
    }
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1000, "delta": "1e-3"},
        "tables": {"visits": {"unit": "patient", "rows_per_unit": 1, "columns": columns}},
    }
    with sfumato.open(policy) as database:
        yield database


SURE = "0.999999999"
"""A level that is missed once in a thousand million times."""


def bars(clinic: sfumato.Database, sql: str, epsilon: str = "1", level: str = "0.95") -> list[Any]:
    """Return the intervals of the column x, NULLs left out."""
    return [row["x"] for row in clinic.ask(sql, epsilon=epsilon).intervals(level) if row["x"] is not None]


RANGES = {
    "100 * COUNT(*) FILTER (WHERE age > 50) / COUNT(*)": (0, 100),
    "1.0 * COUNT(cost) / NULLIF(COUNT(*), 0)": (0, 1),
    "1.0 * COUNT(DISTINCT patient) / COUNT(*)": (0, 1),
    "1 - 1.0 * COUNT(*) FILTER (WHERE age > 50) / COUNT(*)": (0, 1),
    "AVG(cost) - AVG(age)": (-100, 500),
    "AVG(cost) - AVG(cost) FILTER (WHERE age > 50)": (-500, 500),
    "AVG(cost) / 100": (0, 5),
    "SUM(cost) / COUNT(*)": (0, 500),
    "SUM(cost) / (2 * COUNT(*))": (0, 250),
    "ROUND(AVG(cost) * 2, 1)": (0, 1000),
    "STDDEV(cost)": (0, 500),
    "COALESCE(CORR(age, cost), 0)": (-1, 1),
    "SQRT(GREATEST(CORR(age, cost), 0))": (0, 1),
    "CASE WHEN REGR_SLOPE(age, cost) > 0 THEN 1 ELSE 0 END": (0, 1),
}


@pytest.mark.parametrize("epsilon", ["0.001", "1"])
@pytest.mark.parametrize("column", RANGES)
def test_what_is_known_beforehand_bounds_a_bar_however_small_the_group(
    clinic: sfumato.Database, column: str, epsilon: str
) -> None:
    least, most = RANGES[column]
    for low, high in bars(clinic, f"SELECT dept, {column} AS x FROM visits GROUP BY dept", epsilon):  # noqa: S608
        assert least <= low <= high <= most


@pytest.mark.parametrize("column", ["MIN(a)", "MAX(a)", "AVG(a)"])
def test_an_aggregate_of_averages_stays_in_the_range_of_their_column(clinic: sfumato.Database, column: str) -> None:
    for epsilon in ("0.01", "5"):
        for low, high in bars(clinic, f"SELECT {column} AS x FROM ({CELLS}) t", epsilon):  # noqa: S608
            assert 0 <= low <= high <= 500


def test_a_ratio_to_what_may_be_nothing_is_open_on_the_side_where_nothing_bounds_it(clinic: sfumato.Database) -> None:
    (bar,) = bars(clinic, "SELECT 1.0 * SUM(cost) / SUM(age) AS x FROM visits WHERE cost > 499", "0.01", SURE)
    assert bar == (0, None)


def test_a_clamped_total_has_the_bar_of_the_total(clinic: sfumato.Database) -> None:
    sql = f"SELECT SUM(GREATEST(n, 0)) AS x, SUM(n) AS s FROM ({CELLS}) t"  # noqa: S608
    (row,) = clinic.ask(sql, epsilon="0.5").intervals()
    assert row["x"][0] == row["s"][0]
    assert row["x"][1] >= row["s"][1]


def test_counts_above_having_reach_from_the_sure_cells_to_the_possible_ones(clinic: sfumato.Database) -> None:
    sure = f"SELECT COUNT(*) AS x FROM ({CELLS} HAVING COUNT(*) > 100) t"  # noqa: S608
    unsure = f"SELECT COUNT(*) AS x FROM ({CELLS} HAVING COUNT(*) > 3) t"  # noqa: S608
    assert bars(clinic, sure, "5") == [(2, 2)]
    assert bars(clinic, unsure, "0.5", SURE) == [(2, 4)]


def test_rows_that_a_condition_kept_lie_on_its_side(clinic: sfumato.Database) -> None:
    for column in ("MAX(n)", "MIN(n)", "AVG(n)"):
        sql = f"SELECT {column} AS x FROM ({CELLS} HAVING COUNT(*) > 2 AND COUNT(*) < 1000) t"  # noqa: S608
        ((low, high),) = bars(clinic, sql, "0.5", SURE)
        assert 2 <= low <= high <= 1000


def test_a_left_join_that_noise_decides_is_open_where_it_met_nothing(clinic: sfumato.Database) -> None:
    joined = f"({CELLS}) t LEFT JOIN ({OVER_50} HAVING COUNT(*) > 20) u ON t.dept = u.dept"
    release = clinic.ask(f"SELECT t.dept, COALESCE(u.n, 0) AS x FROM {joined}", epsilon="5")  # noqa: S608
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        assert (ends["x"] == (None, None)) == (row["x"] == 0)
    assert any("No interval" in note for note in release.notes)
    plain = f"({CELLS}) t LEFT JOIN ({OVER_50}) u ON t.dept = u.dept AND t.dept <> 'er'"
    release = clinic.ask(f"SELECT t.dept, COALESCE(u.n, 0) AS x FROM {plain}", epsilon="5")  # noqa: S608
    assert {row["dept"]: row["x"] for row in release.intervals()}["er"] == (0, 0)


def test_aggregates_of_aggregates_and_shares_of_totals_have_bars(clinic: sfumato.Database) -> None:
    totals = (
        "SELECT dept, SUM(n) AS s FROM (SELECT dept, age, COUNT(*) AS n FROM visits GROUP BY dept, age) t GROUP BY dept"
    )
    ((low, high),) = bars(clinic, f"SELECT MAX(s) AS x FROM ({totals}) u", "5", SURE)  # noqa: S608
    assert low <= 300 <= high
    share = f"SELECT c.dept, 1.0 * c.n / s.m AS x FROM ({CELLS}) c CROSS JOIN (SELECT SUM(n) AS m FROM ({CELLS}) d) s"  # noqa: S608
    for row, (low, high) in zip(clinic.ask(share, epsilon="5").rows(), bars(clinic, share, "5"), strict=True):
        assert 0 <= low <= high <= 1.1
        assert {"er": 0.498, "icu": 0.498}.get(row["dept"], 0.005) == pytest.approx((low + high) / 2, abs=0.05)


def test_a_join_that_noise_decides_counts_from_sure_pairs_to_possible_ones(clinic: sfumato.Database) -> None:
    pairs = f"SELECT COUNT(*) AS x FROM ({CELLS}) t JOIN ({OVER_50}) u ON t.n < u.n"  # noqa: S608
    ((low, high),) = bars(clinic, pairs, "5", SURE)
    assert 0 <= low <= 4 <= high <= 16  # the ward and the hospice have fewer than two departments have over 50


def test_a_join_of_millions_of_rows_has_an_open_bar_and_takes_no_memory(clinic: sfumato.Database) -> None:
    cells = "SELECT age, cost / 20 AS c, COUNT(*) AS n FROM visits WHERE age < 80 GROUP BY 1, 2"
    sql = f"SELECT COUNT(*) AS x, SUM(a.n) AS s FROM ({cells}) a CROSS JOIN ({cells}) b"  # noqa: S608
    release = clinic.ask(sql, epsilon="1")
    assert release.rows()[0]["x"] > 4_000_000
    assert release.intervals()[0] == {"x": (0, None), "s": (None, None)}
    assert any("No interval" in note for note in release.notes)


@pytest.mark.parametrize(
    "rows",
    [
        f"({CELLS} ORDER BY n DESC LIMIT 2) t",
        f"({CELLS}) t WHERE dept IN (SELECT dept FROM ({OVER_50}) o WHERE o.n > 100)",  # noqa: S608
        f"({CELLS}) t WHERE dept NOT IN (SELECT dept FROM ({OVER_50}) o WHERE o.n < 100)",  # noqa: S608
        f"({CELLS}) t WHERE EXISTS (SELECT 1 FROM ({OVER_50}) o WHERE o.dept = t.dept AND o.n > 100)",  # noqa: S608
    ],
)
def test_an_aggregate_of_rows_that_noise_chose_holds_all_that_could_have_been_chosen(
    clinic: sfumato.Database, rows: str
) -> None:
    """Two departments of 300 are meant; the bars must not say that it is known which rows there are."""
    for aggregate, true in {"COUNT(*)": 2, "SUM(n)": 600, "AVG(n)": 300, "MAX(n)": 300}.items():
        ((low, high),) = bars(clinic, f"SELECT {aggregate} AS x FROM {rows}", level=SURE)  # noqa: S608
        assert low <= true <= high
        assert low < high
