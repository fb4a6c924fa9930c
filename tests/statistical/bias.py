"""How often do `intervals(bias=True)` hold the untruncated truth? `python -m tests.statistical.bias 400` looks longer.

Data sets are made up from a seed: heavy-tailed numbers of rows, and heavy-tailed values, under caps and bounds that cut
deeply. Every release draws the noise of the answer and of the published losses anew.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.sources import HashSource

import sfumato
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.planning.bounding.truncation import plan_truncation_release
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.truncation import release_truncation, truncation_bounds_of
from sfumato.release.publish import publish
from sfumato.release.release import Release, make_release

QUESTIONS = (
    "SELECT COUNT(*) AS x FROM visits",
    "SELECT SUM(cost) AS x FROM visits",
    "SELECT AVG(cost) AS x FROM visits",
    "SELECT dept, COUNT(*) AS x FROM visits WHERE cost > 20 GROUP BY dept",
    "SELECT SUM(CASE WHEN dept = 'er' THEN 2 * cost ELSE 0 END) - COUNT(*) AS x FROM visits",
    "SELECT COUNT(DISTINCT patient_id) AS x FROM visits",
    "SELECT dept, COUNT(DISTINCT patient_id) AS x FROM visits GROUP BY dept",
)


@dataclass(frozen=True, slots=True)
class World:
    """Tails of Pareto's law: its exponent for rows, and for values; how many people; the policy's cap and bound.

    Where they are `chosen`, they are what a question may choose at most.
    """

    rows: float
    values: float
    people: int
    cap: int
    bound: int
    chosen: bool = False


WORLDS = (World(1.1, 1.5, 3000, 5, 100), World(1.5, 1.1, 6000, 2, 50), World(1.2, 1.2, 20000, 20, 200))
CHOSEN = World(1.3, 1.5, 1500, 40, 400, chosen=True)


@dataclass(frozen=True, slots=True)
class Held:
    """Of so many intervals, how many hold the truth, how many have an open side, and how many hold it without bias.

    And how long one that is not open is, at the median, relative to the truth; and how many plain intervals hold the
    truth or are marked.
    """

    intervals: int
    held: int
    open: int
    unbiased: int
    length: float
    told: int


def covered(world: World, releases: int, seed: int, epsilon: str = "1") -> dict[str, Held]:
    """Return for every question how its intervals fare."""
    with TemporaryDirectory() as folder:
        return _covered(Path(folder), world, releases, seed, epsilon)


def _covered(folder: Path, world: World, releases: int, seed: int, epsilon: str) -> dict[str, Held]:
    truth = _made_up(folder, world, seed)
    policy: dict[str, Any] = {
        "name": "heavy",
        "source": f"csv:{folder}/visits.csv",
        "ledger": f"sqlite:{folder}/heavy.ledger",
        "budget": {"epsilon": 1000, "delta": 0, "truncation": 0.05},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": {"most": world.cap, "choose": "private"} if world.chosen else world.cap,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "cost": {
                        "type": "integer",
                        "bounds": {"within": [0, world.bound], "choose": "private"}
                        if world.chosen
                        else [0, world.bound],
                    },
                },
            }
        },
    }
    found = {}
    with sfumato.open(policy) as database:
        plan = plan_truncation_release(database.policy)
        assert plan is not None
        exact = database.engine.run(database.engine.prepare(plan))
        for place, sql in enumerate(QUESTIONS):
            # how many bits the losses take depends on what is found of them, so answers have their own
            source, other = HashSource(seed + 100 * place), HashSource(seed + 100 * place + 50)
            asked = database.prepare(sql, None, RequestedPrice(epsilon))
            aggregates, receipt = asked.engine.run(asked.job), database._receipt(asked, "measured")
            held = intervals = opened = unbiased = told = 0
            lengths = []
            for _ in range(releases):
                losses = truncation_bounds_of(
                    database.policy, plan, release_truncation(database.policy, plan, exact, other)
                )
                answer = make_release(asked.plan, publish(asked.plan, aggregates, source), receipt, evaluate, losses)
                marks = [row["x"] for row in answer.marks()]
                bars = zip(truth[sql], _ends(answer, True), _ends(answer, False), marks, strict=True)
                for true, ends, alone, marked in bars:
                    intervals += 1
                    opened += None in ends
                    held += (ends[0] is None or ends[0] <= true) and (ends[1] is None or true <= ends[1])
                    unbiased += alone[0] <= true <= alone[1]
                    told += marked or alone[0] <= true <= alone[1]
                    if None not in ends:
                        lengths.append((ends[1] - ends[0]) / abs(true))
            length = float(np.median(lengths)) if lengths else np.inf
            found[sql] = Held(intervals, held, opened, unbiased, length, told)
    return found


def _ends(release: Release, bias: bool) -> list[tuple[Any, Any]]:
    return [row["x"] for row in release.intervals(bias=bias)]


def _made_up(folder: Path, world: World, seed: int) -> dict[str, list[float]]:
    """Write the rows, and return the answers without caps and bounds."""
    draw = np.random.default_rng(seed)
    counts = np.minimum(draw.pareto(world.rows, world.people) + 1, 10**5).astype(np.int64)
    people = np.repeat(np.arange(world.people), counts)
    costs = np.minimum(10 * (draw.pareto(world.values, len(people)) + 1), 10**9).astype(np.int64)
    emergency = draw.random(len(people)) < 0.3
    lines = [f"{who},{'er' if er else 'icu'},{cost}" for who, er, cost in zip(people, emergency, costs, strict=True)]
    (folder / "visits.csv").write_text("\n".join(["patient_id,dept,cost", *lines]), encoding="utf-8")
    high = costs > 20
    answers = (
        [len(costs)],
        [costs.sum()],
        [costs.mean()],
        [(emergency & high).sum(), (~emergency & high).sum()],
        [2 * costs[emergency].sum() - len(costs)],
        [world.people],
        [len(np.unique(people[emergency])), len(np.unique(people[~emergency]))],
    )
    return {sql: [float(one) for one in answer] for sql, answer in zip(QUESTIONS, answers, strict=True)}


def main() -> None:
    """Print for every world and question how many intervals hold, have an open side, and hold without the bias."""
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    for world in (*WORLDS, CHOSEN):
        for sql, held in covered(world, releases, seed=3).items():
            shares = [f"{part / held.intervals:7.2%}" for part in (held.held, held.open, held.unbiased, held.told)]
            print("{} hold, {} open, {} hold without bias, {} do or are marked".format(*shares), end=", ")
            print(f"{held.length:6.2f} of the truth long  {world}  {sql}", flush=True)


if __name__ == "__main__":
    main()
