"""CREATE TEMPORARY VIEW and DROP VIEW: which views they name, and the question behind a view."""

import re
from dataclasses import dataclass

from sfumato.server.wire.pg_catalog.view_rows import TEMPORARY_SCHEMAS
from sfumato.server.wire.sql_words import NAME, is_question, name_of
from sfumato.server.wire.sqlstates import WireError, unsupported

MAX_NAME_CHARS = 63
"""PostgreSQL cuts longer names; so does this server."""


@dataclass(frozen=True, slots=True)
class CreateView:
    """A question gets a name in this session. It is not asked: nothing is read or charged."""

    name: str
    columns: tuple[str, ...]
    """The names that the statement gives to the first columns."""
    sql: str
    offset: int
    """Where the question begins in the statement."""
    replace: bool


@dataclass(frozen=True, slots=True)
class DropView:
    """Views of this session go; with `cascade`, also those that read them."""

    names: tuple[str, ...]
    if_exists: bool
    cascade: bool


_QUALIFIED = rf"{NAME}(?:\s*\.\s*{NAME}){{0,2}}"
_CREATE = re.compile(
    rf"CREATE(?P<replace>\s+OR\s+REPLACE)?(?P<temporary>(?:\s+(?:LOCAL|GLOBAL))?\s+(?:TEMPORARY|TEMP))?"
    rf"(?P<recursive>\s+RECURSIVE)?\s+VIEW\s+(?P<name>{_QUALIFIED})"
    rf"(?:\s*\((?P<columns>\s*{NAME}\s*(?:,\s*{NAME}\s*)*)\))?\s+AS\b\s*",
    re.IGNORECASE,
)
_TABLE = re.compile(r"CREATE(?:\s+(?:LOCAL|GLOBAL))?\s+(?:TEMPORARY|TEMP)\s+TABLE\b", re.IGNORECASE)
_CHECK = re.compile(r"\bWITH\s+(?:(?:CASCADED|LOCAL)\s+)?CHECK\s+OPTION\s*$", re.IGNORECASE)
_DROP = re.compile(
    rf"DROP\s+VIEW(?P<exists>\s+IF\s+EXISTS)?\s+(?P<names>{_QUALIFIED}(?:\s*,\s*{_QUALIFIED})*)"
    rf"(?:\s+(?P<how>CASCADE|RESTRICT))?\s*",
    re.IGNORECASE,
)


def read_create(text: str) -> CreateView | None:
    """Return the view that a text creates."""
    match = _CREATE.match(text)
    if match is None:
        if _TABLE.match(text):
            raise unsupported("Temporary tables are not offered.", "CREATE TEMPORARY VIEW name AS SELECT …")
        return None
    schema, name = _view_name(match["name"])
    if schema not in TEMPORARY_SCHEMAS and (schema or not match["temporary"]):
        raise unsupported("Only temporary views are offered.", "CREATE TEMPORARY VIEW name AS SELECT …")
    sql = text[match.end() :]
    if match["recursive"] or _CHECK.search(sql) or not is_question(sql):
        raise unsupported("A view has a plain question.", "CREATE TEMPORARY VIEW name AS SELECT …")
    columns = tuple(name_of(column)[:MAX_NAME_CHARS] for column in re.findall(NAME, match["columns"] or ""))
    return CreateView(name, columns, sql, match.end(), bool(match["replace"]))


def read_drop(text: str) -> DropView | None:
    """Return the views that a text drops."""
    match = _DROP.fullmatch(text)
    if match is None:
        return None
    names = []
    for written in re.findall(_QUALIFIED, match["names"]):
        schema, name = _view_name(written)
        if schema and schema not in TEMPORARY_SCHEMAS:
            raise WireError("42P01", f'view "{schema[:63]}.{name}" does not exist', "", "Drop a temporary view.")
        names.append(name)
    return DropView(tuple(names), bool(match["exists"]), (match["how"] or "").upper() == "CASCADE")


def _view_name(written: str) -> tuple[str, str]:
    """Return the schema, or "", and the name of a view."""
    parts = [name_of(part) for part in re.findall(NAME, written)]
    return (parts[-2] if len(parts) > 1 else ""), parts[-1][:MAX_NAME_CHARS]
