"""The cohorts of people on a PostgreSQL server: a table of the copy, and a logged one that stays from copy to copy."""

from sfumato.engines.cohort_set import CohortSet, cohorts_from_json, cohorts_to_json
from sfumato.engines.postgres.build import ServerBuild
from sfumato.engines.postgres.connection import SCHEMA, execute
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.sql.builder import exists, select
from sfumato.engines.sql.cohorts import cohort_query, open_cohorts
from sfumato.engines.sql.names import COHORTS, literal, quoted
from sfumato.policy.policy import fold_name


def write_cohorts(build: ServerBuild, salt: bytes) -> CohortSet:
    """Give each person of a copy a cohort, and keep it, in the transaction of the copy.

    Kept cohorts belong to one salt and one column, which name their table. It is logged: a crash of the server empties
    the copies and not this.
    """
    digest = keyed_digest(salt, "cohorts", fold_name(str(build.policy.cohort)))
    name = f"k_{digest[:32]}"
    kept, copied = f"{SCHEMA}.{quoted(name)}", build.copy_relation(COHORTS)
    found = execute(
        build.connection,
        "SELECT pg_catalog.obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class AS c "
        "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        [SCHEMA, name],
    )
    known = cohorts_from_json(str(found[0][0])) if found else None
    cohorts = open_cohorts(build.policy, known)
    build.create_table_as(copied, cohort_query(build, cohorts.names, None if known is None else kept))
    if known is not None:
        new = select("c.id, c.cohort", f"{copied} AS c", where=f"NOT {exists(f'{kept} AS k', 'k.id = c.id')}")
        execute(build.connection, f"INSERT INTO {kept} (id, cohort) {new}")
    else:
        execute(build.connection, f"CREATE TABLE {kept} AS {select('id, cohort', copied)}")
    execute(build.connection, f"COMMENT ON TABLE {kept} IS {literal(cohorts_to_json(cohorts))}")
    return cohorts
