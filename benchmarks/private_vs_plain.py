"""How many times slower is a private GROUP BY than the plain one, alone and joined? (5M rows, interleaved, best of 9)

200,000 people with heavy-tailed numbers of rows, 1,000 groups, COUNT(*), SUM and AVG. Plain is DuckDB on the source.
Private is `Database.ask`: parsing, planning, a durable charge, exact sums over the copy, noise, the release. The copy
is a DuckDB file with at most 50 rows per person, so it is faster to read than the source. Plain SQL over all rows in a
DuckDB file is printed too, and so is a question with `groups_per_unit`, which is bounded at query time. The join with
a public table of shops is compared with the same join in plain SQL. The cost of bounding rows and clipping values in
each statement is measured by leaving both out. Questions that select their bounds privately are compared with plain
SQL.
"""

import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato.engines.sql.builder import select

ROWS, PEOPLE, GROUPS, ROUNDS = 5_000_000, 200_000, 1_000, 9
SQL = "SELECT shop, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY shop"
COUNTS = "SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop"
SUMS = "SELECT shop, SUM(price) AS total FROM sales GROUP BY shop"
JOINED = (
    "SELECT region, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean "
    "FROM sales JOIN shops ON sales.shop = shops.name GROUP BY region"
)


def write(folder: Path) -> None:
    """Write the source: who bought where, for how much."""
    rng = np.random.default_rng(7)
    weights = rng.pareto(1.2, PEOPLE) + 0.1  # a few people have thousands of rows
    people = rng.choice(PEOPLE, ROWS, p=weights / weights.sum())
    shops = np.char.add("shop ", np.char.zfill(np.minimum(rng.geometric(0.004, ROWS), GROUPS).astype(str), 4))
    prices = np.round(rng.gamma(2.0, 20.0, ROWS), 2)
    folder.mkdir()
    table = pa.table({"buyer": people, "shop": shops, "price": prices})
    pq.write_table(table, folder / "sales.parquet")
    names = [f"shop {number:04}" for number in range(1, GROUPS + 1)]
    regions = [f"region {number % 20}" for number in range(GROUPS)]
    pq.write_table(pa.table({"name": names, "region": regions}), folder / "shops.parquet")


def policy(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    """Return the policy of the shops; a budget that no benchmark ends."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": [f"shop {number:04}" for number in range(1, GROUPS + 1)]},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
    }
    return {
        "name": name,
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/{name}.ledger",
        "budget": {"epsilon": 10**6, "delta": 1e-6},
        "analysts": {f"analyst{number}": {"epsilon": 10**3} for number in range(15 * ROUNDS)},
        "tables": {
            "sales": {"unit": "buyer", "rows_per_unit": 50, **more, "columns": columns},
            "shops": {"public": True},
        },
    }


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data")
        file = folder / "data" / "sales.parquet"
        plain, loaded = duckdb.connect(), duckdb.connect(folder / "loaded.duckdb")
        loaded.execute(f"CREATE TABLE sales AS FROM '{file}'")
        for name in ("sales", "shops"):
            plain.execute(f"CREATE VIEW {name} AS FROM '{folder}/data/{name}.parquet'")
        built = time.perf_counter()
        private = sfumato.open(policy(folder, "plain"))
        print(f"registering the source once: {time.perf_counter() - built:.1f} s")
        bounded = sfumato.open(policy(folder, "bounded", groups_per_unit=10))
        chosen = sfumato.open(policy(folder, "chosen", rows_per_unit={"most": 50, "choose": "private"}))

        numbers = count()

        def ask(database: sfumato.Database, sql: str) -> Callable[[], object]:
            # another account each time: what one has asked before would answer it, or be combined with it
            def run() -> object:
                with database.as_analyst(f"analyst{next(numbers)}") as account:
                    return account.ask(sql, epsilon=1).rows()

            return run

        def uncut(sql: str) -> Callable[[], object]:
            def run() -> None:
                with (
                    patch(
                        "sfumato.engines.sql.flow.select", lambda *parts, **more: select(*parts, **more | {"where": ()})
                    ),
                    patch("sfumato.engines.sql.scalar.clipped", lambda name, facts, dialect: name),
                ):
                    ask(private, sql)()

            return run

        ways = {
            "plain": lambda: plain.execute(SQL).fetchall(),
            "plain join": lambda: plain.execute(JOINED).fetchall(),
            "loaded": lambda: loaded.execute(SQL).fetchall(),
            "private": ask(private, SQL),
            "private join": ask(private, JOINED),
            "uncut": uncut(SQL),
            "uncut join": uncut(JOINED),
            "bounded": ask(bounded, SQL),
            "chosen": ask(chosen, SQL),
            "plain counts": lambda: plain.execute(COUNTS).fetchall(),
            "chosen counts": ask(chosen, COUNTS),
            "plain sums": lambda: plain.execute(SUMS).fetchall(),
            "chosen sums": ask(chosen, SUMS),
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for way, action in ways.items():
                best[way] = min(best[way], seconds(action))
        for opened in (private, bounded, chosen, loaded):
            opened.close()
    print(f"plain {best['plain'] * 1000:.0f} ms, private {best['private'] * 1000:.0f} ms")
    print(f"private / plain over all rows in a DuckDB file = {best['private'] / best['loaded']:.2f}x")
    print(f"private with query-time bounding / plain = {best['bounded'] / best['plain']:.2f}x")
    print(f"private with caps that are chosen / plain = {best['chosen'] / best['plain']:.2f}x")
    for name in ("counts", "sums"):
        print(f"the same, {name} alone = {best[f'chosen {name}'] / best[f'plain {name}']:.2f}x")
    print(f"cuts of rows and values / none = {best['private'] / best['uncut']:.2f}x")
    print(f"the same, joined with a public table = {best['private join'] / best['uncut join']:.2f}x")
    print(f"private / plain, joined with a public table = {best['private join'] / best['plain join']:.2f}x")
    print(f"private / plain = {best['private'] / best['plain']:.2f}x")


if __name__ == "__main__":
    main()
