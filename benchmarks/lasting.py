"""How many times more questions does a budget of (3, 1e-6) answer at equal margins than version 0.8.0?

`python benchmarks/lasting.py CHECKOUT [STREAM ...]`: CHECKOUT is a working tree of 0.8.0, which runs in a process of
its own on the same people and streams. Each stream is asked until the budget refuses a question:

- dashboard: pages of one table of departments by months, with five of nine panels that follow from it (roll-ups, single
  departments, a season, another order); every second table is asked again, finer;
- exploratory: counts and costs of slices by department, each followed by one to three questions that follow from it;
- apart: every question is about other rows; one in four is asked again, finer or in other words;
- years: people of ten years of entry with a budget each, and questions about single years.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PATIENTS, ROWS, HIGHEST = 40_000, 3, 1000
DEPARTMENTS, MONTHS, YEARS = ("er", "icu", "surgery", "other"), range(1, 13), range(2015, 2025)
AIMS = {"dashboard": 3.0, "exploratory": 2.0, "apart": 1.3, "years": 8.0}
MOST = 20_000
Question = tuple[str, dict[str, int]]


def dashboard(dice: random.Random) -> Iterator[Question]:
    """Give the questions of pages: a table, what people read off it, and a finer table for every second page."""
    for page in range(MOST):
        rows = f"FROM visits WHERE slot <> {1000 + page}"
        cell = f"SELECT dept, month, COUNT(*) AS n {rows}"
        yield f"{cell} GROUP BY dept, month", {"n": 150}
        looks = [
            (f"SELECT dept, COUNT(*) AS n {rows} GROUP BY dept", 540),
            (f"SELECT month, COUNT(*) AS n {rows} GROUP BY month ORDER BY month", 310),
            (f"SELECT COUNT(*) AS n {rows}", 1070),
            (f"SELECT dept, COUNT(*) AS n {rows} AND month IN (6, 7, 8) GROUP BY dept", 270),
            (f"SELECT month, dept, COUNT(*) AS n {rows} GROUP BY month, dept ORDER BY 1, 2", 150),
            *((f"SELECT month, COUNT(*) AS n {rows} AND dept = '{dept}' GROUP BY month", 150) for dept in DEPARTMENTS),
        ]
        for sql, margin in dice.sample(looks, 5):
            yield sql, {"n": margin}
        if page % 2:
            yield f"{cell} GROUP BY dept, month", {"n": 100}


def exploratory(dice: random.Random) -> Iterator[Question]:
    """Give slices that nobody has asked about, each followed by one to three questions that follow from it."""
    for place in range(MOST):
        low = dice.randrange(0, 60)
        rows = f"FROM visits WHERE slot <> {50_000 + place} AND age >= {low}"
        yield f"SELECT dept, COUNT(*) AS n, SUM(cost) AS total {rows} GROUP BY dept", {"n": 250, "total": 150_000}
        others: list[Question] = [
            (f"SELECT COUNT(*) AS n {rows}", {"n": 510}),
            (f"SELECT SUM(cost) AS total {rows}", {"total": 310_000}),
            (f"SELECT COUNT(*) AS n, SUM(cost) AS total {rows} AND dept = 'icu'", {"n": 250, "total": 150_000}),
            (f"SELECT SUM(cost) AS total {rows} AND dept = 'er'", {"total": 150_000}),
            (f"SELECT SUM(cost) AS total, dept {rows} GROUP BY dept ORDER BY dept", {"total": 150_000}),
        ]
        yield from dice.sample(others, dice.choice((1, 2, 3)))


def apart(dice: random.Random) -> Iterator[Question]:
    """Give questions about other rows every time; some are asked again, in other words or finer."""
    for place in range(MOST):
        rows = f"FROM visits WHERE slot <> {100_000 + place}"
        kind, alias = dice.randrange(3), dice.choice(("n", "number"))
        sql = (
            f"SELECT COUNT(*) AS n {rows}",
            f"SELECT dept, COUNT(*) AS n {rows} GROUP BY dept",
            f"SELECT month, COUNT(*) AS n {rows} GROUP BY month",
        )[kind]
        yield sql, {"n": 200}
        if dice.random() < 0.25:
            yield sql.replace("AS n", f"AS {alias}") + ("" if kind == 0 else " ORDER BY 1"), {alias: 200}
        if dice.random() < 0.25:
            yield sql, {"n": 140}


def years(dice: random.Random) -> Iterator[Question]:
    """Give questions about people who entered in one year, year after year."""
    for place in range(MOST):
        year = YEARS[place % len(YEARS)]
        low = dice.randrange(0, 60)
        rows = f"FROM patients WHERE entered = {year} AND age >= {low} AND age <> {200 + place}"
        yield f"SELECT COUNT(*) AS n {rows}", {"n": 60}


STREAMS = {"dashboard": dashboard, "exploratory": exploratory, "apart": apart, "years": years}


def write_people(folder: Path) -> None:
    """Write patients of ten years and their visits."""
    rng = np.random.default_rng(34)
    age, entered = rng.integers(0, 100, PATIENTS), rng.integers(YEARS[0], YEARS[-1] + 1, PATIENTS)
    who = np.repeat(np.arange(PATIENTS), rng.integers(1, ROWS + 1, PATIENTS))
    visits = {
        "patient": who,
        "dept": np.array(DEPARTMENTS)[rng.choice(len(DEPARTMENTS), len(who), p=[0.4, 0.15, 0.2, 0.25])],
        "month": rng.integers(1, 13, len(who)),
        "slot": rng.integers(0, 100, len(who)),
        "age": age[who],
        "cost": np.minimum(np.round(rng.gamma(2.0, 150.0, len(who))), HIGHEST).astype(np.int64),
    }
    pq.write_table(
        pa.table({"patient": np.arange(PATIENTS), "entered": entered, "age": age}), folder / "patients.parquet"
    )
    pq.write_table(pa.table(visits), folder / "visits.parquet")


def policy(folder: Path, name: str, cohorts: bool) -> dict[str, object]:
    """Return the policy of one stream."""
    patients = {
        "patient": {"type": "integer"},
        "entered": {"type": "integer", "values": list(YEARS)},
        "age": {"type": "integer", "bounds": [0, 1_000_000]},
    }
    visits = {
        "patient": {"type": "integer"},
        "dept": {"type": "text", "values": list(DEPARTMENTS)},
        "month": {"type": "integer", "bounds": [1, 12]},
        "slot": {"type": "integer", "bounds": [0, 1_000_000]},
        "age": {"type": "integer", "bounds": [0, 120]},
        "cost": {"type": "integer", "bounds": [0, HIGHEST]},
    }
    return {
        "name": name,
        "source": f"parquet:{folder}",
        "ledger": f"sqlite:{folder.parent / f'{name}-{cohorts}-{os.getpid()}.ledger'}",
        **({"cohort": "patients.entered"} if cohorts else {}),
        "budget": {"epsilon": 3, "delta": "1e-6"},
        "tables": {
            "patients": {"unit": "patient", "rows_per_unit": 1, "columns": patients},
            "visits": {"unit": "patient", "rows_per_unit": ROWS, "columns": visits},
        },
    }


def answered(folder: Path, name: str, cohorts: bool) -> int:
    """Ask a stream until the budget refuses a question; return how many were answered, each within its margin."""
    import sfumato

    with sfumato.open(policy(folder, name, cohorts and name == "years")) as database:
        for place, (sql, within) in enumerate(STREAMS[name](random.Random(7))):
            try:
                release = database.ask(sql, within=within)
            except sfumato.Refusal as refusal:
                if refusal.code not in ("budget_exhausted", "unreachable_margin"):
                    raise
                return place
            for row, bars in zip(release.rows(), release.intervals(), strict=True):
                for column, margin in within.items():
                    if bars[column][1] - row[column] > margin:
                        raise SystemExit(f"{sql}: {column} is not within ±{margin}")
    return MOST


def run(checkout: Path, folder: Path, cohorts: bool, streams: list[str]) -> dict[str, int]:
    """Return the numbers of a version, from a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, "--worker", str(folder), str(cohorts), *streams]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> None:
    """Print both numbers of each stream, and the least ratio to its aim last."""
    if arguments[:1] == ["--worker"]:
        folder, cohorts = Path(arguments[1]), arguments[2] == "True"
        print(json.dumps({name: answered(folder, name, cohorts) for name in arguments[3:]}))
        return
    if not arguments or not set(arguments[1:]) <= set(STREAMS):
        raise SystemExit(f"usage: python benchmarks/lasting.py CHECKOUT-OF-0.8.0 [{'|'.join(STREAMS)} ...]")
    streams = arguments[1:] or list(STREAMS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        write_people(folder)
        now = run(Path(__file__).parents[1], folder, True, streams)
        before = run(Path(arguments[0]), folder, False, streams)
    ratios = {stream: now[stream] / before[stream] for stream in streams}
    for stream, ratio in ratios.items():
        print(f"{stream}: {before[stream]} questions before, {now[stream]} now: {ratio:.2f}x (aim {AIMS[stream]}x)")
    print(f"least ratio / aim = {min(ratios[stream] / AIMS[stream] for stream in streams):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
