"""How long does Tumult Analytics take for the question of benchmarks/engines.py? Runs in an environment of its own.

    python tumult.py FOLDER ROUNDS

FOLDER holds the sales as Parquet files. Each round asks for counts and sums of every shop, at most 50 rows of a person,
from which means follow. Prints the least seconds of a round, the first of which is left out, and the version.
"""

import os
import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any

SHOPS = [f"shop {number:04}" for number in range(1, 1001)]


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or Spark's workers run another Python, without the library
    library: Any = import_module("tmlt.analytics")
    spark = import_module("pyspark.sql").SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    spark = spark.config("spark.sql.shuffle.partitions", "8").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.warehouse.dir", f"{folder}/../warehouse")  # it writes tables there
    spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    session = library.Session.from_dataframe(
        privacy_budget=library.PureDPBudget(float("inf")),
        source_id="sales",
        dataframe=spark.read.parquet(folder),
        protected_change=library.AddRowsWithID("buyer"),
    )
    sales = library.QueryBuilder("sales").enforce(library.MaxRowsPerID(50))
    groups = sales.groupby(library.KeySet.from_dict({"shop": SHOPS}))
    taken = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        for query in (groups.count(), groups.sum("price", 0.0, 500.0)):
            session.evaluate(query, library.PureDPBudget(0.5)).collect()
        taken.append(time.perf_counter() - begin)
    print(min(taken[1:]), version("tmlt.analytics"))


if __name__ == "__main__":
    main()
