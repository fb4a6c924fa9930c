"""Columns as pg_attribute and information_schema.columns show them."""

from collections.abc import Mapping
from typing import Any

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.casting import TYPE_NAMES
from sfumato.server.wire.pg_catalog.types import types

_SQL_NAMES = {number: name for name, number in TYPE_NAMES.items()}
_SQL_NAMES |= {
    oids.INT8: "bigint",
    oids.INT4: "integer",
    oids.INT2: "smallint",
    oids.BOOL: "boolean",
    oids.FLOAT8: "double precision",
    oids.FLOAT4: "real",
    oids.VARCHAR: "character varying",
    oids.BPCHAR: "character",
    oids.TIMESTAMP: "timestamp without time zone",
    oids.TIMESTAMPTZ: "timestamp with time zone",
    oids.NUMERIC: "numeric",
    oids.NAME: "name",
    oids.CHAR: '"char"',
    oids.TIME: "time without time zone",
    1266: "time with time zone",
    1560: "bit",
    1562: "bit varying",
}
_PRECISIONS: Mapping[int, tuple[int | None, int, int | None]] = {
    oids.INT8: (64, 2, 0),
    oids.INT4: (32, 2, 0),
    oids.INT2: (16, 2, 0),
    oids.FLOAT8: (53, 2, None),
    oids.FLOAT4: (24, 2, None),
    oids.NUMERIC: (None, 10, None),
}
"""Of the types of numbers: how many digits, their base, and how many of them are behind the point."""


def attribute(table: int, name: str, place: int, oid: int) -> dict[str, Any]:
    """Return a column as a row of pg_attribute."""
    known = _type(oid)
    return {
        "attrelid": table,
        "attname": name,
        "atttypid": oid,
        "attstattarget": -1,
        "attlen": known["typlen"] if known else -1,
        "attnum": place,
        "attcacheoff": -1,
        "atttypmod": -1,
        "attbyval": bool(known and known["typbyval"]),
        "attalign": known["typalign"] if known else "i",
        "attstorage": known["typstorage"] if known else "x",
        "attislocal": True,
        "attcollation": collation(oid),
    }


def information_column(table: Mapping[str, str], name: str, place: int, oid: int) -> dict[str, Any]:
    """Return a column of a table as a row of information_schema.columns."""
    precision, radix, scale = _PRECISIONS.get(oid, (None, None, None))
    known = _type(oid)
    shown = type_display_name(known) if known else "text"
    return {
        **table,
        "column_name": name,
        "ordinal_position": place,
        "is_nullable": "YES",
        "data_type": "ARRAY" if shown.endswith("[]") else shown,
        "udt_catalog": table["table_catalog"],
        "udt_schema": "pg_catalog",
        "udt_name": known["typname"] if known else "text",
        "numeric_precision": precision,
        "numeric_precision_radix": radix,
        "numeric_scale": scale,
        "datetime_precision": 0 if shown == "date" else 6 if "time" in shown else None,
        "is_identity": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
        "is_self_referencing": "NO",
        "dtd_identifier": str(place),
        "identity_cycle": "NO",
    }


def type_display_name(row: Mapping[str, Any]) -> str:
    """Return the name of a type as a cast to text shows it, from its row of pg_type."""
    name = str(row["typname"])
    if name.startswith("_") and row["typelem"]:
        return _SQL_NAMES.get(int(row["typelem"]), name[1:]) + "[]"
    return _SQL_NAMES.get(int(row["oid"]), name)


def collation(oid: int) -> int:
    """Return the number of the collation that values of a type have."""
    return 100 if oid in (oids.TEXT, oids.VARCHAR, oids.BPCHAR) else 950 if oid == oids.NAME else 0


def _type(oid: int) -> Mapping[str, Any] | None:
    return next((row for row in types() if row["oid"] == oid), None)
