"""The cohorts of people in DuckDB: a table of the copy, and a file beside the salt that is kept from copy to copy."""

from pathlib import Path

from sfumato.engines.cohort_set import CohortSet, cohorts_from_json, cohorts_to_json
from sfumato.engines.duckdb.build import Build
from sfumato.engines.duckdb.built_file import KEPT_FILE_NAME
from sfumato.engines.duckdb.connection import Connection, execute
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.sql.builder import insert, select
from sfumato.engines.sql.cohorts import cohort_query, extended_query, open_cohorts
from sfumato.engines.sql.names import COHORTS, literal
from sfumato.policy.policy import Policy, fold_name

_EARLIER = "earlier"
EARLIER_PEOPLE = f"{_EARLIER}.main.people"
"""The ids and cohorts that were kept, where `attach_assignment` has found them."""


def write_cohorts(build: Build, aside: Path, kept: Path | None) -> CohortSet:
    """Give each person of a copy a cohort, and write down aside what is kept from now on."""
    digest = cohorts_digest(build.policy, build.salt)
    known = attach_assignment(build.connection, kept, digest)
    before = None if known is None else EARLIER_PEOPLE
    cohorts = open_cohorts(build.policy, known)
    build.create_table_as(build.copy_relation(COHORTS), cohort_query(build, cohorts.names, before))
    write_assignment(build.connection, aside, cohorts, digest, extended_query(build.copy_relation(COHORTS), before))
    return cohorts


def cohorts_digest(policy: Policy, salt: bytes) -> str:
    """Return what kept cohorts belong to: one salt and one column. With another there is another assignment."""
    return keyed_digest(salt, "cohorts", fold_name(str(policy.cohort)))


def attach_assignment(connection: Connection, kept: Path | None, digest: str) -> CohortSet | None:
    """Return the assignment that was kept, whose people are `EARLIER_PEOPLE` then; None where there is none.

    Its names are all that ever were open in it.
    """
    if kept is None or not kept.is_file():
        return None
    execute(connection, f"ATTACH {literal(str(kept))} AS {_EARLIER} (READ_ONLY)")
    ((known, stamp),) = execute(connection, select("assignment, digest", f"{_EARLIER}.main.assignments"))
    return cohorts_from_json(str(known)) if stamp == digest else None


def write_assignment(connection: Connection, aside: Path, cohorts: CohortSet, digest: str, people: str) -> None:
    """Write an assignment and its people into a file aside."""
    execute(connection, f"ATTACH {literal(str(aside))} AS {KEPT_FILE_NAME}")
    execute(connection, f"CREATE TABLE {KEPT_FILE_NAME}.main.people AS {people}")
    execute(connection, f"CREATE TABLE {KEPT_FILE_NAME}.main.assignments (assignment VARCHAR, digest VARCHAR)")
    execute(connection, insert(f"{KEPT_FILE_NAME}.main.assignments", ["$1", "$2"]), [cohorts_to_json(cohorts), digest])
    execute(connection, f"DETACH {KEPT_FILE_NAME}")
