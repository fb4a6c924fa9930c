"""A question that selects its bounds reads private rows in two runs, with the noise of the selection between them."""

from pathlib import Path

import pytest
from tests.paths.test_chosen_caps import CHOSEN, QUESTIONS, SMALL
from tests.paths.test_chosen_caps import _policy as policy_with
from tests.paths.test_chosen_caps import _write as write_rows
from tests.sources import HashSource

import sfumato
from sfumato.database import _noisy
from sfumato.prepare import RequestedPrice
from sfumato.release.publish import publish


@pytest.mark.parametrize("chosen", CHOSEN)
def test_two_runs_with_the_noise_between_them_draw_and_release_what_one_run_at_all_bounds_does(
    tmp_path: Path, chosen: str
) -> None:
    write_rows(tmp_path, SMALL)
    with sfumato.open(policy_with(tmp_path, *CHOSEN[chosen])) as database:
        selecting = 0
        for sql in (*QUESTIONS, "SELECT COUNT(DISTINCT who) AS x FROM visits"):
            asked = database.prepare(sql, None, RequestedPrice("1"))
            two, one = HashSource(sql), HashSource(sql)
            noisy = _noisy(asked, two, lambda *_: None)
            assert noisy == publish(asked.plan, asked.engine.run(asked.job), one)
            assert two.read(8) == one.read(8)  # as many bits were read
            histograms = asked.engine.run_selection(asked.job)
            assert set(histograms) == {one.group.label for one in asked.plan.groups if one.is_bound_selection}
            selecting += bool(histograms)
        assert selecting >= 2
