"""What the owner learns of caps and bounds: exact losses, other caps to choose from, and the draft that errs least."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato
from sfumato.cli import main
from sfumato.engines.inspection import InspectedCap
from sfumato.engines.opening import inspected
from sfumato.errors import BadParameter
from sfumato.policy.reading import read_policy
from sfumato.terminal.tuning import TriedQuestion, queries_in_ledger, tune, typical_error
from sfumato.terminal.tuning_text import DISCLOSURE, tuned_text
from sfumato.terminal.tuning_trial import AnswerCells

POLICY = """
source = "csv:data"
[budget]
epsilon = 20
delta = 0
[tables.visits]
unit = "patient_id"
rows_per_unit = {rows}
[tables.visits.columns]
patient_id = {{ type = "integer" }}
cost = {{ type = "integer", bounds = [0, {most}] }}
[analysts.press]
epsilon = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make up 2,000 people: 1,900 with one visit, 100 with ten; each visit costs 50, one in ten 80."""
    made = tmp_path_factory.mktemp("tuned")
    (made / "data").mkdir()
    people = [(person, visit) for person in range(2000) for visit in range(10 if person % 20 == 0 else 1)]
    rows = [f"{person},{80 if (person + visit) % 10 == 0 else 50}" for person, visit in people]
    (made / "data" / "visits.csv").write_text("\n".join(["patient_id,cost", *rows]), encoding="utf-8")
    return made


def _policy(folder: Path, rows: int, most: int) -> Path:
    path = folder / f"rows{rows}most{most}.toml"
    path.write_text(POLICY.format(rows=rows, most=most), encoding="utf-8")
    return path


def test_check_counts_the_share_of_each_sum_that_is_lost_and_what_other_caps_would_lose(folder: Path) -> None:
    report = inspected(read_policy(_policy(folder, 2, 50)))
    assert report is not None
    [table], [_, cost] = report.tables, report.columns
    assert table.caps == (
        InspectedCap(1, 100, 900),
        InspectedCap(2, 100, 800),
        InspectedCap(5, 100, 500),
        InspectedCap(10, 0, 0),
    )
    people = [(10 if person % 20 == 0 else 1, person) for person in range(2000)]
    costs = [[80 if (person + visit) % 10 == 0 else 50 for visit in range(rows)] for rows, person in people]
    assert cost.total == sum(map(sum, costs))
    assert cost.clipped == sum(max(0, value - 50) for row in costs for value in row)
    assert cost.capped == 100 * 8 * 50  # of ten visits of 50 each, eight on average
    shown = CliRunner().invoke(main, ["check", str(_policy(folder, 2, 50))]).output
    assert f"visits.cost{cost.clipped / cost.total:>16.1%}{cost.capped / cost.total:>23.1%}" in shown
    assert "rows_per_unit  people cut    rows lost  noise of a count at ε = 1" in shown
    assert ["2", "(now)", "5.0%", "800", "(27.6%)", "±", "6"] in [line.split() for line in shown.splitlines()]


def test_tune_finds_the_cap_and_the_bounds_under_which_cut_and_noise_are_least(folder: Path) -> None:
    with sfumato.open(_policy(folder, 1, 5000)) as database:
        tuned = tune(database, ["SELECT COUNT(*) FROM visits", "SELECT SUM(cost) FROM visits"], "1")
    # a cap of 10 loses nothing at ± 30 of 2,900; any lower one loses 500 rows at least. Bounds of 100 hold every value.
    assert tuned.lines == (
        "[tables.visits]",
        "rows_per_unit = 10  # now 1",
        "[tables.visits.columns]",
        'cost = { type = "integer", bounds = [0, 100] }  # now [0, 5000]',
    )
    assert all(question.advised < question.now for question in tuned.questions)
    shown = tuned_text(tuned)
    assert shown.startswith(DISCLOSURE)
    assert "rows_per_unit = 10" in shown


def test_tune_recommends_a_total_where_few_rows_of_a_person_are_large(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = [f"{person},{1000 if visit == 0 else 1}" for person in range(300) for visit in range(10)]
    (tmp_path / "data" / "visits.csv").write_text("\n".join(["patient_id,cost", *rows]), encoding="utf-8")
    with sfumato.open(_policy(tmp_path, 10, 1000)) as database:
        tuned = tune(database, ["SELECT SUM(cost) FROM visits", "SELECT COUNT(*) FROM visits"], "1")
    # everybody has 1,009: at 1,000 nine of each are lost, 0.9 %; at 10 rows of 1,000 the noise is ten times as large
    assert tuned.lines == (
        "[tables.visits.columns]",
        'cost = { type = "integer", bounds = [0, 1000], total_per_unit = 1000 }  # now [0, 1000]',
    )


def test_where_noise_dominates_a_lower_cap_errs_less(folder: Path) -> None:
    with sfumato.open(_policy(folder, 10, 100)) as database:
        tuned = tune(database, ["SELECT COUNT(*) FROM visits"], "0.002")
    assert tuned.lines == ("[tables.visits]", "rows_per_unit = 1  # now 10")


def test_tune_is_the_owners_and_leaves_nothing_behind(folder: Path) -> None:
    policy = _policy(folder, 10, 100)
    with sfumato.open(policy, analyst="press") as press:
        press.ask("SELECT COUNT(*) FROM visits", epsilon="0.1")
        for refused in (lambda: tune(press, [], None), lambda: queries_in_ledger(press)):
            with pytest.raises(BadParameter):
                refused()
    with sfumato.open(policy) as database:
        assert queries_in_ledger(database) == ["SELECT COUNT(*) FROM visits"]
        before = database.budget().spent
    questions = folder / "questions.sql"
    questions.write_text("SELECT COUNT(*) FROM visits;\nSELECT AVG(cost) FROM visits", encoding="utf-8")
    shown = CliRunner().invoke(main, ["tune", str(policy), "--file", str(questions), "--history", "--epsilon", "1"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("COUNT(*) FROM visits") == 1
    assert "AVG(cost) FROM visits" in shown.output
    with sfumato.open(policy) as database:
        assert database.budget().spent == before
    assert not [path for path in folder.iterdir() if "build" in path.name]


def test_a_question_that_cannot_be_asked_is_refused_and_a_missing_file_too(folder: Path) -> None:
    policy = str(_policy(folder, 10, 100))
    assert "Refused (unknown_name)" in CliRunner().invoke(main, ["tune", policy, "SELECT COUNT(*) FROM nowhere"]).stderr
    assert "--file" in CliRunner().invoke(main, ["tune", policy, "--file", "nowhere.sql"]).stderr


def test_tune_compares_drafts_with_what_questions_choose_privately(folder: Path) -> None:
    """A hundred people with ten visits beside 1,900 with one: below a cap of 5,000 a question finds nearly that cap."""
    path = folder / "chosen.toml"
    text = POLICY.format(rows='{ most = 5000, choose = "private" }', most=100)
    path.write_text(text, encoding="utf-8")
    with sfumato.open(path) as database:
        tuned = tune(database, ["SELECT COUNT(*) FROM visits"], "1")
    [question] = tuned.questions
    assert question.now < 0.1  # with noise for 5,000 rows it would be about five times the answer
    assert all("# now chosen, at most 5000" in line for line in tuned.lines if line.startswith("rows_per_unit"))


def test_what_cannot_be_rehearsed_is_skipped_with_a_reason_and_progress_is_told(folder: Path) -> None:
    said: list[str] = []
    questions = ["SELECT COUNT(*) FROM visits", "SELECT MEDIAN(cost) FROM visits", "SELECT SUM(cots) FROM visits"]
    with sfumato.open(_policy(folder, 1, 100)) as database:
        tuned = tune(database, questions, "1", said.append)
    assert [question.sql for question in tuned.questions] == questions[:1]
    assert [skipped.sql for skipped in tuned.skipped] == questions[1:]
    assert "Bounds are not tuned for quantiles" in tuned.skipped[0].why
    assert "cots" in tuned.skipped[1].why
    assert "Not rehearsed" in tuned_text(tuned)
    assert said[0] == "building a copy in which nothing is cut"
    assert "trying caps of visits (round 1 of 2)" in said


def test_the_advice_makes_no_question_worse_or_tells_which(folder: Path) -> None:
    questions = ["SELECT COUNT(*) AS n FROM visits", "SELECT COUNT(*) AS n FROM visits WHERE cost > 60"]
    with sfumato.open(_policy(folder, 5, 100)) as database:
        tuned = tune(database, questions, "0.05")
    worse = [question for question in tuned.questions if question.worse]
    shown = tuned_text(tuned)
    assert shown.count("(worse)") == len(worse)
    assert ("No draft is better for all of them" in shown) is bool(worse and not tuned.choosing)
    traded = replace(
        tuned, questions=(TriedQuestion("SELECT 1", Fraction(1, 10), Fraction(1, 5)),), lines=("x",), choosing=()
    )
    assert "worse for 1 of 1 questions" in tuned_text(traded)
    assert "20.0% (worse)" in tuned_text(traded)


def test_bounds_that_move_most_values_are_not_advised(tmp_path: Path) -> None:
    """Under bounds of [-2, 2] every average is nearly 0, which errs by 100 %: less than the noise of wide ones."""
    (tmp_path / "data").mkdir()
    rows = [f"{person},{(person * 7919 + visit) % 60 - 10}" for person in range(200) for visit in range(5)]
    (tmp_path / "data" / "visits.csv").write_text("\n".join(["patient_id,cost", *rows]), encoding="utf-8")
    path = tmp_path / "delays.toml"
    path.write_text(POLICY.format(rows=5, most=300).replace("[0, 300]", "[-60, 300]"), encoding="utf-8")
    with sfumato.open(path) as database:
        tuned = tune(database, ["SELECT AVG(cost) AS d FROM visits"], "0.01")
    advised = [line for line in tuned.lines if line.startswith("cost")]
    assert not advised or any(bound in advised[0] for bound in (", 50]", ", 100]", ", 300]")), advised


def test_the_typical_group_is_one_that_has_rows() -> None:
    """With wider bounds tried, most years are empty: they do not make the typical error 0, nor beyond measure."""
    real: AnswerCells = {
        (("year", year), "n"): (Fraction(300 if year > 2015 else 0), Fraction(15)) for year in range(2000, 2020)
    }
    shown: AnswerCells = {key: (Fraction(297), Fraction(15)) for key in real if str(key[0]) > str(("year", 2014))}
    assert typical_error(shown, real) == Fraction(18, 300)
    assert typical_error({}, real) == 1


def test_drafts_are_always_compared_with_what_questions_would_choose(folder: Path) -> None:
    with sfumato.open(_policy(folder, 10, 5000)) as database:
        tuned = tune(database, ["SELECT COUNT(*) FROM visits", "SELECT SUM(cost) FROM visits"], "1")
    assert all(question.chosen is not None for question in tuned.questions)
    assert "chosen by each question" in tuned_text(tuned)
