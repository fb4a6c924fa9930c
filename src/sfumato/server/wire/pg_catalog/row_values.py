"""Whole rows as values in questions about the catalogue: as JSON, and their parts."""

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.calls import Calls
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled
from sfumato.server.wire.pg_catalog.functions import Builtin
from sfumato.server.wire.pg_catalog.trees import identifier, refused

_PARTS = {"grantor": oids.OID, "grantee": oids.OID, "privilege_type": oids.TEXT, "is_grantable": oids.BOOL}


def part_type(part: exp.Expr) -> int:
    """Return the type of a part of a row; one that is not known is an integer."""
    return _PARTS.get(identifier(part), oids.INT4) if isinstance(part, exp.Identifier) else oids.INT4


def row_object(node: exp.Expr, scope: ColumnScope, calls: Calls, build: Builtin) -> Compiled:
    """Return a row of a table or query as JSON."""
    table = identifier(node.this) if isinstance(node, exp.Column) and node.args.get("table") is None else ""
    shown = [field for field in scope.fields if field.table == table and not field.hidden]
    if not shown:
        raise refused(node)
    pairs = [(calls.constant(field.name, oids.TEXT), Compiled(field.oid, field.sql)) for field in shown]
    return calls.add(build.run, build.gives, [part for pair in pairs for part in pair], "row_to_json")
