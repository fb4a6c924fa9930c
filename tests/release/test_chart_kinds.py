"""Charts chosen by name show every value with its uncertainty, in every format."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato
from sfumato.errors import BadParameter

BY_TWO = "SELECT dept, urgent, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept, urgent"
KINDS = ("heatmap", "shares", "scatter")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Release]:
    with sfumato.open(fresh_clinic(tmp_path_factory.mktemp("kinds")), rehearsal=True) as database:
        yield database.ask(BY_TWO, epsilon="1")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".svg", ".png", ".html"])
def test_every_kind_is_saved_in_every_format(release: sfumato.Release, kind: str, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"chart{ending}"
    release.plot(kind=kind).save(str(file))
    assert file.stat().st_size > 1000


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_every_chart_of_a_rehearsal_is_marked(release: sfumato.Release, kind: str | None) -> None:
    assert release.plot(kind=kind).to_dict()["title"]["subtitle"].startswith("rehearsal with synthetic rows")


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_drawn_with_its_interval(release: sfumato.Release, kind: str) -> None:
    chart = release.plot(kind=kind).to_dict()
    data = chart.get("data") or chart["layer"][0]["data"]
    rows = data["values"]
    assert [row["v0"] for row in rows] == [row["n"] for row in release.rows()]
    level = "0.975" if kind == "shares" else "0.95"  # two parts of each key hold together
    assert [[row["low0"], row["high0"]] for row in rows] == [list(row["n"]) for row in release.intervals(level)]


def test_shares_of_each_key_end_at_one(release: sfumato.Release) -> None:
    chart = release.plot(kind="shares").to_dict()
    rows = (chart.get("data") or chart["layer"][0]["data"])["values"]
    ends = {row["k0"]: row["end"] for row in rows}
    assert all(abs(end - 1) < 1e-9 or end == 0 for end in ends.values())
    assert all(0 <= row["least"] <= row["end"] + 1e-9 or row["end"] == 0 for row in rows)
    assert all(row["end"] - 1e-9 <= row["most"] <= 1 for row in rows)


def test_the_interval_of_a_share_contains_every_share_that_its_parts_allow(release: sfumato.Release) -> None:
    """Law: for all values within the intervals of the parts, at their ends, the share is within its bar."""
    chart = release.plot(kind="shares").to_dict()
    rows = (chart.get("data") or chart["layer"][0]["data"])["values"]
    for key in {row["k0"] for row in rows}:
        parts = [row for row in rows if row["k0"] == key]
        for values in product(*[(max(part["low0"], 0), max(part["high0"], 0)) for part in parts]):
            for place, part in enumerate(parts):
                if sum(values):
                    share = sum(values[: place + 1]) / sum(values)
                    assert part["least"] - 1e-9 <= share <= part["most"] + 1e-9


@pytest.mark.parametrize("kind", ["pie", "heatmap", "scatter"])
def test_what_a_kind_cannot_show_is_refused(release: sfumato.Release, kind: str, tmp_path: Path) -> None:
    with sfumato.open(fresh_clinic(tmp_path), rehearsal=True) as database:
        counted = database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
        with pytest.raises(BadParameter):
            counted.plot(kind=kind)
