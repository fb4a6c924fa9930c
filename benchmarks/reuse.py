"""How much CPU does looking for earlier answers add to a question that finds none? (one process, interleaved, median)

`python benchmarks/reuse.py [ANSWERS]`: ANSWERS is the number of kept answers about the same rows, 98,000 unless said:
an account makes at most 100,000 charges.
Every question is new and has a condition of its own, so that no kept answer helps it. Every second one is asked with
the search switched off.
"""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato import refining
from sfumato.ledger.request import Request
from sfumato.prepare import RequestedPrice

PEOPLE, PAIRS, WRITERS = 1_000, 300, 16
KINDS = {
    "count": "SELECT COUNT(*) AS n FROM visits WHERE cost + {} > 9",
    "by group": "SELECT dept, COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE cost + {} > 9 GROUP BY dept",
}


def write_people(folder: Path) -> dict[str, object]:
    """Write a small table; return its policy."""
    rng = np.random.default_rng(34)
    rows = {"id": np.arange(PEOPLE), "dept": rng.choice(["er", "icu"], PEOPLE), "cost": rng.integers(0, 100, PEOPLE)}
    (folder / "data").mkdir()
    pq.write_table(pa.table(rows), folder / "data" / "visits.parquet")
    columns = {
        "id": {"type": "integer"},
        "dept": {"type": "text", "values": ["er", "icu"]},
        "cost": {"type": "integer", "bounds": [0, 99]},
    }
    return {
        "name": "reuse",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 10**6, "delta": "1e-6"},
        "tables": {"visits": {"unit": "id", "rows_per_unit": 1, "columns": columns}},
    }


def fill(database: sfumato.Database, answers: int) -> None:
    """Store so many answers about the same rows: texts of one measurement with other cells."""
    ledger, policy = database.payer.ledger, database.payer.policy
    asked = database.prepare(KINDS["by group"].format(0), None, RequestedPrice("0.001"))
    event, cells = asked.plan.event, asked.names.measured
    if event is None or cells is None:
        raise SystemExit("the question measures nothing")

    def one(place: int) -> None:
        text = asked.fingerprint.replace(cells.cells, f"{place:0{len(cells.cells)}x}", 1)
        request = Request("", text, f"question {place}", event, asked.plan.loss, policy, asked.engine.version, "")
        with ledger.charge(request) as charge:
            charge.settle("{}")

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(one, range(answers)))


@contextmanager
def without_search() -> Iterator[None]:
    """Switch off everything that looks for earlier answers."""
    names = ("from_stored_measurements", "from_views", "gaussian_refined", "refined")
    before = {name: getattr(refining, name) for name in names}
    for name in names:
        setattr(refining, name, lambda asked, *_, **__: asked)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(refining, name, function)


def ratio(database: sfumato.Database, sql: str, numbers: Iterator[int]) -> tuple[float, float]:
    """Return the CPU of a question with the search over that without, and the former in milliseconds."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for place in range(2 * PAIRS + 20):
        text, searched = sql.format(next(numbers)), place % 2 == 0
        start = process_time()
        if searched:
            database.ask(text, epsilon=Fraction(1, 1000))
        else:
            with without_search():
                database.ask(text, epsilon=Fraction(1, 1000))
        if place >= 20:
            found[searched].append(process_time() - start)
    return median(found[True]) / median(found[False]), 1000 * median(found[True])


def main(arguments: list[str]) -> None:
    """Print the ratio of each kind, and the largest last."""
    answers = int(arguments[0]) if arguments else 98_000
    numbers, found = count(1), []
    for kept in dict.fromkeys((0, answers)):
        with tempfile.TemporaryDirectory() as name, sfumato.open(write_people(Path(name))) as database:
            start = perf_counter()
            fill(database, kept)
            print(f"{kept:,} kept answers ({perf_counter() - start:.0f} s to write)")
            for kind, sql in KINDS.items():
                times, milliseconds = ratio(database, sql, numbers)
                found.append(times)
                print(f"{kind}: {milliseconds:.1f} ms of CPU with the search, {times:.2f}x of that without")
    print(f"with search / without = {max(found):.2f}x")


if __name__ == "__main__":
    main(sys.argv[1:])
