"""How many tables' truths do `intervals(bias=True)` hold? `python -m tests.statistical.bias_tables 400` draws so many.

`tests.statistical.bias` asks often about few tables; here every table is drawn anew and asked once, because what is
lost of a heavy tail depends on its largest person. The rows are drawn by numpy and what people lost is added up there,
as an engine would (`test_bias_tables.py` compares the two); plans, noise, bounds and intervals are those of sfumato.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.sources import HashSource
from tests.statistical.bias import World

import sfumato
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.bounding.truncation import (
    BUCKET_COUNT,
    CUT_PEOPLE,
    MOVED,
    ROWS,
    TruncationBlock,
    TruncationStatistic,
    blocks,
    plan_truncation_release,
)
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.truncation import release_truncation, truncation_bounds_of
from sfumato.release.publish import publish
from sfumato.release.release import make_release

COUNT, SUM = "SELECT COUNT(*) AS x FROM visits", "SELECT SUM(cost) AS x FROM visits"
WORLDS = (
    World(1.1, 1.5, 3000, 5, 100),
    World(1.1, 1.5, 20_000, 5, 100),
    World(1.1, 1.1, 3000, 5, 100),
    World(1.2, 1.2, 3000, 5, 100),
    World(1.5, 1.1, 6000, 2, 50),
    World(1.1, 1.5, 3000, 50, 1000),
)

Losses = Mapping[str, tuple[npt.NDArray[np.int64], ...]]
"""What each person lost of each statistic."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table: whose they are, in the order in which they are kept, and their values."""

    people: npt.NDArray[np.int64]
    costs: npt.NDArray[np.int64]


def drawn(world: World, seed: int) -> Rows:
    """Return rows and values with tails of Pareto's law, cut where `tests.statistical.bias` does."""
    draw = np.random.default_rng([2026, seed])
    counts = np.minimum(draw.pareto(world.rows, world.people) + 1, 10**5).astype(np.int64)
    people = np.repeat(np.arange(world.people), counts)
    costs = np.minimum(10 * (draw.pareto(world.values, len(people)) + 1), 10**9).astype(np.int64)
    return Rows(people, costs)


def kept(rows: Rows, cap: int) -> npt.NDArray[np.bool_]:
    """Say of each row whether it is among the first of its person. Values are drawn alike, so any rows would do."""
    starts = np.flatnonzero(np.diff(rows.people, prepend=-1))
    ranks = np.arange(len(rows.people)) - np.repeat(starts, np.diff(starts, append=len(rows.people)))
    return np.asarray(ranks < cap)


def lost(rows: Rows, world: World) -> Losses:
    """Return what each person lost (proofs/truncation.md, claim 1)."""
    keep, size = kept(rows, world.cap), world.people
    above = np.where(keep, np.maximum(rows.costs - world.bound, 0), np.maximum(rows.costs, 0))
    below = np.where(keep, np.maximum(-rows.costs, 0), np.maximum(-rows.costs, 0))
    beyond = keep & ((rows.costs > world.bound) | (rows.costs < 0))
    return {
        ROWS: (_added(rows, ~keep, size),),
        MOVED: (_added(rows, beyond, size),),
        "cost": (_added(rows, above, size), _added(rows, below, size)),
    }


def _added(rows: Rows, values: npt.NDArray[Any], size: int) -> npt.NDArray[np.int64]:
    """Return the sums by person, exact below 2^53."""
    return np.bincount(rows.people, values.astype(np.float64), size).astype(np.int64)


def coordinates(block: TruncationBlock, losses: Losses) -> dict[str, int]:
    """Return the exact numbers of a block, by the definition."""
    buckets = {one: _bucket(one, losses) for one in block.tailed}
    if block.strategy is None:
        rows = np.any([at >= 0 for one, at in buckets.items() if one.column == ROWS], axis=0)
        numbers = np.any([at >= 0 for one, at in buckets.items() if one.column != ROWS], axis=0)
        parts = {"rows": rows & ~numbers, "numbers": numbers & ~rows, "both": rows & numbers}
        return {name: int(part.sum()) for name, part in parts.items()}
    highest = np.max(list(buckets.values()), axis=0) if buckets else np.full(len(losses[ROWS][0]), -1)
    entries = [part for one in block.statistics for part in losses[one.column]]
    found = {f"s{place}": int(part[highest < 0].sum()) for place, part in enumerate(entries)}
    if any(one.column == ROWS for one in block.tailed):
        found[CUT_PEOPLE] = int(((highest < 0) & (losses[ROWS][0] > 0)).sum())
    return found | ({f"h{place}": int((highest == place).sum()) for place in range(BUCKET_COUNT)} if buckets else {})


