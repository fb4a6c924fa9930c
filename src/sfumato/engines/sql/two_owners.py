"""Tables whose rows have two owners, in the copy: every row that has both, on the grid, with a number for each owner.

No row is left out for what others have: which rows of a person count is decided by each question, through the largest
flow. A row without one of its owners is in no answer.  Proof: proofs/two_owners.md, (9)
"""

from functools import partial

from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounded_copy import CopiedColumn, CopiedTable, count_rows, require_all
from sfumato.engines.sql.bounding.row_ranks import sortable
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.column import Part, beyond
from sfumato.engines.sql.names import OWNERS
from sfumato.engines.sql.staging import (
    declared_column,
    key_domain,
    keyed_hash,
    part_rows,
    stage_key_tables,
    stage_path_keys,
)
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, OwnerPair, Table, UnitColumn, UnitPath, fold_name

MAX_PAIRS = {"duckdb": 20_000_000}
"""The most pairs of owners of one table, by engine; each takes about 100 bytes while a flow is computed."""
MAX_OTHER_PAIRS = 2_000_000
"""The same where an engine hands over rows one by one."""
MAX_ROWS_PER_PAIR = 5
"""Maximum number of rows as a multiple of the pairs: as many as there are pairs where a question has groups."""
_STAGED = ("pairs0", "pairs1", "units", "numbers", "owners0", "owners1", "rows")


def write_paired_table(build: Building, table: Table, progress: Progress) -> list[CopiedTable]:
    """Write a table whose rows have two owners."""
    if not isinstance(table.unit, OwnerPair):
        raise AssertionError("its rows have two owners")
    progress("read", table.name)
    columns, dialect = paired_columns(table), build.dialect
    quoted = dialect.quote_identifier
    stage_key_tables(build, columns)
    read = _read_rows(build, table, table.unit, columns)
    _stage_owners(build, table, table.unit)
    joined = f"{subquery(read, 'p')}"
    for at in (0, 1):
        joined += f" LEFT JOIN {build.stage(f'owners{at}')} AS o{at} ON p.u{at} = o{at}.k"
    values = [f"{key_domain(build, column, at)} AS {quoted(column.name)}" for at, column in enumerate(columns)]
    owners = [f"o{at}.n AS {quoted(name)}" for at, name in enumerate(OWNERS)]
    build.create_table_as(build.stage("rows"), select([*owners, *values], joined))
    progress("sort", table.name)
    names = [*OWNERS, *(column.name for column in columns)]
    both = [f"{quoted(name)} IS NOT NULL" for name in OWNERS]
    order = [*map(quoted, OWNERS), *(sortable(dialect, column, quoted(column.name)) for column in columns)]
    kept = select(list(map(quoted, names)), subquery(select("*", build.stage("rows"), where=both), "kept"))
    build.create_table_as(build.copy_relation(table.name), f"{kept} {dialect.order_by_clause} {', '.join(order)}")
    _check_rows(build, table)
    build.drop([*_STAGED, *(f"keys{at}" for at in range(len(columns)))])
    copied = [CopiedColumn(name, dialect.bigint) for name in OWNERS]
    copied += [CopiedColumn(column.name, build.reading.storage(column)) for column in columns]
    return [CopiedTable(table.name, tuple(copied), None)]


def paired_columns(table: Table) -> list[Column]:
    """Return the declared columns but those of the owners, in the one order that all spellings of a policy share."""
    kept = (column for column in table.columns if not table.names_people(column.name))
    return sorted(kept, key=lambda column: fold_name(column.name))


def _read_rows(build: Building, table: Table, pair: OwnerPair, columns: list[Column]) -> str:
    """Return the query for every row: what names each of its owners or leads there, and the values on the grid."""
    keys = [declared_column(build, table.name, _key(owner)) for owner in pair.owners]
    reading = build.reading

    def values(part: Part) -> list[str]:
        own = [f"{reading.unit(key, part.column(key.name))} AS u{at}" for at, key in enumerate(keys)]
        return own + [
            f"{reading.column(beyond(column), part.column(column.name))} AS c{at}" for at, column in enumerate(columns)
        ]

    return part_rows(build.parts(table.name), values)


def _name(build: Building, key: Column, part: Part) -> list[str]:
    return [f"{build.reading.unit(key, part.column(key.name))} AS u"]


def _key(owner: UnitColumn | UnitPath) -> str:
    return owner.column if isinstance(owner, UnitColumn) else owner.here


def _stage_owners(build: Building, table: Table, pair: OwnerPair) -> None:
    """Give every owner a number, in the order of a keyed hash of their own name: it is only ever compared.

    All are numbered together, whatever their kind: a question may compare both owners of a row, and whether they have
    the same name must not depend on who else is there.
    """
    for at, owner in enumerate(pair.owners):
        pairs = build.stage(f"pairs{at}")
        if isinstance(owner, UnitPath):
            stage_path_keys(build, table, owner, pairs)
            continue
        key = declared_column(build, table.name, owner.column)
        read = part_rows(build.parts(table.name), partial(_name, build, key))
        distinct = select("u AS k, u AS u", subquery(read, "p"), where="u IS NOT NULL", group_by="u")
        build.create_table_as(pairs, distinct)
    every = " UNION ".join(select("u", build.stage(f"pairs{at}")) for at in (0, 1))
    people = subquery(select("DISTINCT u", subquery(every, "n")), "p") + build.salt_join
    hashed = select(f"u, {keyed_hash(build, 'unit', f'CAST(u AS {build.dialect.text_type})')} AS id", people)
    build.create_table_as(build.stage("units"), hashed, salted=True)
    # numbered once: some engines number the same rows differently the next time
    number = f"CAST({build.dialect.row_number([], ['id'])} AS {build.dialect.bigint})"
    build.create_table_as(build.stage("numbers"), select(f"u, {number} AS n", build.stage("units")))
    for at in (0, 1):
        source = f"{build.stage(f'pairs{at}')} AS p JOIN {build.stage('numbers')} AS n ON p.u = n.u"
        build.create_table_as(build.stage(f"owners{at}"), select("p.k AS k, n.n AS n", source))


def _check_rows(build: Building, table: Table) -> None:
    """Refuse a copy in which a row got lost or came twice, and a table with too many pairs of owners."""
    rows, copy = build.stage("rows"), build.copy_relation(table.name)
    first, second = map(build.dialect.quote_identifier, OWNERS)
    unowned = count_rows(build, f"{rows} WHERE {first} IS NULL OR {second} IS NULL")
    kept = count_rows(build, copy)
    require_all(table, build.read[table.name] == count_rows(build, rows) == kept + unowned)
    most = MAX_PAIRS.get(build.dialect.name, MAX_OTHER_PAIRS)
    pairs = count_rows(build, subquery(select(f"{first}, {second}", copy, group_by=[first, second]), "p"))
    if pairs > most or kept > most * MAX_ROWS_PER_PAIR:
        raise BadSource(
            f"tables.{table.name} has too many pairs of owners or too many rows.",
            f"The largest flow is computed in memory: at most {most:,} different pairs of owners and "
            f"{most * MAX_ROWS_PER_PAIR:,} rows are read.",
            "Divide the table, for example by year, or add its rows up for each pair of owners.",
        )
