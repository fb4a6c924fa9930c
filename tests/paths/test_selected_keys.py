"""Keys that the rows at a selected bound select, and what a quote says of it.

The bits of the noise are fixed, so a failure is a bug.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources import HashSource

import sfumato
from sfumato.database import Database
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.planning.bounding.selection import at_bounds, laplace_noise_of
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.selection import SELECTED_INDEX
from sfumato.release.publish import publish
from sfumato.release.release import make_release

COUNTS = "SELECT town, COUNT(*) AS n FROM trips GROUP BY town"
MOST = 600


def _policy(folder: Path, neighbours: str) -> dict[str, Any]:
    return {
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/{neighbours}.ledger",
        "neighbours": neighbours,
        "budget": {"epsilon": 1000, "delta": "1e-3", "query_delta": "1e-6", "truncation": 1},
        "tables": {
            "trips": {
                "unit": "who",
                "rows_per_unit": {"most": MOST, "choose": "private"},
                "columns": {"who": {"type": "integer"}, "town": {"type": "text"}},
            }
        },
    }


def _towns() -> list[tuple[int, str]]:
    """Return trips of 1,500 people to 40 towns that nobody declared: each has 20 to 60 of them, in many towns."""
    rng = np.random.default_rng(7)
    weights = 1 / np.arange(1, 41)
    rows = []
    for who in range(1500):
        towns = rng.choice(40, int(rng.integers(20, 61)), p=weights / weights.sum())
        rows += [(who, f"t{town:02}") for town in towns]
    return rows


@pytest.fixture(scope="module", params=["add-remove", "replace"])
def trips(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("trips")
    (folder / "data").mkdir()
    lines = "".join(f"{who},{town}\n" for who, town in _towns())
    (folder / "data" / "trips.csv").write_text(f"who,town\n{lines}", encoding="utf-8")
    with sfumato.open(_policy(folder, request.param)) as database:
        yield database


def test_at_every_bound_keys_are_selected_for_the_loss_that_is_charged(trips: Database) -> None:
    plan = trips.prepare(COUNTS, None, RequestedPrice("1")).plan
    group, choice = plan.groups
    charged = group.selection
    assert isinstance(charged, CountedKeys)
    (candidates,) = [one.candidates for one in group.measured]
    assert candidates is not None
    for index, (amount, moved) in enumerate(zip(candidates.thresholds, candidates.sensitivities, strict=True)):
        taken = at_bounds(plan, {choice.group.label: index}).groups[0]
        (one,), selection = taken.measured, taken.selection
        assert isinstance(selection, CountedKeys)
        assert selection.noise == one.mechanism
        assert selection.core == charged.core
        assert selection.delta <= charged.delta
        assert (selection.most, selection.groups_per_unit) == (moved.linf, min(amount, charged.groups_per_unit))
        assert laplace_noise_of(one).sensitivity == moved.l1


def test_undeclared_groups_appear_near_their_numbers_and_their_bars_hold(trips: Database) -> None:
    asked = trips.prepare(COUNTS, None, RequestedPrice("1"))
    truth: dict[str, int] = {}
    for _, town in _towns():
        truth[town] = truth.get(town, 0) + 1
    aggregates, receipt, source = asked.engine.run(asked.job), trips._receipt(asked, "trips"), HashSource(5)
    exact = dict(zip([key for (key,) in aggregates.groups[0].keys], aggregates.groups[0].columns["m1"], strict=True))
    shown, held, errors = 0, 0, []
    for _ in range(20):
        noisy = publish(asked.plan, aggregates, source)
        release = make_release(asked.plan, noisy, receipt, evaluate, None)
        index = noisy.groups[1].numbers(SELECTED_INDEX)[0]
        for row, ends in zip(release.rows(), release.intervals(), strict=True):
            shown += 1
            held += ends["n"][0] <= int(np.asarray(exact[row["town"]])[index]) <= ends["n"][1]
            errors.append(abs(row["n"] - truth[row["town"]]) / truth[row["town"]])
    assert shown >= 20 * 3
    assert held >= 0.9 * shown
    assert np.median(errors) < 0.15


def test_a_quote_does_not_bound_what_a_bound_still_to_be_selected_removes(trips: Database) -> None:
    notes = trips.explain("SELECT COUNT(*) AS n FROM trips", epsilon="1").notes
    assert not any("may have changed `n`" in note for note in notes)
    assert any("remove from `n` depends on the selected bound" in note for note in notes)
