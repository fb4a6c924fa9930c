"""The cohorts of people for Spark: a folder of the copy, and the file beside the salt that DuckDB writes and reads."""

from contextlib import closing
from pathlib import Path

from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.built_file import KEPT_FILE_NAME
from sfumato.engines.duckdb.cohorts import (
    EARLIER_PEOPLE,
    attach_assignment,
    cohorts_digest,
    write_assignment,
)
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits
from sfumato.engines.spark.build import SparkBuild
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.cohorts import cohort_query, extended_query, open_cohorts
from sfumato.engines.sql.names import COHORTS, literal

_BEFORE = "cohorts_before"


def write_cohorts(build: SparkBuild, kept: Path | None, salt: bytes, limits: Limits) -> CohortSet:
    """Give each person of a copy a cohort, and write down aside what is kept from now on."""
    digest = cohorts_digest(build.policy, salt)
    paths = [build.folder, *([] if kept is None else [kept])]
    with closing(closed_connection(paths, limits, build.folder / "spill")) as connection:
        known = attach_assignment(connection, kept, digest)
        before = None
        if known is not None:
            before = build.stage(_BEFORE)
            place = build.place(before)
            place.parent.mkdir(parents=True, exist_ok=True)
            execute(connection, f"COPY {EARLIER_PEOPLE} TO {literal(str(place))} (FORMAT parquet)")
            build.show(before)
        copied = build.copy_relation(COHORTS)
        cohorts = open_cohorts(build.policy, known)
        build.create_table_as(copied, cohort_query(build, cohorts.names, before))
        written = subquery(select("*", f"read_parquet({literal(str(build.place(copied) / '*.parquet'))})"))
        people = extended_query(written, None if known is None else EARLIER_PEOPLE)
        write_assignment(connection, build.folder / KEPT_FILE_NAME, cohorts, digest, people)
    build.drop([_BEFORE])
    return cohorts
