"""A dashboard is one charge per period: asked together, shown again at no cost, written as one harmless page."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.server.clinic import BY_DEPT, COUNT, make_clinic

import sfumato
from sfumato.cli import main
from sfumato.dashboards.answers import answer_dashboard
from sfumato.dashboards.dashboard import PERIODS, DashboardTile, dashboard_text, parse_dashboard, period_start
from sfumato.dashboards.page import dashboard_html
from sfumato.database import Database
from sfumato.errors import BadParameter, BudgetExhausted

TILES: list[dict[str, str]] = [
    {"title": "By <b>department</b>", "sql": BY_DEPT},
    {"title": "All", "sql": COUNT},
    {"title": "Wards", "sql": "SELECT dept, floor FROM wards", "chart": "table"},
]
FILE: dict[str, Any] = {"title": "Clinic", "epsilon": "0.5", "period": "month", "tiles": TILES}


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Database]:
    with sfumato.open(make_clinic(tmp_path, epsilon="3", analyst="1.2")) as database:
        yield database


def test_a_dashboard_is_one_charge_in_a_period_whatever_is_refreshed(owner: Database) -> None:
    dashboard = parse_dashboard(FILE)
    first = answer_dashboard(owner, dashboard)
    assert (first.charged, first.loss.epsilon, first.more) == (True, Fraction("0.5"), 5)
    assert owner.charges() == 1
    again = answer_dashboard(owner, dashboard)
    owner.refresh()
    after = answer_dashboard(owner, dashboard)
    for same in (again, after):
        assert not same.charged
        assert [release.rows() for release in same.releases] == [release.rows() for release in first.releases]
    assert owner.budget().spent.epsilon == Fraction("0.5")
    later = answer_dashboard(owner, dashboard, datetime.now(UTC) + timedelta(days=32))
    assert later.charged
    assert owner.budget().spent.epsilon == 1
    assert later.releases[0].receipt.version != first.releases[0].receipt.version


def test_without_a_period_each_snapshot_is_charged(owner: Database) -> None:
    dashboard = parse_dashboard({**FILE, "period": ""})
    assert answer_dashboard(owner, dashboard).charged
    assert not answer_dashboard(owner, dashboard).charged
    owner.refresh()
    assert answer_dashboard(owner, dashboard).charged
    assert owner.budget().spent.epsilon == 1


def test_another_price_or_another_tile_is_another_dashboard(owner: Database) -> None:
    answer_dashboard(owner, parse_dashboard(FILE))
    owner.refresh()
    changed = parse_dashboard({**FILE, "epsilon": "0.6"})
    assert answer_dashboard(owner, changed).charged
    one = parse_dashboard({**FILE, "tiles": TILES[1:2]})
    assert answer_dashboard(owner, one).charged
    assert not answer_dashboard(owner, one).charged  # a single question is found again, too


def test_an_account_pays_for_its_own_and_is_refused_like_any_question(owner: Database) -> None:
    dashboard = parse_dashboard(FILE)
    with owner.as_analyst("research") as analyst:
        assert answer_dashboard(analyst, dashboard).more == 1
        assert analyst.budget().spent.epsilon == Fraction("0.5")
        with pytest.raises(BudgetExhausted):
            answer_dashboard(analyst, parse_dashboard({**FILE, "epsilon": "0.9"}))
    free = answer_dashboard(owner, parse_dashboard({**FILE, "tiles": TILES[2:]}))
    assert (free.charged, free.more, free.price_text()) == (False, None, "All questions are free.")


def test_the_page_has_every_tile_and_nothing_that_runs(owner: Database) -> None:
    page = dashboard_html(answer_dashboard(owner, parse_dashboard(FILE)))
    assert "By &lt;b&gt;department&lt;/b&gt;" in page
    assert "All questions together cost ε = 0.5, δ = 0 a month, charged once at most." in page
    assert page.count('<section class="tile">') == 3
    assert page.count("<svg") == 2  # one chart for each number of the first tile
    lowered = page.lower()
    assert not any(word in lowered for word in ("<script", "javascript:", "onload", "<iframe", "@import", "src="))


REFUSED: dict[str, dict[str, Any]] = {
    "no tiles": {"tiles": []},
    "no price": {"epsilon": None},
    "two prices": {"share": "2%"},
    "an unknown key": {"tile": []},
    "an unknown period": {"period": "fortnight"},
    "an unknown chart": {"tiles": [{"sql": COUNT, "chart": "pie"}]},
    "a tile without sql": {"tiles": [{"title": "x"}]},
    "a title that is no text": {"title": 7},
    "a price that is no number": {"epsilon": [1]},
}


@pytest.mark.parametrize("changed", REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_dashboard_is_refused_before_anything_is_asked(changed: dict[str, Any]) -> None:
    data = {key: value for key, value in {**FILE, **changed}.items() if value is not None}
    with pytest.raises(BadParameter, match="not a dashboard"):
        parse_dashboard(data)


@given(st.text(max_size=30), st.lists(st.tuples(st.text(max_size=20), st.text(min_size=1, max_size=40)), min_size=1))
def test_what_the_console_writes_is_read_back(title: str, tiles: list[tuple[str, str]]) -> None:
    kept = [DashboardTile(name, sql.strip()) for name, sql in tiles[:5] if sql.strip()]
    storable = all(not 0xD800 <= ord(char) <= 0xDFFF for text in (title, *(t + s for t, s in tiles)) for char in text)
    if not kept or not storable:
        return
    read = parse_dashboard(dashboard_text(title, {"epsilon": "0.5"}, "week", kept))
    assert (read.title, read.tiles, read.period) == (title, tuple(kept), "week")


@pytest.mark.parametrize("period", PERIODS)
def test_a_period_begins_on_or_before_each_of_its_days(period: str) -> None:
    days = [datetime(2024, 1, 1, tzinfo=UTC).date() + timedelta(days=number) for number in range(800)]
    starts = [period_start(period, day) for day in days]
    assert all(start <= day for start, day in zip(starts, days, strict=True))
    assert starts == sorted(starts)
    assert all(period_start(period, start) == start for start in starts)


def test_the_command_line_writes_the_page_and_refresh_asks_it_at_once(tmp_path: Path) -> None:
    policy, file = str(make_clinic(tmp_path, epsilon="3")), tmp_path / "monthly.toml"
    tiles = [DashboardTile(tile["title"], tile["sql"]) for tile in TILES]
    file.write_text(dashboard_text("Clinic", {"epsilon": "0.5"}, "", tiles))

    def run(*words: str) -> str:
        return CliRunner().invoke(main, list(words)).output

    assert "Nothing was charged." in run("dashboard", policy, str(file), "--rehearsal", "-o", str(tmp_path / "r.html"))
    assert "Rehearsal:" in (tmp_path / "r.html").read_text()
    assert "Charged now." in run("dashboard", policy, str(file))
    assert "Nothing was charged." in run("dashboard", policy, str(file))
    refreshed = run("refresh", policy, "--dashboard", str(file))
    assert "Took a new snapshot" in refreshed
    assert "Charged now." in refreshed
    assert "<svg" in (tmp_path / "monthly.html").read_text()
    assert "bad_parameter" in run("refresh", policy, "--dashboard", str(tmp_path / "missing.toml"))
    assert "bad_parameter" in run("dashboard", policy, str(file), "-o", policy)
