"""A comparison with what the policy says a column never holds is refused with what it can hold, and not charged."""

# ruff: noqa: S608  (SQL is what is tested here, and no engine sees it)

from datetime import date, datetime
from fractions import Fraction

import pytest
from tests.query.clinic import Clinic, ClinicTable

from sfumato.errors import BadSql
from sfumato.query.declared import DeclaredBounds, DeclaredValues
from sfumato.query.parse import parse

PANEL = Clinic(
    {
        "panel": ClinicTable(
            {
                "id": "integer",
                "race": "integer",
                "code": "text",
                "dept": "text",
                "age": "integer",
                "cost": "decimal",
                "day": "date",
                "seen": "timestamp",
                "smokes": "boolean",
                "free": "text",
            },
            unit="id",
            values={
                "race": DeclaredValues((0, 1)),
                "code": DeclaredValues(("0", "1")),
                "dept": DeclaredValues((*(f"d{i}" for i in range(20)), "Surgery")),
                "age": DeclaredBounds(0, 110),
                "cost": DeclaredBounds(Fraction(0), Fraction(5000)),
                "day": DeclaredBounds(date(2024, 1, 1), date(2024, 12, 31)),
                "seen": DeclaredBounds(datetime(2024, 1, 1), datetime(2024, 12, 31)),
                "smokes": DeclaredValues((False, True)),
            },
        )
    }
)

REFUSED = {
    "race = 'white'": "race is never 'white'. The policy declares its values: 0, 1. Compare with one of them, for "
    "example race = 0.",
    "'white' <> race": "race is never 'white'.",
    "race IN (7, 8)": "race is never 7.",
    "race = 7 OR dept = 'none'": "race is never 7.",
    "age = 3 AND NOT (race <> 7)": "race is never 7.",
    "race IS NOT DISTINCT FROM 2": "race is never 2.",
    "race NOT IN ('white')": "race is never 'white'.",
    "race = 1.5": "race is never 1.5.",
    "CASE race WHEN 'white' THEN TRUE END": "race is never 'white'.",
    "code = 1": "code is never 1. The policy declares its values: '0', '1'.",
    "dept = 'surgery'": "Did you mean dept = 'Surgery'?",
    "dept = 'none'": "'d10', 'd11', … (21 in total).",
    "age = 130": "age is never 130. The policy declares its bounds, 0 to 110; a condition sees values "
    "beyond them as outside. Compare with a value between them, for example age = 110.",
    "age = -9": "age is never -9.",
    "cost = 5000.01": "cost is never 5000.01.",
    "day = '2025-01-01'": "day is never '2025-01-01'.",
    "day = 'yesterday'": "day is never 'yesterday'. The policy declares its bounds, '2024-01-01' to '2024-12-31'",
    "age > 110.5": "age is never above 110.5. The policy declares its bounds, 0 to 110; a condition sees values beyond "
    "them as outside. Compare with a value between them, for example age >= 110.",
    "200 <= age": "age is never above 200.",
    "age < -1": "age is never below -1.",
    "age BETWEEN 111 AND 200": "age is never above 111.",
    "race = 0 AND (age > 120 OR day >= '2025-01-01')": "age is never above 120.",
    "day > '2024-12-31' AND day >= '2025-01-01'": "day is never above '2025-01-01'.",
    "smokes = 'maybe'": "smokes is never 'maybe'. The policy declares its values: false, true.",
}
ACCEPTED = (
    "race = '1'", "race = 1.0", "race IN (0, NULL)", "code = '1'", "dept = 'd3'", "dept < 'zzz'", "dept LIKE 'z%'",
    "age > 110", "age < 0", "age = 110", "age BETWEEN SYMMETRIC 200 AND 3", "age + 1 = 200", "cost = 0.005",
    "day = '2024-02-03'",
    "day = TIMESTAMP '2030-01-01'", "seen = DATE '2024-02-03'", "smokes = 'yes'", "free = 'anything'", "race = age",
    "COALESCE(dept, 'none') = 'none'", "race IS NULL",
)  # fmt: skip


