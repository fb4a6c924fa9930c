"""A fresh answer is shown without reading back what was stored of it, and is what the stored one gives."""

from pathlib import Path

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT urgent, dept, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY dept, urgent ORDER BY n DESC",
    "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
    "SELECT dept, MEDIAN(cost) AS m, SUM(age) AS s FROM visits GROUP BY dept",
    "SELECT city, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY city ORDER BY n DESC LIMIT 3",
    "SELECT VAR_POP(cost) AS v, COUNT(DISTINCT age) AS d, MAX(cost) AS m FROM visits WHERE age > 3",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day HAVING COUNT(*) > 1",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> sfumato.Database:
    folder: Path = tmp_path_factory.mktemp("fresh")
    write(folder, a_world(3))
    return sfumato.open(policy(folder))


@pytest.mark.parametrize("sql", QUESTIONS)
@pytest.mark.parametrize("epsilon", ["0.5", "30"])
def test_a_fresh_answer_is_what_is_stored(database: sfumato.Database, sql: str, epsilon: str) -> None:
    fresh = database.ask(sql, epsilon=epsilon)
    again = database.ask(sql, epsilon=epsilon)
    assert fresh.receipt == again.receipt
    assert repr(fresh.rows()) == repr(again.rows())
    assert repr(fresh.intervals()) == repr(again.intervals())
    assert repr(fresh.intervals(0.5)) == repr(again.intervals(0.5))
    assert fresh.notes == again.notes
    assert fresh.loss == again.loss
    assert fresh.to_arrow().equals(again.to_arrow())


def test_questions_asked_together_are_shown_as_they_are_stored(database: sfumato.Database) -> None:
    texts = [f"{sql} -- together" for sql in QUESTIONS[:2]]
    pairs = zip(database.ask_all(texts, epsilon=2), database.ask_all(texts, epsilon=2), strict=True)
    assert all(repr(fresh.rows()) == repr(again.rows()) for fresh, again in pairs)
