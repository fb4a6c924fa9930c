"""How does the fixed cost of a question compare with another version of the source? (`fixed_cost.py OTHER/src [ROWS]`)

Both versions answer the same questions in turns, each in a process of its own, with accounts that have no answers. It
prints the CPU time of a process with all its threads per question, the least of all rounds, and the number of calls of
Python and C functions, which does not depend on other work of the machine. "new" is a text that was not asked before.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

ROUNDS, QUESTIONS_PER_ROUND, ANALYSTS = 5, 6, 1000
SHOPS = [f"shop {number:04}" for number in range(1, 101)]
TEXTS = {
    "count": "SELECT COUNT(*) AS n FROM sales",
    "by 100 groups": "SELECT shop, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS mean FROM sales GROUP BY shop",
    "joined": "SELECT region, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS mean FROM sales "
    "JOIN shops ON sales.shop = shops.name GROUP BY region",
    "date condition": "SELECT COUNT(*) AS n, SUM(price) AS s FROM sales WHERE day >= DATE '2012-03-04'",
    "people": "SELECT COUNT(DISTINCT buyer) AS n FROM sales",
}
NEW_TEXTS = {
    "number": "SELECT COUNT(*) AS n, SUM(price) AS s FROM sales WHERE cost > {place}",
    "number, same price": "SELECT COUNT(*) AS n, SUM(price) AS s FROM sales WHERE cost > {place}",
    "name": "SELECT shop, COUNT(*) AS n{place}, SUM(price) AS s, AVG(price) AS mean FROM sales GROUP BY shop",
}
LINES = [*(("ask", name) for name in TEXTS), ("repeat", "by 100 groups"), ("explain", "by 100 groups")]
LINES += [("new", name) for name in NEW_TEXTS]


def write(folder: Path, rows: int) -> None:
    """Write the tables."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(7)
    (folder / "data").mkdir()
    sales = {
        "buyer": random.integers(0, max(rows // 20, 10), rows),
        "shop": np.array(SHOPS)[random.integers(0, len(SHOPS), rows)],
        "price": np.round(random.gamma(2.0, 20.0, rows), 2),
        "cost": random.integers(0, 10_001, rows),
        "day": pa.array(random.integers(10_957, 18_627, rows).astype(np.int32)).cast(pa.date32()),
    }
    pq.write_table(pa.table(sales), folder / "data" / "sales.parquet")
    regions = {"name": SHOPS, "region": [f"r{number % 20}" for number in range(len(SHOPS))]}
    pq.write_table(pa.table(regions), folder / "data" / "shops.parquet")


def policy(folder: Path, name: str) -> dict[str, Any]:
    """Return the policy, with a ledger of its own for each version."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": SHOPS},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
        "cost": {"type": "integer", "bounds": [0, 10_000]},
        "day": {"type": "date", "bounds": [date(2000, 1, 1), date(2020, 12, 31)]},
    }
    return {
        "name": name,
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/{name}.ledger",
        "budget": {"epsilon": 10**6, "delta": 1e-6},
        "analysts": {f"a{number}": {"epsilon": 10**5} for number in range(ANALYSTS)},
        "tables": {
            "sales": {"unit": "buyer", "rows_per_unit": 50, "columns": columns},
            "shops": {"public": True},
        },
    }


def answer(folder: Path, name: str) -> None:
    """Answer lines of questions until the input ends: the child process."""
    import sfumato

    places, analysts = count(1), count()
    with sfumato.open(policy(folder, name)) as database:
        print(flush=True)
        for line in sys.stdin:
            kind, asked = json.loads(line)
            gc.collect()
            spent, calls = 0.0, 0
            for turn in range(QUESTIONS_PER_ROUND + 1):
                place = next(places)
                epsilon = Fraction(1) if "same price" in asked else 1 + Fraction(place, 1000)
                sql = NEW_TEXTS[asked].format(place=place) if kind == "new" else TEXTS[asked]
                with database.as_analyst(f"a{next(analysts)}") as handle:
                    if kind != "new":
                        handle.explain(sql, epsilon=1)
                    if kind == "repeat":
                        handle.ask(sql, epsilon=epsilon)
                    ask = partial(handle.explain if kind == "explain" else handle.ask, sql, epsilon=epsilon)
                    if turn == QUESTIONS_PER_ROUND:
                        calls = counted(ask)
                        continue
                    before = process_time()
                    ask()
                    spent += process_time() - before
            print(json.dumps([spent / QUESTIONS_PER_ROUND * 1e3, calls]), flush=True)


def counted(ask: Callable[[], object]) -> int:
    """Return how many calls of Python and C functions a question makes in this thread."""
    calls = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return calls


def started(source: str, folder: Path, name: str) -> "subprocess.Popen[str]":
    """Start a version of the source."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--child", str(folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    next(iter(child.stdout or ()))
    return child


def measured(versions: "list[subprocess.Popen[str]]") -> Iterator[tuple[str, list[list[tuple[float, int]]]]]:
    """Give each line with what both versions took in all rounds; the first round warms up."""
    for kind, asked in LINES:
        found: list[list[tuple[float, int]]] = [[] for _ in versions]
        for turn in range(ROUNDS):
            for child, times in list(zip(versions, found, strict=True))[:: 1 if turn % 2 else -1]:
                print(json.dumps([kind, asked]), file=child.stdin, flush=True)
                times.append(tuple(json.loads(next(iter(child.stdout or ())))))
        yield f"{kind}: {asked}", [times[1:] for times in found]


def main(other: str, rows: int = 1000) -> None:
    """Compare another version with this one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, rows)
        here = str(Path(__file__).resolve().parents[1] / "src")
        versions = [started(other, folder, "other"), started(here, folder, "here")]
        worst = 0.0
        for line, (before, now) in measured(versions):
            times = [min(spent for spent, _ in each) for each in (before, now)]
            calls = [min(called for _, called in each) for each in (before, now)]
            worst = max(worst, calls[1] / calls[0])
            print(
                f"{line:28} CPU {times[0]:7.2f} {times[1]:7.2f} ms, {times[1] / times[0]:.2f}x;"
                f" calls {calls[0]:6} {calls[1]:6}, {calls[1] / calls[0]:.2f}x",
                flush=True,
            )
        for child in versions:
            child.communicate()
    print(f"calls of the worst line: {worst:.2f}x")


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        answer(Path(sys.argv[2]), sys.argv[3])
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
