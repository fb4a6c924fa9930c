"""What an answer says about itself: chosen cells also below an aggregate, no groups, columns without a bar."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.notes.note import MAX_PRINTED_NOTES, Note, NoteRank, texts_by_rank
from sfumato.planning.notes.truncation import bounding_notes
from sfumato.prepare import RequestedPrice
from sfumato.release.notes import SELECTED, drop_noise_dependent_notes
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release
from sfumato.release.thin_answers import THIN, thin_notes, warnings_of

CELLS = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return 300 patients with two visits each; nearly everybody pays another price."""
    folder = tmp_path_factory.mktemp("clinic")
    visits = [f"{row % 300},{('er', 'icu', 'ward')[row % 3]},{1000 + row},{row % 90}" for row in range(600)]
    (folder / "visits.csv").write_text("\n".join(["patient,dept,price,age", *visits]), encoding="utf-8")
    columns = {
        "patient": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu", "ward"]},
        "price": {"type": "integer"},
        "age": {"type": "integer", "bounds": [0, 100]},
    }
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 100, "delta": "1e-3"},
        "tables": {"visits": {"unit": "patient", "rows_per_unit": 2, "columns": columns}},
    }
    with sfumato.open(policy) as database:
        yield database


def test_an_empty_selection_says_why_and_what_to_change(clinic: sfumato.Database) -> None:
    sql = "SELECT price, COUNT(*) AS n FROM visits GROUP BY price"
    release = clinic.ask(sql, epsilon="0.5")
    assert len(release) == 0
    (note,) = [note for note in release.notes if "No group passed" in note]
    (quoted,) = [note for note in clinic.explain(sql, epsilon="0.5").notes if "rows on" in note]
    needed = quoted.split("from ")[1].split(" rows")[0]
    assert f"from {needed} rows on" in note  # the public number that the quote named before
    assert "fewer than 2 groups" in note
    assert "coarser keys" in note
    assert note in repr(release)
    assert note in release._repr_html_()


def test_twice_the_epsilon_shows_groups_of_about_half_the_size(clinic: sfumato.Database) -> None:
    sql, sizes = "SELECT price, COUNT(*) AS n FROM visits WHERE age < 77 GROUP BY price", []
    for epsilon in ("0.25", "0.5", "1", "2"):
        (note,) = [note for note in clinic.explain(sql, epsilon=epsilon).notes if "on. Smaller groups" in note]
        assert "an answer without groups costs the same" in note
        sizes.append(int(note.split("from ")[1].split()[0].replace(",", "")))
    assert all(0.4 < after / before < 0.65 for before, after in pairwise(sizes)), sizes


@pytest.mark.parametrize(("times", "thin"), [([0], True), ([-1, 1], True), ([2], False), ([0, -2], False), ([], False)])
def test_values_are_thin_up_to_their_margin(clinic: sfumato.Database, times: list[int], thin: bool) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
    plan = clinic.prepare(sql, None, RequestedPrice("0.5")).plan
    margin = clinic.explain(sql, epsilon="0.5").margins["n"]
    assert margin is not None
    values = [number * int(margin) for number in times]
    notes = list(thin_notes(plan, ("dept", "n"), (["er"] * len(values), values)))
    assert [note.text.startswith(f"{THIN} `n`") for note in notes] == [True] * thin


@pytest.mark.parametrize("epsilon", ["0.001", "0.01", "50"])
def test_an_answer_says_that_no_value_can_be_told_from_0_exactly_when_it_is_so(
    clinic: sfumato.Database, epsilon: str
) -> None:
    """All values lie within the margin that the quote named; the noise of 50 is far below the counts."""
    sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT patient) AS people, COUNT(*) * 2 AS twice FROM visits"
    quote, release = clinic.explain(sql, epsilon=epsilon), clinic.ask(sql, epsilon=epsilon)
    (row,) = release.rows()
    said = {name for name in row if any(note.startswith(f"{THIN} `{name}`") for note in release.notes)}
    margins = {name: margin for name, margin in quote.margins.items() if margin is not None}
    assert said == {name for name, margin in margins.items() if abs(row[name]) <= margin}
    assert epsilon != "50" or "n" not in said  # 600 rows, and noise of scale 1/25 at most
    assert [note for note in release.notes if note.startswith(THIN)] == list(warnings_of(release.notes))
    for note in warnings_of(release.notes):
        assert "Twice the epsilon halves it" in note
        assert note in repr(release)


