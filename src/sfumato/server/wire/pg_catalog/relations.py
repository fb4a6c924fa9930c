"""The shadow schema: tables and columns as the policy declares them, in the shape of PostgreSQL's catalogue.

It holds no data and no numbers about data. Every relation of PostgreSQL's catalogue is there with its columns
(`relations.txt`); most are empty, and whatever a server would measure is a constant.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.policy.policy import Column, OwnerPair, Policy, Reference, RowUnit, Table, UnitColumn
from sfumato.query.types import Type
from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.casting import TYPE_NAMES, type_number
from sfumato.server.wire.pg_catalog.column_rows import attribute, collation, information_column, type_display_name
from sfumato.server.wire.pg_catalog.compiled import CatalogRow
from sfumato.server.wire.pg_catalog.type_functions import function_names, functions_by_name, functions_by_number
from sfumato.server.wire.pg_catalog.types import types
from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import WireError

_HERE = Path(__file__).parent
PG_CATALOG, PUBLIC, INFORMATION_SCHEMA = 11, 2200, 13000
DATABASE, OWNER, USER = 16384, 10, 16385
_FIRST_TABLE = 20_000
_ROW_TYPES = 1_000_000
LISTING_DATABASES = ("postgres", "template1")
"""Databases without tables, to which clients connect to list the others."""


@dataclass(frozen=True, slots=True)
class CatalogRelation:
    """A relation of the catalogue: its columns with their types."""

    schema: str
    name: str
    kind: str
    """r for a table, v for a view."""
    columns: tuple[tuple[str, int], ...]


@cache
def relations() -> Mapping[tuple[str, str], CatalogRelation]:
    """Return every relation of the catalogue by schema and name."""
    found = {}
    for line in (_HERE / "relations.txt").read_text(encoding="utf-8").splitlines():
        head, _, columns = line.partition(": ")
        schema, name, kind = head.split()
        typed = (column.split() for column in columns.split(", "))
        found[schema, name] = CatalogRelation(
            schema, name, kind, tuple((column, _number(type)) for column, type in typed)
        )
    return found


def _number(name: str) -> int:
    array = name.startswith("_")
    number = oids.CHAR if name.lstrip("_") == "char" else TYPE_NAMES.get(name.lstrip("_"), oids.TEXT)
    return oids.ARRAYS.get(number, oids.ARRAYS[oids.TEXT]) if array else number


@cache
def _numbers() -> Mapping[tuple[str, str], int]:
    """Return the number of every relation of the catalogue."""
    return {key: 10_000 + at for at, key in enumerate(relations())}


@cache
def _keys() -> Mapping[int, tuple[str, str]]:
    """Return schema and name of every relation of the catalogue by its number."""
    return {number: key for key, number in _numbers().items()}


@cache
def _type_names() -> Mapping[int, str]:
    """Return the name of every type as a cast to text shows it."""
    return {int(row["oid"]): type_display_name(row) for row in types()}


@cache
def _type_numbers() -> Mapping[str, int]:
    """Return the number of every type by its name and by the one that is shown."""
    shown = {name: number for number, name in reversed([*_type_names().items()])}
    return shown | {str(row["typname"]): int(row["oid"]) for row in types()}


@dataclass(frozen=True, slots=True)
class VirtualCatalog:
    """The catalogue of one policy for one analyst; no other person's name is in it."""

    database: str
    contents: Mapping[tuple[str, str], Callable[[], list[CatalogRow]]] = field(repr=False)
    tables: Mapping[str, int]
    table_names: Mapping[int, str]
    descriptions: Mapping[tuple[int, int], str] = field(repr=False)
    type_names: Mapping[int, str] = field(repr=False)
    user: int = USER
    views: Mapping[str, int] = field(default_factory=dict)
    """The temporary views of the session."""
    definitions: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The questions of those views."""
    temporary: tuple[int, str] | None = None
    """Number and name of the schema of temporary views, once the session has made one."""

    def rows(self, schema: str, name: str) -> list[CatalogRow]:
        """Return the rows of a relation of the catalogue."""
        made = self.contents.get((schema, name))
        return [] if made is None else made()

    def number(self, kind: int, name: str) -> int | None:
        """Return the number behind a name: of a table, a type, a schema or a role."""
        parts = _parts(name)
        schema, last = (parts[-2] if len(parts) > 1 else ""), parts[-1]
        if kind == oids.REGCLASS:
            if last in self.views and (not schema or schema.startswith("pg_temp")):
                return self.views[last]
            if schema in ("", "public") and last in self.tables:
                return self.tables[last]
            schemas = (schema,) if schema else ("pg_catalog", "information_schema")
            return next((number for path in schemas if (number := _numbers().get((path, last))) is not None), None)
        if kind == oids.REGTYPE:
            return self._type(" ".join(name.lower().split()).removeprefix("pg_catalog."))
        if kind == oids.REGNAMESPACE:
            return next((number for number, name in self._schemas().items() if name == last), None)
        if kind in (oids.REGPROC, oids.REGPROCEDURE):
            return functions_by_name().get(last.split("(")[0])
        return USER if kind == oids.REGROLE else None

    def is_visible(self, number: int) -> bool:
        """Whether a relation is found without naming its schema."""
        return number in self.table_names or _keys().get(number, ("",))[0] == "pg_catalog"

    def name(self, kind: int, number: int) -> str:
        """Return the name behind a number, as a cast to text shows it."""
        if kind == oids.REGCLASS:
            found = self.table_names.get(number)
            return found if found is not None else _keys().get(number, ("", str(number)))[1]
        if kind == oids.REGTYPE:
            return self.type_names.get(number, str(number))
        if kind == oids.REGNAMESPACE:
            return self._schemas().get(number, str(number))
        if kind == oids.REGPROC:
            return functions_by_number().get(number, str(number) if number else "-")
        return str(number) if number else "-"

    def _schemas(self) -> dict[int, str]:
        own = {PUBLIC: "public", PG_CATALOG: "pg_catalog", INFORMATION_SCHEMA: "information_schema"}
        return own if self.temporary is None else own | dict([self.temporary])

    def _type(self, name: str) -> int | None:
        found = _type_numbers().get(name)
        if found is not None:
            return found
        try:
            return type_number(name)
        except WireError:
            return None


def _parts(name: str) -> list[str]:
    parts, rest = [], name.strip()
    for quoted, plain in _split(rest):
        parts.append(quoted if quoted is not None else plain.lower())
    return parts or [""]


def _split(text: str) -> list[tuple[str | None, str]]:
    found: list[tuple[str | None, str]] = []
    for piece in text.split('".') if '"' in text else text.split("."):
        clean = piece.strip()
        if clean.startswith('"') or clean.endswith('"'):
            found.append((clean.strip('"').replace('""', '"'), ""))
        else:
            found += [(None, part) for part in clean.split(".")]
    return found


def make_virtual_catalog(policy: Policy, columns: Mapping[str, Mapping[str, str]], user: str) -> VirtualCatalog:
    """Return the catalogue that an analyst sees; `columns` are those of every table, with the types of the algebra."""
    tables = {name: _FIRST_TABLE + at for at, name in enumerate(sorted(columns))}
    made = _Contents(policy, columns, tables, user)
    contents = {(relation.schema, relation.name): _rows(made, relation) for relation in relations().values()}
    names = {number: name for name, number in tables.items()}
    return VirtualCatalog(policy.name, contents, tables, names, made.descriptions(), _type_names())


def _rows(made: "_Contents", relation: CatalogRelation) -> Callable[[], list[CatalogRow]]:
    source = made.sources().get((relation.schema, relation.name))
    kept: list[CatalogRow] = []
    done: list[bool] = []

    def rows() -> list[CatalogRow]:
        if source is not None and not done:
            kept.extend(as_row(relation, row) for row in source())
            done.append(True)
        return kept

    return rows


def as_row(relation: CatalogRelation, values: Mapping[str, Any]) -> CatalogRow:
    """Return a row of a relation of the catalogue."""
    missing = _DEFAULTS if relation.schema == "pg_catalog" else {}
    return tuple(values.get(name, missing.get(oid)) for name, oid in relation.columns)


_DEFAULTS = {oids.BOOL: False, oids.OID: 0, oids.INT2: 0, oids.INT4: 0, oids.INT8: 0, oids.REGPROC: 0, oids.CHAR: ""}
"""Default values of a row of pg_catalog; a view of information_schema has NULL."""


_Rows = list[dict[str, Any]]


class _Contents:
    """The rows of the catalogue's relations, as dicts; a column that a row leaves out is 0, false or NULL."""

    def __init__(
        self, policy: Policy, columns: Mapping[str, Mapping[str, str]], tables: Mapping[str, int], user: str
    ) -> None:
        self._policy = policy
        self._columns = columns
        self._tables = tables
        self._user = user

    def sources(self) -> Mapping[tuple[str, str], Callable[[], _Rows]]:
        """Return those relations that are not empty."""
        catalogue: dict[str, Callable[[], _Rows]] = {
            "pg_am": lambda: [{"oid": 2, "amname": "heap", "amtype": "t"}],
            "pg_attribute": self._attributes,
            "pg_authid": self._roles,
            "pg_class": self._classes,
            "pg_collation": lambda: [
                {"oid": 100, "collname": "default", "collnamespace": PG_CATALOG, "collprovider": "d"},
                {"oid": 950, "collname": "C", "collnamespace": PG_CATALOG, "collprovider": "c", "collcollate": "C"},
            ],
            "pg_database": self._databases,
            "pg_description": self._description_rows,
            "pg_namespace": self._namespaces,
            "pg_proc": lambda: [
                {"oid": number, "proname": name, "pronamespace": PG_CATALOG, "proowner": OWNER, "prokind": "f"}
                for name, number in functions_by_name().items()
            ],
            "pg_roles": self._roles,
            "pg_tables": self._table_rows,
            "pg_tablespace": lambda: [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
            "pg_type": self._types,
            "pg_user": lambda: [{"usename": self._user, "usesysid": USER, "passwd": "********"}],
            "pg_settings": lambda: [
                {"name": name, "setting": value, "context": "user", "vartype": "string", "source": "default"}
                for name, value in Settings(self._user, ()).all()
            ],
        }
        schema: dict[str, Callable[[], _Rows]] = {
            "columns": self._information_columns,
            "tables": self._information_tables,
            "schemata": self._schemata,
            "information_schema_catalog_name": lambda: [{"catalog_name": self._policy.name}],
            "enabled_roles": lambda: [{"role_name": self._user}],
            "applicable_roles": list,
            "table_privileges": self._privileges,
            "role_table_grants": self._privileges,
        }
        return {("pg_catalog", name): made for name, made in catalogue.items()} | {
            ("information_schema", name): made for name, made in schema.items()
        }

    def descriptions(self) -> dict[tuple[int, int], str]:
        """Return what is said of tables and their columns: the policy's own words about them."""
        found: dict[tuple[int, int], str] = {}
        for name, number in self._tables.items():
            table = self._policy.table(name)
            if table is None:
                continue
            found[number, 0] = _about_table(table)
            for index, column in enumerate(self._columns[name], 1):
                declared = table.column(column)
                words = _about_column(table, declared) if declared is not None else "true in made-up rows of a preview"
                if words:
                    found[number, index] = words
        return found

    def _namespaces(self) -> _Rows:
        named = {"pg_catalog": PG_CATALOG, "public": PUBLIC, "information_schema": INFORMATION_SCHEMA}
        return [{"oid": number, "nspname": name, "nspowner": OWNER} for name, number in named.items()]

    def _databases(self) -> _Rows:
        row = {"datdba": OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1}
        row |= {"dattablespace": 1663, "datcollate": "C", "datctype": "C"}
        own = (self._policy.name, DATABASE, False)
        listing = [(name, at, name == "template1") for at, name in enumerate(LISTING_DATABASES, 4)]
        named = [own, *(entry for entry in listing if entry[0] != own[0])]
        return [{**row, "oid": oid, "datname": name, "datistemplate": template} for name, oid, template in named]

    def _roles(self) -> _Rows:
        row = {"oid": USER, "rolname": self._user, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1}
        return [row | {"rolpassword": "********"}]

    def _classes(self) -> _Rows:
        own = [
            {
                "oid": number,
                "relname": name,
                "relnamespace": PUBLIC,
                "reltype": _ROW_TYPES + number,
                "relowner": OWNER,
                "relam": 2,
                "relfilenode": number,
                "reltuples": -1.0,
                "relpersistence": "p",
                "relkind": "r",
                "relnatts": len(self._columns[name]),
                "relispopulated": True,
                "relreplident": "d",
            }
            for name, number in self._tables.items()
        ]
        spaces = {"pg_catalog": PG_CATALOG, "information_schema": INFORMATION_SCHEMA}
        return own + [
            {
                "oid": 10_000 + at,
                "relname": relation.name,
                "relnamespace": spaces[relation.schema],
                "relowner": OWNER,
                "reltuples": -1.0,
                "relpersistence": "p",
                "relkind": relation.kind,
                "relnatts": len(relation.columns),
                "relispopulated": True,
                "relreplident": "n",
            }
            for at, relation in enumerate(relations().values())
        ]

    def _attributes(self) -> _Rows:
        rows = []
        for name, number in self._tables.items():
            for index, (column, type) in enumerate(self._columns[name].items(), 1):
                rows.append(attribute(number, column, index, oids.OID_OF[Type(type)]))
        return rows

    def _types(self) -> _Rows:
        fixed = {"typnamespace": PG_CATALOG, "typowner": OWNER, "typisdefined": True, "typtypmod": -1}
        rows = []
        for row in types():
            used = {role: functions_by_name()[name] for role, name in function_names(str(row["typname"])).items()}
            rows.append({**row, **fixed, **used, "typcollation": collation(int(row["oid"]))})
        records = {role: functions_by_name()[name] for role, name in function_names("record").items()}
        return rows + [
            {
                **fixed,
                **records,
                "oid": _ROW_TYPES + number,
                "typname": name,
                "typnamespace": PUBLIC,
                "typlen": -1,
                "typtype": "c",
                "typcategory": "C",
                "typdelim": ",",
                "typrelid": number,
                "typalign": "d",
                "typstorage": "x",
            }
            for name, number in self._tables.items()
        ]

    def _description_rows(self) -> _Rows:
        class_oid = 10_000 + list(relations()).index(("pg_catalog", "pg_class"))
        return [
            {"objoid": table, "classoid": class_oid, "objsubid": number, "description": words}
            for (table, number), words in self.descriptions().items()
        ]

    def _table_rows(self) -> _Rows:
        return [{"schemaname": "public", "tablename": name, "tableowner": "owner"} for name in self._tables]

    def _information_tables(self) -> _Rows:
        own = [(self._policy.name, "public", name, "BASE TABLE") for name in self._tables]
        keys = ("table_catalog", "table_schema", "table_name", "table_type")
        more = {"is_insertable_into": "NO", "is_typed": "NO"}
        views = [(self._policy.name, schema, name, "VIEW") for schema, name in relations()]
        return [dict(zip(keys, row, strict=True)) | more for row in own + views]

    def _information_columns(self) -> _Rows:
        rows = []
        for table, columns in self._columns.items():
            where = {"table_catalog": self._policy.name, "table_schema": "public", "table_name": table}
            for index, (column, type) in enumerate(columns.items(), 1):
                rows.append(information_column(where, column, index, oids.OID_OF[Type(type)]))
        return rows

    def _schemata(self) -> _Rows:
        names = ("public", "pg_catalog", "information_schema")
        return [{"catalog_name": self._policy.name, "schema_name": name, "schema_owner": "owner"} for name in names]

    def _privileges(self) -> _Rows:
        fixed = {"grantor": "owner", "grantee": self._user, "table_catalog": self._policy.name}
        fixed |= {"table_schema": "public", "privilege_type": "SELECT", "is_grantable": "NO", "with_hierarchy": "NO"}
        return [{**fixed, "table_name": name} for name in self._tables]


def _about_table(table: Table) -> str:
    match table.unit:
        case None:
            return "public: answers about it are exact and free"
        case RowUnit():
            return "private: each row is a person"
        case UnitColumn(column):
            return f"private: one {column} is one person, of whom at most {table.rows_per_unit} rows count"
        case OwnerPair():
            return f"private: each row belongs to two people, of whom at most {table.rows_per_unit} rows count each"
    return f"private: at most {table.rows_per_unit} rows of one person count"


def _about_column(table: Table, column: Column) -> str:
    if isinstance(table.unit, OwnerPair) and table.names_people(column.name):
        return "names one of the two people of a row: it is never shown"
    if table.names_people(column.name):
        return "names the person: it can be counted and joined, and is never shown"
    words = []
    if column.bounds is not None:
        words.append(f"from {_plain(column.bounds.low)} to {_plain(column.bounds.high)}")
    if isinstance(column.values, Reference):
        words.append(f"public keys: those of {column.values.table}.{column.values.column}")
    elif column.values == ():  # of a table that the account may not use
        words.append("public keys")
    elif column.values is not None:
        words.append(f"public keys: {', '.join(_plain(value) for value in column.values[:12])}")
        words[-1] += ", …" if len(column.values) > 12 else ""
    return "; ".join(words)


def _plain(value: Any) -> str:
    return (
        str(float(value)).removesuffix(".0")
        if hasattr(value, "numerator") and not isinstance(value, bool | int)
        else str(value)
    )
