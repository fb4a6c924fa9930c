"""The cohorts of people in DuckDB: a table of the copy, and a file beside the salt that is kept from copy to copy."""

from datetime import UTC, datetime
from pathlib import Path

from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.build import Build
from sfumato.engines.duckdb.connection import execute
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.sql.builder import insert, select
from sfumato.engines.sql.cohorts import COHORTS, cohort_query, extended_query
from sfumato.engines.sql.names import literal
from sfumato.policy.cohorts import cohort_names
from sfumato.policy.policy import fold_name
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source

KEPT = "kept"
"""The file of a build that becomes the one beside the salt."""
_EARLIER = "earlier"


def write_cohorts(build: Build, aside: Path, kept: Path | None) -> CohortSet:
    """Give each person of a copy a cohort, and write down aside what is kept from now on.

    What was kept holds for the same salt and the same column: with another one there is another assignment.
    """
    connection, policy = build.connection, build.policy
    names = cohort_names(policy, datetime.now(UTC))
    digest = keyed_digest(build.salt, "cohorts", fold_name(str(policy.cohort)))
    before, identity = None, fresh_id(system_source())
    if kept is not None and kept.is_file():
        execute(connection, f"ATTACH {literal(str(kept))} AS {_EARLIER} (READ_ONLY)")
        ((known, stamp),) = build.rows(select("assignment, digest", f"{_EARLIER}.main.assignments"))
        if stamp == digest:
            before, identity = f"{_EARLIER}.main.people", known
    copied = build.copy_relation(COHORTS)
    build.create_table_as(copied, cohort_query(build, names, before))
    execute(connection, f"ATTACH {literal(str(aside))} AS {KEPT}")
    build.create_table_as(f"{KEPT}.main.people", extended_query(copied, before))
    execute(connection, f"CREATE TABLE {KEPT}.main.assignments (assignment VARCHAR, digest VARCHAR)")
    execute(connection, insert(f"{KEPT}.main.assignments", ["$1", "$2"]), [identity, digest])
    execute(connection, f"DETACH {KEPT}")
    return CohortSet(identity, names)
