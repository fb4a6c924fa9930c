"""How far are totals of rows with two owners from the truth, beside R2T's? (ε = 0.8, scale factor 1, 10 answers)

R2T's queries Q5, Q7 and Q8 protect customers and suppliers, Q21 orders and suppliers (Race-to-the-Top, commit 9a60465,
`Query/`). The measure is theirs: the mean of the relative errors without the best and the worst two of ten. Its numbers
are those of its stored results at scale factor 1. `most` is 2^20, as there. A number after the command is another scale
factor. With networkx, the edges of a public graph are counted, too: there both owners are of one kind.
"""

# ruff: noqa: S608 - queries are written by hand here

import subprocess
import sys
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import mean

import duckdb
import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.randomness.source import system_source
from sfumato.sensitivity.bounded_flow import OwnerPairs, doubled_flow

EPSILON, MOST, ANSWERS = Fraction(4, 5), 1 << 20, 10
SYSTEM = system_source()
LINES = (
    "lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey "
    "JOIN supplier ON l_suppkey = s_suppkey"
)
QUERIES = {
    "Q5": (f"SELECT c_custkey, s_suppkey, count(*) FROM {LINES} WHERE c_nationkey = s_nationkey GROUP BY ALL", 1.63),
    "Q7": (
        "SELECT c_custkey, s_suppkey, CAST(round(sum(l_extendedprice * (1 - l_discount) / 1000)) AS BIGINT) FROM "
        f"{LINES} GROUP BY ALL",
        0.61,
    ),
    "Q8": (
        f"SELECT c_custkey, s_suppkey, count(*) FROM {LINES} WHERE o_orderdate BETWEEN DATE '1995-01-01' AND "
        "DATE '1996-12-31' GROUP BY ALL",
        1.92,
    ),
    "Q21": ("SELECT l_orderkey, l_suppkey, count(*) FROM lineitem GROUP BY ALL", 0.65),
}


def trimmed_error(pairs: OwnerPairs) -> tuple[float, int]:
    """Return the trimmed mean of the relative errors in percent, and the bound that was selected last."""
    made, total = BoundedFlow(MOST, EPSILON, Neighbours.ADD_REMOVE), pairs.total
    flow_at = cache(lambda bound: doubled_flow(pairs, bound))  # the same for all answers
    errors, bound = list[float](), 0
    for _ in range(ANSWERS):
        bound, flow = made.select(flow_at, SYSTEM)
        (noisy,) = made.noise(bound).release(np.array([flow], dtype=np.int64), SYSTEM)
        errors.append(abs(int(noisy) / 2 - total) / total * 100)
    return mean(sorted(errors)[2:-2]), bound


def read(connection: duckdb.DuckDBPyConnection, sql: str) -> OwnerPairs:
    """Return the pairs of a query."""
    columns = list(connection.execute(sql).fetchnumpy().values())
    first, second, amounts = (np.asarray(column).astype(np.int64) for column in columns)
    ids = [np.unique(one, return_inverse=True)[1] for one in (first, second)]
    return OwnerPairs(ids[0].astype(np.int64), ids[1].astype(np.int64), amounts, same_kind=False)


def graphs() -> dict[str, OwnerPairs]:
    """Return edges of public graphs, if networkx is installed."""
    try:
        import networkx
    except ImportError:
        return {}
    found = {}
    for name, graph in (
        ("Les Misérables", networkx.les_miserables_graph()),
        ("power law, 20,000 people", networkx.barabasi_albert_graph(20_000, 10, seed=1)),
    ):
        numbers = {node: place for place, node in enumerate(graph.nodes)}
        ends = np.array([[numbers[one], numbers[other]] for one, other in graph.edges], dtype=np.int64)
        found[name] = OwnerPairs(ends[:, 0], ends[:, 1], np.ones(len(ends), dtype=np.int64), same_kind=True)
    return found


def main() -> None:
    """Print one row for each query."""
    scale = sys.argv[1] if len(sys.argv) > 1 else "1"
    print("| query | pairs | total | bound | error | R2T's |\n|---|---:|---:|---:|---:|---:|")
    ratios = []
    with tempfile.TemporaryDirectory() as place, duckdb.connect() as connection:
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([program, "parquet", "-s", scale, "-o", place], check=True, capture_output=True)
        for file in Path(place).iterdir():
            connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")
        for name, (sql, theirs) in QUERIES.items():
            pairs = read(connection, sql)
            error, bound = trimmed_error(pairs)
            ratios.append(theirs / error)
            print(
                f"| {name} | {len(pairs.amounts):,} | {pairs.total:,} | {bound:,} | {error:.3f} % | {theirs} % |",
                flush=True,
            )
    for name, pairs in graphs().items():
        error, bound = trimmed_error(pairs)
        print(f"| edges, {name} | {len(pairs.amounts):,} | {pairs.total:,} | {bound:,} | {error:.3g} % | |")
    print(f"R2T's error / ours, least = {min(ratios):.1f}x")


if __name__ == "__main__":
    main()
