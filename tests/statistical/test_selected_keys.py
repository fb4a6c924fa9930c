"""Bars of keys that were selected by their own noisy number hold given the selection.

Each share is compared with its level by 4.9 standard deviations, one-sided: a true one fails once in two million.
"""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from tests.sources import HashSource

import sfumato
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.prepare import RequestedPrice
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release

CELLS = 4_000
SQL = (
    "SELECT city, COUNT(DISTINCT id) AS n, AVG(cost) AS mean, VAR_POP(cost) AS spread, SUM(cost) AS total "
    "FROM visits GROUP BY city"
)
TRUTHS = {"n": (1, 0), "mean": (0, 30), "spread": (0, 0), "total": (30, 0)}
"""What each column truly is: so much per person, and so much beside."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> sfumato.Database:
    folder = tmp_path_factory.mktemp("cities")
    (folder / "visits.csv").write_text("id,city,cost\n1,rome,30\n", encoding="utf-8")
    columns = {
        "id": {"type": "integer"},
        "city": {"type": "text"},
        "cost": {"type": "integer", "bounds": [0, 100]},
    }
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder / 'visits.csv'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 100, "delta": "1e-3"},
        "tables": {"visits": {"unit": "id", "rows_per_unit": 1, "columns": columns}},
    }
    return sfumato.open(policy)


@pytest.mark.parametrize("price", ["epsilon", "share"])
@pytest.mark.parametrize("beyond", [-2, 0, 2, 8])
def test_bars_of_selected_keys_hold_at_their_level(database: sfumato.Database, price: str, beyond: int) -> None:
    """Everybody costs 30, in cells of the same size: some deviations of the noise below or above the threshold."""
    epsilon, share = ("2", None) if price == "epsilon" else (None, "0.002")
    plan = database.prepare(SQL, None, RequestedPrice(epsilon=epsilon, share=share)).plan
    (group,) = plan.groups
    assert isinstance(group.selection, CountedKeys)
    people = max(1, group.selection.threshold + beyond * group.selection.margin(Fraction(1, 2)))
    exact = {"count": people, "centred": (30 - 50) * people, "squares": (30 - 50) ** 2 * people, "plain": 30 * people}
    columns = {}
    for one in group.measured:
        facts = one.quantity.arguments[0].facts if one.quantity.arguments else None
        kind = "count" if one.quantity.function.value == "count" else "plain"
        if kind == "plain" and facts is not None:
            kind = {(0, 100): "plain", (-50, 50): "centred", (0, 2500): "squares"}[facts.low, facts.high]
        columns[one.name] = np.full(CELLS, exact[kind], dtype=np.int64)
    keys = tuple((f"{place:05}",) for place in range(CELLS))
    secret = GroupAggregates(keys, columns, np.full(CELLS, people, dtype=np.int64))
    noisy = publish(plan, Aggregates((secret,)), HashSource(f"selected {price} {beyond}"))
    receipt = Receipt("r", "p", "v", plan.loss)
    bars = make_release(plan, noisy, receipt, evaluate).intervals(Fraction(95, 100))
    assert len(bars) > 100
    for name, (each, beside) in TRUTHS.items():
        known = [row[name] for row in bars if row[name] is not None]
        truth = each * people + beside
        held = sum((low is None or low <= truth) and (high is None or truth <= high) for low, high in known)
        assert held / len(known) > 0.95 - 4.9 * sqrt(0.95 * 0.05 / len(known)), name
