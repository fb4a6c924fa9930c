"""What an answer says about itself: chosen cells also below an aggregate, no groups, columns without a bar."""

from collections.abc import Iterator

import pytest

import sfumato
from sfumato.planning.notes.truncation import bounding_notes
from sfumato.prepare import RequestedPrice
from sfumato.release.notes import SELECTED, drop_noise_dependent_notes

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
    (note,) = [note for note in release.notes if "open sides" in note]
    assert "`b`, `c`" in note
    assert all(row["c"] == (0, None) for row in release.intervals())
    for sql in (CELLS, f"SELECT MAX(n) AS m FROM ({CELLS}) t"):  # noqa: S608
        assert not any("open sides" in note for note in clinic.ask(sql, epsilon="1").notes)


def test_what_is_computed_over_selected_groups_says_that_the_others_are_missing(clinic: sfumato.Database) -> None:
    inner = "SELECT price / 1000 AS k, COUNT(*) AS n FROM visits GROUP BY 1"
    release = clinic.ask(f"SELECT SUM(n) AS s FROM ({inner}) t", epsilon="2")  # noqa: S608
    assert any("the rows of the others are not in it" in note for note in release.notes)


def test_a_quote_and_its_answer_tell_the_same_about_bounds(clinic: sfumato.Database) -> None:
    plan = clinic.prepare(CELLS, None, RequestedPrice("1")).plan
    assert set(bounding_notes(plan)) <= set(clinic.ask(CELLS, epsilon="1").notes)


def test_apart_from_noise_it_is_the_same_whether_noise_found_one_thing_or_two() -> None:
    found = [f"Different values were counted by matching, with at most {limit} of a person." for limit in (2, 4)]
    assert drop_noise_dependent_notes(["A note.", *found]) == drop_noise_dependent_notes(["A note.", found[0]])
    assert drop_noise_dependent_notes(["A note.", found[0]]) != drop_noise_dependent_notes(["A note."])
