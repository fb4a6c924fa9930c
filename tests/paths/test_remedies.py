"""Whoever follows a refusal gets an answer: the question that its remedy spells out is asked, as it stands there."""

# ruff: noqa: S608  (questions to a made-up clinic)

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.made_up_clinic import fresh_clinic
from tests.refusals import refusing, spelled_question

import sfumato
from sfumato.cli import main
from sfumato.errors import BadParameter, BudgetExhausted, Interface, PolicyWeakened, Refusal


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return the made-up clinic under a budget that buys exact answers: nobody lives there."""
    policy: Path = fresh_clinic(tmp_path_factory.mktemp("clinic"))
    policy.write_text(policy.read_text().replace("epsilon = 3\n", "epsilon = 1_000_000_000\n"))
    with sfumato.open(policy) as opened:
        yield opened


def refused(database: sfumato.Database, sql: str) -> Refusal:
    """Return how a question is refused."""
    with refusing() as caught:
        database.explain(sql, epsilon="0.1")
    return caught.value


CHRONIC = "SELECT patient_id FROM patients WHERE chronic"
WAYS = {
    "SELECT COUNT(*) FROM visits WHERE dept IN (SELECT dept FROM visits WHERE cost > 100)": "its values into a list",
    "SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits w WHERE w.dept = v.dept)": "by its key",
    "SELECT AVG(cost) OVER (PARTITION BY dept) FROM visits WHERE urgent": "GROUP BY dept",
    "SELECT COUNT(*) OVER w FROM visits WINDOW w AS (PARTITION BY dept)": "GROUP BY dept",
    "SELECT * FROM visits": "numbers about many people",
    "SELECT * FROM visits LIMIT 5": "Ask for an aggregate",
    "SELECT cost FROM visits": "COUNT(*), SUM or AVG",
    "SELECT patient_id, SUM(cost) FROM visits GROUP BY patient_id": "aggregate the query once more",
    'SELECT removed_rows FROM "visits.removed"': 'FROM "visits.removed"`',
}


@pytest.mark.parametrize(("sql", "said"), WAYS.items(), ids=list(WAYS))
def test_the_question_of_a_remedy_is_answered(database: sfumato.Database, sql: str, said: str) -> None:
    refusal = refused(database, sql)
    assert said in refusal.remedy
    assert database.explain(spelled_question(refusal), epsilon="0.1").loss.epsilon >= 0


def test_who_is_among_the_chosen_and_who_is_not_are_all(database: sfumato.Database) -> None:
    """At this price noise is not 0 with a probability below e^-1000."""
    plain = f"SELECT COUNT(*) AS n FROM visits WHERE patient_id {{}} ({CHRONIC})"
    asked = ["SELECT COUNT(*) AS n FROM visits", *(plain.format(word) for word in ("IN", "NOT IN"))]
    whole, chronic, others = (database.ask(sql, epsilon=10**6).rows()[0]["n"] for sql in asked)
    assert chronic > 0
    assert others > 0
    assert chronic + others == whole


def test_words_are_left_where_no_other_question_is_known(database: sfumato.Database) -> None:
    for sql in (
        "SELECT COUNT(*) FROM visits WHERE NOT EXISTS (SELECT 1 FROM patients)",
        "SELECT COUNT(*) FROM visits WHERE (age, dept) IN (SELECT age, dept FROM visits)",
    ):
        assert "Join it" not in refused(database, sql).remedy


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM visits LEFT JOIN ({CHRONIC} GROUP BY patient_id) s USING (patient_id) WHERE "
        "s.patient_id IS NULL",
        "SELECT AVG(a || 'x') FROM (SELECT patient_id, MIN(dept) AS a FROM visits GROUP BY patient_id) t",
        "SELECT MAX(a || 'x') FROM (SELECT patient_id, MIN(dept) AS a FROM visits GROUP BY patient_id) t",
        "SELECT width_bucket(a, a, 3, 4) FROM (SELECT patient_id, COUNT(*) AS a FROM visits GROUP BY patient_id) t",
        "SELECT CAST(a - MIN(b) AS text) FROM (SELECT MIN(day) AS a, MAX(day) AS b FROM visits GROUP BY patient_id) t",
    ],
)
def test_a_refusal_quotes_the_text_and_no_name_of_ours(database: sfumato.Database, sql: str) -> None:
    told = str(refused(database, sql))
    assert re.search(r"\b(group|select|values)(#\d)?\.|\b[mkc]\d\b", told) is None, told


def _small_clinic(folder: Path) -> Path:
    """Return the policy of a clinic whose research may spend ε = 0.5 and whose press has δ = 0."""
    policy = fresh_clinic(folder)
    text = policy.read_text().replace("[analysts.research]\nepsilon = 1", "[analysts.research]\nepsilon = 0.5")
    policy.write_text(f"{text}\n[analysts.press]\nepsilon = 0.3\ndelta = 0\n")
    return policy


@pytest.mark.parametrize(
    ("analyst", "sql"),
    [
        ("research", "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"),
        ("press", "SELECT AVG(cost) AS c, SUM(age) AS a FROM visits"),
    ],
)
def test_an_exhausted_budget_says_what_it_still_buys_and_that_is_answered(
    tmp_path: Path, analyst: str, sql: str
) -> None:
    with sfumato.open(_small_clinic(tmp_path), analyst=analyst) as database:
        database.ask("SELECT COUNT(*) FROM patients", epsilon="0.2")
        with pytest.raises(BudgetExhausted) as caught:
            database.ask(sql, epsilon="3")
        assert re.search(rf"costs ε = 3, .*{analyst} has [\d.]+ % of ε = .* left", caught.value.what)
        assert "Rényi" not in str(caught.value)
        price = re.search(r"What is left buys this question at epsilon='([0-9.]+)'(.*)\.$", caught.value.remedy)
        assert price is not None
        assert f"--epsilon {price[1]}" in caught.value.remedy_for(Interface.COMMAND)
        release = database.ask(sql, epsilon=price[1])
        for name, margin in re.findall(r"(\w+) ±([\d,.]+)", price[2]):
            low, high = release.intervals()[0][name]
            assert (high - low) / 2 <= float(margin.replace(",", "")) * 1.01
        with pytest.raises(BudgetExhausted):
            database.ask(sql.replace("FROM visits", "FROM visits WHERE age < 9"), epsilon=price[1])


def test_a_question_without_a_price_says_how_to_name_one(database: sfumato.Database) -> None:
    with pytest.raises(BadParameter) as caught:
        database.explain("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept")
    assert "epsilon='0.1'" in caught.value.remedy
    assert "within={'n': 25}" in caught.value.remedy
    assert "--epsilon 0.1" in caught.value.remedy_for(Interface.COMMAND)
    assert "--within n=25" in caught.value.remedy_for(Interface.COMMAND)
    database.explain("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", within={"n": 25})
    with pytest.raises(BadParameter) as caught:
        database.explain("SELECT AVG(cost) FROM visits")
    assert "within" not in caught.value.remedy


def test_a_weakened_policy_is_confirmed_by_the_command_that_the_refusal_names(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    with sfumato.open(policy) as database:
        database.ask("SELECT COUNT(*) FROM patients", epsilon="0.1")
    policy.write_text(policy.read_text().replace("rows_per_unit = 20", "rows_per_unit = 30"))
    with pytest.raises(PolicyWeakened) as caught:
        sfumato.open(policy)
    command = re.search(r"sfumato (check POLICY --confirm [0-9a-f]{64})", caught.value.remedy)
    assert command is not None
    words = [str(policy) if word == "POLICY" else word for word in command[1].split()]
    assert CliRunner().invoke(main, words).exit_code == 0
    sfumato.open(policy).close()
