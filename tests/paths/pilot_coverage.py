"""How often do intervals hold the truth where pilots set their price? (python -m tests.paths.pilot_coverage)

Each kind of margin is asked many times, about other rows each time. A level of 95 % allows 5 misses in 100; the last
column says how surely fewer misses than were seen would occur at exactly 95 %.
"""

import sys
from math import comb, inf, sqrt
from pathlib import Path
from statistics import mean, quantiles, stdev
from tempfile import TemporaryDirectory

from tests.paths.test_pilots import QUESTIONS, clinic_of, rows_of


def truth_of(kind: str, age: int) -> float:
    """Return the exact answer of a question without groups."""
    rows = [row for row in rows_of() if row[3] > age]
    costs, ages = [row[2] for row in rows], [row[3] for row in rows]
    match kind:
        case "relative count":
            return len(rows)
        case "relative sum":
            return sum(costs)
        case "average":
            return mean(costs)
        case "median":
            return quantiles(costs, n=2, method="inclusive")[0]
        case "percentile":
            return quantiles(costs, n=4, method="inclusive")[0]
        case "deviation":
            return stdev(ages)
        case "ratio of sums":
            return sum(costs) / sum(ages)
        case "share":
            return sum(cost > 500 for cost in costs) / len(costs)
    raise ValueError(kind)


def main(answers: int) -> None:
    """Ask, and print for each kind how often the interval missed and the margin was reached."""
    print("| margin of | answers | missed | reached | pilots' share of epsilon | P[fewer misses at 95 %] |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind, (text, within) in QUESTIONS.items():
        if kind in ("by groups", "selected bound"):
            continue
        missed, reached, pilots, whole = 0, 0, 0.0, 0.0
        with TemporaryDirectory() as folder, clinic_of(Path(folder), {"epsilon": 10**6, "delta": 0}, kind) as database:
            for place in range(answers):
                age = 20 + place % 40
                before = database.charges()
                release = database.ask(text.format(age), within=within, epsilon=2 + place // 40)
                costs = [float(entry.loss.epsilon) for entry in database.history(limit=database.charges() - before)]
                pilots, whole = pilots + sum(costs[1:]), whole + sum(costs)
                [row] = release.intervals()
                low, high = (
                    one if one is not None else side * inf for one, side in zip(row["x"], (-1, 1), strict=True)
                )
                missed += not low <= truth_of(kind, age) <= high
                reached += release.notes[0].startswith("Reached")
        fewer = sum(comb(answers, k) * 0.05**k * 0.95 ** (answers - k) for k in range(missed))
        share = pilots / whole if whole else 0
        print(f"| {kind} | {answers} | {missed} | {reached} | {share:.0%} | {fewer:.3f} |", flush=True)
    print(f"± {1.96 * sqrt(0.05 * 0.95 * answers):.1f} misses are chance")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
