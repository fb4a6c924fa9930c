"""A source that an engine's catalogue describes: names, types, foreign keys and comments. No row is read."""

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from sfumato.engines.duckdb.schemes import PARQUET
from sfumato.engines.opening import described
from sfumato.engines.postgres.schemes import POSTGRESQL
from sfumato.engines.source_catalogue import CatalogueTable
from sfumato.engines.spark.schemes import SPARK
from sfumato.errors import BadParameter, BadSource
from sfumato.policy.entry import Entry
from sfumato.policy.locations import read_source
from sfumato.policy.policy import Location
from sfumato.policy_draft.schema import SchemaTable, SourceSchema, read_source_schema, schema_column

_COMMENT_CHARS = 100


@dataclass(frozen=True, slots=True)
class CatalogueSource:
    """A source whose engine reads its own catalogue, as it was typed."""

    location: Location

    @property
    def folder(self) -> Path | None:
        """The folder of files that Spark reads; None for a catalogue."""
        return self.location.path

    @property
    def target(self) -> str:
        """The text after the scheme in the policy, without a password."""
        without, _ = _without_password(self.location.target)
        return without.removeprefix(f"{self.location.scheme}:")

    @property
    def had_password(self) -> bool:
        """Whether the typed URL holds a password."""
        return _without_password(self.location.target)[1]

    @property
    def name(self) -> str:
        """A name for the policy."""
        if self.location.scheme == SPARK.name:
            return self.location.target.rpartition(".")[2] or SPARK.name
        return urlsplit(self.location.target).path.strip("/") or POSTGRESQL.name


def catalogue_source(typed: str) -> CatalogueSource | None:
    """Return the source that a text names, where an engine describes it; None where it is a file or a folder."""
    scheme, colon, _ = typed.partition(":")
    known = (POSTGRESQL.name, *POSTGRESQL.aliases, SPARK.name)
    if not colon or scheme.lower() not in known or Path(typed).exists():
        return None
    return CatalogueSource(read_source(Entry(typed, ("source",)), Path()))


def read_catalogue(source: CatalogueSource) -> SourceSchema:
    """Return the schema of the source, or refuse one without tables."""
    scheme = source.location.scheme
    if source.folder is not None:
        found = read_source_schema(source.folder)
        if found.scheme != PARQUET.name:
            raise BadSource(
                "The folder holds files that Spark is not to read here.",
                "As spark:FOLDER, a policy reads Parquet files.",
                "Leave out spark: for files of another kind, or write them as Parquet.",
            )
        return replace(found, scheme=scheme)
    catalogue = described(source.location)
    if catalogue is None or not catalogue.tables:
        other_schemas = catalogue.other_schemas if catalogue is not None else ()
        raise BadSource(
            "The source holds no table that may be read.",
            "Tables are looked for in the first schema of the search path (PostgreSQL) or in the current database "
            "(Spark).",
            f"Name the schema: postgresql://…?options=-csearch_path%3D{other_schemas[0]}."
            if other_schemas
            else "Name another schema or database, or grant the role the right to read its tables.",
        )
    tables = tuple(map(_schema_table, catalogue.tables))
    return SourceSchema(scheme, None, tables, unreadable=catalogue.unreadable, other_schemas=catalogue.other_schemas)


def refuse_inference(source: CatalogueSource) -> BadParameter:
    """Return the refusal of --look for a source that is not in files."""
    return BadParameter(
        f"--look cannot read a source of {source.location.scheme}:.",
        "It takes bounds and keys from files; of a server, `init` reads the catalogue alone.",
        "Leave it out, fill in what you know, and run `sfumato check`: it counts what your bounds and keys leave out.",
    )


def _schema_table(table: CatalogueTable) -> SchemaTable:
    columns = tuple(
        replace(schema_column((column.name, column.stored)), comment=_one_line(column.comment), values=column.values)
        for column in table.columns
    )
    return SchemaTable(table.name, columns, table.key, references=table.references, comment=_one_line(table.comment))


def _one_line(comment: str) -> str:
    """Return a comment as it can stand in a TOML file: one line, without control characters."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in comment).split())
    return line if len(line) <= _COMMENT_CHARS else f"{line[: _COMMENT_CHARS - 1]}…"


def _without_password(url: str) -> tuple[str, bool]:
    """Return a URL without its password, and whether it had one.

    >>> _without_password("postgresql://ann:secret@host/clinic?sslmode=require")
    ('postgresql://ann@host/clinic?sslmode=require', True)
    """
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(key, value) for key, value in pairs if key != "password"]
    if not colon and kept == pairs:
        return url, False
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=urlencode(kept, quote_via=quote))), True
