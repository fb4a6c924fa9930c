"""How does the cost of each operation grow? One line each: CPU time beside plain DuckDB, and the growth exponent.

`python benchmarks/growth.py` measures 100,000 and 1 million rows, `--rows 100000 1000000 10000000` others, and
`--only WORD` the lines whose name contains the word. CPU time counts all threads of the process, DuckDB's too. Private
and plain take turns, and the best of several counts. The exponent is the slope of our CPU time over the size, in
logarithms: 0 is flat, 1 is linear.

A line is a function from a size to two costs. Add one to `LINES`; it needs nothing else.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa

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
    in_mebibytes: bool = False
    """Whether the costs are memory in mebibytes, and no CPU time."""


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
        file = written_file(self.rows)
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


@cache
def written_file(rows: int) -> Path:
    """Return the DuckDB file of so many rows; it is written once."""
    file = Path(_FOLDER.name) / f"sales{rows}.duckdb"
    with duckdb.connect(file) as connection:
        _write(connection, rows)
    return file


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


def of_table(name: str, beside: str, measure: Callable[[dict[str, Any], Path, int], Cost]) -> Line:
    """Return the line of what is done with a whole table: its policy, its file and how many rows it has."""

    def cost(rows: int) -> Cost:
        site = site_of(rows)
        policy = _policy(site.folder, rows)
        del policy["analysts"]  # reading 2,000 accounts takes as long as writing many rows
        return measure(policy, site.folder / f"sales{rows}.duckdb", rows)

    return Line(name, beside, cost)


def _opened(policy: dict[str, Any]) -> None:
    sfumato.open(policy).close()


def registration(policy: dict[str, Any], file: Path, _rows: int) -> Cost:
    """Return what a first opening costs, beside writing the same rows in the order of the copy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        private = cpu_seconds(lambda: _opened({**policy, "ledger": f"sqlite:{folder}/first.ledger"}))
        with duckdb.connect(folder / "plain.duckdb") as plain:
            plain.execute(f"ATTACH '{file}' AS source (READ_ONLY)")
            ordered = "CREATE TABLE sales AS SELECT * FROM source.sales ORDER BY kind, shop, buyer"
            written = cpu_seconds(lambda: (plain.execute(ordered), plain.execute("CHECKPOINT")))
    return Cost(private, written)


def refresh_of_new_people(policy: dict[str, Any], file: Path, rows: int) -> Cost:
    """Return what a refresh after 1 % new people costs, beside the first opening; the rows lie in Parquet files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data" / "sales").mkdir(parents=True)
        tables = {"sales": policy["tables"]["sales"]}
        policy = {**policy, "source": f"parquet:{folder}/data", "ledger": f"sqlite:{folder}/l", "tables": tables}
        with duckdb.connect(file, read_only=True) as plain:
            plain.execute(f"COPY sales TO '{folder}/data/sales/0.parquet'")
            first = cpu_seconds(lambda: _opened(policy))
            new = f"SELECT * REPLACE (buyer + {rows} AS buyer) FROM sales LIMIT {rows // 100}"  # noqa: S608
            plain.execute(f"COPY ({new}) TO '{folder}/data/sales/1.parquet'")
        with sfumato.open(policy) as database:
            return Cost(cpu_seconds(database.refresh), first)


def peak_memory(rows: int) -> Cost:
    """Return the most memory of a process that registers a table, beside `engine.memory`, in mebibytes.

    The process does nothing else. It has 400 MB for up to 10 million rows, and 4 GB for 100 million.
    """
    script = "import json, sys, sfumato; sfumato.open(json.loads(sys.stdin.read())).close(); "
    script += "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"  # since it began to run Python
    memory = max(400, rows // 25_000)
    with tempfile.TemporaryDirectory() as name:
        written_file(rows)
        policy = {**_policy(Path(_FOLDER.name), rows), "ledger": f"sqlite:{name}/first.ledger", "analysts": {}}
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps({**policy, "engine": {"memory": f"{memory}MB"}}, default=str),
            capture_output=True,
            text=True,
            check=True,
        )
    return Cost(float(done.stdout) / 1024, memory * 10**6 / (1 << 20))


def columns(size: int) -> Cost:
    """Return what opening a table of so many columns and 200 rows costs, beside copying it in plain SQL."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = [f"c{at}" for at in range(size - 1)]
        with duckdb.connect(folder / "wide.duckdb") as plain:
            listed = ", ".join(f"(i * {at + 1}) % 100 AS {name}" for at, name in enumerate(names))
            plain.execute(f"CREATE TABLE wide AS SELECT i AS who, {listed} FROM range(200) AS numbers(i)")  # noqa: S608
            plain.execute("CHECKPOINT")
            copied = cpu_seconds(lambda: plain.execute("CREATE TEMP TABLE again AS FROM wide"))
        declared = {"who": {"type": "integer"}, **{name: {"type": "integer", "bounds": [0, 99]} for name in names}}
        policy: dict[str, Any] = {
            "name": "wide",
            "source": f"duckdb:{folder}/wide.duckdb",
            "ledger": f"sqlite:{folder}/wide.ledger",
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {"wide": {"unit": "who", "rows_per_unit": 1, "columns": declared}},
        }
        return Cost(cpu_seconds(lambda: _opened(policy)), copied)


