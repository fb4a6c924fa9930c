"""Temporary views in the catalogue of the session that made them: their schema, names, columns and questions."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.column_rows import attribute, information_column
from sfumato.server.wire.pg_catalog.compiled import CatalogRow
from sfumato.server.wire.pg_catalog.relations import OWNER, CatalogRelation, VirtualCatalog, as_row, relations

TEMPORARY_SCHEMA = "pg_temp_1"
"""The schema of temporary views. Every session has its own."""
TEMPORARY_SCHEMAS = ("pg_temp", TEMPORARY_SCHEMA)
"""The names by which a session may name it."""
_TEMPORARY_SCHEMA_OID = 16_380


class CataloguedView(Protocol):
    """A view as the catalogue shows it."""

    @property
    def name(self) -> str: ...
    @property
    def sql(self) -> str: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def number(self) -> int: ...


def with_views(catalog: VirtualCatalog, views: Collection[CataloguedView]) -> VirtualCatalog:
    """Return the catalogue of a session that has made temporary views."""
    contents = dict(catalog.contents)
    for key, rows in _rows(catalog.database, views).items():
        contents[key] = _with_view_rows(catalog.contents[key], relations()[key], rows)
    names = {view.number: view.name for view in views}
    return replace(
        catalog,
        contents=contents,
        table_names={**catalog.table_names, **names},
        views={view.name: view.number for view in views},
        definitions={view.number: f" {view.sql.strip()};" for view in views},
        temporary=(_TEMPORARY_SCHEMA_OID, TEMPORARY_SCHEMA),
    )


def _with_view_rows(
    base: Callable[[], list[CatalogRow]], relation: CatalogRelation, added: list[dict[str, Any]]
) -> Callable[[], list[CatalogRow]]:
    return lambda: [*base(), *(as_row(relation, row) for row in added)]


def _rows(database: str, views: Collection[CataloguedView]) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    table = {"table_catalog": database, "table_schema": TEMPORARY_SCHEMA}
    fixed = {
        "relnamespace": _TEMPORARY_SCHEMA_OID,
        "relowner": OWNER,
        "reltuples": -1.0,
        "relpersistence": "t",
        "relkind": "v",
    }
    fixed |= {"relispopulated": True, "relreplident": "n", "relhasrules": True}
    numbered = [(view, index, column) for view in views for index, column in enumerate(view.columns, 1)]
    not_changed = {"is_insertable_into": "NO", "is_updatable": "NO", "check_option": "NONE"}
    return {
        ("pg_catalog", "pg_namespace"): [
            {"oid": _TEMPORARY_SCHEMA_OID, "nspname": TEMPORARY_SCHEMA, "nspowner": OWNER}
        ],
        ("pg_catalog", "pg_class"): [
            {**fixed, "oid": view.number, "relname": view.name, "relnatts": len(view.columns)} for view in views
        ],
        ("pg_catalog", "pg_attribute"): [
            attribute(view.number, column.name, ordinal, column.oid) for view, ordinal, column in numbered
        ],
        ("pg_catalog", "pg_views"): [
            {"schemaname": TEMPORARY_SCHEMA, "viewname": view.name, "viewowner": "owner", "definition": f" {view.sql};"}
            for view in views
        ],
        ("information_schema", "tables"): [
            {**table, "table_name": view.name, "table_type": "LOCAL TEMPORARY"}
            | {"is_insertable_into": "NO", "is_typed": "NO", "commit_action": "PRESERVE"}
            for view in views
        ],
        ("information_schema", "views"): [
            {**table, **not_changed, "table_name": view.name, "view_definition": f" {view.sql};"} for view in views
        ],
        ("information_schema", "schemata"): [
            {"catalog_name": database, "schema_name": TEMPORARY_SCHEMA, "schema_owner": "owner"}
        ],
        ("information_schema", "columns"): [
            information_column({**table, "table_name": view.name}, column.name, ordinal, column.oid)
            for view, ordinal, column in numbered
        ],
    }
