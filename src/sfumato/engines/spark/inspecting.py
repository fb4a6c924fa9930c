"""Counts what the tables of a Spark source lose on their way into the copy. Nothing of it is written down."""

from contextlib import suppress
from functools import partial

from sfumato.engines.engine import Limits
from sfumato.engines.inspection import SourceReport
from sfumato.engines.spark.build import view_name
from sfumato.engines.spark.column import READING
from sfumato.engines.spark.connection import execute, guarded, session
from sfumato.engines.spark.dialect import SPARK
from sfumato.engines.spark.source import read_schema
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.inspecting import Inspection
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source


def inspect(policy: Policy) -> SourceReport:
    """Read the tables of the policy, and count what it leaves of them."""
    spark, views = session(Limits()), set[str]()
    try:
        sources = read_schema(spark, policy, view_name(fresh_id(system_source()), "s_inspected"), views)
        return Inspection(policy, SPARK, READING, lambda name: source_table(sources, name).parts, execute).report()
    finally:
        with suppress(EngineFailed):  # a session that ended has no views
            for view in views:
                guarded(partial(spark.catalog.dropTempView, view))