def test_a_selection_that_shows_groups_says_nothing_of_the_kind(clinic: sfumato.Database) -> None:
    release = clinic.ask("SELECT price / 1000 AS k, COUNT(*) AS n FROM visits GROUP BY 1", epsilon="2")
    assert len(release) == 1
    assert not any("No group passed" in note for note in release.notes)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) AS c FROM ({CELLS} HAVING COUNT(*) > 100) t",  # noqa: S608
        f"SELECT SUM(n) AS s FROM ({CELLS} ORDER BY n DESC LIMIT 2) t",  # noqa: S608
        f"{CELLS} HAVING COUNT(*) > 100",
    ],
)
def test_cells_that_noise_chose_are_noted_also_below_an_aggregate(clinic: sfumato.Database, sql: str) -> None:
    release = clinic.ask(sql, epsilon="1")
    assert SELECTED in release.notes
    assert SELECTED not in clinic.ask(f"SELECT SUM(n) AS s FROM ({CELLS}) t", epsilon="1").notes  # noqa: S608


def test_a_column_without_a_bar_is_named(clinic: sfumato.Database) -> None:
    release = clinic.ask(f"SELECT n / 100 AS b, COUNT(*) AS c FROM ({CELLS}) t GROUP BY 1", epsilon="1")  # noqa: S608
    (note,) = [note for note in release.notes if "No interval" in note]
    assert "`b`, `c`" in note
    assert all(row["c"] == (0, None) for row in release.intervals())
    for sql in (CELLS, f"SELECT MAX(n) AS m FROM ({CELLS}) t"):  # noqa: S608
        assert not any("No interval" in note for note in clinic.ask(sql, epsilon="1").notes)


def test_what_is_computed_over_selected_groups_says_that_the_others_are_missing(clinic: sfumato.Database) -> None:
    inner = "SELECT price / 1000 AS k, COUNT(*) AS n FROM visits GROUP BY 1"
    release = clinic.ask(f"SELECT SUM(n) AS s FROM ({inner}) t", epsilon="2")  # noqa: S608
    assert any("exclude the groups that were not released" in note for note in release.notes)


def test_a_quote_and_its_answer_tell_the_same_about_bounds(clinic: sfumato.Database) -> None:
    plan = clinic.prepare(CELLS, None, RequestedPrice("1")).plan
    assert {note.text for note in bounding_notes(plan)} <= set(clinic.ask(CELLS, epsilon="1").notes)


def test_apart_from_noise_it_is_the_same_whether_noise_found_one_thing_or_two() -> None:
    found = [f"Distinct values were counted with a limit of {limit} per person." for limit in (2, 4)]
    assert drop_noise_dependent_notes(["A note.", *found]) == drop_noise_dependent_notes(["A note.", found[0]])
    assert drop_noise_dependent_notes(["A note.", found[0]]) != drop_noise_dependent_notes(["A note."])