def by_keys(size: int, *, declared: bool) -> Cost:
    """Return what a question by so many keys costs, beside plain SQL.

    A public table declares them, and there are ten rows of each, of ten people; or they are selected privately, and
    there are four rows of a key or more, and about 20 of a person.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, sql = Path(name), "SELECT item, COUNT(*) AS n FROM sales GROUP BY item"
        rows = 10 * size if declared else max(4 * size, 1_000_000)
        own = "i" if declared else f"hash(i) % {rows // OWN_ROWS}"
        item = f"i % {size}" if declared else f"'item ' || hash(i + 1) % {size}"
        with duckdb.connect(file := folder / "keys.duckdb") as plain:
            plain.execute(f"CREATE TABLE items AS SELECT i AS id FROM range({size}) AS numbers(i)")  # noqa: S608
            plain.execute(f"CREATE TABLE sales AS SELECT {own} AS who, {item} AS item FROM range({rows}) AS n(i)")  # noqa: S608
        key = {"type": "integer", "values": "items.id"} if declared else {"type": "text"}
        kept = {"unit": "who", "rows_per_unit": 1 if declared else 50}
        policy: dict[str, Any] = {
            "name": "keys",
            "source": f"duckdb:{file}",
            "ledger": f"sqlite:{folder}/keys.ledger",
            "budget": {"epsilon": 1000, "delta": 1e-6},
            "tables": {
                "sales": {**kept, "columns": {"who": {"type": "integer"}, "item": key}},
                "items": {"public": True},
            },
        }
        prices = count(1)

        def ask() -> float:
            epsilon = Fraction(100 + next(prices), 100)
            database.explain(sql, epsilon=epsilon)
            return cpu_seconds(lambda: database.ask(sql, epsilon=epsilon).rows())

        with sfumato.open(policy) as database, duckdb.connect(file, read_only=True) as plain:
            return in_turns(ask, lambda: cpu_seconds(lambda: plain.execute(sql).fetchall()), 3)


def cold_start(_size: int) -> Cost:
    """Return the CPU time of `sfumato budget` in a process of its own, beside 0.45 seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        (folder / "data" / "visits.csv").write_text("who,age\n1,30\n2,40\n")
        (folder / "small.toml").write_text(
            'name = "small"\nsource = "csv:data"\n[budget]\nepsilon = 1\ndelta = 0\n[tables.visits]\nunit = "who"\n'
            'rows_per_unit = 1\ncolumns.who = { type = "integer" }\n'
            'columns.age = { type = "integer", bounds = [0, 120] }\n'
        )
        command = [sys.executable, "-m", "sfumato", "budget", str(folder / "small.toml")]
        found = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Cost(min(found), 0.45)


def history(size: int) -> Cost:
    """Return what the newest 100 entries of a history of so many answers cost, beside those of one of 100."""
    with tempfile.TemporaryDirectory() as name:
        policy: dict[str, Any] = {
            "name": "small",
            "source": {"visits": pa.table({"who": [1, 2], "age": [30, 40]})},
            "ledger": f"sqlite:{name}/small.ledger",
            "budget": {"epsilon": 10**6, "delta": 0},
            "tables": {
                "visits": {
                    "unit": "who",
                    "rows_per_unit": 1,
                    "columns": {"who": {"type": "integer"}, "age": {"type": "integer", "bounds": [0, 10**6]}},
                }
            },
        }
        with sfumato.open(policy) as database:
            found: dict[int, float] = {}
            for at in range(1, size + 1):
                database.ask(f"SELECT COUNT(*) AS n FROM visits WHERE age > {at}", epsilon=1)  # noqa: S608
                if at in (100, size):
                    found[at] = min(cpu_seconds(lambda: list(database.history(limit=100))) for _ in range(5))
    return Cost(found[size], found[100])


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
    of_table("registration", "CREATE TABLE AS … ORDER BY", registration),
    of_table("refresh after 1 % new people", "registration", refresh_of_new_people),
    Line("peak memory of registration", "`engine.memory`", peak_memory, in_mebibytes=True),
    Line("registration of columns", "plain copy", columns, "columns", (125, 500, 2_000)),
    Line("GROUP BY declared keys", "plain SQL", partial(by_keys, declared=True), "keys", (1_000, 10_000, 100_000)),
    Line("GROUP BY undeclared keys", "plain SQL", partial(by_keys, declared=False), "keys", (10_000, 1_000_000)),
    Line("cold start of `sfumato budget`", "0.45 s", cold_start, "process", (1,)),
    Line("newest 100 of the history", "of 100 answers", history, "answers", (100, 3_000)),
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
        f"{size:,} {line.axis}: {_amount(cost.private, line)}, {cost.private / cost.plain:.2f}×"
        for size, cost in zip(sizes, costs, strict=True)
    )
    print(
        f"| {line.name} | {line.beside} | {'; '.join(cells)} | {'' if grown is None else f'{grown:.2f}'} |", flush=True
    )


def _amount(cost: float, line: Line) -> str:
    return f"{cost:.0f} MiB" if line.in_mebibytes else f"{cost * 1000:.1f} ms"


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
