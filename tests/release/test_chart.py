"""Pictures of answers: a panel for every number, a title with price and level, dates as dates."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return the made-up clinic."""
    with sfumato.open(fresh_clinic(tmp_path_factory.mktemp("clinic"))) as opened:
        yield opened


def _drawn(database: sfumato.Database, sql: str, column: str | None = None) -> dict[str, Any]:
    chart: dict[str, Any] = database.ask(sql, epsilon="0.1").plot(column).to_dict()
    return chart


def _panels(chart: dict[str, Any]) -> dict[str, Any]:
    return {panel["layer"][0].get("title", panel.get("title"))["text"]: panel for panel in chart.get("concat", [chart])}


def _rows(chart: dict[str, Any], panel: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (panel.get("data") or panel["layer"][0].get("data") or chart["data"])["values"]
    return rows


def test_every_number_has_a_panel_and_the_title_says_price_and_level(database: sfumato.Database) -> None:
    chart = _drawn(
        database, "SELECT dept, COUNT(*) AS n, SUM(cost) AS total, AVG(age) AS age FROM visits GROUP BY dept"
    )
    assert chart["title"]["text"] == "n, total, age by dept"
    assert chart["title"]["subtitle"] == "ε = 0.1, δ = 0; error bars at 95 %"
    panels = _panels(chart)
    assert list(panels) == ["n", "total", "age"]
    for panel in panels.values():
        rows = _rows(chart, panel)
        assert len(rows) == 8
        assert all(row["low"] <= row["value"] <= row["high"] for row in rows if row["value"] is not None)
        domain = panel["layer"][0]["encoding"]["y"]["scale"]["domain"]
        assert len(domain) == 8  # a group whose average is NULL keeps its place
        assert panel["layer"][0]["encoding"]["x"]["field"] == "value"


def test_dates_are_dates_on_the_axis(database: sfumato.Database) -> None:
    chart = _drawn(database, "SELECT date_trunc('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY 1")
    (panel,) = _panels(chart).values()
    x = panel["layer"][0]["encoding"]["x"]
    assert (x["type"], x["axis"]["format"], x["title"]) == ("temporal", "%b %Y", "month")
    assert _rows(chart, panel)[1]["key"] == "2024-02-01T00:00:00"
    assert panel["width"] >= 500


def test_years_are_places_and_a_second_key_is_a_colour(database: sfumato.Database) -> None:
    chart = _drawn(database, "SELECT born / 10 * 10 AS decade, sex, COUNT(*) AS n FROM patients GROUP BY 1, 2")
    (panel,) = _panels(chart).values()
    encoding = panel["layer"][0]["encoding"]
    assert encoding["x"]["type"] == "ordinal"
    assert "1980" in encoding["x"]["scale"]["domain"]
    assert encoding["color"]["title"] == "sex"
    many = _drawn(database, "SELECT age, COUNT(*) AS n FROM visits GROUP BY age")
    assert _panels(many)["n"]["layer"][0]["encoding"]["x"]["type"] == "quantitative"


def test_one_number_may_be_named_and_public_answers_say_that_they_are_exact(database: sfumato.Database) -> None:
    chart = _drawn(database, "SELECT dept, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY dept", "age")
    assert list(_panels(chart)) == ["age"]
    exact = database.ask("SELECT dept, name, floor FROM departments").plot().to_dict()
    assert (exact["title"]["text"], exact["title"]["subtitle"]) == ("floor by dept", "exact and free")
    alone = _drawn(database, "SELECT COUNT(*) AS n, COUNT(DISTINCT patient_id) AS people FROM visits")
    assert [panel["layer"][0]["encoding"]["y"]["axis"] for panel in _panels(alone).values()] == [None, None]
