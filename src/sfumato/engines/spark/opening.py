"""How a folder of Parquet files, or a catalog, is opened in Spark: its snapshot, and the engine over it."""

from sfumato.engines.snapshots import backend
from sfumato.engines.spark.catalogue import describe
from sfumato.engines.spark.engine import Spark
from sfumato.engines.spark.inspecting import inspect
from sfumato.engines.spark.registration import SparkCopying

BACKEND = backend(SparkCopying, Spark, inspect, describe)