@pytest.mark.parametrize(("condition", "said"), REFUSED.items(), ids=REFUSED)
def test_what_a_column_never_holds_is_refused_with_what_it_can_hold(condition: str, said: str) -> None:
    with pytest.raises(BadSql) as caught:
        parse(f"SELECT COUNT(*) FROM panel WHERE {condition}", PANEL)
    assert said in str(caught.value)


NOTED = {
    "race IN (0, 7)": "race is never 7.",
    "race NOT IN (7, 8)": "race is never 7.",
    "race <> 7": "race is never 7.",
    "race IS DISTINCT FROM 2": "race is never 2.",
    "dept = 'surgery' OR dept = 'd3'": "dept is never 'surgery'.",
    "NOT dept = 'none'": "dept is never 'none'.",
    "day IN ('2024-02-03', '2025-01-01')": "day is never '2025-01-01'.",
    "age < 200": "values of age above 110 are left out. The policy declares its bounds, 0 to 110;",
    "age BETWEEN -5 AND 200": "values of age below 0 are left out.",
    "NOT age > 200": "age is never above 200.",
    "race = 1 OR day >= '2025-01-01'": "day is never above '2025-01-01'.",
}


@pytest.mark.parametrize(("condition", "said"), NOTED.items(), ids=NOTED)
def test_a_literal_beside_what_a_condition_can_hold_for_is_a_note(condition: str, said: str) -> None:
    query = parse(f"SELECT COUNT(*) FROM panel WHERE {condition}", PANEL)
    assert any(said in note for note in query.notes)


def test_a_branch_for_values_that_should_not_be_there_is_a_note() -> None:
    sql = "SELECT SUM(CASE WHEN age > 120 THEN 0 WHEN age < 0 THEN 0 ELSE age END), COUNT(*) FROM panel"
    assert any("age is never above 120." in note for note in parse(sql, PANEL).notes)
    with pytest.raises(BadSql, match="age is never above 120"):
        parse("SELECT COUNT(*) FILTER (WHERE age > 120) FROM panel", PANEL)


@pytest.mark.parametrize("condition", ACCEPTED)
def test_what_a_column_can_hold_is_compared(condition: str) -> None:
    parse(f"SELECT COUNT(*) FROM panel WHERE {condition}", PANEL)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT race, COUNT(*) FROM panel GROUP BY race HAVING race = 'white'",
        "SELECT * FROM (SELECT race AS r, COUNT(*) AS n FROM panel GROUP BY 1) t WHERE r = 7",
        "WITH t AS (SELECT DISTINCT id, race FROM panel) SELECT COUNT(*) FROM t WHERE race = 7",
        "SELECT COUNT(*) FILTER (WHERE race = 7) FROM panel",
        "SELECT COUNT(*) FROM panel a JOIN panel b ON a.id = b.id AND b.race = 7",
        "SELECT COUNT(*) FROM panel a LEFT JOIN (SELECT id, race, 1 AS one FROM panel) b USING (id) WHERE b.race = 7",
        "SELECT SUM(CASE WHEN race = 7 THEN 1 ELSE 0 END) FROM panel",
    ],
)
def test_a_column_is_followed_through_groups_subqueries_and_joins(sql: str) -> None:
    with pytest.raises(BadSql, match=r"is never (7|'white')"):
        parse(sql, PANEL)


def test_what_is_recommended_is_accepted() -> None:
    for condition in REFUSED:
        with pytest.raises(BadSql) as caught:
            parse(f"SELECT COUNT(*) FROM panel WHERE {condition}", PANEL)
        advice = caught.value.remedy.removeprefix("Did you mean ").rpartition("for example ")[2][:-1]
        parse(f"SELECT COUNT(*) FROM panel WHERE {advice}", PANEL)
