"""Whoever follows a refusal gets an answer: the question that its remedy spells out is asked, as it stands there."""

# ruff: noqa: S608  (questions to a made-up clinic)

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato
from sfumato.errors import Refusal


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return the made-up clinic under a budget that buys exact answers: nobody lives there."""
    policy: Path = fresh_clinic(tmp_path_factory.mktemp("clinic"))
    policy.write_text(policy.read_text().replace("epsilon = 3\n", "epsilon = 1_000_000_000\n"))
    with sfumato.open(policy) as opened:
        yield opened


def refused(database: sfumato.Database, sql: str) -> Refusal:
    """Return how a question is refused."""
    with pytest.raises(Refusal) as caught:
        database.explain(sql, epsilon="0.1")
    return caught.value


def example(refusal: Refusal) -> str:
    """Return the question that a remedy spells out."""
    found = re.search(r": `(.*)`\.$", refusal.remedy)
    assert found is not None, refusal.remedy
    return found[1]


CHRONIC = "SELECT patient_id FROM patients WHERE chronic"
WAYS = {
    f"SELECT COUNT(*) FROM visits WHERE patient_id IN ({CHRONIC})": "Join it instead: `SELECT COUNT(*) FROM",
    f"SELECT dept, AVG(cost) FROM visits v WHERE v.patient_id NOT IN ({CHRONIC}) AND age > 3 GROUP BY dept": "LEFT",
    "SELECT COUNT(*) FROM visits WHERE dept IN (SELECT dept FROM departments)": "ON dept = chosen.member",
    "SELECT COUNT(*) FROM visits WHERE urgent AND NOT (dept IN (SELECT dept FROM departments))": "dept IS NOT NULL",
    "SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING "
    "COUNT(*) > 3)": "HAVING COUNT(*) > 3",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.patient_id = v.patient_id AND "
    "p.chronic)": "WHERE p.chronic",
    "SELECT sex, COUNT(*) FROM patients WHERE NOT EXISTS (SELECT * FROM visits WHERE visits.patient_id = "
    "patients.patient_id AND urgent) GROUP BY sex": "chosen.found IS NULL",
    "SELECT COUNT(*) FROM visits WHERE dept IN (SELECT dept FROM visits WHERE cost > 100)": "its values into a list",
    "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)": "write the answer as a number",
    "SELECT COUNT(*) FROM visits WHERE dept = (SELECT MIN(dept) FROM departments)": "which is free",
    "SELECT AVG(cost) OVER (PARTITION BY dept) FROM visits WHERE urgent": "GROUP BY dept",
    "SELECT COUNT(*) OVER w FROM visits WINDOW w AS (PARTITION BY dept)": "GROUP BY dept",
    "SELECT SUM(cost) OVER (PARTITION BY patient_id) FROM visits": "AS per_person",
    "SELECT dept, COUNT(*), RANK() OVER (ORDER BY COUNT(*) DESC) FROM visits GROUP BY dept": "ORDER BY COUNT(*) DESC",
    "SELECT dept, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY dept": "n FROM",
    "SELECT x, COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS x "
    "FROM visits) t GROUP BY x": "GROUP BY n",
    "SELECT dept, urgent, COUNT(*) FROM visits GROUP BY GROUPING SETS ((dept, urgent), (dept), ())": "dept, urgent`",
    "SELECT dept, urgent, COUNT(*) FROM visits GROUP BY ROLLUP (dept, urgent)": "dept, urgent`",
    "SELECT dept, urgent, COUNT(*) FROM visits GROUP BY dept, CUBE (urgent)": "dept, urgent`",
    "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM patients": "`SELECT COUNT(*) FROM visits`",
}


@pytest.mark.parametrize(("sql", "said"), WAYS.items(), ids=list(WAYS))
def test_the_question_of_a_remedy_is_answered(database: sfumato.Database, sql: str, said: str) -> None:
    refusal = refused(database, sql)
    assert said in refusal.remedy
    assert database.explain(example(refusal), epsilon="0.1").loss.epsilon >= 0


def test_a_join_says_what_the_subquery_says(database: sfumato.Database) -> None:
    """At this price noise is not 0 with a probability below e^-1000."""
    plain = f"SELECT COUNT(*) AS n FROM visits WHERE patient_id {{}} ({CHRONIC})"
    halves = [example(refused(database, plain.format(word))) for word in ("IN", "NOT IN")]
    asked = ["SELECT COUNT(*) AS n FROM visits", *halves]
    whole, chronic, others = (database.ask(sql, epsilon=10**6).rows()[0]["n"] for sql in asked)
    assert chronic > 0
    assert others > 0
    assert chronic + others == whole


def test_words_are_left_where_no_other_question_is_known(database: sfumato.Database) -> None:
    for sql in (
        f"SELECT COUNT(*) FROM visits, departments WHERE patient_id IN ({CHRONIC})",
        f"SELECT COUNT(*) FROM visits WHERE urgent OR patient_id IN ({CHRONIC})",
        "SELECT COUNT(*) FROM visits WHERE NOT EXISTS (SELECT 1 FROM patients)",
        "SELECT COUNT(*) FROM visits WHERE (age, dept) IN (SELECT age, dept FROM visits)",
        f"SELECT COUNT(*) FROM visits WHERE patient_id IN ({CHRONIC}) AND patient_id IN ({CHRONIC})",
    ):
        assert "Join it" not in refused(database, sql).remedy


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(m) FROM (SELECT dept, COUNT(*) AS m FROM departments GROUP BY dept) d JOIN visits v USING (dept)",
        f"SELECT COUNT(*) FROM visits LEFT JOIN ({CHRONIC} GROUP BY patient_id) s USING (patient_id) WHERE "
        "s.patient_id IS NULL",
        "SELECT AVG(a || 'x') FROM (SELECT patient_id, MIN(dept) AS a FROM visits GROUP BY patient_id) t",
        "SELECT MAX(a) FROM (SELECT patient_id, COUNT(*) AS a FROM visits GROUP BY patient_id) t",
        "SELECT width_bucket(a, a, 3, 4) FROM (SELECT patient_id, COUNT(*) AS a FROM visits GROUP BY patient_id) t",
        "SELECT CAST(a - MIN(b) AS text) FROM (SELECT MIN(day) AS a, MAX(day) AS b FROM visits GROUP BY patient_id) t",
    ],
)
def test_a_refusal_quotes_the_text_and_no_name_of_ours(database: sfumato.Database, sql: str) -> None:
    told = str(refused(database, sql))
    assert re.search(r"\b(group|select|values)(#\d)?\.|\b[mkc]\d\b", told) is None, told
