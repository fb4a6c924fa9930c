"""How many times larger is DPSQL+'s error than ours on TPC-H? (same tables, same contribution bounds)

    python benchmarks/outside/dpsql.py CHECKOUT TPCH PYTHON [--answers 20] [--every 10]

CHECKOUT is a checkout of lycorp-jp/DPSQL_Plus. PYTHON is an interpreter that has what its pyproject.toml names, with a
DuckDB below 1.5 (its backend calls `connection.pl()`). TPCH is a folder with orders and lineitem at scale factor 1 as
Parquet files; every tenth customer is taken, as many as scale factor 0.1 has. The customer is protected, with at most
50 orders and 200 lines. Both sides read the same two tables. Theirs costs (1, 10⁻⁶), with the noise that its own Rényi
accountant finds; ours costs ε = 1 with bounds that are selected privately. The error is the root of the mean squared
relative error.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import duckdb

import sfumato

QUESTIONS = {
    "COUNT of orders": ("orders", "COUNT(*)", 50, None),
    "AVG of prices": ("lines", "AVG(price)", 200, (0, 105_000)),
    "VAR_SAMP of quantities": ("lines", "VAR_SAMP(quantity)", 200, (0, 50)),
}
THEIRS = """
import json, logging, sys, warnings
import duckdb
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
from dpsql.accountant import RenyiAccountant
from dpsql.backend import DuckDBBackend
from dpsql.dp_params import DPParams
from dpsql.engine import Engine
from dpsql.validator import Validator

folder, asked, answers = json.loads(sys.argv[1])
connection = duckdb.connect()
for name in ("orders", "lines"):
    connection.execute(f"CREATE TABLE {name} AS FROM '{folder}/{name}.parquet'")


def parameters(bound, clip, epsilon):
    return DPParams(
        contribution_bound=bound,
        clipping_thresholds=[clip and [tuple(clip)]],
        epsilon=epsilon,
        delta=1e-6,
        accountant_class=RenyiAccountant,
    )


def ask(engine, table, what, bound, clip, epsilon):
    text = f"SELECT {what} FROM {table}".replace("(*)", "(custkey)")
    return float(engine.execute_query(text, parameters(bound, clip, epsilon)).iloc[0, -1])


def engine_of(epsilon, delta):
    engine = Engine(RenyiAccountant(epsilon, delta), DuckDBBackend(connection), Validator())
    engine.register_database(None, privacy_unit_columns={"orders": "custkey", "lines": "custkey"})
    return engine


def error(truth, found):
    return (sum((one / truth - 1) ** 2 for one in found) / len(found)) ** 0.5


for table, what, bound, clip, truth in asked:
    free = engine_of(1e9, 0.5)
    first = error(truth, [ask(free, table, what, bound, clip, 1.0) for _ in range(answers)])
    print(json.dumps(first), flush=True)
"""


def make_tables(tpch: Path, folder: Path, every: int) -> dict[str, float]:
    """Write the two tables that both sides read, and return the true answers."""
    with duckdb.connect() as plain:
        plain.execute(f"CREATE VIEW all_orders AS FROM '{tpch}/orders.parquet'")
        plain.execute(f"CREATE VIEW all_lines AS FROM '{tpch}/lineitem.parquet'")
        plain.execute(
            "CREATE TABLE orders AS SELECT o_custkey AS custkey, o_orderkey AS orderkey FROM all_orders "
            "WHERE (o_custkey // 3) % $1 = 0",
            [every],
        )
        plain.execute(
            "CREATE TABLE lines AS SELECT custkey, CAST(l_extendedprice AS DOUBLE) AS price, "
            "CAST(l_quantity AS INTEGER) AS quantity FROM all_lines JOIN orders ON l_orderkey = orderkey"
        )
        for table in ("orders", "lines"):
            plain.execute(f"COPY {table} TO '{folder / 'data' / table}.parquet'")
        truths = {}
        for name, (table, what, *_) in QUESTIONS.items():
            row = plain.execute(f"FROM {table} SELECT {what}").fetchone()
            truths[name] = float(row[0]) if row else 0.0
    return truths


def policy(folder: Path, answers: int) -> dict[str, Any]:
    """Return the policy: one analyst for each answer, so that each has fresh noise."""
    number = {"type": "integer"}
    return {
        "name": "tpch",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": str(len(QUESTIONS) * answers + 100), "delta": "1e-6"},
        "tables": {
            "orders": {
                "unit": "custkey",
                "rows_per_unit": {"most": 50, "choose": "private"},
                "columns": {"custkey": number, "orderkey": {**number, "bounds": [0, 10**7]}},
            },
            "lines": {
                "unit": "custkey",
                "rows_per_unit": {"most": 200, "choose": "private"},
                "columns": {
                    "custkey": number,
                    "price": {"type": "decimal", "bounds": [0, 105_000], "step": "0.01"},
                    "quantity": {**number, "bounds": [0, 50]},
                },
            },
        },
        "analysts": {f"a{number}": {"epsilon": str(len(QUESTIONS))} for number in range(answers)},
    }


def ours(owner: Any, name: str, truth: float, answers: int) -> float:
    """Return the error at epsilon 1."""
    table, what, *_ = QUESTIONS[name]
    found = []
    for number in range(answers):
        with owner.as_analyst(f"a{number}") as analyst:
            (row,) = analyst.ask(" ".join(("SELECT", what, "AS n FROM", table)), epsilon=1).rows()
        found.append(float(row["n"]) / truth - 1)
    return float((sum(one**2 for one in found) / answers) ** 0.5)


def main() -> None:
    """Print the table of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tpch", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--every", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        truths = make_tables(given.tpch, folder, given.every)
        asked = [[*QUESTIONS[one], truths[one]] for one in QUESTIONS]
        wanted = json.dumps([str(folder / "data"), asked, given.answers])
        ran = subprocess.run(
            [str(given.python), "-c", THEIRS, wanted],
            env={"PYTHONPATH": str(given.checkout / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise SystemExit(ran.stderr)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line]
        print("| question | DPSQL+ | sfumato | ratio |\n|---|---|---|---|")
        with sfumato.open(policy(folder, given.answers)) as owner:
            for one, theirs in zip(QUESTIONS, lines, strict=True):
                error = ours(owner, one, truths[one], given.answers)
                print(f"| {one} | {theirs:.3%} | {error:.3%} | {theirs / error:.1f} |", flush=True)


if __name__ == "__main__":
    main()
