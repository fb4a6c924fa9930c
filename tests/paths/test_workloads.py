"""Questions asked together: one charge, totals that agree, smaller bars, and the same list again for nothing."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write
from tests.refusals import refusing

import sfumato
from sfumato.errors import BadParameter, BudgetExhausted
from sfumato.query.parse import parse
from sfumato.query.relation import Query
from sfumato.release.thin_answers import warnings_of

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY dept",
    "SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent",
    "SELECT dept, urgent, COUNT(*) AS n FROM visits GROUP BY dept, urgent HAVING COUNT(*) > -1000000",
    "SELECT COUNT(*) AS n FROM visits WHERE cost > 1",
]


@pytest.fixture
def database(tmp_path: Path) -> sfumato.Database:
    write(tmp_path, a_world(1))
    return sfumato.open(policy(tmp_path))


def test_a_workload_is_one_charge_and_free_the_second_time(database: sfumato.Database) -> None:
    with database:
        first = database.ask_all(QUESTIONS, epsilon=1)
        assert [release.columns for release in first] == [
            ("n",),
            ("dept", "n", "mean"),
            ("urgent", "n"),
            ("dept", "urgent", "n"),
            ("n",),
        ]
        (entry,) = database.history()
        assert entry.loss.epsilon == 1
        assert {release.receipt.id for release in first} == {entry.receipt}
        again = database.ask_all(QUESTIONS, epsilon="1.0")
        assert [one.rows() for one in again] == [one.rows() for one in first]
        assert len(database.history()) == 1
        assert database.verify()
        for question in (None, 6, 0, "x"):
            with pytest.raises(BadParameter):
                database.reopen(entry.receipt, question=question)
        for place, release in enumerate(first, 1):
            reopened = database.reopen(entry.receipt, question=place)
            assert reopened.rows() == release.rows()
            assert reopened.intervals() == release.intervals()
            assert reopened.notes == release.notes
        assert len(database.history()) == 1


def test_margins_agree_also_where_hardly_any_noise_is_left(tmp_path: Path) -> None:
    """Its variance is 0 in floats; what is charged is answered nevertheless."""
    write(tmp_path, a_world(1))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10**9, "delta": 0})) as database:
        release = database.ask("SELECT dept, COUNT(*) AS n FROM visits GROUP BY ROLLUP (dept)", epsilon=10**6)
        assert all(low <= row["n"] <= high for row, (low, high) in zip(release.rows(), _ends(release), strict=True))


def _ends(release: sfumato.Release) -> list[tuple[int, int]]:
    return [row["n"] for row in release.intervals()]


def test_each_answer_tells_about_its_own_question(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of clipped costs belongs to the answer that adds them up; and every text is read once."""
    read: list[str] = []

    def reading(sql: str, *rest: Any) -> Query:
        read.append(sql)
        return parse(sql, *rest)

    monkeypatch.setattr("sfumato.prepare.parse", reading)
    texts = [QUESTIONS[0], QUESTIONS[1], "SELECT COUNT(*) FROM staff", "SELECT SUM(income) AS s FROM patients"]
    with database:
        count, costs, staff, income = database.ask_all(texts, epsilon=1)
        assert read == texts
        told = [" ".join(release.notes) for release in (count, costs, staff, income)]
        assert ["cost" in one for one in told] == [False, True, False, False]
        assert ["income" in one for one in told] == [False, False, False, True]
        alone = [database.ask(sql, epsilon=1) for sql in texts[:2]]  # with less noise, so other warnings
        assert [_notes_before_noise(release) for release in alone] == [
            _notes_before_noise(one) for one in (count, costs)
        ]


def _notes_before_noise(release: sfumato.Release) -> list[str]:
    """Return what does not depend on noise; rows without a value are counted by themselves in a question alone."""
    said = [note for note in release.notes if not note.startswith("Rows without a value are counted by themselves")]
    return [note for note in said if note not in warnings_of(release.notes)]


