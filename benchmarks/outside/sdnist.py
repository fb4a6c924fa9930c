"""What k-marginal score do synthetic rows of SDNist's national excerpt have beside AIM's 976 and MST's 958?

    python benchmarks/outside/sdnist.py national2019.csv [--runs 3]

The file belongs to the NIST Diverse Community Excerpts (27,253 rows). The package `sdnist` does not contain it, and
downloads it from the releases of usnistgov/SDNist. AIM's and MST's scores are those of the sample reports there, at
epsilon 1 and the same ten features. The score is 1000 * (1 - mean total variation of all pairs), with ages in 20 cells
of equal share, implemented here again.
"""

import argparse
import csv
import time
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sfumato.synthesis.domain import Range
from sfumato.synthesis.synthesize import synthesize_table

AGE_CELLS = 20
THEIRS = {"AIM": 976, "MST": 958}
DOMAIN: dict[str, Any] = {
    "AGEP": Range(0, 99, AGE_CELLS, whole=True),
    "SEX": list("12"),
    "MSP": list("N123456"),
    "RAC1P": list("123456789"),
    "HOUSING_TYPE": list("123"),
    "OWN_RENT": list("012"),
    "EDU": ["N", *map(str, range(1, 13))],
    "PINCP_DECILE": list("N0123456789"),
    "DVET": list("N123456"),
    "DEYE": list("12"),
}


def score(target: dict[str, list[Any]], rows: dict[str, list[Any]]) -> float:
    """Return the k-marginal score of rows, 0 to 1000."""
    ages = np.unique(np.percentile(target["AGEP"], np.linspace(0, 100, AGE_CELLS + 1)[1:-1]))

    def cells(table: dict[str, list[Any]], name: str) -> list[Any]:
        return np.digitize(table[name], ages).tolist() if name == "AGEP" else table[name]

    distances = []
    for first, second in combinations(DOMAIN, 2):
        shares: list[dict[tuple[Any, Any], float]] = []
        for table in (target, rows):
            found: dict[tuple[Any, Any], float] = {}
            for pair in zip(cells(table, first), cells(table, second), strict=True):
                found[pair] = found.get(pair, 0.0) + 1 / len(table[first])
            shares.append(found)
        one, other = shares
        distances.append(0.5 * sum(abs(one.get(pair, 0.0) - other.get(pair, 0.0)) for pair in {*one, *other}))
    return float(1000 * (1 - np.mean(distances)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    lines = list(csv.DictReader(asked.file.open(encoding="utf-8")))
    data: dict[str, list[Any]] = {name: [line[name] for line in lines] for name in DOMAIN}
    data["AGEP"] = list(map(int, data["AGEP"]))
    found, begun = [], time.process_time()
    for _ in range(asked.runs):
        table = synthesize_table(data, DOMAIN, epsilon=1, delta="1e-5", rows=len(lines)).table()
        found.append(score(data, table.to_pydict()))
        print(f"sfumato: {found[-1]:.0f}", flush=True)
    print(f"{len(lines)} rows, {(time.process_time() - begun) / asked.runs:.1f} s of the processor for each table")
    for name, other in THEIRS.items():
        print(f"sfumato {median(found):.0f}, {name} {other}: distance {(1000 - median(found)) / (1000 - other):.2f}x")


if __name__ == "__main__":
    main()
