"""How many times larger is R2T's error than ours on its own TPC-H queries? (its stored results, its metric)

    python benchmarks/outside/r2t.py CHECKOUT TPCH [--epsilon 0.8] [--answers 10]

CHECKOUT is a checkout of hkustDB/Race-to-the-Top, whose query texts run unchanged and whose result files are read.
TPCH is a folder with customer, orders, lineitem and nation at scale factor 1 as Parquet files, for example from
`tpchgen-cli parquet -s 1` (PyPI). The customer is protected; sfumato selects its bounds privately, up to 100
orders and 1,000 lines. The metric is theirs: the trimmed mean of the relative error, without the best and worst fifth.
"""

import argparse
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

import sfumato

QUERIES = ("Q3", "Q10", "Q18")
TABLES = ("customer", "orders", "lineitem", "nation")
NUMBER = {"type": "integer"}
DAY = {"type": "date"}


def policy(data: Path, ledger: Path, epsilon: Fraction, answers: int) -> dict[str, Any]:
    """Return the policy: one analyst for each answer, so that each has fresh noise."""
    return {
        "name": "tpch",
        "source": f"parquet:{data}",
        "ledger": f"sqlite:{ledger}",
        "budget": {"epsilon": str(len(QUERIES) * answers * epsilon), "delta": 0},
        "tables": {
            "customer": {
                "unit": "c_custkey",
                "rows_per_unit": 1,
                "columns": {"c_custkey": NUMBER, "c_nationkey": NUMBER},
            },
            "orders": {
                "unit": "o_custkey",
                "rows_per_unit": {"most": 100, "choose": "private"},
                "columns": {"o_orderkey": {**NUMBER, "unique": True}, "o_custkey": NUMBER, "o_orderdate": DAY},
            },
            "lineitem": {
                "unit": "orders.o_custkey via l_orderkey = o_orderkey",
                "rows_per_unit": {"most": 1000, "choose": "private"},
                "columns": {"l_orderkey": NUMBER, "l_shipdate": DAY, "l_quantity": {**NUMBER, "bounds": [0, 50]}},
            },
            "nation": {"public": True},
        },
        "analysts": {f"a{number}": {"epsilon": str(len(QUERIES) * epsilon)} for number in range(answers)},
    }


def stored_result(checkout: Path, query: str, epsilon: Fraction) -> tuple[float, float]:
    """Return the truth and the error that the checkout's result file has for an epsilon."""
    for line in (checkout / "Result" / "TPCH" / f"R2T_{query}.txt").read_text().splitlines():
        stated, truth, error, *_ = line.split()
        if Fraction(stated) == epsilon:
            return float(truth), float(error)
    raise SystemExit(f"the checkout has no result of {query} at epsilon {epsilon}")


def trimmed_mean(errors: list[float]) -> float:
    """Return the mean without the best and the worst fifth."""
    cut = len(errors) // 5
    kept = sorted(errors)[cut : len(errors) - cut]
    return sum(kept) / len(kept)


def main() -> None:
    """Print the table of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tpch", type=Path)
    parser.add_argument("--epsilon", type=Fraction, default=Fraction("0.8"))
    parser.add_argument("--answers", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for table in TABLES:
            shutil.copyfile(given.tpch / f"{table}.parquet", data / f"{table}.parquet")
        plain = duckdb.connect()
        for table in TABLES:
            plain.execute(f"CREATE VIEW {table} AS FROM '{data / table}.parquet'")
        print("| query | R2T | sfumato | ratio |\n|---|---|---|---|")
        with sfumato.open(policy(data, Path(folder) / "ledger", given.epsilon, given.answers)) as owner:
            for query in QUERIES:
                text = (given.checkout / "Query" / f"{query}.txt").read_text().strip().rstrip(";")
                stored, theirs = stored_result(given.checkout, query, given.epsilon)
                row = plain.execute(text).fetchone()
                truth = float(row[0]) if row else 0.0
                errors = []
                for number in range(given.answers):
                    with owner.as_analyst(f"a{number}") as analyst:
                        (answer,) = analyst.ask(text, epsilon=given.epsilon).rows()
                    errors.append(abs(float(next(iter(answer.values()))) - truth) / truth)
                ours, other = trimmed_mean(errors), theirs / stored
                print(f"| {query} | {other:.3%} | {ours:.4%} | {other / ours:.0f} |", flush=True)


if __name__ == "__main__":
    main()