def test_what_is_shown_of_one_table_adds_up(tmp_path: Path) -> None:
    """A rest is empty here, and is taken for something with probability below 1 %; without noise it never is."""
    write(tmp_path, a_world(1))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 10**9, "delta": 0})) as database:
        total, by_dept, by_urgent, both, _ = database.ask_all(QUESTIONS, epsilon=10**6)
        (whole,) = (row["n"] for row in total.rows())
        depts = {row["dept"]: row["n"] for row in by_dept.rows()}
        cells = {(row["dept"], row["urgent"]): row["n"] for row in both.rows()}
        for dept, count in depts.items():
            assert count >= sum(n for (one, _), n in cells.items() if one == dept)
        assert sum(row["n"] for row in by_urgent.rows()) <= whole


def test_together_the_errors_are_less_than_half_of_those_one_by_one(database: sfumato.Database) -> None:
    counts = [sql.replace(", AVG(cost) AS mean", "") for sql in QUESTIONS[:4]]
    with database:
        alone = [database.explain(sql, epsilon=Fraction(1, 4)).margins["n"] or 0 for sql in counts]
        ends = [release.intervals()[0]["n"] for release in database.ask_all(counts, epsilon=1)]
        assert 2 * sum((high - low) ** 2 for low, high in ends) < sum((2 * margin) ** 2 for margin in alone)


def test_the_same_group_in_two_questions_is_measured_once(database: sfumato.Database) -> None:
    with database:
        counts = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
        one, other = database.ask_all([counts, f"SELECT MAX(n) AS n FROM ({counts}) t"], epsilon=1)  # noqa: S608
        assert other.rows() == [{"n": max(row["n"] for row in one.rows())}]


def test_what_is_free_costs_nothing_in_a_workload(database: sfumato.Database) -> None:
    with database:
        free, paid = database.ask_all(["SELECT name FROM staff ORDER BY name", QUESTIONS[0]], epsilon=1)
        assert [row["name"] for row in free.rows()] == sorted(row["name"] for row in free.rows())
        assert paid.columns == ("n",)
        database.ask_all(["SELECT name FROM staff"])
        assert len(database.history()) == 1


@pytest.mark.parametrize(
    "questions",
    [[], "SELECT COUNT(*) FROM visits", [1], None, ["SELECT COUNT(*) FROM visits"] * 101],
    ids=["none", "a text", "a number", "nothing", "too many"],
)
def test_what_is_no_list_of_questions_is_refused(database: sfumato.Database, questions: object) -> None:
    with database, pytest.raises(BadParameter):
        database.ask_all(questions, epsilon=1)  # type: ignore[arg-type]


def test_one_refused_question_refuses_all_and_nothing_is_charged(database: sfumato.Database) -> None:
    with database:
        with refusing():
            database.ask_all([QUESTIONS[0], "SELECT patient_id FROM visits"], epsilon=1)
        with pytest.raises(BudgetExhausted):
            database.ask_all(QUESTIONS, epsilon=10**9)
        assert database.history() == ()


def test_a_share_is_for_all_of_them(database: sfumato.Database) -> None:
    with database:
        database.ask_all(QUESTIONS, share="1%")
        (entry,) = database.history()
        assert entry.loss.epsilon > 0


def test_totals_agree_at_a_price_that_leaves_hardly_any_noise(tmp_path: Path) -> None:
    """Then the variances are below what a double can tell from 0."""
    (tmp_path / "people.csv").write_text("who,sex\n1,f\n2,m\n3,m\n", encoding="utf-8")
    sexes = {"type": "text", "values": ["f", "m"]}
    policy: dict[str, object] = {
        "name": "people",
        "source": f"csv:{tmp_path}/people.csv",
        "ledger": f"sqlite:{tmp_path}/ledger",
        "budget": {"epsilon": 10**9, "delta": 0},
        "tables": {
            "people": {"unit": "who", "rows_per_unit": 1, "columns": {"who": {"type": "integer"}, "sex": sexes}}
        },
    }
    with sfumato.open(policy) as database:
        found = database.ask("SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP (sex)", epsilon=10**6)
    assert {row["sex"]: row["n"] for row in found.rows()} == {"f": 1, "m": 2, None: 3}
