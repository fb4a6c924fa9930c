"""Places of the tables of a PostgreSQL source, and their columns: read from the catalog, never from rows."""

from dataclasses import dataclass
from typing import Any

from sfumato.engines.postgres.column import check_range
from sfumato.engines.postgres.column import stored as as_stored
from sfumato.engines.postgres.connection import SCHEMA, execute
from sfumato.engines.sql.column import Part, Stored, check_type
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadSource
from sfumato.policy.policy import Policy, Reference, Table, fold_name

_TABLES = (
    "SELECT c.oid, c.relname, has_table_privilege(c.oid, 'SELECT') FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
)
_SCHEMA = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s"
_COLUMNS = (
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, CASE WHEN t.typname = 'numeric' THEN a.atttypmod END), "
    "t.typtype = 'e' FROM pg_catalog.pg_attribute AS a "
    "JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)


@dataclass(frozen=True, slots=True, repr=False)
class ServerTable:
    """A table as the server has it."""

    oid: int
    part: Part
    """All its rows: they are stored alike."""

    def column(self, name: str) -> Stored | None:
        """Return the column of this name in any case, or None."""
        return next((stored for known, stored in self.part.columns if fold_name(known) == fold_name(name)), None)


def read_schema(connection: Any, schema: str | None, policy: Policy) -> dict[str, ServerTable]:
    """Find every table of the policy and check its columns, or refuse by the policy's own key."""
    found = {}
    for table in policy.tables:
        source = found[table.name] = _table(connection, schema, table)
        for column in table.columns:
            stored = source.column(column.name)
            if stored is None:
                raise _no_column(table, column.name)
            check_type(table.name, column, stored)
            if not table.public:
                check_range(table.name, column, stored)
        for key in _foreign_keys(policy, table):
            if source.column(key) is None:
                raise _no_column(table, key)
    return found


def _table(connection: Any, path: str | None, table: Table) -> ServerTable:
    said, _, wanted = (table.stored or table.name).rpartition(".")
    schema = _usable(connection, said or path, table)
    named = [row for row in execute(connection, _TABLES, [schema]) if fold_name(row[1]) == fold_name(wanted)]
    exact = [row for row in named if row[1] == wanted]
    if len(named) != 1 and len(exact) != 1:
        raise BadSource(
            f"tables.{table.name} is {'more than once' if named else 'not'} in the source.",
            f"It is looked for in the schema {schema}: the one that `from` names, or the first of the search path.",
            'Correct the name, write from = "SCHEMA.TABLE", or name another schema for all in source: '
            "postgresql://…?options=-csearch_path%3DSCHEMA",
        )
    oid, name, readable = (exact or named)[0]
    if not readable:
        raise BadSource(
            f"tables.{table.name} may not be read.",
            "The role that source names lacks this right.",
            f"Its owner runs: GRANT SELECT ON {quoted(schema)}.{quoted(name)} TO ROLE; with the name of that role.",
        )
    columns = tuple(
        (column, as_stored(f"t.{quoted(column)}", type, is_enum))
        for column, type, is_enum in execute(connection, _COLUMNS, [oid])
    )
    return ServerTable(oid, Part(f"{quoted(schema)}.{quoted(name)} AS t", columns))


def _usable(connection: Any, schema: str | None, table: Table) -> str:
    """Return the schema of a table as the server spells it, or refuse where the role may not enter it."""
    for name in dict.fromkeys((schema, fold_name(schema)) if schema else ()):
        for (usable,) in execute(connection, _SCHEMA, [name]):
            if usable:
                return name
            raise BadSource(
                f"tables.{table.name} lies in a schema that may not be used.",
                "The role that source names lacks this right.",
                f"Its owner runs: GRANT USAGE ON SCHEMA {quoted(name)} TO ROLE; with the name of that role.",
            )
    raise BadSource(
        f"tables.{table.name} lies in a schema that is not there, or that may not be used.",
        "It is looked for in the schema that `from` names, or in the first of the search path: public, unless "
        "source says otherwise.",
        "Correct `from` or source; or the owner of the schema runs: GRANT USAGE ON SCHEMA public TO ROLE; with its "
        "name and that of the role.",
    )


def check_own_schema(connection: Any) -> None:
    """Refuse a server on which we have no schema of our own, with the line that makes one."""
    ((found, may),) = execute(
        connection,
        "SELECT to_regnamespace(%s) IS NOT NULL, CASE WHEN to_regnamespace(%s) IS NOT NULL "
        "THEN has_schema_privilege(%s, 'CREATE') AND has_schema_privilege(%s, 'USAGE') END",
        [SCHEMA] * 4,
    )
    if not found or not may:
        line = (
            f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO ROLE;"
            if found
            else f"CREATE SCHEMA {SCHEMA} AUTHORIZATION ROLE;"
        )
        raise BadSource(
            f"There is no schema {SCHEMA} in the database of source, or its role may not create tables in it.",
            "The bounded copy is stored there, and sfumato writes nowhere else.",
            f"An administrator runs: {line} with the name of the role that source names.",
        )


def _foreign_keys(policy: Policy, table: Table) -> list[str]:
    values = [column.values for other in policy.tables for column in other.columns]
    return [
        value.column
        for value in values
        if isinstance(value, Reference) and fold_name(value.table) == fold_name(table.name)
    ]


def _no_column(table: Table, column: str) -> BadSource:
    return BadSource(
        f"tables.{table.name}.columns.{column} is not in the source.",
        "A declared column must exist in its table.",
        "Correct the name, or remove it from the policy.",
    )
