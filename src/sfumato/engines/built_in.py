"""The schemes of the built-in engines, in the order in which messages list them.

pyproject.toml registers the same as entry points; this table also holds where no metadata is installed.
"""

from sfumato.engines.duckdb import schemes as duckdb
from sfumato.engines.postgres import schemes as postgres
from sfumato.engines.spark import schemes as spark

SCHEMES = (
    *(duckdb.PARQUET, duckdb.CSV, duckdb.FILES, duckdb.DUCKDB, duckdb.SQLITE),
    postgres.POSTGRESQL,
    spark.SPARK,
    duckdb.FRAMES,
)
