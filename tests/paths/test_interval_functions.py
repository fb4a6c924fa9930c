"""dp_low, dp_high and dp_margin are the error bars of the answer, as values of the query, at no further cost."""

# ruff: noqa: S608  (SQL is what is tested here)

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.errors import BadSql, Refusal, UnsupportedSql

BY_DEPT = "FROM visits GROUP BY dept"
COUNTED = "(SELECT dept, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY dept) AS t"
NUMBERS = (
    *("COUNT(*)", "SUM(age)", "SUM(cost)", "AVG(age)", "AVG(cost)", "VAR_POP(age)", "COUNT(DISTINCT patient_id)"),
    *("MEDIAN(cost)", "2 * COUNT(*) - SUM(age)", "SUM(cost) / COUNT(*)", "ROUND(AVG(cost), 1)", "SQRT(COUNT(*))"),
    *("COUNT(*) FILTER (WHERE urgent)", "CASE WHEN dept = 'er' THEN COUNT(*) ELSE 0 END", "GREATEST(COUNT(*), 0)"),
)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("bars")
    write(folder, a_world(5))
    with sfumato.open(policy(folder)) as database:
        yield database


def margin(value: Any, ends: Any) -> Any:
    if value is None or ends is None or None in ends:
        return None
    return pytest.approx(max(ends[1] - value, value - ends[0]))


def free(clinic: sfumato.Database, sql: str) -> sfumato.Release:
    """Ask what must be known already."""
    before = clinic.budget().spent
    release = clinic.ask(sql, epsilon="1")
    assert clinic.budget().spent == before
    return release


@pytest.mark.parametrize("number", NUMBERS)
def test_the_functions_are_the_intervals_of_the_answer(clinic: sfumato.Database, number: str) -> None:
    plain = clinic.ask(f"SELECT dept, {number} AS x {BY_DEPT}", epsilon="1")
    release = free(
        clinic,
        f"SELECT dept, {number} AS x, dp_low(x) AS lo, DP_INTERVAL_HIGH({number}) AS hi, dp_margin(x) AS m {BY_DEPT}",
    )
    assert release.receipt.id == plain.receipt.id
    for row, ends, known in zip(release.rows(), release.intervals(), plain.intervals(), strict=True):
        assert ends["x"] == known["x"]
        assert (row["lo"], row["hi"]) == (known["x"] or (None, None))
        assert row["m"] == margin(row["x"], known["x"])
        assert (ends["lo"], ends["hi"]) == (row["lo"], row["hi"])  # an end has no interval of its own


@pytest.mark.parametrize("clause", ["", "ORDER BY x DESC LIMIT 2", "ORDER BY dp_low(x)", "WHERE x > -1000"])
@pytest.mark.parametrize("number", ["n", "cost", "n / SUM(n) OVER ()", "cost / NULLIF(n, 0)", "n + 1"])
def test_they_are_the_intervals_above_subqueries(clinic: sfumato.Database, number: str, clause: str) -> None:
    clinic.ask(f"SELECT dept, COUNT(*) AS n, SUM(cost) AS cost {BY_DEPT}", epsilon="1")
    inner = f"(SELECT dept, {number} AS x FROM {COUNTED}) AS u"
    sql = f"SELECT dept, x, dp_low(x) AS lo, dp_high(x) AS hi FROM {inner} {clause}"
    if "OVER" in number and "dp_low(x)" in clause:
        with pytest.raises(UnsupportedSql, match="computed from several rows"):
            clinic.ask(sql, epsilon="1")
        return
    release = free(clinic, sql)
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        assert (row["lo"], row["hi"]) == (ends["x"] or (None, None))


def test_numbers_that_are_computed_from_several_groups_have_their_own(clinic: sfumato.Database) -> None:
    release = clinic.ask(f"SELECT SUM(n) AS s, dp_low(SUM(n)) AS lo, dp_high(s) AS hi FROM {COUNTED}", epsilon="1")
    ((row, ends),) = zip(release.rows(), release.intervals(), strict=True)
    assert (row["lo"], row["hi"]) == ends["s"]


