"""Counts what the tables of a PostgreSQL server lose on their way into the copy, over one snapshot; writes nothing."""

from functools import partial

from sfumato.engines.inspection import SourceReport
from sfumato.engines.postgres.column import READING
from sfumato.engines.postgres.connection import close, connect, execute
from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.source import read_schema
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.inspecting import Inspection
from sfumato.policy.policy import Policy


def inspect(policy: Policy) -> SourceReport:
    """Read the tables of the policy, and count what it leaves of them."""
    connection, schema = connect(policy.source.target)
    try:
        sources = read_schema(connection, schema, policy)
        execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return Inspection(
            policy,
            POSTGRES,
            READING,
            lambda name: (source_table(sources, name).part,),
            partial(execute, connection),
        ).report()
    finally:
        close(connection)
