"""How does the cost of each operation grow? One line each: CPU time beside plain DuckDB, and the growth exponent.

`python benchmarks/growth.py` measures 100,000 and 1 million rows, `--rows 100000 1000000 10000000` others, and
`--only WORD` the lines whose name contains the word. CPU time counts all threads of the process, DuckDB's too. Private
and plain take turns, and the best of several counts. The exponent is the slope of our CPU time over the size, in
logarithms: 0 is flat, 1 is linear.

A line is a function from a size to two costs. Add one to `LINES`; it needs nothing else.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb

import sfumato

ROWS = (100_000, 1_000_000)
ROUNDS = 5
OWN_ROWS = 20
"""Rows per person, on average."""
SHOPS, ITEMS = 1_000, 10_000
ACCOUNTS = 2_000
"""Every answer is one of an account of its own, so that nothing can be reused."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of an operation here, and of what it is compared with."""

    private: float
    plain: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `sizes` are of `axis`; None for the numbers of rows of this run."""

    name: str
    beside: str
    """What the ratio is to."""
    measure: Callable[[int], Cost]
    axis: str = "rows"
    sizes: tuple[int, ...] | None = None


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of one call, of all threads of this process."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def in_turns(private: Callable[[], float], plain: Callable[[], float], rounds: int = ROUNDS) -> Cost:
    """Return the least CPU times of two actions that take turns; each returns its own."""
    found = [(private(), plain()) for _ in range(rounds)]
    return Cost(min(one for one, _ in found), min(other for _, other in found))


@dataclass
class Site:
    """A table of sales in a DuckDB file, the same table behind a policy, and accounts that asked nothing yet."""

    folder: Path
    rows: int
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        file = self.folder / f"sales{self.rows}.duckdb"
        self.plain = duckdb.connect(file)
        _write(self.plain, self.rows)
        self.plain.close()
        self.private = sfumato.open(_policy(self.folder, self.rows))
        self.plain = duckdb.connect(file, read_only=True)

    def ask(self, sql: str) -> float:
        """Return the CPU time of one answer from an account without answers; its text was read before."""
        number = next(self.numbers)
        with closing_account(self.private, number) as account:
            account.explain(sql, epsilon=1)
            return cpu_seconds(lambda: account.ask(sql, epsilon=Fraction(1000 + number, 1000)).rows())

    def fetch(self, sql: str) -> float:
        """Return the CPU time of plain SQL over the same rows."""
        return cpu_seconds(lambda: self.plain.execute(sql).fetchall())


@contextmanager
def closing_account(database: sfumato.Database, number: int) -> Iterator[sfumato.Database]:
    """Give the handle of one account."""
    account = database.as_analyst(f"analyst{number}")
    try:
        yield account
    finally:
        account.close()


def _write(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    connection.execute(
        f"CREATE TABLE sales AS SELECT hash(i) % {max(rows // OWN_ROWS, 1)} AS buyer, "  # noqa: S608
        f"'shop ' || lpad((hash(i + 1) % {SHOPS})::VARCHAR, 4, '0') AS shop, "
        "'kind ' || hash(i + 2) % 10 AS kind, (hash(i + 3) % 50000) / 100.0 AS price, "
        f"(hash(i + 4) % 10001)::INTEGER AS cost, (hash(i + 5) % {ITEMS})::INTEGER AS item, "
        "DATE '2000-01-01' + (hash(i + 6) % 7671)::INTEGER AS day, 'town ' || hash(i + 7) % 10000 AS town "
        f"FROM range({rows}) AS numbers(i)"
    )
    connection.execute(
        "CREATE TABLE shops AS SELECT 'shop ' || lpad(i::VARCHAR, 4, '0') AS name, 'region ' || i % 20 AS region "  # noqa: S608
        f"FROM range({SHOPS}) AS numbers(i)"
    )


def _policy(folder: Path, rows: int) -> dict[str, Any]:
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": [f"shop {number:04}" for number in range(SHOPS)]},
        "kind": {"type": "text", "values": [f"kind {number}" for number in range(10)]},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
        "cost": {"type": "integer", "bounds": [0, 10_000]},
        "item": {"type": "integer", "bounds": [0, ITEMS - 1]},
        "day": {"type": "date", "bounds": [date(2000, 1, 1), date(2020, 12, 31)]},
        "town": {"type": "text"},
    }
    return {
        "name": f"sales{rows}",
        "source": f"duckdb:{folder}/sales{rows}.duckdb",
        "ledger": f"sqlite:{folder}/sales{rows}.ledger",
        "budget": {"epsilon": 10**7, "delta": 1e-6},
        "tables": {
            "sales": {"unit": "buyer", "rows_per_unit": 50, "columns": columns},
            "shops": {"public": True},
        },
        "analysts": {f"analyst{number}": {"epsilon": 10**3} for number in range(ACCOUNTS)},
    }


def question(name: str, sql: str, plain: str | None = None) -> Line:
    """Return the line of a question that plain SQL answers too."""

    def measure(rows: int) -> Cost:
        site = site_of(rows)
        return in_turns(lambda: site.ask(sql), lambda: site.fetch(plain or sql))

    return Line(name, "plain SQL", measure)


def filtered(name: str, condition: Callable[[int], str]) -> Line:
    """Return the line of a condition with a new constant each time, beside the same question without it."""
    sql = "SELECT COUNT(*) AS n, SUM(price) AS total FROM sales"

    def measure(rows: int) -> Cost:
        site = site_of(rows)

        def ask(condition: str = "") -> float:
            number = next(site.numbers)
            with closing_account(site.private, number) as account:
                text = f"{sql} {condition} -- {number}"
                return cpu_seconds(lambda: account.ask(text, epsilon=1).rows())

        return in_turns(lambda: ask(condition(next(site.numbers))), ask)

    return Line(name, "the same without WHERE", measure)


def fixed_cost(rows: int) -> Cost:
    """Return what the smallest question costs, beside 5 milliseconds."""
    site = site_of(rows)
    return in_turns(lambda: site.ask("SELECT COUNT(*) AS n FROM sales"), lambda: 0.005, 20)


def quantiles(number: int) -> Cost:
    """Return what the quote of so many quantiles costs, beside as many quotes of one."""
    site = site_of(ROWS[0])

    def explain(columns: Sequence[str]) -> float:
        with closing_account(site.private, next(site.numbers)) as account:
            text = f"SELECT {', '.join(columns)} FROM sales"  # noqa: S608
            return cpu_seconds(lambda: account.explain(text, epsilon=1))

    every = [f"QUANTILE_CONT(price, {at / (number + 1):.3f}) AS q{at}" for at in range(1, number + 1)]
    return in_turns(lambda: explain(every), lambda: number * explain(every[:1]), 2)


def search_for_reuse(rows: int) -> Cost:
    """Return what a question by keys costs that finds nothing to reuse, beside one that does not look."""
    site = site_of(rows)
    sql = "SELECT kind, COUNT(*) AS n, SUM(price) AS total FROM sales WHERE cost > {} GROUP BY kind"

    def ask() -> float:
        number = next(site.numbers)
        with closing_account(site.private, number) as account:
            account.ask("SELECT kind, COUNT(*) AS n FROM sales WHERE cost > 17 GROUP BY kind", epsilon=1)
            text = sql.format(number + 100)
            account.explain(text, epsilon=1)
            return cpu_seconds(lambda: account.ask(text, epsilon=1).rows())

    def ask_without_search() -> float:
        with (
            patch("sfumato.refining.from_stored_measurements", lambda asked, *_, **__: asked),
            patch("sfumato.refining.from_views", lambda asked, *_, **__: asked),
        ):
            return ask()

    return in_turns(ask, ask_without_search, 20)


LINES = [
    question("COUNT(*)", "SELECT COUNT(*) AS n FROM sales"),
    question(
        "GROUP BY 10 kinds",
        "SELECT kind, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY kind",
    ),
    question(
        "GROUP BY 1,000 shops",
        "SELECT shop, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY shop",
    ),
    question(
        "GROUP BY month",
        "SELECT date_trunc('month', day) AS month, COUNT(*) AS n, SUM(price) AS total FROM sales GROUP BY month",
    ),
    question(
        "joined with a public table",
        "SELECT region, COUNT(*) AS n, SUM(price) AS total FROM sales JOIN shops ON shop = name GROUP BY region",
    ),
    question("top 10 shops", "SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop ORDER BY n DESC LIMIT 10"),
    question("people", "SELECT COUNT(DISTINCT buyer) AS n FROM sales"),
    question("COUNT(DISTINCT item), 10,000 values", "SELECT COUNT(DISTINCT item) AS n FROM sales"),
    question("median", "SELECT MEDIAN(price) AS m FROM sales"),
    question("median, WHERE", "SELECT MEDIAN(price) AS m FROM sales WHERE cost < 5000"),
    question("median by 1,000 shops", "SELECT shop, MEDIAN(price) AS m FROM sales GROUP BY shop"),
    question("GROUP BY 10,000 undeclared towns", "SELECT town, COUNT(*) AS n FROM sales GROUP BY town"),
    filtered(
        "WHERE day >= a new day (21 years)",
        lambda number: f"WHERE day >= DATE '20{1 + number % 19:02}-{1 + number % 12:02}-{1 + number % 28:02}'",
    ),
    filtered("WHERE cost > a new number (10,000 values)", lambda number: f"WHERE cost > {number % 9_000}"),
    Line("fixed cost of a question", "5 ms", fixed_cost, sizes=(1_000,)),
    Line("quote of n quantiles", "n quotes of one", quantiles, "quantiles", (10, 50, 199)),
    Line("search for kept answers", "the same without the search", search_for_reuse, sizes=(1_000,)),
]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Return the least-squares slope of log(seconds) over log(size); None for one size."""
    if len(sizes) < 2:
        return None
    along, up = [math.log(size) for size in sizes], [math.log(one) for one in seconds]
    middle, height = sum(along) / len(along), sum(up) / len(up)
    spread = sum((one - middle) ** 2 for one in along)
    return sum((one - middle) * (other - height) for one, other in zip(along, up, strict=True)) / spread


def print_line(line: Line, sizes: Sequence[int]) -> None:
    """Measure one line and print it as a row of a Markdown table."""
    costs = [line.measure(size) for size in sizes]
    grown = exponent(sizes, [cost.private for cost in costs])
    cells = (
        f"{size:,} {line.axis}: {cost.private * 1000:.1f} ms, {cost.private / cost.plain:.2f}×"
        for size, cost in zip(sizes, costs, strict=True)
    )
    print(
        f"| {line.name} | {line.beside} | {'; '.join(cells)} | {'' if grown is None else f'{grown:.2f}'} |", flush=True
    )


_FOLDER = tempfile.TemporaryDirectory()


@cache
def site_of(rows: int) -> Site:
    """Return the site of so many rows; it is made once."""
    return Site(Path(_FOLDER.name), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--only", default="", help="measure the lines whose name contains this word")
    options = parser.parse_args()
    print("| operation | beside | CPU time and ratio | exponent |\n|---|---|---|---|")
    with _FOLDER:
        for line in LINES:
            if options.only.casefold() in line.name.casefold():
                print_line(line, line.sizes or options.rows)


if __name__ == "__main__":
    main()
