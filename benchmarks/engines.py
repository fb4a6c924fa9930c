"""How many times slower is a private GROUP BY than the plain one on the same engine? (interleaved, best of 7)

Give the URL of a PostgreSQL database whose role may create schemas, and how many rows with --rows (5,000,000): they are
written into a schema of their own, which is dropped afterwards, as is the copy. The word `spark` asks a local Spark of
two cores and 1 GB, first builds the copy of rows of which one person has a tenth, and prints the most rows that came
back and what this process held; `--tumult PYTHON`, a Python that has tmlt.analytics, asks Tumult Analytics the same on
a Spark of the same size afterwards. Without either, DuckDB alone is asked. `--truncation` registers under a policy as
`sfumato init` writes it, which also keeps what is cut off.
Plain is the engine's own SQL over the source; private is `Database.ask`: parsing, planning, a durable charge, sums
over the copy, noise, the release. The fixed cost is that of a question about a hundred rows in ten groups: the time of
this process's processor, which leaves out waiting for the disk. Registration is compared with writing the same rows,
sorted, before and after it; on PostgreSQL also with a table that has no log, as the copy has none.
"""

import resource
import shutil
import subprocess
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from sfumato.opening import open_without_charge

GROUPS, ROUNDS, PART = 1_000, 7, 1_000_000
FEW, QUESTIONS = 10, 50
SQL = "SELECT shop, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY shop"
SCHEMA, TABLE = "sfumato_benchmark", "CREATE TABLE"
_numbers = count(1)


def rows(size: int, seed: int = 0, people: int | None = None) -> pa.Table:
    """Return who bought where, for how much: a few people have thousands of rows."""
    people = people or max(size // 25, 1)
    weights = np.random.default_rng(7).pareto(1.2, people) + 0.1
    rng = np.random.default_rng(8 + seed)
    shops = np.minimum(rng.geometric(0.004, size), GROUPS)
    names = np.array([f"shop {number:04}" for number in range(GROUPS + 1)])
    return pa.table(
        {
            "buyer": rng.choice(people, size, p=weights / weights.sum()),
            "shop": names[shops],
            "price": np.round(rng.gamma(2.0, 20.0, size), 2),
        }
    )


def policy(
    folder: Path, name: str, source: str, shops: int = GROUPS, *, cut: bool = False, **more: Any
) -> dict[str, Any]:
    """Return the policy of the shops; a budget that no benchmark ends. `cut`: what is cut off is kept and published."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": [f"shop {number:04}" for number in range(1, shops + 1)]},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
    }
    return {
        "name": name,
        "source": source,
        "ledger": f"sqlite:{folder}/{name}.ledger",
        "budget": {"epsilon": 10**6, "delta": 1e-6, **({"truncation": 0.05} if cut else {})},
        "tables": {"sales": {"unit": "buyer", "rows_per_unit": 50, **more, "columns": columns}},
    }


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def registered(engine: str, words: dict[str, Any], ordered: Mapping[str, Callable[[], object]]) -> sfumato.Database:
    """Register a source between two times of writing the same rows in an order, by each way; print what it takes."""
    opened: list[sfumato.Database] = []
    before = {way: seconds(write) for way, write in ordered.items()}
    built = seconds(lambda: opened.append(open_without_charge(words)))
    for way, write in ordered.items():
        written = min(before[way], seconds(write))
        print(
            f"{engine}: registering {built:.1f} s, {way} AS … ORDER BY {written:.1f} s: {built / written:.2f}x",
            flush=True,
        )
    return opened[0]


def fixed_cost(small: sfumato.Database) -> float:
    """Return the processor's seconds of a question about next to nothing, when such questions were asked before."""
    best = float("inf")
    for number in range(QUESTIONS):
        begin = time.process_time()
        small.ask(SQL.replace("GROUP", f"WHERE price < {number + 1} GROUP"), epsilon=1).rows()
        best = min(best, time.process_time() - begin)
    return best


def measure(
    engine: str,
    folder: Path,
    source: str,
    small: str,
    plain: Callable[[], object],
    ordered: Mapping[str, Callable[[], object]],
    *,
    cut: bool = False,
) -> float:
    """Print what one engine takes, plain and private; return the seconds of a private answer."""
    private = registered(engine, policy(folder, f"{engine}1", source, cut=cut), ordered)
    bounded = sfumato.open(policy(folder, f"{engine}2", source, groups_per_unit=10))
    few = sfumato.open(policy(folder, f"{engine}3", small, FEW))

    def ask(database: sfumato.Database) -> Callable[[], object]:
        # another epsilon each time: the same question again would be answered from the ledger
        return lambda: database.ask(SQL, epsilon=Fraction(1) + Fraction(next(_numbers), 1000)).rows()

    ways = {"plain": plain, "private": ask(private), "bounded": ask(bounded)}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for way, action in ways.items():
            best[way] = min(best[way], seconds(action))
    print(f"{engine}: fixed cost of a question {fixed_cost(few) * 1000:.1f} ms of the processor")
    for opened in (private, bounded, few):
        opened.close()
    print(f"{engine}: " + ", ".join(f"{way} {best[way] * 1000:.0f} ms" for way in ways))
    print(f"{engine}: with groups_per_unit / plain = {best['bounded'] / best['plain']:.2f}x")
    print(f"{engine}: private / plain = {best['private'] / best['plain']:.2f}x", flush=True)
    return best["private"]


def in_duckdb(folder: Path, size: int, *, cut: bool) -> None:
    """Ask DuckDB, over Parquet."""
    for name, table in (("many", rows(size)), ("few", rows(100))):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "sales.parquet")
    with duckdb.connect(str(folder / "plain.duckdb"), config={"preserve_insertion_order": False}) as plain:
        plain.execute(f"CREATE VIEW sales AS FROM '{folder}/many/sales.parquet'")
        ordered = "CREATE OR REPLACE TABLE ordered AS SELECT * FROM sales ORDER BY shop, buyer"
        many, few = [f"parquet:{folder}/{name}" for name in ("many", "few")]
        measure(
            "duckdb",
            folder,
            many,
            few,
            lambda: plain.execute(SQL).fetchall(),
            {TABLE: lambda: plain.execute(ordered)},
            cut=cut,
        )


