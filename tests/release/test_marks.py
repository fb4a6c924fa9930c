"""A value is marked where bounds and clipping may have moved it out of its interval, in every form of an answer.

Nothing here depends on the noise: nothing is published of the losses, or far more than the noise reaches is lost.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.database import Database
from sfumato.release.release import Release
from sfumato.release.rendering.documents import release_document
from sfumato.release.rendering.encoding import encoded
from sfumato.release.rendering.table import MARK_LEGEND
from sfumato.server.remote_json import answer_document, answer_of

CAPPED = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
WHOLE = "SELECT choice, COUNT(*) AS n FROM votes GROUP BY choice"


def _open(folder: Path, *, truncation: str | None = None, most: int = 2, rows: int = 9) -> Database:
    """Open visits of 500 people with so many rows each, of which `most` count, and votes, one row each."""
    data = folder / "data"
    data.mkdir()
    visits = [f"{who},{'er' if at % 2 else 'icu'},{at}" for who in range(500) for at in range(rows)]
    (data / "visits.csv").write_text("\n".join(["who,dept,cost", *visits]) + "\n", encoding="utf-8")
    votes = [f"{'yes' if at % 3 else 'no'},{at % 100}" for at in range(500)]
    (data / "votes.csv").write_text("\n".join(["choice,age", *votes]) + "\n", encoding="utf-8")
    budget = {"epsilon": 10_000, "delta": 0, **({} if truncation is None else {"truncation": truncation})}
    columns = {
        "who": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "cost": {"type": "integer", "bounds": [0, 50]},
    }
    policy: dict[str, Any] = {
        "source": f"csv:{data}",
        "ledger": f"sqlite:{folder}/a.ledger",
        "budget": budget,
        "tables": {
            "visits": {"unit": "who", "rows_per_unit": most, "columns": columns},
            "votes": {
                "unit": "rows",
                "columns": {
                    "choice": {"type": "text", "values": ["yes", "no"]},
                    "age": {"type": "integer", "bounds": [0, 99]},
                },
            },
        },
    }
    return sfumato.open(policy)


def _marked(release: Release) -> bool:
    found = {mark for row in release.marks() for mark in row.values()}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        (CAPPED, True),
        (WHOLE, False),
        ("SELECT COUNT(DISTINCT who) AS n FROM visits", False),  # everybody keeps a row
        ("SELECT dept, COUNT(DISTINCT who) AS n FROM visits GROUP BY dept", True),
        ("SELECT AVG(cost) AS a FROM visits", True),
        ("SELECT SUM(age) AS s FROM votes", True),  # clipped
        ("SELECT COUNT(age) AS n FROM votes", False),
        ("SELECT MAX(age) AS m FROM votes", True),
        ("SELECT STDDEV(age) AS d FROM votes", True),
        ("SELECT MEDIAN(cost) AS m FROM visits", True),
    ],
)
def test_what_can_be_cut_and_was_not_measured_is_marked(tmp_path: Path, sql: str, marked: bool) -> None:
    with _open(tmp_path) as database:
        assert _marked(database.ask(sql, epsilon=10)) is marked


@pytest.mark.parametrize(("rows", "marked"), [(9, True), (2, False)])
def test_what_was_measured_decides_where_it_says_enough(tmp_path: Path, rows: int, marked: bool) -> None:
    """Seven of nine rows of everybody are lost, or none; the losses are known to within 1, margins are ±120."""
    with _open(tmp_path, truncation="2000", rows=rows) as database:
        assert _marked(database.ask(CAPPED, epsilon="0.05")) is marked


def test_a_count_of_people_lacks_at_most_the_people_who_lost_rows(tmp_path: Path) -> None:
    """Each of 500 people lost 1 row of 9, or 30 of 38; the losses are known to within 1."""
    sql = "SELECT dept, COUNT(DISTINCT who) AS n FROM visits GROUP BY dept"
    for rows in (9, 38):
        folder = tmp_path / str(rows)
        folder.mkdir()
        with _open(folder, truncation="5000", most=8, rows=rows) as database:
            cut = database.ask(sql, epsilon=1).truncation_of("n")
        assert cut is not None
        assert 500 <= cut[1] <= 680  # type: ignore[operator]


def test_a_median_inside_its_bounds_is_that_of_all_values(tmp_path: Path) -> None:
    with _open(tmp_path) as database:
        release = database.ask("SELECT MEDIAN(age) AS m FROM votes", epsilon=50)
    assert not _marked(release)


def test_every_form_of_an_answer_shows_the_mark(tmp_path: Path) -> None:
    with _open(tmp_path) as database:
        marked, plain = database.ask(CAPPED, epsilon=1), database.ask(WHOLE, epsilon=1)
    assert marked.marks() == [{"n": True}, {"n": True}]
    for text in (
        str(marked),
        marked._repr_html_(),
        encoded(marked, "markdown").decode(),
        encoded(marked, "table").decode(),
    ):
        assert MARK_LEGEND in text
        assert re.search(r" (\*|&#42;)", text.split(MARK_LEGEND)[0])
    for text in (str(plain), plain._repr_html_(), encoded(plain, "markdown").decode()):
        assert "*" not in text
    assert release_document(marked)["marked"] == marked.marks()
    assert marked.to_pandas().attrs["marked"] == {"n": [0, 1]}
    assert plain.to_pandas().attrs["marked"] == {"n": []}
    assert marked.to_polars(intervals=True)["n_marked"].to_list() == [True, True]
    assert plain.to_polars(intervals=True)["n_marked"].to_list() == [False, False]
    assert marked.to_polars().columns == ["dept", "n"]
    assert json.loads(marked.to_arrow().schema.metadata[b"sfumato.marked"]) == {"n": [0, 1]}
    travelled = answer_of(answer_document(marked), lambda level: answer_document(marked, level))
    assert travelled.marks() == marked.marks()
    older = {key: value for key, value in answer_document(marked).items() if key != "marked"}
    assert answer_of(older, lambda _: older).marks() == [{}, {}]
    assert marked.clamped().marks() == marked.marks()


def test_ends_of_intervals_have_no_digits_that_only_rounding_made(tmp_path: Path) -> None:
    with _open(tmp_path) as database:
        release = database.ask("SELECT MEDIAN(age) AS m, AVG(age) AS a FROM votes", epsilon=1)
    for end in release.intervals()[0]["m"]:
        assert end == round(end, 1)
