"""The verb `sfumato stream`: an honest demonstration, with a picture and the price."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.errors import BadParameter
from sfumato.streams.commands import LEVEL, made_up_visits, run_demo


def test_the_demonstration_says_what_it_released_what_was_true_and_what_it_cost() -> None:
    shown = CliRunner().invoke(main, ["stream", "--days", "30", "--epsilon", "3", "--seed", "5"])
    assert shown.exit_code == 0
    assert "counted up day by day for 30 days" in shown.output
    assert "Cost: ε = 3, δ = 0.000001, charged once for all 30 days together." in shown.output
    totals = np.cumsum(made_up_visits(30, 5), axis=0)
    last = re.search(r"2026-01-30 +(.*)", shown.output)
    assert last is not None
    assert [int(true.replace(",", "")) for true in re.findall(r"\(([\d,]+)\)", last[1])] == totals[-1].tolist()


def test_the_made_up_visits_are_the_same_for_the_same_seed_and_the_noise_is_not() -> None:
    assert (made_up_visits(40, 1) == made_up_visits(40, 1)).all()
    assert (made_up_visits(40, 1) != made_up_visits(40, 2)).any()
    first, second = run_demo(12, "1", 1), run_demo(12, "1", 1)
    assert (first.released != second.released).any()
    assert np.abs(first.released - np.cumsum(first.visits, axis=0)).max() < 4 * first.plan.margin(LEVEL, 12)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["stream", "--days", "9", "--plot", str(tmp_path / "visits.svg")])
    assert shown.exit_code == 0
    assert "<svg" in (tmp_path / "visits.svg").read_text()


@pytest.mark.parametrize(
    "options",
    [["--days", "1"], ["--days", "1000000"], ["--epsilon", "0"], ["--epsilon", "much"], ["--plot", "a.bmp"]],
    ids=str,
)
def test_what_cannot_be_shown_is_refused(options: list[str]) -> None:
    assert CliRunner().invoke(main, ["stream", *options]).exit_code == 2


def test_a_price_out_of_all_proportion_is_refused() -> None:
    with pytest.raises(BadParameter):
        run_demo(10, 10**6, 1)