def in_postgres(folder: Path, size: int, url: str, *, cut: bool) -> None:
    """Ask PostgreSQL."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute("CREATE SCHEMA IF NOT EXISTS sfumato")
        try:
            for schema, table in ((SCHEMA, rows(size)), (f"{SCHEMA}_few", rows(100))):
                plain.execute(f"CREATE SCHEMA {schema}")
                plain.execute(f"CREATE TABLE {schema}.sales (buyer bigint, shop text, price double precision)")
                with plain.cursor() as cursor, cursor.copy(f"COPY {schema}.sales FROM STDIN") as copy:
                    for batch in table.to_batches(50_000):
                        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                            copy.write_row(row)
                plain.execute(f"VACUUM ANALYZE {schema}.sales")
            plain.execute(f"SET search_path = {SCHEMA}")
            create = "DROP TABLE IF EXISTS ordered; {} ordered AS SELECT * FROM sales ORDER BY 2, 1"
            ordered = {way: partial(plain.execute, create.format(way)) for way in (TABLE, "CREATE UNLOGGED TABLE")}
            many, few = [f"{url}?options=-csearch_path%3D{schema}" for schema in (SCHEMA, f"{SCHEMA}_few")]
            measure(
                "postgres",
                folder,
                many,
                few,
                lambda: plain.execute(SQL).fetchall(),
                ordered,
                cut=cut,
            )
        finally:
            for schema in (SCHEMA, f"{SCHEMA}_few"):
                plain.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def write_parts(folder: Path, size: int, share: int) -> None:
    """Write rows in files of a million; if `share` is not 0, one row in so many belongs to one and the same person."""
    folder.mkdir(parents=True)
    for begin in range(0, size, PART):
        table = rows(min(PART, size - begin), seed=begin, people=max(size // 25, 1))
        if share:
            buyers = np.where(np.arange(table.num_rows) % share == 0, 0, table["buyer"].to_numpy())
            table = table.set_column(0, "buyer", pa.array(buyers))
        pq.write_table(table, folder / f"part{begin:012}.parquet")


def in_spark(folder: Path, size: int, tumult: str | None, *, cut: bool) -> None:
    """Ask a local Spark, over Parquet; sfumato uses the session that runs."""
    from pyspark.sql import DataFrame, SparkSession

    with get_context("spawn").Pool(1) as writer:  # another process: what making rows takes is not the driver's memory
        for name, number, share in (("spark", size, 0), ("skewed", size, 10), ("small", 100, 0)):
            writer.apply(write_parts, (folder / name / "sales", number, share))
    settings: dict[str, bool | float | int | str | None] = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 8,
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    spark.read.parquet(f"{folder}/spark/sales").createOrReplaceTempView("sales")
    sfumato.open(policy(folder, "warm", f"spark:{folder}/small", cut=cut)).close()
    came, to_arrow = [0], type(spark.sql("SELECT 1")).toArrow

    def seen(frame: DataFrame) -> pa.Table:
        table = to_arrow(frame)
        came.append(table.num_rows)
        return table

    setattr(type(spark.sql("SELECT 1")), "toArrow", seen)  # noqa: B010
    skewed = seconds(lambda: open_without_charge(policy(folder, "skewed", f"spark:{folder}/skewed", cut=cut)).close())
    print(f"spark: registering rows of which one person has a tenth: {skewed:.1f} s", flush=True)
    ordered = spark.table("sales").orderBy("shop", "buyer").write.mode("overwrite")
    private = measure(
        "spark",
        folder,
        f"spark:{folder}/spark",
        f"spark:{folder}/small",
        lambda: spark.sql(SQL).toArrow().to_pylist(),
        {TABLE: lambda: ordered.parquet(f"{folder}/ordered")},
        cut=cut,
    )
    print(f"spark: of {size:,} rows at most {max(came)} came back at once, for {GROUPS} groups")
    print(f"spark: the driver's Python held {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most")
    spark.stop()
    if tumult is not None:
        command = [tumult, str(Path(__file__).parent / "peers" / "tumult.py"), f"{folder}/spark/sales", str(ROUNDS)]
        took, version = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        print(f"spark: Tumult Analytics {version} {float(took):.2f} s, its time / ours = {float(took) / private:.1f}x")


def main() -> None:
    asked = ArgumentParser(description=__doc__)
    asked.add_argument("engines", nargs="*", help="URLs of PostgreSQL, or spark")
    asked.add_argument("--rows", type=int, default=5_000_000)
    asked.add_argument("--truncation", action="store_true", help="register as `sfumato init` writes policies")
    asked.add_argument("--tumult", metavar="PYTHON", help="a Python that has tmlt.analytics, on Spark")
    given = asked.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        if "spark" in given.engines:
            in_spark(folder, given.rows, given.tumult, cut=given.truncation)
        else:
            in_duckdb(folder, given.rows, cut=given.truncation)
        for url in given.engines:
            if url != "spark":
                in_postgres(folder, given.rows, url, cut=given.truncation)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
