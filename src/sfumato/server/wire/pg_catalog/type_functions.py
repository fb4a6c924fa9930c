"""The functions by which PostgreSQL reads and writes each type: clients choose a decoder by their names."""

import re
from collections.abc import Mapping
from functools import cache

from sfumato.server.wire.pg_catalog.types import types

ROLES = ("typinput", "typoutput", "typreceive", "typsend")
_ENDINGS = dict(zip(ROLES, ("in", "out", "recv", "send"), strict=True))
_FIRST_OID = 8000
_FUNCTION_OIDS = {"array_in": 750, "array_out": 751, "array_recv": 2400, "array_send": 2401}
"""Numbers of PostgreSQL by which clients tell arrays from other types."""
_TYPES_WITH_UNDERSCORE = frozenset(
    re.findall(
        r"\w+",
        "bit box cash cidr circle cstring date inet interval json jsonb jsonpath line lseg macaddr macaddr8 "
        "multirange numeric path pg_lsn pg_snapshot point poly range record time timestamp timestamptz timetz "
        "txid_snapshot uuid varbit void xml anyarray",
    )
)
"""Types whose functions have an underscore before their ending."""
_STEMS = {"money": "cash", "polygon": "poly", "refcursor": "text", "_record": "array"}


def function_names(type_name: str) -> dict[str, str]:
    """Return the names of the functions of a type.

    >>> function_names("int8")["typreceive"], function_names("date")["typsend"], function_names("_int8")["typinput"]
    ('int8recv', 'date_send', 'array_in')
    """
    stem = _STEMS.get(type_name, type_name)
    if type_name.startswith("_"):
        stem = "array"
    mark = "_" if stem in _TYPES_WITH_UNDERSCORE or stem == "array" else ""
    return {role: f"{stem}{mark}{ending}" for role, ending in _ENDINGS.items()}


@cache
def functions_by_name() -> Mapping[str, int]:
    """Return the number of every function of a type."""
    names = dict.fromkeys(name for row in types() for name in function_names(str(row["typname"])).values())
    return {name: _FUNCTION_OIDS.get(name, _FIRST_OID + at) for at, name in enumerate(names)}


@cache
def functions_by_number() -> Mapping[int, str]:
    """Return the name of every function of a type."""
    return {number: name for name, number in functions_by_name().items()}
