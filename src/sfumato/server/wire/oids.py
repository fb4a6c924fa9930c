"""PostgreSQL's numbers for types, and which of them stand for the types of our algebra."""

from dataclasses import dataclass

from sfumato.query.types import NumberType, Type

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4, REGPROC, TEXT, OID = 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26
XID, OIDVECTOR, JSON, NODE_TREE, FLOAT4, FLOAT8, UNKNOWN = 28, 30, 114, 194, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1042, 1043, 1082, 1083, 1114, 1184, 1186
NUMERIC, REGCLASS, REGTYPE, REGNAMESPACE, REGROLE, UUID, VOID, ANYARRAY = 1700, 2205, 2206, 4089, 4096, 2950, 2278, 2277
JSONB, ACLITEM, INET, XID8, REGPROCEDURE, REGOPER, REGCOLLATION, CSTRING = 3802, 1033, 869, 5069, 2202, 2203, 4191, 2275
TRIGGER, XML = 2279, 142

ARRAYS = {
    BOOL: 1000,
    BYTEA: 1001,
    CHAR: 1002,
    NAME: 1003,
    INT2: 1005,
    INT4: 1007,
    TEXT: 1009,
    BPCHAR: 1014,
    VARCHAR: 1015,
    INT8: 1016,
    FLOAT4: 1021,
    FLOAT8: 1022,
    OID: 1028,
    ACLITEM: 1034,
    TIMESTAMP: 1115,
    TIMESTAMPTZ: 1185,
    DATE: 1182,
    NUMERIC: 1231,
    CSTRING: 1263,
    REGCLASS: 2210,
    REGTYPE: 2211,
    UUID: 2951,
}
"""The array of each type that has one here."""
ELEMENTS = {array: element for element, array in ARRAYS.items()} | {INT2VECTOR: INT2, OIDVECTOR: OID, ANYARRAY: TEXT}

OID_OF = {
    Type.INTEGER: INT8,
    Type.DECIMAL: FLOAT8,
    Type.BOOLEAN: BOOL,
    Type.DATE: DATE,
    Type.TIMESTAMP: TIMESTAMP,
    Type.TEXT: TEXT,
    Type.INTERVAL: INTERVAL,
    Type.NULL: TEXT,
}
"""What answers leave as: a table's decimal is a double."""
NUMBER_OIDS = {NumberType.INT4: INT4, NumberType.INT8: INT8, NumberType.NUMERIC: NUMERIC, NumberType.FLOAT8: FLOAT8}

TYPE_OF = {
    INT2: Type.INTEGER,
    INT4: Type.INTEGER,
    INT8: Type.INTEGER,
    OID: Type.INTEGER,
    FLOAT4: Type.DECIMAL,
    FLOAT8: Type.DECIMAL,
    NUMERIC: Type.DECIMAL,
    BOOL: Type.BOOLEAN,
    DATE: Type.DATE,
    TIMESTAMP: Type.TIMESTAMP,
    TIMESTAMPTZ: Type.TIMESTAMP,
    TEXT: Type.TEXT,
    VARCHAR: Type.TEXT,
    BPCHAR: Type.TEXT,
    NAME: Type.TEXT,
    CHAR: Type.TEXT,
    UUID: Type.TEXT,
}
"""The types that a parameter may have. A time with a zone is one of UTC; a UUID is its text."""

LENGTHS = {
    BOOL: 1,
    CHAR: 1,
    NAME: 64,
    INT8: 8,
    INT2: 2,
    INT4: 4,
    REGPROC: 4,
    OID: 4,
    XID: 4,
    FLOAT4: 4,
    FLOAT8: 8,
    UNKNOWN: -2,
    DATE: 4,
    TIME: 8,
    TIMESTAMP: 8,
    TIMESTAMPTZ: 8,
    INTERVAL: 16,
    REGCLASS: 4,
    REGTYPE: 4,
    REGNAMESPACE: 4,
    REGROLE: 4,
    REGPROCEDURE: 4,
    REGOPER: 4,
    REGCOLLATION: 4,
    UUID: 16,
    VOID: 4,
    ACLITEM: 12,
    XID8: 8,
    CSTRING: -2,
}
"""How many bytes a value of each type has; -1 for those that differ."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer: its name and type."""

    name: str
    oid: int
