"""COUNT(DISTINCT x) lies between 0 and the number of public values of x: estimate, interval, bias and quote."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato

TOWNS = ["a", "b", "c", "d", "e"]
MAX_STEPS = 7
POLICIES: dict[str, dict[str, Any]] = {
    "plain": {"rows_per_unit": 2},
    "plain with fewer groups": {"rows_per_unit": 4, "groups_per_unit": 2},
    "matched": {"rows_per_unit": 60},
    "chosen rows": {"rows_per_unit": {"most": 60, "choose": "private"}},
}
QUESTIONS = (
    "SELECT COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m FROM v",
    "SELECT COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m FROM v WHERE step > 2",
    "SELECT COUNT(DISTINCT town) FILTER (WHERE step > 2) AS n, COUNT(DISTINCT step) AS m FROM v",
    "SELECT COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m, COUNT(*) AS k FROM v",
    "SELECT kind, COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m FROM v GROUP BY kind",
    "SELECT wild, COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m FROM v GROUP BY wild",
)


@pytest.fixture(scope="module", params=list(POLICIES))
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("public")
    (folder / "data").mkdir()
    order = np.arange(4000)
    pd.DataFrame(
        {
            "p": order % 500,
            "town": np.array([*TOWNS, "z"])[order % 6],  # z is not declared
            "step": 1 + order % 9,  # 8 and 9 lie outside
            "kind": np.array(["x", "y"])[order % 2],
            "wild": np.array(["s", "t"])[order // 500 % 2],
        }
    ).to_parquet(folder / "data" / "v.parquet")
    policy: dict[str, Any] = {
        "name": "v",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 100_000, "delta": 1e-3, "truncation": 1},
        "tables": {
            "v": {
                "unit": "p",
                **POLICIES[request.param],
                "columns": {
                    "p": {"type": "integer"},
                    "town": {"type": "text", "values": TOWNS},
                    "step": {"type": "integer", "bounds": [1, MAX_STEPS]},
                    "kind": {"type": "text", "values": ["x", "y"]},
                    "wild": {"type": "text"},
                },
            }
        },
    }
    with sfumato.open(policy) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_count_of_different_values_is_bounded_by_the_public_ones_wherever_it_is_told(
    database: sfumato.Database, sql: str
) -> None:
    """At a price that buys noise of hundreds, and at one that shows groups whose keys nobody declared."""
    for epsilon in ("0.05", "3"):
        quote, release = database.explain(sql, epsilon=epsilon), database.ask(sql, epsilon=epsilon)
        for name, most in (("n", len(TOWNS)), ("m", MAX_STEPS)):
            margin = quote.margins[name]
            assert margin is None or margin <= most
            for row, ends, biased in zip(
                release.rows(), release.intervals(), release.intervals(bias=True), strict=True
            ):
                low, high = ends[name]
                assert 0 <= low <= row[name] <= high <= most
                assert 0 <= biased[name][0] <= low <= high <= biased[name][1] <= most
        assert not any("000" in note for note in release.notes if "`n`" in note)  # no bound beyond what is public


def test_an_exact_count_of_different_values_is_still_exact(database: sfumato.Database) -> None:
    sql = "SELECT COUNT(DISTINCT town) AS n, COUNT(DISTINCT step) AS m FROM v"
    release = database.ask(sql, epsilon="2000")  # noise with probability below e**-300
    assert release.rows() == [{"n": len(TOWNS), "m": MAX_STEPS}]
    assert not any(any(row.values()) for row in release.marks())  # without caps there are no more values either