QUESTIONS = (
    CELLS,
    f"{CELLS} HAVING COUNT(*) > 100",
    f"SELECT n / 100 AS b, COUNT(*) AS c FROM ({CELLS}) t GROUP BY 1",  # noqa: S608
    "SELECT price, COUNT(*) AS n, SUM(age) AS a FROM visits GROUP BY price",
    "SELECT price, COUNT(DISTINCT patient) AS n FROM visits GROUP BY price ORDER BY n DESC LIMIT 1",
    "SELECT COUNT(DISTINCT code) AS d FROM codes",
    "SELECT MEDIAN(age) AS q, MIN(age) AS low, MAX(age) AS high FROM visits",
    "SELECT APPROX_QUANTILE(age, 0.5) AS q FROM visits",
    "SELECT a.dept, COUNT(*) AS n FROM visits a JOIN visits b ON a.dept = b.dept AND a.patient <> b.patient GROUP BY 1",
    "SELECT SUM(cost) AS c, SUM(age) AS a, COUNT(*) AS n, AVG(cost) AS m FROM stays",
    "SELECT ward, SUM(cost) AS c, SUM(age) AS a FROM stays GROUP BY ward",
    "SELECT COUNT(*) AS n FROM tests",
    "SELECT SUM(cost) AS c FROM tests",
)
"""One question at least for each kind of note."""


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return tables with the usual bounds, with many values per person, with totals, and with bounds to select."""
    folder = tmp_path_factory.mktemp("hospital")
    (folder / "data").mkdir()
    rows = [f"{row % 300},{('er', 'icu', 'ward')[row % 3]},{1000 + row},{row % 90}" for row in range(900)]
    for name, columns in {"visits": "patient,dept,price,age", "stays": "patient,ward,cost,age"}.items():
        (folder / "data" / f"{name}.csv").write_text("\n".join([columns, *rows]), encoding="utf-8")
    (folder / "data" / "codes.csv").write_text("patient,code\n" + "\n".join(f"{n % 300},{n}" for n in range(6000)))
    (folder / "data" / "tests.csv").write_text("\n".join(["patient,dept,cost,age", *rows]), encoding="utf-8")
    person, dept = {"patient": {"type": "integer"}}, {"type": "text", "values": ["er", "icu", "ward"]}
    age, cost = (
        {"type": "integer", "bounds": [0, 100]},
        {"type": "integer", "bounds": [0, 1500], "total_per_unit": 2000},
    )
    chosen = {"type": "integer", "bounds": {"within": [0, 100000], "choose": "private"}}
    tables: dict[str, object] = {
        "visits": {"rows_per_unit": 2, "columns": {**person, "dept": dept, "price": {"type": "integer"}, "age": age}},
        "stays": {
            "rows_per_unit": 4,
            "groups_per_unit": 1,
            "columns": {**person, "ward": dept, "cost": cost, "age": age},
        },
        "codes": {"rows_per_unit": 40, "columns": {**person, "code": {"type": "integer"}}},
        "tests": {"rows_per_unit": {"most": 500, "choose": "private"}, "columns": {**person, "cost": chosen}},
    }
    policy: dict[str, object] = {
        "name": "hospital",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/hospital.ledger",
        "budget": {"epsilon": 1000, "delta": "1e-3", "truncation": 1},
        "tables": {name: {"unit": "patient", **table} for name, table in tables.items()},  # type: ignore[dict-item]
    }
    with sfumato.open(policy) as database:
        yield database


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_note_is_short_and_three_are_printed(hospital: sfumato.Database, sql: str) -> None:
    quotes = hospital.explain(sql, epsilon="1").notes
    release = hospital.ask(sql, epsilon="1")
    assert release.notes
    for note in (*quotes, *release.notes):
        assert len(note) <= 300, note
        assert len(re.findall(r"[.!?](?= [A-Z]|$)", note)) <= 2, note
        assert note.endswith("."), note
    more = len(release.notes) - MAX_PRINTED_NOTES
    for text in (repr(release), release._repr_html_()):
        assert len(re.findall("(?:\n|<br>)note: ", text)) == min(len(release.notes), MAX_PRINTED_NOTES)
        assert (f"{more} more note" in text and "release.notes" in text) == (more > 0)
    assert release.to_text(None).count("\nnote: ") == len(release.notes)


def test_the_questions_have_every_kind_of_note(hospital: sfumato.Database) -> None:
    told = " ".join(note for sql in QUESTIONS for note in hospital.ask(sql, epsilon="1").notes)
    quoted = " ".join(note for sql in QUESTIONS for note in hospital.explain(sql, epsilon="1").notes)
    for beginning in ("Each person contributes", "Values of `", "Bound selected", "Distinct values", "Quantiles and"):
        assert beginning in told
    for beginning in (
        "Cells were",
        "No group",
        "No interval",
        "MAX over",
        "By a private estimate",
        "Bounds and clipping",
    ):
        assert beginning in told
    for beginning in ("The query selects", "Groups are selected", "Name the column", "chosen privately", "APPROX"):
        assert beginning in quoted


def test_notes_are_ordered_by_rank_and_said_once() -> None:
    notes = [Note(NoteRank.HINT, "c"), Note(NoteRank.LACK, "b"), Note(NoteRank.MEANING, "a"), Note(NoteRank.LACK, "b")]
    assert texts_by_rank(notes) == ("a", "b", "c")


def test_an_answer_shows_the_notes_of_its_plan_and_plans_none(clinic: sfumato.Database) -> None:
    asked = clinic.prepare(CELLS, None, RequestedPrice("1"))
    assert set(texts_by_rank(asked.plan.notes)) == set(clinic.ask(CELLS, epsilon="1").notes)
    plan = replace(asked.plan, notes=(Note(NoteRank.HINT, "Another note."),))
    noisy = publish(plan, asked.engine.run(asked.job), HashSource(1))
    assert make_release(plan, noisy, Receipt("", "", "", plan.loss), evaluate).notes == ("Another note.",)
