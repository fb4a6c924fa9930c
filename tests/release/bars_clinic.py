"""A small clinic whose answers are released many times from the same exact numbers: what laws of bars are tried on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.bounding.truncation import TruncationBounds, plan_truncation_release
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.truncation import release_truncation, truncation_bounds_of
from sfumato.release.publish import publish
from sfumato.release.release import Release, make_release

Ends = tuple[Any, Any]


def opened(folder: Path, rows: dict[str, Any], table: dict[str, Any], **budget: object) -> sfumato.Database:
    """Open a dataset of one table `v`, whose people are in the column `p`."""
    (folder / "data").mkdir()
    pyarrow.parquet.write_table(pyarrow.table(rows), folder / "data" / "v.parquet")
    columns = {"p": {"type": "integer"}, **table.pop("columns")}
    return sfumato.open(
        {
            "name": "bars",
            "source": f"parquet:{folder}/data",
            "ledger": f"sqlite:{folder}/bars.ledger",
            "budget": {"epsilon": 10**6, "delta": "1e-3", "query_delta": "1e-9", **budget},
            "tables": {"v": {"unit": "p", **table, "columns": columns}},
        }
    )


def losses_known(database: sfumato.Database) -> TruncationBounds:
    """Return what caps and bounds cut off, as it is published once."""
    plan = plan_truncation_release(database.policy)
    assert plan is not None
    exact = database.engine.run(database.engine.prepare(plan))
    return truncation_bounds_of(
        database.policy, plan, release_truncation(database.policy, plan, exact, HashSource("losses"))
    )


def released(
    database: sfumato.Database, sql: str, releases: int, epsilon: str, losses: TruncationBounds | None = None
) -> Iterator[Release]:
    """Yield releases of one question, each with noise of its own."""
    asked = database.prepare(sql, None, RequestedPrice(epsilon))
    aggregates, receipt, source = asked.engine.run(asked.job), database._receipt(asked, "bars"), HashSource(sql)
    for _ in range(releases):
        yield make_release(asked.plan, publish(asked.plan, aggregates, source), receipt, evaluate, losses)


def holds(ends: Ends, truth: float) -> bool:
    """Whether an interval holds a number; a side that is None is open."""
    low, high = ends
    return (low is None or float(low) <= truth) and (high is None or truth <= float(high))


def is_around(outer: Ends, inner: Ends) -> bool:
    """Whether an interval holds all of another one."""
    low = outer[0] is None or (inner[0] is not None and outer[0] <= inner[0])
    return low and (outer[1] is None or (inner[1] is not None and inner[1] <= outer[1]))
