"""Counts and sums of a roll-up share their noise in every margin, and bars of what is made consistent hold.

Each share is compared with its level by 4.9 standard deviations, one-sided: a true one fails once in two million.
"""

from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
from tests.sources import HashSource

import sfumato
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.plan import GroupPlan, PlannedMeasurement
from sfumato.prepare import RequestedPrice
from sfumato.query.functions import Aggregation
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release

SQL = "SELECT age, kind, COUNT(*) AS n, SUM(cost) AS total, AVG(cost) AS mean FROM visits GROUP BY ROLLUP (age, kind)"
ROWS, COST, DRAWS = 300, 30, 4


def database(folder: Path) -> sfumato.Database:
    (folder / "visits.csv").write_text("id,age,kind,cost\n1,2,a,3\n", encoding="utf-8")
    columns = {
        "id": {"type": "integer"},
        "age": {"type": "integer", "bounds": [0, 39]},
        "kind": {"type": "text", "values": ["a", "b", "c", "d", "e"]},
        "cost": {"type": "integer", "bounds": [0, 100]},
    }
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{folder / 'visits.csv'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 3, "delta": "1e-6"},
        "tables": {"visits": {"unit": "id", "rows_per_unit": 3, "columns": columns}},
    }
    return sfumato.open(policy)


def per_row(one: PlannedMeasurement) -> int:
    if one.quantity.function is Aggregation.SUM:
        return COST
    return 1


def test_bars_of_consistent_counts_sums_and_averages_hold_with_shared_noise(tmp_path: Path) -> None:
    with database(tmp_path) as clinic:
        asked = clinic.prepare(SQL, None, RequestedPrice(epsilon="1"))
        plan = asked.plan
        assert all(len(group.joint_noise_measurements) == len(group.measured) > 1 for group in plan.groups)
        assert len(plan.tables) > 1
        keys = [group.keys for group in asked.engine.run(asked.job).groups]
    finest = max(map(len, keys))  # every finest cell has as many rows, also the rests

    def _exact(group: GroupPlan, own: tuple[tuple[object, ...], ...]) -> GroupAggregates:
        rows = np.full(len(own), ROWS * finest // len(own))
        return GroupAggregates(own, {one.name: rows * per_row(one) for one in group.measured}, rows)  # type: ignore[arg-type]

    exact = Aggregates(tuple(map(_exact, plan.groups, keys)))
    held: dict[str, list[bool]] = {"n": [], "total": [], "mean": []}
    for draw in range(DRAWS):
        noisy = publish(plan, exact, HashSource(f"margins {draw}"))
        for row in make_release(plan, noisy, Receipt("r", "p", "v", plan.loss), evaluate).intervals(Fraction(95, 100)):
            depth = (row["age"] is not None) + (row["kind"] is not None)
            cells = {0: finest, 1: finest // 41, 2: 1}[depth]
            for name, true in {"n": ROWS * cells, "total": COST * ROWS * cells, "mean": COST}.items():
                low, high = row[name]
                held[name].append(low <= true <= high)
    for name, each in held.items():
        assert len(each) == DRAWS * (200 + 40 + 1)
        assert sum(each) / len(each) > 0.95 - 4.9 * sqrt(0.95 * 0.05 / len(each)), name
