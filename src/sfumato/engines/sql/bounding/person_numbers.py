"""The number of a person in a table of the copy: a small integer in place of the opaque id, to count rows by.

It is a name and nothing else: who has which number depends on how the table was read, and no answer does, because
questions only ask which rows have the same one. A person who keeps rows from the earlier copy keeps the number.
Proof: proofs/bounded_copy.md §5c, proofs/lineage.md §6
"""

from sfumato.engines.build_catalog import counted_columns
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import exists, select, union_all
from sfumato.engines.sql.dialect import ByWindow, Dialect, bounding_of
from sfumato.engines.sql.names import PERSON
from sfumato.policy.policy import Table, UnitColumn

STAGED_NUMBER = "person"
"""Name of the number in intermediate tables."""
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
    if not isinstance(table.unit, UnitColumn):  # where a path leads to people, everything is read again
        raise AssertionError("its rows say themselves whose they are")
    number, before = build.dialect.quote_identifier(PERSON), build.before(table.name)
    same, units, known = f"b.{build.dialect.quote_identifier(table.unit.column)}", build.stage("units"), "numbered"
    theirs = exists(f"{units} AS c", f"c.id = {same}") if had_rows(build, table) else "FALSE"
    listed = [f"{same} AS id", f"min(b.{number}) AS {STAGED_NUMBER}"]
    build.create_table_as(build.stage(known), select(listed, f"{before} AS b", where=theirs, group_by=same))
    ((most,),) = build.rows(select(f"coalesce(max({number}), 0)", before))
    new = select(
        f"c.id AS id, CAST({int(most)} + {build.dialect.row_number([], [])} AS {_TYPE}) AS {STAGED_NUMBER}",
        f"{units} AS c",
        where=["c.id IS NOT NULL", f"NOT {exists(f'{build.stage(known)} AS k', 'k.id = c.id')}"],
    )
    numbers = build.stage("numbers")
    build.create_table_as(numbers, union_all([select(f"id, {STAGED_NUMBER}", build.stage(known)), new]))
    return numbers


def had_rows(build: Building, table: Table) -> bool:
    """Whether a person with new rows has, or may have, rows in the earlier copy."""
    if not isinstance(table.unit, UnitColumn):
        return True
    return bool(build.rows(select("u", build.stage("known"), where="u IS NOT NULL", limit=1)))