def test_they_can_be_computed_with_grouped_and_chosen_by(clinic: sfumato.Database) -> None:
    known = {
        row["dept"]: row["n"] for row in clinic.ask(f"SELECT dept, COUNT(*) AS n {BY_DEPT}", epsilon="1").intervals()
    }
    inner = f"(SELECT dept, COUNT(*) AS n, dp_low(n) AS lo, dp_high(n) AS hi {BY_DEPT}) AS t"
    ends = free(clinic, f"SELECT dept, MAX(lo) AS lo, MIN(hi) AS hi, MAX(hi - lo) AS width FROM {inner} GROUP BY dept")
    for row in ends.rows():
        low, high = known[row["dept"]]
        assert (row["lo"], row["hi"], row["width"]) == (low, high, high - low)
    assert ends.intervals() == ends.rows()
    total = free(clinic, f"SELECT SUM(lo) AS lo FROM {inner}")
    assert total.rows() == [{"lo": sum(low for low, _ in known.values())}]
    ordered = free(clinic, f"SELECT dept FROM {inner} ORDER BY hi DESC, dept")
    assert [row["dept"] for row in ordered] == sorted(known, key=lambda dept: (-known[dept][1], dept))


def test_where_noise_chooses_rows_the_intervals_hold_together(clinic: sfumato.Database) -> None:
    """Of three groups of which some are shown, each may miss a third as often: the ends in a condition are wider."""
    inner = f"(SELECT dept, COUNT(*) AS n, dp_low(n) AS lo, dp_high(n) AS hi {BY_DEPT}) AS t"
    alone = clinic.ask(f"SELECT dept, MAX(hi) - MIN(lo) AS width FROM {inner} GROUP BY dept", epsilon="1").rows()
    chosen = free(
        clinic, f"SELECT dept, MAX(hi) - MIN(lo) AS width FROM {inner} WHERE lo < 100000 GROUP BY dept"
    ).rows()
    assert [row["dept"] for row in alone] == [row["dept"] for row in chosen]
    assert all(one["width"] < other["width"] for one, other in zip(alone, chosen, strict=True))
    by_key = free(
        clinic, f"SELECT dept, MAX(hi) - MIN(lo) AS width FROM {inner} WHERE dept <> 'x' GROUP BY dept"
    ).rows()
    assert by_key == alone
    shown = free(clinic, f"SELECT dept, n, dp_high(n) - dp_low(n) AS width FROM {inner} WHERE lo < 100000")
    assert any("chosen by their noisy values" in note for note in shown.notes)


def test_a_number_without_noise_is_its_own_interval(clinic: sfumato.Database) -> None:
    release = clinic.ask("SELECT floor, dp_low(floor) AS lo, dp_high(floor) AS hi, dp_margin(floor) AS m FROM staff")
    assert all((row["lo"], row["hi"], row["m"]) == (row["floor"], row["floor"], 0) for row in release)
    keys = clinic.ask(
        "SELECT age, dp_low(age) AS lo, dp_margin(age) AS m, COUNT(*) AS n FROM visits GROUP BY age", epsilon="1"
    )
    assert all((row["lo"], row["m"]) == (row["age"], 0) for row in keys)


@pytest.mark.parametrize(
    ("sql", "refusal", "words"),
    [
        ("SELECT dp_low(cost) FROM visits", UnsupportedSql, "asked of people's rows"),
        ("SELECT SUM(dp_low(cost)) FROM visits", UnsupportedSql, "asked of people's rows"),
        ("SELECT COUNT(*) FROM visits WHERE dp_low(cost) > 1", UnsupportedSql, "asked of people's rows"),
        ("SELECT dp_margin(age), COUNT(*) FROM visits GROUP BY 1", UnsupportedSql, "asked of people's rows"),
        (
            "SELECT AVG(lo) FROM (SELECT patient_id, dp_low(SUM(cost)) AS lo FROM visits GROUP BY patient_id) t",
            UnsupportedSql,
            "asked of people's rows",
        ),
        ("SELECT dp_low(dp_high(COUNT(*))) FROM visits", UnsupportedSql, "end of an error bar"),
        ("SELECT dp_low(dept) FROM visits", BadSql, "takes a decimal or an integer"),
        ("SELECT dp_low() FROM visits", BadSql, "0 arguments"),
    ],
)  # fmt: skip
def test_below_the_noise_there_is_no_interval(
    clinic: sfumato.Database, sql: str, refusal: type[Refusal], words: str
) -> None:
    with pytest.raises(refusal, match=words):
        clinic.explain(sql, epsilon="1")
