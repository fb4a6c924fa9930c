"""Names of BigQuery and Snowflake: the same question where they mean the same, else a refusal whose remedy is asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write
from tests.query.clinic import CLINIC
from tests.refusals import refusing, spelled_question

import sfumato
from sfumato.errors import UnsupportedSql
from sfumato.query.canonical import canonical
from sfumato.query.parse import parse

SAME = [
    ("SELECT `dept`, COUNT(*) FROM `visits` GROUP BY `dept`", "SELECT dept, COUNT(*) FROM visits GROUP BY dept"),
    ("SELECT COUNT(*) FROM `clinic.public.visits`", "SELECT COUNT(*) FROM clinic.public.visits"),
    ("SELECT `Odd Name`, COUNT(*) FROM visits GROUP BY 1", 'SELECT "Odd Name", COUNT(*) FROM visits GROUP BY 1'),
    (
        "SELECT SAFE_DIVIDE(SUM(age), COUNT(*)) AS q FROM visits",
        "SELECT 1.0 * SUM(age) / NULLIF(COUNT(*), 0) AS q FROM visits",
    ),
    (
        "SELECT DATE_TRUNC(day, MONTH) AS m, COUNT(*) FROM visits GROUP BY m",
        "SELECT date_trunc('month', day) AS m, COUNT(*) FROM visits GROUP BY m",
    ),
    (
        "SELECT TIMESTAMP_TRUNC(seen, HOUR) AS h, COUNT(*) FROM visits GROUP BY h",
        "SELECT date_trunc('hour', seen) AS h, COUNT(*) FROM visits GROUP BY h",
    ),
    ("SELECT DATE_TRUNC(YEAR, seen) AS y FROM visits", "SELECT date_trunc('year', seen) AS y FROM visits"),
    ("SELECT DATE_TRUNC(day, ISOWEEK) AS w FROM visits", "SELECT date_trunc('week', day) AS w FROM visits"),
    ("SELECT DATE_TRUNC(day, WEEK(MONDAY)) AS w FROM visits", "SELECT date_trunc('week', day) AS w FROM visits"),
    ("SELECT COUNTIF(age > 3) AS n FROM visits", "SELECT COUNT(*) FILTER (WHERE age > 3) AS n FROM visits"),
    ("SELECT ANON_COUNT(*) AS n, ANON_SUM(cost) AS s FROM visits", "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits"),
    (
        "SELECT SUM(cost, contribution_bounds_per_row => (0, 10)) AS s FROM visits",
        "SELECT SUM(LEAST(GREATEST(cost, 0), 10)) AS s FROM visits",
    ),
    (
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, kappa = 2) COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2) COUNT(*) FROM visits",
    ),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = LAPLACE_THRESHOLD, epsilon = 1) COUNT(*) "
        "FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM visits",
    ),
    ("SELECT SAFE_CAST(name AS INT64) AS i FROM staff", "SELECT TRY_CAST(name AS bigint) AS i FROM staff"),
    ("SELECT COUNT(*) FROM visits WHERE age IN UNNEST(ARRAY[1, 2])", "SELECT COUNT(*) FROM visits WHERE age IN (1, 2)"),
    ("SELECT DP_INTERVAL_LOW(n), COUNT(*) AS n FROM visits", "SELECT dp_low(COUNT(*)), COUNT(*) AS n FROM visits"),
]


@pytest.mark.parametrize(("theirs", "ours"), SAME)
def test_what_means_the_same_is_the_same_question(theirs: str, ours: str) -> None:
    one, other = (canonical(parse(sql, CLINIC)).split(" -> ")[0] for sql in (theirs, ours))
    assert one == other


CLIPPED = "SELECT dept, SUM(LEAST(GREATEST(total, 0), 10)) AS s FROM (SELECT patient_id, dept, SUM(cost) AS total"
ANSWERED = [
    ("SELECT dept, ANON_SUM(cost CLAMPED BETWEEN 0 AND 10) AS s FROM visits GROUP BY dept", CLIPPED),
    ("SELECT dept, SUM(cost, contribution_bounds_per_group => (0, 10)) AS s FROM visits GROUP BY dept", CLIPPED),
    (
        "SELECT ANON_COUNT(* CLAMPED BETWEEN 0 AND 3) FROM visits WHERE age > 3",
        "COUNT(*) AS total FROM visits WHERE age",
    ),
    ("SELECT APPROX_QUANTILES(cost, 4) FROM visits", "QUANTILE_CONT(cost, 0.25), QUANTILE_CONT(cost, 0.5)"),
    ("SELECT dept, APPROX_QUANTILES(age, 2) FROM visits GROUP BY dept", "SELECT dept, QUANTILE_CONT(age, 0.5) FROM"),
    ("SELECT ANON_AVG(cost) FROM visits", "SELECT AVG(cost) FROM visits"),
    ("SELECT ANON_STDDEV_POP(cost) FROM visits", "SELECT STDDEV_POP(cost) FROM visits"),
]
NAMED = [
    ("SELECT DATE_TRUNC(day, WEEK), COUNT(*) FROM visits GROUP BY 1", "date_trunc('week', x)"),
    ("SELECT DATE_TRUNC(day, WEEK(SUNDAY)), COUNT(*) FROM visits GROUP BY 1", "ISOWEEK"),
    ("SELECT * FROM TABLE(SNOWFLAKE.DATA_PRIVACY.ESTIMATE_REMAINING_DP_AGGREGATES('t'))", "SHOW sfumato.budget"),
    ("ALTER TABLE t MODIFY COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 10)", "bounds = [0, 10]"),
    ("ALTER TABLE t MODIFY COLUMN c SET PRIVACY DOMAIN REFERENCES a (b)", 'values = "airlines.carrier"'),
    ("CREATE PRIVACY POLICY p AS () RETURNS PRIVACY_BUDGET -> PRIVACY_BUDGET(BUDGET_LIMIT => 9)", "`epsilon`"),
    ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold = 50) COUNT(*) FROM visits", "HAVING COUNT(DISTINCT"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 5) COUNT(*) FROM visits", "HAVING COUNT"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) 1 FROM visits", "IN ('er',"),
    ("SELECT AVG(cost, contribution_bounds_per_group => (0, 10)) FROM visits", "clip the totals"),
]  # fmt: skip


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("systems")
    write(folder, a_world(5))
    with sfumato.open(policy(folder)) as database:
        yield database


@pytest.mark.parametrize(("sql", "instead"), ANSWERED)
def test_what_means_something_else_is_refused_with_the_question_that_is_answered(
    clinic: sfumato.Database, sql: str, instead: str
) -> None:
    with pytest.raises(UnsupportedSql) as refused:
        clinic.explain(sql, epsilon="1", delta="1e-7")
    other = spelled_question(refused.value)
    assert instead in other
    assert clinic.ask(other, epsilon="1", delta="1e-7").columns


@pytest.mark.parametrize(("sql", "ours"), NAMED)
def test_what_has_no_question_is_refused_by_name_with_ours(sql: str, ours: str) -> None:
    with refusing() as refused:
        parse(sql, CLINIC)
    assert refused.value.code == "unsupported_sql"
    assert ours in refused.value.remedy


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept HAVING COUNT(DISTINCT patient_id) > 50",
        "SELECT dept, COUNT(*) AS n FROM visits WHERE dept IN ('er', 'icu') GROUP BY dept",
        "SELECT AVG(a) FROM (SELECT patient_id, AVG(cost) AS a FROM visits GROUP BY patient_id) AS t",
        "SELECT DATE_TRUNC(day, ISOWEEK) AS w, COUNT(*) FROM visits GROUP BY w",
    ],
)
def test_what_remedies_recommend_in_words_is_answered(clinic: sfumato.Database, sql: str) -> None:
    assert clinic.ask(sql, epsilon="1", delta="1e-7").columns


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) AVG(cost) FROM visits", True),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(cost) FROM visits", False),
        ("SELECT AVG(cost) FROM visits", False),
    ],
)
def test_googles_average_is_told_apart(clinic: sfumato.Database, sql: str, told: bool) -> None:
    notes = clinic.explain(sql, epsilon=1).notes
    assert any("AVG is over rows" in note for note in notes) is told
