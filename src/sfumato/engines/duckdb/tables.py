"""The tables of the copy as flows read them: integers on their grid, texts, doubles, and the owner's opaque id.

Private tables are stored so. The columns of public tables have the source's own types and are brought to their grid
when they are read; what their type cannot say here (lists, blobs, times of day) does not exist for a query.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.private_query import Cell
from sfumato.engines.duckdb.column import column_sql
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import COPY
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.engines.sql.builder import select, subquery
from sfumato.engines.sql.column import TYPES, Kind, Stored
from sfumato.engines.sql.grid import NotExact
from sfumato.engines.sql.names import NUMBER, PLACE, RANK, TOTALS, quoted
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.policy import Column, ColumnType, Policy, Reference, RowUnit, Table, fold_name

ROWID = "rowid"
"""The engine's own number of a row, where no column has that name."""
ROW = '"row"'
"""The column that tells rows apart where a column is called rowid."""
_SCALE = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")
_PLAIN = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})


@dataclass(frozen=True, slots=True)
class PublicColumn:
    """A column of a public table: what it is to a query, its name in the copy, and the SQL of its value."""

    column: Column
    stored: str
    sql: str


class DuckDBTables:
    """`build_catalog.Copies` over the tables of a copy that was registered."""

    def __init__(
        self,
        policy: Policy,
        copied: Sequence[CopiedTable],
        run: Callable[[str], list[tuple[Any, ...]]],
        *,
        elsewhere: bool = False,
    ):
        """Take the tables of a copy; `elsewhere`: the private ones lie in another engine, which numbered their rows."""
        self._elsewhere = elsewhere
        self._policy = policy
        self._copied = {fold_name(table.name): table for table in copied}
        self._run = run

    def relations(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what stands after FROM, by the folded name of the table: of the public tables, and of the others."""
        public, private = {}, {}
        for name, copied in self._copied.items():
            table = self._policy.table(copied.name)
            if table is None:
                continue
            if table.public:
                public[name] = _encode_types(copied, public_columns(table, copied))
            else:
                private[name] = _stored_table(table, copied)
                if copied.unit is not None:
                    private[name + REMOVED] = _ranked_losses(table.name + REMOVED, copied.unit)
                if name + CUT in self._copied:
                    private[name + CUT] = _ranked_losses(table.name + CUT, copied.unit)
                if name + TOTALS in self._copied:
                    private[name + TOTALS] = copy_of(self._copied[name + TOTALS])
        return public, private

    def unit(self, table: Table) -> str | None:
        """Return the column of the owner's opaque id; None in a public table, and where each row is a person."""
        return self._copied[fold_name(table.name)].unit

    def row(self, table: Table) -> str:
        """Return the column that tells rows apart where each of them is a person."""
        return NUMBER if self._elsewhere else row_name(table)

    def columns(self, table: Table) -> list[tuple[Column, str]]:
        """Return the columns of a public table that a query may use, and their names in the copy."""
        return [(known.column, known.stored) for known in public_columns(table, self._copied[fold_name(table.name)])]

    def hidden_columns(self, table: Table) -> frozenset[str]:
        """Return the columns of a private table that no query can name; a copy of an older version may have fewer."""
        if self._elsewhere:
            return frozenset()
        found = self._run(f"DESCRIBE {COPY}.main.{quoted(table.name)}")  # the catalog of all tables takes longer
        return frozenset(name for name, *_ in found)

    def keys(self, column: Column, reference: Reference, most: int) -> list[Cell]:
        """Return the keys that a private column takes from a public table, on the column's own grid."""
        copied = self._copied[fold_name(reference.table)]
        keys = subquery(select(f"{key_sql(column, copied, reference)} AS k", copy_of(copied)), "p")
        found = self._run(select("DISTINCT k", keys, where="k IS NOT NULL", limit=most))
        return [key for (key,) in found]


def row_name(table: Table) -> str:
    """Return the column that tells the rows of a private table apart."""
    return ROWID if table.column(ROWID) is None else ROW


def public_columns(table: Table, copied: CopiedTable) -> list[PublicColumn]:
    """Return the columns of a public table that a query may use."""
    found = []
    for stored in copied.columns:
        if '"' not in stored.name:  # such names are ours
            read = _read(table.column(stored.name), as_stored(quoted(stored.name), stored.type))
            found += [] if read is None else [PublicColumn(replace(read[0], name=stored.name), stored.name, read[1])]
    return found


def key_sql(column: Column, copied: CopiedTable, reference: Reference) -> str:
    """Return the SQL of the keys that a private column takes from a public table, on the column's own grid."""
    stored = next(known for known in copied.columns if fold_name(known.name) == fold_name(reference.column))
    raw = stored.type == "VARCHAR" and column.type is not ColumnType.TEXT  # an undeclared column of a CSV file
    return column_sql(column, as_stored(quoted(stored.name), stored.type, raw))


def copy_of(copied: CopiedTable) -> str:
    """Return the name of a table in the copy."""
    return f"{COPY}.main.{quoted(copied.name)}"


def _read(declared: Column | None, stored: Stored) -> tuple[Column, str] | None:
    own = _own(stored)
    if own is None:
        return None
    column = own if declared is None else Column(declared.name, declared.type, step=declared.step)
    if column.type is ColumnType.DECIMAL and column.step is None:
        column = replace(column, step=own.step)
    if stored.type in _PLAIN and column.type is ColumnType.INTEGER:
        return column, f"{stored.sql}::BIGINT"
    try:
        return column, column_sql(column, stored)
    except NotExact:  # a declared step that is too fine for this type
        return own, column_sql(own, stored)


def _own(stored: Stored) -> Column | None:
    """Return the column that the engine's type is."""
    kind = TYPES.get(stored.kind)
    if kind is None:
        return None
    scale = _SCALE.fullmatch(stored.type)
    step = Fraction(1, 10 ** int(scale[1])) if scale else Fraction(1) if stored.kind is Kind.INTEGER else None
    return Column("", kind, step=step)


def _encode_types(copied: CopiedTable, columns: list[PublicColumn]) -> str:
    listed = [f"{column.sql} AS {quoted(column.stored)}" for column in columns]
    place = ROWID
    if any(fold_name(column.name) == ROWID for column in copied.columns):
        order = ", ".join(quoted(column.stored) for column in columns)
        place = f"row_number() OVER (ORDER BY {order})" if order else "0"
    return subquery(select([f"{place} AS {quoted(PLACE)}", *listed], copy_of(copied)))


def _ranked_losses(name: str, unit: str | None) -> str:
    """Return those who lost something: few, so that their one row each is numbered when it is read."""
    rank = "1" if unit is None else f"row_number() OVER (PARTITION BY {quoted(unit)})"
    return subquery(select(f"*, {rank} AS {quoted(RANK)}", f"{COPY}.main.{quoted(name)}"))


def _stored_table(table: Table, copied: CopiedTable) -> str:
    if isinstance(table.unit, RowUnit) and row_name(table) == ROW:
        return subquery(select(f"*, row_number() OVER () AS {quoted(ROW)}", copy_of(copied)))
    return copy_of(copied)
