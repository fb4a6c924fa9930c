"""How far off is a total whose level a question chooses? `python -m tests.statistical.candidates 60` draws it so often.

29 shapes of what people have, 21 of them counts and 8 sums, at epsilon 0.1 and 1; and 10 counts of few people, of
whom noise may hide all. The noise is drawn by numpy, the level and what is added by `select_bound`, and the
mean error is printed relative to noise for the policy's own cap.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

import sfumato
from sfumato.planning.bounding.selection import histogram_of, laplace_noise_of, unit_of
from sfumato.planning.plan import Plan
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.selection import select_bound

Totals = npt.NDArray[np.int64]
EPSILONS = ("0.1", "1")


@dataclass(frozen=True)
class Shape:
    """What each person has, and the most that the policy allows."""

    name: str
    totals: Totals
    most: int


def counts() -> Iterator[Shape]:
    """Yield numbers of rows: tails of Pareto's law, lighter ones, people who are far above the others."""
    rng = np.random.default_rng(5)
    for people, most in ((1500, 1024), (20_000, 4096)):
        for power in (1.0, 1.15, 1.3, 1.5, 2.0):
            rows = np.minimum(np.floor(rng.pareto(power, people)) + 1, most)
            yield Shape(f"Pareto {power}, {people:,}", rows.astype(np.int64), most)
    usual = rng.integers(1, 5, 5000)
    yield Shape("uniform", rng.integers(1, 101, 5000), 1024)
    yield Shape("geometric, 10", rng.geometric(0.1, 5000), 1024)
    yield Shape("geometric, 50", rng.geometric(0.02, 5000), 1024)
    yield Shape("lognormal, 1", _up(rng.lognormal(2, 1, 5000), 4096), 4096)
    yield Shape("lognormal, 1.5", _up(rng.lognormal(2, 1.5, 5000), 4096), 4096)
    yield Shape("everybody has 10", np.full(5000, 10), 1024)
    yield Shape("everybody has 1", np.full(5000, 1), 512)
    yield Shape("50 far above", np.concatenate([usual, np.full(50, 900)]), 1024)
    yield Shape("one giant", np.concatenate([usual, [4000]]), 4096)
    yield Shape("a giant above a tail", np.append(_up(1 + rng.pareto(1.3, 20_000), 2000), 4000), 4096)
    yield Shape("normal", _up(np.abs(rng.normal(90, 70, 4000)) + 1, 575), 1024)


def sums() -> Iterator[Shape]:
    """Yield sums of values, below a cap that is far above what people have."""
    rng = np.random.default_rng(9)
    rows = _up(1 + rng.pareto(1.3, 20_000), 4000)
    spent = np.bincount(np.repeat(np.arange(20_000), rows), np.round(rng.lognormal(4, 1.2, int(rows.sum()))), 20_000)
    yield Shape("lognormal values, Pareto 1.3 rows", spent.astype(np.int64), 4096 * 5000)
    yield Shape("normal rows of 1,000", 1000 * _up(np.abs(rng.normal(90, 70, 4000)) + 1, 575), 1024 * 5000)
    yield Shape("salaries", _up(rng.lognormal(10.5, 0.5, 3000), 10**6), 2 * 10**6)
    yield Shape("1 to 3 visits of 600", 600 * rng.integers(1, 4, 100_000), 6000)
    yield Shape("Pareto 1.2", _up(100 * (1 + rng.pareto(1.2, 5000)), 10**7), 10**7)
    yield Shape("Pareto 1.5", _up(100 * (1 + rng.pareto(1.5, 50_000)), 10**7), 10**7)
    bought = rng.random(20_000) < 0.4
    yield Shape("most buy nothing", np.where(bought, _up(rng.lognormal(5, 1.3, 20_000), 10**6), 0), 10**6)
    both = np.concatenate([rng.integers(1, 200, 10_000), rng.integers(20_000, 40_000, 400)])
    yield Shape("two kinds", both, 10**6)


def few() -> Iterator[Shape]:
    """Yield numbers of rows of few people: near to the cap, far below it, and from tails."""
    rng = np.random.default_rng(13)
    for people in (50, 300):
        yield Shape(f"{people} have 40 of 50", np.full(people, 40), 50)
        yield Shape(f"{people} have 10 of 50", np.full(people, 10), 50)
        yield Shape(f"{people} have 200 of 4,096", np.full(people, 200), 4096)
        yield Shape(f"{people}, geometric, 8 of 100", np.minimum(rng.geometric(1 / 8, people), 100), 100)
        yield Shape(f"{people}, Pareto 1.3 of 1,024", _up(1 + rng.pareto(1.3, people), 1024), 1024)


def _up(values: npt.NDArray[np.float64], most: int) -> Totals:
    return np.minimum(np.ceil(values), most).astype(np.int64)


def plan_for(most: int, epsilon: str) -> Plan:
    """Return the plan of one sum, of which a person may have so much."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "visits.csv").write_text("person,x\n1,1\n", encoding="utf-8")
        policy: dict[str, object] = {
            "name": "levels",
            "source": f"csv:{folder}/visits.csv",
            "budget": {"epsilon": 100, "delta": 0},
            "tables": {
                "visits": {
                    "unit": "person",
                    "rows_per_unit": 1,
                    "columns": {
                        "person": {"type": "integer"},
                        "x": {"type": "integer", "bounds": {"within": [0, most], "choose": "private"}},
                    },
                }
            },
        }
        with sfumato.open(policy) as database:
            return database.prepare("SELECT SUM(x) AS x FROM visits", None, RequestedPrice(epsilon)).plan


def errors(shape: Shape, epsilon: str, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Return how far off each answer is, relative to the mean of noise for the policy's own cap."""
    plan, rng = plan_for(shape.most, epsilon), np.random.default_rng(seed)
    (measured,) = [one for group in plan.groups if not group.is_bound_selection for one in group.measured]
    (choice,) = [one for group in plan.groups if group.is_bound_selection for one in group.measured]
    assert choice.candidates is not None
    amounts = choice.candidates.thresholds
    exact = [int(np.minimum(shape.totals, amount).sum()) for amount in amounts]
    people, own = np.array(histogram_of(exact, amounts), dtype=np.float64), laplace_noise_of(measured)
    assert unit_of(amounts) < 2**53
    found = []
    for _ in range(draws):
        noisy = people + rng.laplace(0, float(laplace_noise_of(choice).scale), len(people))
        taken = select_bound([round(float(value)) for value in noisy], choice, plan)
        noise = rng.laplace(0, float(own.scale) * amounts[taken.index] / own.sensitivity)
        found.append(abs(exact[taken.index] + taken.above + noise - shape.totals.sum()))
    return np.array(found) / shape.most * float(epsilon)


def main() -> None:
    """Print the mean error of every shape, and their geometric means last."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for kind, shapes in (("counts", counts), ("sums", sums), ("few people", few)):
        means = []
        for shape in shapes():
            means.append([errors(shape, epsilon, draws, seed=3).mean() for epsilon in EPSILONS])
            print(f"{means[-1][0]:9.4f} {means[-1][1]:9.4f}  {kind}: {shape.name}", flush=True)
        print(f"error / noise for the policy's own cap, {kind} = {np.exp(np.log(means).mean()):.3f}x")


if __name__ == "__main__":
    main()
