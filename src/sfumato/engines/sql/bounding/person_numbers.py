"""The number of a person in a table of the copy: a small integer in place of the opaque id, to count rows by.

It is a name and nothing else: who has which number depends on how the table was read, and no answer does, because
questions only ask which rows have the same one. Whoever keeps rows from the copy before keeps the number.
Proof: proofs/bounded_copy.md §5c, proofs/lineage.md §6
"""

from sfumato.engines.build_catalog import counted_columns
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import exists, select, union_all
from sfumato.engines.sql.dialect import ByWindow, Dialect, bounding_of
from sfumato.engines.sql.names import PATH_UNIT, PERSON
from sfumato.policy.policy import Table, UnitColumn, UnitPath

STAGED_NUMBER = "person"
"""What the number is called in intermediate tables."""
_TYPE = "UINTEGER"


def numbers_people(dialect: Dialect, table: Table) -> bool:
    """Whether the copy numbers the people of a table: where quantiles may have to count the rows of each."""
    bounding = dialect.bounding
    return isinstance(bounding, ByWindow) and bounding.numbers_people and bool(counted_columns(table))


def number_of_unit(build: Building) -> str:
    """Return the number of a person of the intermediate table of `units`, one row each: where the row lies."""
    return f"CAST(units.{bounding_of(build.dialect, ByWindow).row_locator} AS {_TYPE}) AS {STAGED_NUMBER}"


def stage_numbers(build: Building, table: Table) -> str:
    """Write down the numbers of people whose rows are read because some arrived; return the table, by their ids.

    Those who are in the copy before have theirs, and the others the next ones, so that there are few gaps.
    """
    people = select("id", build.stage("units"), where="id IS NOT NULL")
    if isinstance(table.unit, UnitPath):
        found = f"{build.stage('found')} AS f JOIN {build.stage('owners')} AS o ON f.u = o.k"
        people = select("DISTINCT o.id AS id", found)
    build.create_table_as(build.stage("concerned"), people)
    quoted, before, known = build.dialect.quote_identifier, build.before(table.name), build.stage("numbered")
    number, concerned = quoted(PERSON), build.stage("concerned")
    same = f"b.{quoted(table.unit.column if isinstance(table.unit, UnitColumn) else PATH_UNIT)}"
    nobody = isinstance(table.unit, UnitColumn) and not build.rows(
        select("u", build.stage("known"), where="u IS NOT NULL", limit=1)
    )
    theirs = "FALSE" if nobody else exists(f"{concerned} AS c", f"c.id = {same}")
    build.create_table_as(
        known,
        select(f"{same} AS id, min(b.{number}) AS {STAGED_NUMBER}", f"{before} AS b", where=theirs, group_by=same),
    )
    ((most,),) = build.rows(select(f"coalesce(max({number}), 0)", before))
    new = select(
        f"c.id AS id, CAST({int(most)} + {build.dialect.row_number([], [])} AS {_TYPE}) AS {STAGED_NUMBER}",
        f"{concerned} AS c",
        where=f"NOT {exists(f'{known} AS k', 'k.id = c.id')}",
    )
    build.create_table_as(build.stage("numbers"), union_all([select(f"id, {STAGED_NUMBER}", known), new]))
    return build.stage("numbers")