def _bucket(one: TruncationStatistic, losses: Losses) -> npt.NDArray[np.int64]:
    had = sum(losses[one.column]) + one.max_contribution
    return np.asarray(np.searchsorted(np.array(one.bucket_edges), had, side="right") - 1)


@dataclass(frozen=True, slots=True)
class Ends:
    """The truth before anything was cut, and an interval with bias."""

    truth: int
    low: float | None
    high: float | None

    @property
    def held(self) -> bool:
        return (self.low is None or self.low <= self.truth) and (self.high is None or self.truth <= self.high)

    @property
    def length(self) -> float:
        """How long it is in units of the truth."""
        return float("inf") if self.low is None or self.high is None else (self.high - self.low) / self.truth


class Asked:
    """The two questions under one policy, answered for whatever rows."""

    def __init__(self, database: sfumato.Database, world: World) -> None:
        self.database, self._world = database, world
        plan = plan_truncation_release(database.policy)
        assert plan is not None
        self.plan = plan
        self._asked = {sql: database.prepare(sql, None, RequestedPrice("1")) for sql in (COUNT, SUM)}

    def exact(self, rows: Rows) -> Aggregates:
        """Return what an engine finds of the losses."""
        losses = lost(rows, self._world)
        found = [coordinates(block, losses) for block in blocks(self.database.policy)]
        return Aggregates(tuple(_alone(each) for each in found))

    def intervals(self, rows: Rows, seed: int) -> dict[str, Ends]:
        """Return the truth and the interval of both questions, each with noise of its own."""
        policy, keep = self.database.policy, kept(rows, self._world.cap)
        answers = {
            COUNT: (len(rows.costs), int(keep.sum())),
            SUM: (int(rows.costs.sum()), int(np.clip(rows.costs[keep], 0, self._world.bound).sum())),
        }
        found, exact = {}, self.exact(rows)
        for sql, (truth, counted) in answers.items():
            asked, source = self._asked[sql], HashSource((seed, sql))
            losses = truncation_bounds_of(policy, self.plan, release_truncation(policy, self.plan, exact, source))
            (group,) = asked.plan.groups
            (one,) = group.measured
            noisy = publish(asked.plan, Aggregates((_alone({one.name: counted}),)), source)
            receipt = self.database._receipt(asked, "measured")
            low, high = make_release(asked.plan, noisy, receipt, evaluate, losses).intervals(bias=True)[0]["x"]
            found[sql] = Ends(truth, low, high)
        return found


def _alone(numbers: Mapping[str, int]) -> GroupAggregates:
    return GroupAggregates(((),), {name: np.array([number]) for name, number in numbers.items()}, None)


@contextmanager
def asking(world: World, rows: Rows | None = None) -> Iterator[Asked]:
    """Open a database with the policy of a world; without rows it holds next to nothing."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        lines = (
            ["1,1"] if rows is None else [f"{who},{cost}" for who, cost in zip(rows.people, rows.costs, strict=True)]
        )
        (folder / "visits.csv").write_text("\n".join(["patient_id,cost", *lines]), encoding="utf-8")
        policy: dict[str, Any] = {
            "name": "heavy",
            "source": f"csv:{folder}/visits.csv",
            "ledger": f"sqlite:{folder}/heavy.ledger",
            "budget": {"epsilon": 1000, "delta": 0, "truncation": 0.05},
            "tables": {
                "visits": {
                    "unit": "patient_id",
                    "rows_per_unit": world.cap,
                    "columns": {
                        "patient_id": {"type": "integer"},
                        "cost": {"type": "integer", "bounds": [0, world.bound]},
                    },
                }
            },
        }
        with sfumato.open(policy) as database:
            yield Asked(database, world)


def main() -> None:
    """Print for every world how many intervals hold the truth, how many are open, and how long they are."""
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    for world in WORLDS:
        with asking(world) as asked:
            found = [asked.intervals(drawn(world, seed), seed) for seed in range(first, first + tables)]
        for sql in (COUNT, SUM):
            ends = [each[sql] for each in found]
            held, lengths = np.mean([one.held for one in ends]), [one.length for one in ends]
            print(f"{held:7.2%} hold ± {1.96 * np.sqrt(held * (1 - held) / tables):.2%}", end=", ")
            print(f"{np.mean(np.isinf(lengths)):.2%} open, {np.median(lengths):7.2f} of the truth long", end="  ")
            print(f"{world}  {sql}", flush=True)


if __name__ == "__main__":
    main()
