"""Declarations of a Spark catalog about the tables of one database; no row is read."""

from functools import partial
from typing import Any

from sfumato.engines.engine import Limits
from sfumato.engines.source_catalogue import CatalogueColumn, CatalogueTable, SourceCatalogue
from sfumato.engines.spark.column import stored
from sfumato.engines.spark.connection import guarded, session
from sfumato.engines.spark.dialect import quoted
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Location


def describe(location: Location) -> SourceCatalogue:
    """Return the tables of the database that a location names; without a name, of the session's current one."""
    spark = session(Limits())
    where = ".".join(quoted(name) for name in location.target.split(".")[1:])
    try:
        listed = guarded(lambda: spark.catalog.listTables(where) if where else spark.catalog.listTables())
    except EngineFailed:
        listed = None
    if listed is None:
        raise BadSource(
            "The catalog that the source names is not there, or may not be read.",
            "It is looked for in the Spark session of this process, or in one that is started with its settings.",
            "Write spark:catalog, spark:catalog.DATABASE or spark:catalog.CATALOG.DATABASE, as Spark spells it.",
        )
    tables, unreadable = [], []
    for table in sorted((entry for entry in listed if not entry.isTemporary), key=lambda entry: entry.name):
        try:
            tables.append(guarded(partial(_table, spark, where, table)))
        except EngineFailed:
            unreadable.append(table.name)
    return SourceCatalogue(tuple(tables), tuple(unreadable))


def _table(spark: Any, where: str, table: Any) -> CatalogueTable:
    relation = f"{where}.{quoted(table.name)}" if where else quoted(table.name)
    columns = tuple(
        CatalogueColumn(
            field.name,
            stored(quoted(field.name), field.dataType.simpleString()),
            str(field.metadata.get("comment", "")),
        )
        for field in spark.table(relation).schema.fields
    )
    return CatalogueTable(table.name, columns, comment=table.description or "")
