"""Bars hold given that a top list chose its groups, or that groups were selected by what they show.

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
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.plan import PlannedMeasurement
from sfumato.prepare import RequestedPrice
from sfumato.query.functions import Aggregation
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release

CHOSEN, KEYS = 300, 900
SQL = "SELECT article, COUNT(DISTINCT id) AS n, SUM(price) AS total FROM bought GROUP BY 1 ORDER BY n DESC LIMIT 300"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> sfumato.Database:
    folder = tmp_path_factory.mktemp("articles")
    (folder / "bought.csv").write_text("id,article,price\n1,tea,30\n", encoding="utf-8")
    columns = {
        "id": {"type": "integer"},
        "article": {"type": "text"},
        "price": {"type": "integer", "bounds": [0, 100]},
    }
    policy: dict[str, object] = {
        "name": "shop",
        "source": f"csv:{folder / 'bought.csv'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 100, "delta": "1e-3"},
        "tables": {"bought": {"unit": "id", "rows_per_unit": 50_000, "columns": columns}},
    }
    return sfumato.open(policy)


@pytest.mark.parametrize(("beyond", "spread"), [(0, 0), (6, 40)], ids=["ties", "skewed"])
def test_bars_of_a_top_list_hold_at_their_level(database: sfumato.Database, beyond: int, spread: int) -> None:
    """Everybody pays 30; the groups are some deviations of the noise beyond the threshold, equal or far apart."""
    plan = database.prepare(SQL, None, RequestedPrice(epsilon="20")).plan
    (group,) = plan.groups
    chosen = group.selection
    assert isinstance(chosen, TopList)
    assert chosen.threshold is not None
    step = chosen.noise.margin(Fraction(1, 2))
    people = chosen.threshold + beyond * step + np.arange(KEYS) % (spread + 1) * step // 2
    sums = {one.name: people * (1 if one.name == group.selecting_measurement else 30) for one in group.measured}
    keys = tuple((f"{place:05}",) for place in range(KEYS))
    noisy = publish(plan, Aggregates((GroupAggregates(keys, sums, people),)), HashSource(f"top {beyond} {spread}"))
    bars = make_release(plan, noisy, Receipt("r", "p", "v", plan.loss), evaluate).intervals(Fraction(95, 100))
    assert CHOSEN // 4 < len(bars) <= CHOSEN
    for name, each in {"n": 1, "total": 30}.items():
        truths = [each * int(people[int(str(row["article"]))]) for row in bars]
        held = sum(low <= true <= high for (low, high), true in zip((row[name] for row in bars), truths, strict=True))
        assert held / len(bars) > 0.95 - 4.9 * sqrt(0.95 * 0.05 / len(bars)), name


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT article, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM bought GROUP BY 1",
        "SELECT article, SUM(price) AS total FROM bought GROUP BY 1 ORDER BY 2 DESC LIMIT 900",
    ],
    ids=["rows", "sum"],
)
@pytest.mark.parametrize("beyond", [-2, 0, 6])
def test_bars_hold_for_what_an_amount_selected(database: sfumato.Database, sql: str, beyond: int) -> None:
    """One row or sum selects: cells below the threshold, at it, and some deviations of the noise beyond it."""
    plan = database.prepare(sql, None, RequestedPrice(epsilon="20")).plan
    (group,) = plan.groups
    chosen = group.selection
    assert isinstance(chosen, CountedKeys)
    assert chosen.most > 1
    least = chosen.threshold // (1 if "COUNT" in sql else 30)
    cells = least + beyond * chosen.noise.margin(Fraction(1, 2)) // (1 if "COUNT" in sql else 30)
    counts = np.full(3 * KEYS, cells)
    sums = {one.name: counts * (_per_row(one)) for one in group.measured}
    keys = tuple((f"{place:05}",) for place in range(3 * KEYS))
    noisy = publish(plan, Aggregates((GroupAggregates(keys, sums, counts),)), HashSource(f"amount {sql} {beyond}"))
    bars = make_release(plan, noisy, Receipt("r", "p", "v", plan.loss), evaluate).intervals(Fraction(95, 100))
    assert len(bars) > KEYS // 4
    for name, true in {"n": cells, "total": 30 * cells, "mean": 30}.items():
        if name in bars[0]:
            held = sum(low <= true <= high for low, high in (row[name] for row in bars))
            assert held / len(bars) > 0.95 - 4.9 * sqrt(0.95 * 0.05 / len(bars)), name


def _per_row(one: PlannedMeasurement) -> int:
    """What a row of somebody who pays 30 adds, around the offset that is subtracted; no price is NULL."""
    if one.quantity.function is Aggregation.COUNT:
        return int(one.quantity.where is None)
    return 30 - (50 if one.quantity.arguments[0].facts.low < 0 else 0)
