"""How many times more typical questions does a budget of (3, 1e-6) answer within ±1 % than by the former rule?

100,000 made-up patients with up to three visits. Six questions take turns, each about other rows every time, until one
is refused: people, people by department, visits by department, a sum, people by a region nobody declared, people and
their cost by region. Each number is asked for within 1 % of what its smallest group is. Now: `Database.ask(sql,
within=…)`, charged to a real ledger. Before: the same margins by Laplace noise alone, with the mean epsilon of what is
measured for the selection of keys, charged to an equal filter. Every margin is checked on what was released.
"""

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato.accounting.event import Composed, Event, LaplaceNoise, Neighbours, Repeated
from sfumato.accounting.filter import Filter
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.randomness.discrete_laplace import DiscreteLaplace

PATIENTS, ROWS, HIGHEST = 100_000, 3, 2000
EPSILON, DELTA, QUERY_DELTA = Fraction(3), Fraction(1, 10**6), Fraction(1, 10**9)
DEPARTMENTS, REGIONS = ("er", "icu", "surgery", "other"), ("north", "south", "east", "west")
LEVEL = Fraction(95, 100)
ADD = Neighbours.ADD_REMOVE


@dataclass(frozen=True)
class Typical:
    """A question, its margins, and for each column how many cells one person moves, and by how many steps each."""

    sql: str
    within: dict[str, int]
    vectors: dict[str, tuple[int, int]]
    keys: int = 0
    """In how many groups one person is, where keys must be selected."""


def questions(visits: pa.Table) -> tuple[Typical, ...]:
    """Return the questions with one percent of what each smallest group truly is (these people are made up)."""
    frame = visits.to_pandas()
    department, region = frame.groupby("dept"), frame.groupby("region")
    people = int(frame["patient"].nunique()) // 100
    by_department = int(department["patient"].nunique().min()) // 100
    visits_there = int(department["patient"].count().min()) // 100
    by_region, cost_there = int(region["patient"].nunique().min()) // 100, int(region["cost"].sum().min()) // 100
    person, everywhere, rows, cost = (1, 1), (ROWS, 1), (1, ROWS), (1, ROWS * HIGHEST)
    head = "FROM visits WHERE day <> {day}"
    who = "COUNT(DISTINCT patient) AS n"
    return (
        Typical(f"SELECT {who} {head}", {"n": people}, {"n": person}),
        Typical(f"SELECT dept, {who} {head} GROUP BY dept", {"n": by_department}, {"n": everywhere}),
        Typical(f"SELECT dept, COUNT(*) AS n {head} GROUP BY dept", {"n": visits_there}, {"n": rows}),
        Typical(f"SELECT SUM(cost) AS total {head}", {"total": int(frame["cost"].sum()) // 100}, {"total": cost}),
        Typical(f"SELECT region, {who} {head} GROUP BY region", {"n": by_region}, {"n": everywhere}, ROWS),
        Typical(
            f"SELECT region, {who}, SUM(cost) AS total {head} GROUP BY region",
            {"n": by_region, "total": cost_there},
            {"n": everywhere, "total": cost},
            ROWS,
        ),
    )


def former_event(asked: Typical) -> Event:
    """Return what the former rule charged: the least Laplace noise for each margin, and for keys an equal epsilon."""
    events: list[Event] = []
    epsilons = []
    for name, (cells, moved) in asked.vectors.items():
        inverse = least_inverse_scale(asked.within[name])
        noise = LaplaceNoise(moved, 1 / inverse, ADD)
        events.append(Repeated(noise, cells) if cells > 1 else noise)
        epsilons.append(cells * moved * inverse)
    if asked.keys:
        events.insert(
            0, OptimalSelection(sum(epsilons, Fraction(0)) / len(epsilons), QUERY_DELTA, asked.keys, ADD).event
        )
    return Composed(tuple(events))


def least_inverse_scale(reach: int) -> Fraction:
    """Return nearly the least 1/scale whose noise stays within ±reach at 95 %."""
    low, high = Fraction(1, 100 * reach), Fraction(10, reach)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if DiscreteLaplace(1 / middle).margin(LEVEL) <= reach else (middle, high)
    return high


def before(asked: tuple[Typical, ...]) -> int:
    """Return how many questions the former rule answered."""
    budget, answered = Filter(EPSILON, DELTA), 0
    for event in cycle([former_event(one) for one in asked]):
        if not budget.accepts(event):
            return answered
        budget, answered = budget.charge(event), answered + 1
    return answered


def now(asked: tuple[Typical, ...], database: sfumato.Database) -> int:
    """Ask until one is refused; return how many were answered, each within its margins."""
    for answered, (one, day) in enumerate(zip(cycle(asked), count(400), strict=False)):
        try:
            release = database.ask(one.sql.format(day=day), within=one.within)
        except sfumato.Refusal:
            return answered
        for row, bars in zip(release.rows(), release.intervals(), strict=True):
            for name, margin in one.within.items():
                if bars[name][1] - row[name] > margin:
                    raise SystemExit(f"{one.sql}: {name} is not within ±{margin}")
    return 0


def made_up() -> pa.Table:
    """Return visits: up to three of each patient, who lives in one region."""
    rng = np.random.default_rng(16)
    patients = np.repeat(np.arange(PATIENTS), rng.integers(1, ROWS + 1, PATIENTS))
    home = rng.integers(0, len(REGIONS), PATIENTS)
    return pa.table(
        {
            "patient": patients,
            "dept": np.array(DEPARTMENTS)[rng.choice(len(DEPARTMENTS), len(patients), p=[0.4, 0.15, 0.2, 0.25])],
            "region": np.array(REGIONS)[home[patients]],
            "day": rng.integers(0, 365, len(patients)),
            "cost": np.minimum(np.round(rng.gamma(2.0, 300.0, len(patients))), HIGHEST).astype(np.int64),
        }
    )


def policy(folder: Path) -> dict[str, object]:
    """Return the policy of the clinic."""
    columns = {
        "patient": {"type": "integer"},
        "dept": {"type": "text", "values": list(DEPARTMENTS)},
        "region": {"type": "text"},
        "day": {"type": "integer", "bounds": [0, 100_000]},
        "cost": {"type": "integer", "bounds": [0, HIGHEST]},
    }
    return {
        "name": "clinic",
        "source": f"parquet:{folder / 'visits.parquet'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": str(EPSILON), "delta": "1e-6"},
        "tables": {"visits": {"unit": "patient", "rows_per_unit": ROWS, "columns": columns}},
    }


def main() -> None:
    """Print both numbers, and their ratio last."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        visits = made_up()
        pq.write_table(visits, folder / "visits.parquet")
        asked = questions(visits)
        former = before(asked)
        with sfumato.open(policy(folder)) as database:
            answered = now(asked, database)
    print(f"before: {former} questions within ±1 %, now: {answered}")
    print(f"now / before = {answered / former:.2f}x")


if __name__ == "__main__":
    main()
