"""Declarations of the catalogue of a source: names, types, keys and comments. No row is read for it."""

from dataclasses import dataclass

from sfumato.engines.sql.column import Stored


@dataclass(frozen=True, slots=True)
class CatalogueColumn:
    """A column, as the catalogue declares it."""

    name: str
    stored: Stored
    comment: str = ""
    values: tuple[str, ...] = ()
    """The labels of an enumerated type, in their order; empty where the type lists none."""


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """A table, as the catalogue declares it."""

    name: str
    columns: tuple[CatalogueColumn, ...]
    key: str | None = None
    """The one column of the primary key; None where there is none, or it has several."""
    references: tuple[tuple[str, str, str], ...] = ()
    """Foreign keys of one column: the column here, the table and the column there."""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class SourceCatalogue:
    """The tables of a source that may be read."""

    tables: tuple[CatalogueTable, ...]
    unreadable: tuple[str, ...] = ()
    """Tables that may not be read."""
    other_schemas: tuple[str, ...] = ()
    """Other schemas that hold tables."""
