"""What is a refresh after 1 % new rows to a registration of everything? (--rows 5,000,000, a folder of Parquet, DuckDB)

A file is added to a folder: with rows of people who had none before, then of people who had hardly any, then of
anybody, drawn as the others were, so that those concerned have most of the rows. Each time there is a refresh, and then
everything is registered again: the processor's seconds of this process, which others on the machine do not change much.
"""

import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.duckdb.registration import register
from sfumato.policy.reading import read_policy

SHARE, GROUPS = 100, 1_000


def rows(size: int) -> pa.Table:
    """Return who bought where, for how much: a few people have thousands of rows, as in `engines.py`."""
    rng = np.random.default_rng(7)
    weights = rng.pareto(1.2, max(size // 25, 1)) + 0.1
    names = np.array([f"shop {number:04}" for number in range(GROUPS + 1)])
    return pa.table(
        {
            "buyer": rng.choice(len(weights), size, p=weights / weights.sum()),
            "shop": names[np.minimum(rng.geometric(0.004, size), GROUPS)],
            "price": np.round(rng.gamma(2.0, 20.0, size), 2),
        }
    )


def words(folder: Path) -> dict[str, object]:
    """Return the policy of the shops."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": [f"shop {number:04}" for number in range(1, GROUPS + 1)]},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
    }
    return {
        "name": "shops",
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/shops.ledger",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"sales": {"unit": "buyer", "rows_per_unit": 50, "columns": columns}},
    }


def seconds(action: Callable[[], object]) -> float:
    """Return the processor's seconds of one call."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def seldom(table: pa.Table, size: int) -> pa.Table:
    """Return so many rows of the people who have the fewest, some of each."""
    who = table.column("buyer").to_numpy()
    people, counts = np.unique(who, return_counts=True)
    few = people[np.argsort(counts, kind="stable")][: max(size // 5, 1)]
    new = table.slice(0, size)
    return new.set_column(0, "buyer", pa.array(np.resize(few, size)))


def arriving(table: pa.Table, size: int) -> pa.Table:
    """Return so many rows of people who had none, some of each."""
    first = int(np.max(table.column("buyer").to_numpy())) + 1
    return table.slice(0, size).set_column(0, "buyer", pa.array(first + np.arange(size) // 5))


def concerned(old: pa.Table, new: pa.Table) -> float:
    """Return the share of the old rows that belong to people who have new ones."""
    return float(np.isin(old.column("buyer").to_numpy(), np.unique(new.column("buyer").to_numpy())).mean())


def main() -> None:
    """Print what a refresh takes beside a registration of everything."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    size = parser.parse_args().rows
    everybody = rows(size + size // SHARE)
    old, anybody = everybody.slice(0, size), everybody.slice(size)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sales = folder / "data" / "sales"
        sales.mkdir(parents=True)
        policy = read_policy(words(folder))

        def again() -> None:
            register(policy, lambda _phase, _table: None, again=True).use.close()

        pq.write_table(old, sales / "0.parquet")
        first = seconds(again)
        cases = (
            ("people who are new", arriving(old, size // SHARE)),
            ("people who had few", seldom(old, size // SHARE)),
            ("anybody", anybody),
        )
        for what, new in cases:
            pq.write_table(new, sales / "1.parquet")
            arrived = seconds(again)
            (sales / "0.parquet").touch()  # it is not as it was: everything is read
            everything = min(first, seconds(again))
            had = concerned(old, new)
            print(f"1 % new rows of {what}, who had {had:.0%} of the others: {arrived:.1f} s; all: {everything:.1f} s")
            print(f"refresh / registration = {arrived / everything:.2f}x")
            (sales / "1.parquet").unlink()
            again()


if __name__ == "__main__":
    main()
