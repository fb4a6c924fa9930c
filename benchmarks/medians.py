"""How many times slower is a private median than the plain one, where people have five rows? (5M rows, best of 5)

Plain is DuckDB's MEDIAN over the same rows in a DuckDB file, which counts rows; in the private one, `Database.ask`, a
person counts once. The same with one row per person, by the groups of a declared key, and with a WHERE, where the
rows of each person that pass have to be counted. All take turns.
"""

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

import sfumato

ROWS, OWN, DEPARTMENTS, ROUNDS = 5_000_000, 5, 10, 5
QUESTIONS = {
    "by department": "SELECT dept, MEDIAN(cost) FROM {} GROUP BY dept",
    "WHERE age < 50": "SELECT MEDIAN(cost) FROM {} WHERE age < 50",
    "three quartiles": "SELECT QUANTILE_CONT(cost, 0.25), MEDIAN(cost), QUANTILE_CONT(cost, 0.75) FROM {}",
    "median": "SELECT MEDIAN(cost) FROM {}",
}


def write(file: Path) -> None:
    """Write two tables of five million rows: five rows per person, and one."""
    with duckdb.connect(file) as connection:
        for table, own in (("visits", OWN), ("people", 1)):
            connection.execute(
                f"CREATE TABLE {table} AS SELECT i // {own} AS patient, hash(i + 7) % 100 AS age, "  # noqa: S608
                f"hash(i) % 500000 / 100.0 AS cost, 'dept ' || hash(i + 9) % {DEPARTMENTS} AS dept "
                f"FROM range({ROWS}) AS t(i) ORDER BY hash(i + 3)"
            )


def policy(folder: Path) -> dict[str, Any]:
    """Return the policy of both tables; a budget that no benchmark ends."""
    columns = {
        "patient": {"type": "integer"},
        "age": {"type": "integer", "bounds": [0, 120]},
        "cost": {"type": "decimal", "bounds": [0, 5000], "step": 0.01},
        "dept": {"type": "text", "values": [f"dept {number}" for number in range(DEPARTMENTS)]},
    }
    tables = {
        table: {"unit": "patient", "rows_per_unit": own, "columns": columns}
        for table, own in (("visits", OWN), ("people", 1))
    }
    return {
        "name": "medians",
        "source": f"duckdb:{folder}/clinic.duckdb",
        "ledger": f"sqlite:{folder}/medians.ledger",
        "budget": {"epsilon": 10**6, "delta": 1e-6},
        "tables": tables,
    }


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    numbers = count(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "clinic.duckdb")
        begin = time.perf_counter()
        database = sfumato.open(policy(folder))
        print(f"registering both tables once: {time.perf_counter() - begin:.1f} s")
        plain = duckdb.connect(folder / "clinic.duckdb", read_only=True)

        def ask(sql: str) -> Callable[[], object]:
            # another epsilon each time: the same question again would be answered from the ledger
            return lambda: database.ask(sql, epsilon=Fraction(1) + Fraction(next(numbers), 1000)).rows()

        def run(sql: str) -> Callable[[], object]:
            return lambda: plain.execute(sql).fetchall()

        ways = {}
        for table in ("people", "visits"):
            for question, sql in QUESTIONS.items():
                ways[table, question, "plain"] = run(sql.format(table))
                ways[table, question, "private"] = ask(sql.format(table))
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for way, action in ways.items():
                best[way] = min(best[way], seconds(action))
        plain.close()
        database.close()
    for table, rows in (("people", "one row"), ("visits", "five rows")):
        for question in QUESTIONS:
            private, other = best[table, question, "private"], best[table, question, "plain"]
            print(
                f"{rows} per person, {question}: private {private:.3f} s, plain {other:.3f} s, {private / other:.2f}x"
            )
    print(f"private / plain = {best['visits', 'median', 'private'] / best['visits', 'median', 'plain']:.2f}x")


if __name__ == "__main__":
    main()
