"""Cohorts in a bounded copy: each person has the first that registration saw, and statements keep to those that pay.

Theorem: the cohort of an id is a function of what was kept and of that person's own rows, and a statement over
`restricted_tables` reads no private row of a person whose cohort does not pay.  Proof: proofs/cohorts.md
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import exists, select, subquery, union_all
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import PATH_UNIT, TOTALS
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.cohorts import OTHER, cohort_column, cohort_name, cohort_names, cohort_windows, declared_values
from sfumato.policy.policy import Column, ColumnType, Policy, Table, UnitColumn, UnitPath, Value, fold_name
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source


def unit_name(table: Table) -> str | None:
    """Return the column of a table of the copy that holds the opaque id."""
    match table.unit:
        case UnitColumn(column):
            return column
        case UnitPath():
            return PATH_UNIT
    return None


def open_cohorts(policy: Policy, known: CohortSet | None) -> CohortSet:
    """Return the assignment that goes on, or a new one, and the cohorts that are open in a snapshot of now."""
    identity = fresh_id(system_source()) if known is None else known.kept
    return CohortSet(identity, cohort_names(policy, datetime.now(UTC), () if known is None else known.names))


def cohort_query(build: Building, names: tuple[str, ...], kept: str | None) -> str:
    """Return the query for the cohort of each person of the copy: the kept one, else what their rows say now.

    `kept` is a relation of ids and cohorts.
    """
    quoted = build.dialect.quote_identifier
    ids = []
    endings = ("", REMOVED) if build.policy.budget.truncation is None else ("", REMOVED, CUT)
    for table in build.policy.tables:
        unit = unit_name(table)
        if unit is not None:
            relations = (build.copy_relation(table.name + ending) for ending in endings)
            ids += [select(f"{quoted(unit)} AS id", relation) for relation in relations]
    people = subquery(select("DISTINCT id", subquery(union_all(ids), "u"), where="id IS NOT NULL"), "p")
    joined = f"{people} LEFT JOIN {subquery(_said_now(build, names), 'f')} ON f.id = p.id"
    cohort = f"coalesce(f.cohort, {build.dialect.text_literal(OTHER)})"
    if kept is not None:
        joined, cohort = f"{joined} LEFT JOIN {kept} AS k ON k.id = p.id", f"coalesce(k.cohort, {cohort})"
    return select(["p.id AS id", f"{cohort} AS cohort"], joined)


def extended_query(copied: str, kept: str | None) -> str:
    """Return the query for all that is kept from now on: people who are away keep their cohort, too."""
    found = [select("id, cohort", copied)]
    if kept is not None:
        away = f"NOT {exists(f'{copied} AS c', 'c.id = k.id')}"
        found.append(select("k.id AS id, k.cohort AS cohort", f"{kept} AS k", where=away))
    return union_all(found)


def _said_now(build: Building, names: tuple[str, ...]) -> str:
    """Return the query for the cohort that each person's rows say; NULL where they say none that is open."""
    table, column = cohort_column(build.policy)
    dialect, unit = build.dialect, unit_name(table)
    if unit is None or build.policy.cohort is None:
        raise AssertionError("the policy has checked it")
    identity, value = dialect.quote_identifier(unit), dialect.quote_identifier(column.name)
    copied = build.copy_relation(table.name)
    if build.policy.cohort.every is None:
        cases = [
            f"WHEN {value} = {_literal(declared, column, dialect)} THEN {dialect.text_literal(cohort_name(declared))}"
            for declared in declared_values(column)
        ]
        one = f"min(CASE {' '.join(cases)} END)"  # of one row per person
        return select([f"{identity} AS id", f"{one} AS cohort"], copied, group_by=identity)
    if column.grid is None:
        raise AssertionError("the policy has checked it")
    within = f"{value} BETWEEN {column.grid.least} AND {column.grid.greatest}"  # values outside lie one step beyond
    firsts = select([f"{identity} AS id", f"min({value}) AS v"], copied, where=within, group_by=identity)
    windows = cohort_windows(build.policy, names)
    cases = [f"WHEN v <= {high} THEN {dialect.text_literal(name)}" for name, _, high in windows]
    cohort = f"CASE {' '.join(cases)} END" if cases else f"CAST(NULL AS {dialect.text_type})"
    return select(["id", f"{cohort} AS cohort"], subquery(firsts, "m"))


def _literal(value: Value, column: Column, dialect: Dialect) -> str:
    return dialect.text_literal(str(value)) if column.type is ColumnType.TEXT else str(column.steps(value))


def restricted_tables(
    tables: Mapping[str, str], policy: Policy, cohorts: str, names: Sequence[str], dialect: Dialect
) -> dict[str, str]:
    """Return the relations of a copy in which private tables have the rows of people of these cohorts alone.

    Sums over all people are left out: a statement that could use them counts the people themselves.
    """
    listed = ", ".join(dialect.text_literal(name) for name in names)
    found = {name: relation for name, relation in tables.items() if not name.endswith(TOTALS)}
    for table in policy.tables:
        if table.public:
            continue
        unit = unit_name(table)
        if unit is None:
            raise AssertionError("a policy with cohorts names each person")
        pays = exists(f"{cohorts} AS k", f"k.id = r.{dialect.quote_identifier(unit)}", f"k.cohort IN ({listed})")
        for ending in ("", REMOVED, CUT):
            name = fold_name(table.name + ending)
            if name in found:
                rows = subquery(select("*", found[name]), "r")
                found[name] = subquery(select("r.*", rows, where=pays), "paying")
    return found
