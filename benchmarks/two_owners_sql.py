"""How far are totals of rows with two owners from the truth when they are asked in SQL? (ε = 0.8, 10 answers)

R2T's Q5, Q7 and Q8 protect customers and suppliers, Q21 orders and suppliers. The lines are joined with the nations of
both owners before they are registered, because a table with two owners joins no other private table. A number
after the command is the scale factor (0.1 unless it is given). With networkx, the edges of public graphs are counted
with node privacy. The measure is R2T's: the mean of the relative errors without the best and the worst two of ten.
"""

# ruff: noqa: S608 - queries are written by hand here

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import duckdb

import sfumato

EPSILON, MOST, ANSWERS = "0.8", 1 << 20, 10
LINES = """
SELECT l_orderkey, l_suppkey, o_custkey, c_nationkey, s_nationkey, year(o_orderdate) AS year,
    CAST(round(l_extendedprice * (1 - l_discount) / 1000) AS BIGINT) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    JOIN supplier ON l_suppkey = s_suppkey
"""
KEY = {"type": "integer"}
SMALL = {"type": "integer", "bounds": [0, 24]}
COLUMNS: dict[str, Any] = {
    "l_suppkey": KEY,
    "o_custkey": KEY,
    "c_nationkey": SMALL,
    "s_nationkey": SMALL,
    "year": {"type": "integer", "bounds": [1992, 1998]},
    "revenue": {"type": "integer", "bounds": [0, 105]},
}
QUERIES = {
    "Q5": ("SELECT COUNT(*) AS n FROM lines WHERE c_nationkey = s_nationkey", 1.63),
    "Q7": (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = {1 << 13}) SUM(revenue) AS n FROM lines",
        0.61,
    ),
    "Q8": ("SELECT COUNT(*) AS n FROM lines WHERE year BETWEEN 1995 AND 1996", 1.92),
    "Q21": ("SELECT COUNT(*) AS n FROM shipped", 0.65),
}
"""Each with R2T's error in percent at scale factor 1."""


def measured(policy: dict[str, object], sql: str, truth: float, seconds: list[float]) -> float:
    """Return the trimmed mean of the relative errors of ten answers: the same question of ten fresh ledgers is new."""
    errors = []
    with sfumato.open(policy) as db:
        for nth in range(ANSWERS):
            spelled = f"{EPSILON}{'0' * 3}{nth}" if nth else EPSILON  # another price is another answer
            begun = process_time()
            answer = db.ask(sql, epsilon=spelled)
            seconds.append(process_time() - begun)
            if answer.repeated:
                raise AssertionError("each answer is drawn anew")
            (row,) = answer.rows()
            errors.append(abs(row["n"] - truth) / truth * 100)
    return float(mean(sorted(errors)[2:-2]))


def policy_of(source: dict[str, Any], folder: Path, tables: dict[str, Any]) -> dict[str, object]:
    """Return a policy in which the margins of ten answers fit."""
    return {
        "source": source,
        "ledger": f"sqlite:{folder}/{'-'.join(tables)}.ledger",
        "budget": {"epsilon": 100, "delta": 0},
        "tables": tables,
    }


def main() -> None:
    """Print one row for each query."""
    scale = sys.argv[1] if len(sys.argv) > 1 else "0.1"
    print("| query | truth | error | R2T's at 1 | CPU per answer |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as place, duckdb.connect() as connection:
        folder = Path(place)
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([program, "parquet", "-s", scale, "-o", place], check=True, capture_output=True)
        for file in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")
        lines = connection.sql(LINES).to_arrow_table()
        shared = {"rows_per_unit": MOST}
        tables = {
            "lines": {**shared, "unit": ["customer: o_custkey", "supplier: l_suppkey"], "columns": COLUMNS},
            "shipped": {
                **shared,
                "unit": ["order: l_orderkey", "supplier: l_suppkey"],
                "columns": {"l_orderkey": KEY, "l_suppkey": KEY},
            },
        }
        connection.register("given", lines)
        truths = {
            "Q5": "count(*) FILTER (WHERE c_nationkey = s_nationkey)",
            "Q7": "sum(revenue)",
            "Q8": "count(*) FILTER (WHERE year BETWEEN 1995 AND 1996)",
            "Q21": "count(*)",
        }
        for name, (sql, theirs) in QUERIES.items():
            (truth,) = connection.execute(f"SELECT {truths[name]} FROM given").fetchone() or (0,)
            seconds: list[float] = []
            policy = policy_of({"lines": lines, "shipped": lines}, folder, tables)
            error = measured(policy, sql, float(truth), seconds)
            print(f"| {name} | {int(truth):,} | {error:.3f} % | {theirs} % | {mean(seconds):.2f} s |", flush=True)
        graphs(folder)


def graphs(folder: Path) -> None:
    """Count edges of public graphs with node privacy, if networkx is installed."""
    try:
        import networkx
        import pyarrow as pa
    except ImportError:
        return
    for name, graph in (
        ("Les Misérables", networkx.les_miserables_graph()),
        ("power law, 20,000 people", networkx.barabasi_albert_graph(20_000, 10, seed=1)),
    ):
        numbers = {node: place for place, node in enumerate(graph.nodes)}
        ends = [[numbers[edge[at]] for edge in graph.edges] for at in (0, 1)]
        source = {"edges": pa.table({"src": ends[0], "dst": ends[1]})}
        edges = {"unit": ["src", "dst"], "rows_per_unit": MOST, "columns": {"src": KEY, "dst": KEY}}
        place = folder / str(len(ends[0]))
        place.mkdir()
        seconds: list[float] = []
        error = measured(
            policy_of(source, place, {"edges": edges}), "SELECT COUNT(*) AS n FROM edges", len(ends[0]), seconds
        )
        print(f"| edges, {name} | {len(ends[0]):,} | {error:.3g} % | | {mean(seconds):.2f} s |", flush=True)


if __name__ == "__main__":
    main()
