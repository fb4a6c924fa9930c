"""How many times as far from the truth is dpmm's MST as our synthetic table? (CPS extract, ε = 1, 5 seeds, in turns)

    python benchmarks/synthesis.py cps1.csv --peer OTHER_PYTHON

`cps1.csv` is the extract of the Current Population Survey that the R package DAAG calls cps1 (15,992 people; also in
Rdatasets as csv/DAAG/cps1.csv). OTHER_PYTHON has dpmm installed, which needs another NumPy. Both get the same nine
columns of public cells, epsilon 1 and delta 1e-5, and give as many rows as there are people; the distance is the mean
total variation over all marginals of two and of three columns. Without --peer only ours is measured; without a file
the people are made up, 20,000 with nine columns, and delta is 1e-6.
"""

import argparse
import csv
import json
import subprocess
import tempfile
import time
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.synthesis.synthesize import synthesize_table

RUNS = 5
CUTS = [1, 1000, 2500, 5000, 7500, 10000, 15000, 20000, 25000]
Codes = list[npt.NDArray[np.int64]]

PEER = """
import json, sys, time
import numpy as np, pandas as pd
from dpmm.models.mst import MSTGM
given = np.load(sys.argv[1])
names = [f"c{i}" for i in range(len(given["sizes"]))]
frame = pd.DataFrame({name: given["rows"][i] for i, name in enumerate(names)})
begun = time.perf_counter()
model = MSTGM(epsilon=1.0, delta=float(sys.argv[3]), domain={n: int(s) for n, s in zip(names, given["sizes"])})
model.set_random_state(np.random.RandomState(int(sys.argv[4])))
model.fit(frame)
drawn = model.generate(n_records=len(frame))
seconds = time.perf_counter() - begun
np.savez(sys.argv[2], rows=np.array([drawn[name].astype(int).to_numpy() for name in names]))
print(json.dumps(seconds))
"""


def read(file: Path) -> tuple[Codes, list[int]]:
    """Return the cells of the people of the extract, and how many cells each column has."""
    rows = list(csv.DictReader(file.open(encoding="utf-8")))

    def column(name: str) -> npt.NDArray[np.float64]:
        return np.array([float(row[name]) for row in rows])

    cells: list[npt.NDArray[Any]] = [np.clip((column("age") - 16) * 10 // 40, 0, 9), np.clip(column("educ"), 0, 18)]
    cells += [column(name) for name in ("black", "hisp", "marr", "nodeg")]
    cells += [np.digitize(column(name), CUTS) for name in ("re74", "re75", "re78")]
    return [cell.astype(np.int64) for cell in cells], [10, 19, 2, 2, 2, 2, 10, 10, 10]


def made_up(people: int = 20_000) -> tuple[Codes, list[int]]:
    """Return a census that does not exist: nine columns that depend on each other."""
    random = np.random.default_rng(11)
    age = random.integers(0, 16, people)
    sex = random.integers(0, 2, people)
    education = np.clip((random.normal(4, 2, people) + (age > 3) * 2 - (age > 12)).astype(int), 0, 9)
    work = np.where(age < 3, 0, np.where(age > 12, 4, random.choice([1, 2, 3], people, p=[0.6, 0.2, 0.2])))
    income = np.clip((random.gamma(2, 1.0 + 0.4 * education) * (work > 0) * (1 - 0.15 * sex)).astype(int), 0, 15)
    married = (random.random(people) < np.where(age < 4, 0.05, 0.3 + 0.03 * age)).astype(int)
    children = np.clip(random.poisson(0.3 + 0.9 * married, people), 0, 4)
    region = random.choice(8, people, p=np.arange(1, 9) / 36)
    owner = (random.random(people) < 0.15 + 0.03 * income + 0.2 * married).astype(int)
    cells = [age, sex, education, work, income, married, children, region, owner]
    return [cell.astype(np.int64) for cell in cells], [16, 2, 10, 5, 16, 2, 5, 8, 2]


def distance(first: Codes, second: Codes, sizes: list[int], ways: int) -> float:
    """Return the mean total variation over all marginals of so many columns."""
    found = []
    for axes in combinations(range(len(sizes)), ways):
        shape = [sizes[axis] for axis in axes]
        shares = []
        for rows in (first, second):
            place = np.ravel_multi_index([rows[axis] for axis in axes], shape)
            shares.append(np.bincount(place, minlength=int(np.prod(shape))) / len(rows[0]))
        found.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(found))


def ours(rows: Codes, sizes: list[int], delta: str) -> tuple[Codes, float]:
    """Return our rows and how long they took."""
    data = {f"c{axis}": column.tolist() for axis, column in enumerate(rows)}
    domain = {f"c{axis}": list(range(size)) for axis, size in enumerate(sizes)}
    begun = time.perf_counter()
    table = synthesize_table(data, domain, epsilon=1, delta=delta, rows=len(rows[0])).table()
    seconds = time.perf_counter() - begun
    return [table[f"c{axis}"].to_numpy() for axis in range(len(sizes))], seconds


def theirs(python: str, rows: Codes, sizes: list[int], delta: str, seed: int) -> tuple[Codes, float]:
    """Return dpmm's rows and how long they took."""
    with tempfile.TemporaryDirectory() as folder:
        given, drawn = f"{folder}/given.npz", f"{folder}/drawn.npz"
        np.savez(given, rows=np.array(rows), sizes=np.array(sizes))
        command = [python, "-c", PEER, given, drawn, delta, str(seed)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return list(np.load(drawn)["rows"]), float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--peer", help="a Python in which dpmm is installed")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    rows, sizes = made_up() if asked.file is None else read(asked.file)
    delta = "1e-6" if asked.file is None else "1e-5"
    random = np.random.default_rng(1)
    again = random.integers(0, len(rows[0]), len(rows[0]))
    apart = [column[random.permutation(len(column))] for column in rows]
    for name, other in (("bootstrap", [column[again] for column in rows]), ("independent", apart)):
        print(f"{name}: " + ", ".join(f"{distance(rows, other, sizes, ways):.4f}" for ways in (1, 2, 3)))
    found: dict[str, list[list[float]]] = {}
    for run in range(asked.runs):
        for name in ("sfumato", *(("dpmm MST",) if asked.peer else ())):
            drawn, seconds = (
                ours(rows, sizes, delta) if name == "sfumato" else theirs(asked.peer, rows, sizes, delta, run)
            )
            line = [*(distance(rows, drawn, sizes, ways) for ways in (1, 2, 3)), seconds]
            found.setdefault(name, []).append(line)
            print(f"{name}, run {run + 1}: " + ", ".join(f"{number:.4f}" for number in line), flush=True)
    middle = {name: [median(column) for column in zip(*lines, strict=True)] for name, lines in found.items()}
    for name, (one, two, three, seconds) in middle.items():
        print(f"{name}, median of {asked.runs}: 1-way {one:.4f}, 2-way {two:.4f}, 3-way {three:.4f}, {seconds:.1f} s")
    if asked.peer:
        peer, own = middle["dpmm MST"], middle["sfumato"]
        print(f"3-way {peer[2] / own[2]:.2f}x as far, {peer[3] / own[3]:.0f}x as long")
        print(f"dpmm MST / sfumato, 2-way distance = {peer[1] / own[1]:.2f}x")
    else:
        far = distance(rows, apart, sizes, 2)
        print(f"sfumato / independent columns, 2-way distance = {middle['sfumato'][1] / far:.2f}x")


if __name__ == "__main__":
    main()
