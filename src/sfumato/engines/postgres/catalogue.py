"""Declarations of a PostgreSQL catalogue about the tables of one schema; no row is read."""

from collections.abc import Sequence
from typing import Any

from sfumato.engines.postgres.column import stored
from sfumato.engines.postgres.connection import SCHEMA, close, connect, execute
from sfumato.engines.source_catalogue import CatalogueColumn, CatalogueTable, SourceCatalogue
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import Location

_TABLES = (
    "SELECT c.oid, c.relname, has_table_privilege(c.oid, 'SELECT'), pg_catalog.obj_description(c.oid, 'pg_class') "
    "FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition ORDER BY c.relname"
)
_COLUMNS = (
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, CASE WHEN t.typname = 'numeric' THEN a.atttypmod END), "
    "t.typtype = 'e', pg_catalog.col_description(a.attrelid, a.attnum), "
    "ARRAY(SELECT CAST(e.enumlabel AS text) FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid "
    "ORDER BY e.enumsortorder) FROM pg_catalog.pg_attribute AS a "
    "JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)
_KEYS = (
    "SELECT a.attname FROM pg_catalog.pg_constraint AS k "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1] "
    "WHERE k.conrelid = %s AND k.contype = 'p' AND cardinality(k.conkey) = 1"
)
_REFERENCES = (
    "SELECT a.attname, t.relname, b.attname FROM pg_catalog.pg_constraint AS k "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1] "
    "JOIN pg_catalog.pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1] "
    "JOIN pg_catalog.pg_class AS t ON t.oid = k.confrelid JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid "
    "WHERE k.conrelid = %s AND k.contype = 'f' AND cardinality(k.conkey) = 1 AND t.relnamespace = c.relnamespace "
    "ORDER BY k.conname"
)
_OTHER_SCHEMAS = (
    "SELECT DISTINCT n.nspname FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_schema_privilege(n.oid, 'USAGE') "
    "AND has_table_privilege(c.oid, 'SELECT') AND n.nspname NOT IN ('information_schema', %s, %s) "
    "AND n.nspname NOT LIKE 'pg\\_%%' ORDER BY n.nspname"
)


def describe(location: Location) -> SourceCatalogue:
    """Return the tables of the schema that comes first in the search path of the URL or of its role."""
    connection, schema = connect(location.target)
    try:
        found = execute(connection, _TABLES, [schema])
        other_schemas = execute(connection, _OTHER_SCHEMAS, [SCHEMA, schema or ""])
        return SourceCatalogue(
            tuple(_table(connection, *row) for row in found if row[2]),
            tuple(name for _, name, readable, _ in found if not readable),
            tuple(name for (name,) in other_schemas),
        )
    finally:
        close(connection)


def _table(connection: Any, oid: int, name: str, _readable: bool, comment: str | None) -> CatalogueTable:
    keys = execute(connection, _KEYS, [oid])
    return CatalogueTable(
        name,
        tuple(_column(*row) for row in execute(connection, _COLUMNS, [oid])),
        keys[0][0] if keys else None,
        tuple((here, table, there) for here, table, there in execute(connection, _REFERENCES, [oid])),
        comment or "",
    )


def _column(name: str, type: str, is_enum: bool, comment: str | None, labels: Sequence[str]) -> CatalogueColumn:
    return CatalogueColumn(name, stored(quoted(name), type, is_enum), comment or "", tuple(labels))
