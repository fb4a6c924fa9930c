"""How many times slower is a private GROUP BY than the plain one on the same engine? (interleaved, best of 7)

Give the URL of a PostgreSQL database whose role may create schemas, and how many rows (5,000,000): the rows are written
into a schema of their own, which is dropped afterwards, as is the copy. The word `spark` asks a local Spark of two
cores and 1 GB, and builds the copy once more of rows of which one person has a tenth. Without either, it asks DuckDB.
Plain is the engine's own SQL over the source; private is `Database.ask`: parsing, planning, a durable charge, sums
over the copy, noise, the release. The fixed cost is that of the same question about a hundred rows.
"""

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato

GROUPS, ROUNDS = 1_000, 7
SQL = "SELECT shop, COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY shop"
SCHEMA = "sfumato_benchmark"
_numbers = count(1)


def rows(size: int) -> pa.Table:
    """Return who bought where, for how much: a few people have thousands of rows."""
    rng = np.random.default_rng(7)
    people = max(size // 25, 1)
    weights = rng.pareto(1.2, people) + 0.1
    shops = np.minimum(rng.geometric(0.004, size), GROUPS)
    names = np.array([f"shop {number:04}" for number in range(GROUPS + 1)])
    return pa.table(
        {
            "buyer": rng.choice(people, size, p=weights / weights.sum()),
            "shop": names[shops],
            "price": np.round(rng.gamma(2.0, 20.0, size), 2),
        }
    )


def policy(folder: Path, name: str, source: str, **more: Any) -> dict[str, Any]:
    """Return the policy of the shops; a budget that no benchmark ends."""
    columns = {
        "buyer": {"type": "integer"},
        "shop": {"type": "text", "values": [f"shop {number:04}" for number in range(1, GROUPS + 1)]},
        "price": {"type": "decimal", "bounds": [0, 500], "step": 0.01},
    }
    return {
        "name": name,
        "source": source,
        "ledger": f"sqlite:{folder}/{name}.ledger",
        "budget": {"epsilon": 10**6, "delta": 1e-6},
        "tables": {"sales": {"unit": "buyer", "rows_per_unit": 50, **more, "columns": columns}},
    }


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure(engine: str, folder: Path, source: str, small: str, plain: Callable[[], object]) -> None:
    """Print what one engine takes, plain and private."""
    built = time.perf_counter()
    private = sfumato.open(policy(folder, f"{engine}1", source))
    print(f"{engine}: registering {time.perf_counter() - built:.1f} s")
    bounded = sfumato.open(policy(folder, f"{engine}2", source, groups_per_unit=10))
    few = sfumato.open(policy(folder, f"{engine}3", small))

    def ask(database: sfumato.Database) -> Callable[[], object]:
        # another epsilon each time: the same question again would be answered from the ledger
        return lambda: database.ask(SQL, epsilon=Fraction(1) + Fraction(next(_numbers), 1000)).rows()

    ways = {"plain": plain, "private": ask(private), "bounded": ask(bounded), "few": ask(few)}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for way, action in ways.items():
            best[way] = min(best[way], seconds(action))
    for opened in (private, bounded, few):
        opened.close()
    print(f"{engine}: " + ", ".join(f"{way} {best[way] * 1000:.0f} ms" for way in ways))
    print(f"{engine}: with groups_per_unit / plain = {best['bounded'] / best['plain']:.2f}x")
    print(f"{engine}: private / plain = {best['private'] / best['plain']:.2f}x")


def in_duckdb(folder: Path, size: int) -> None:
    """Ask DuckDB, over Parquet."""
    for name, table in (("many", rows(size)), ("few", rows(100))):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "sales.parquet")
    with duckdb.connect() as plain:
        plain.execute(f"CREATE VIEW sales AS FROM '{folder}/many/sales.parquet'")
        measure(
            "duckdb", folder, f"parquet:{folder}/many", f"parquet:{folder}/few", lambda: plain.execute(SQL).fetchall()
        )


def in_postgres(folder: Path, size: int, url: str) -> None:
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
            ordered = "CREATE UNLOGGED TABLE ordered AS SELECT * FROM sales ORDER BY shop, buyer"
            print(f"postgres: CREATE TABLE AS … ORDER BY {seconds(lambda: plain.execute(ordered)):.1f} s")
            places = [f"{url}?options=-csearch_path%3D{schema}" for schema in (SCHEMA, f"{SCHEMA}_few")]
            measure("postgres", folder, places[0], places[1], lambda: plain.execute(SQL).fetchall())
        finally:
            for schema in (SCHEMA, f"{SCHEMA}_few"):
                plain.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def in_spark(folder: Path, size: int) -> None:
    """Ask a local Spark, over Parquet; sfumato uses the session that runs."""
    from pyspark.sql import SparkSession

    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    spark = SparkSession.builder.config(map={**settings, "spark.sql.shuffle.partitions": "8"}).getOrCreate()
    even = rows(size)
    buyers = np.where(np.arange(size) % 10 == 0, 0, even["buyer"].to_numpy())
    skewed = even.set_column(0, "buyer", pa.array(buyers))
    for name, table in (("spark", even), ("skewed", skewed), ("small", rows(100))):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "sales.parquet")
    spark.read.parquet(f"{folder}/spark/sales.parquet").createOrReplaceTempView("sales")
    sfumato.open(policy(folder, "warm", f"spark:{folder}/small")).close()
    times = {
        name: seconds(lambda name=name: sfumato.open(policy(folder, f"built_{name}", f"spark:{folder}/{name}")).close())  # type: ignore[misc]
        for name in ("spark", "skewed")
    }
    print(f"spark: one person with a tenth of all rows / even = {times['skewed'] / times['spark']:.2f}x")
    ordered = spark.table("sales").orderBy("shop", "buyer").write
    print(f"spark: writing the same rows in order {seconds(lambda: ordered.parquet(f'{folder}/ordered')):.1f} s")
    measure(
        "spark", folder, f"spark:{folder}/spark", f"spark:{folder}/small", lambda: spark.sql(SQL).toArrow().to_pylist()
    )
    print(f"spark: the driver's Python held {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most")
    spark.stop()


def main() -> None:
    urls = [word for word in sys.argv[1:] if "://" in word]
    size = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5_000_000)
    folder = Path(tempfile.mkdtemp())
    try:
        if "spark" in sys.argv[1:]:
            in_spark(folder, size)
        else:
            in_duckdb(folder, size)
        for url in urls:
            in_postgres(folder, size, url)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
