"""Rows on their way into a store: every value on its grid as in the bounded copy, every person a keyed hash."""

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256, sha512
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from sfumato.engines.duckdb.column import check_range, column_sql, unit_sql
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.engine import Limits
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Stored, check_type, keyed
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadParameter, BadSource, EngineFailed, quote_value
from sfumato.policy.policy import Column, ColumnType, UnitColumn, fold_name
from sfumato.sealed.layout import Layout

UNIT_BYTES = 16
_PLACE = '"place"'
"""No column of a policy holds a quotation mark."""
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False)
class Intake:
    """Rows as integers, in their order: who, which cell, which slot, and of each measure whether and how much."""

    units: tuple[bytes, ...] | None
    """None where each row is a person."""
    cells: Integers
    slots: Integers
    present: Mapping[str, Truths]
    values: Mapping[str, Integers]
    equal: tuple[bytes, ...] | None = None
    """Where tables are joined: what shows the store whose row it is; the same for the same person in every table."""

    def __len__(self) -> int:
        return len(self.cells)

    def chosen(self, kept: Truths) -> "Intake":
        """Return some of the rows."""
        units = None if self.units is None else tuple(unit for unit, keep in zip(self.units, kept, strict=True) if keep)
        present = {name: column[kept] for name, column in self.present.items()}
        values = {name: column[kept] for name, column in self.values.items()}
        equal = None if self.equal is None else tuple(one for one, keep in zip(self.equal, kept, strict=True) if keep)
        return Intake(units, self.cells[kept], self.slots[kept], present, values, equal)

    def digest(self, key: bytes) -> str:
        """Return a keyed digest: equal for the same rows in the same order."""
        code = hmac.new(key, digestmod=sha256)
        for unit in self.units or ():
            code.update(unit)
        for column in (self.cells, self.slots, *self.present.values(), *self.values.values()):
            code.update(len(column).to_bytes(8, "big") + column.tobytes())
        return code.hexdigest()


def take_in(rows: pa.Table, layout: Layout, key: bytes, joining: bytes) -> Intake:
    """Read rows, or refuse them to their owner: a missing column, a NULL or an undeclared value where none may be.

    `key` is of this table, `joining` of all that are joined.
    """
    if not isinstance(rows, pa.Table):
        raise BadParameter(
            f"The rows are a Python {type(rows).__name__}.",
            "Rows are sealed from an Arrow table.",
            "Give a pyarrow.Table.",
        )
    unit = layout.table.unit
    owner = layout.table.column(unit.column) if isinstance(unit, UnitColumn) else None
    measures = tuple(
        column
        for column in layout.table.columns
        if any(one.measure == fold_name(column.name) for one in layout.columns)
    )
    found = _converted(rows, layout, owner, measures)
    units, equal, kept = None, None, np.ones(rows.num_rows, dtype=bool)
    if owner is not None:
        people = found.column("unit").to_pylist()
        kept = np.array([person is not None for person in people], dtype=bool)  # what has no owner is absent
        named = {person for person in people if person is not None}
        hashes = {person: blake2b(person.encode(), digest_size=UNIT_BYTES, key=key).digest() for person in named}
        units = tuple(hashes[person] for person in people if person is not None)
        if layout.joins:
            shown_as = equality(named, joining)
            equal = tuple(shown_as[person] for person in people if person is not None)
    cells = _numbers(found, layout.cell_columns, "k", layout.cells, kept)
    slots = _numbers(found, layout.slot_columns, "s", layout.slots, kept)
    present, values = {}, {}
    nulls = {fold_name(name) for name in (layout.table.sealed.nulls if layout.table.sealed else ())}
    for at, column in enumerate(measures):
        given = found.column(f"m{at}").combine_chunks()
        there = np.asarray(given.is_valid().to_numpy(zero_copy_only=False), dtype=bool)[kept]
        if fold_name(column.name) not in nulls and not there.all():
            raise _absent(layout, column, "Name it in nulls, or leave out those rows.")
        name = fold_name(column.name)
        present[name] = there
        values[name] = np.asarray(given.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)[kept]
    return Intake(units, cells, slots, present, values, equal)


def equality(people: Collection[str], key: bytes) -> dict[str, bytes]:
    """Return 128 bits for each person, equal for the same one: the synthetic IV of AES-SIV (RFC 5297).

    It alone decides equality, and nothing ever decrypts a person: the ciphertext that follows it is not kept.
    """
    cipher = AESSIV(sha512(b"join" + key).digest())
    return {person: cipher.encrypt(person.encode() or b"\0", None)[:UNIT_BYTES] for person in people}


def _converted(rows: pa.Table, layout: Layout, owner: Column | None, measures: tuple[Column, ...]) -> pa.Table:
    given = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    with closed_connection([], Limits()) as connection:
        connection.register("given", given)
        types = {fold_name(row[0]): as_stored(quoted(row[0]), row[1]) for row in execute(connection, "DESCRIBE given")}
        if len(types) != given.num_columns:
            raise BadSource(
                "Two columns of the rows have the same name.", "Names match whatever their case.", "Rename one of them."
            )
        table = layout.table.name
        items = [] if owner is None else [f"{unit_sql(owner, _stored(types, table, owner))} AS unit"]
        for letter, columns in (("k", layout.cell_columns), ("s", layout.slot_columns), ("m", measures)):
            for at, column in enumerate(columns):
                stored = _stored(types, table, column)
                check_range(table, column, stored)
                items.append(f"{keyed(column, column_sql(column, stored), DUCKDB)} AS {letter}{at}")
        return _run(connection, select([*items, "TRUE"], "given", order_by=quoted(_PLACE)))


def _stored(types: Mapping[str, Stored], table: str, column: Column) -> Stored:
    stored = types.get(fold_name(column.name))
    if stored is None:
        raise BadSource(
            f"The rows have no column {quote_value(column.name)}.",
            f"tables.{table} seals it.",
            "Add the column, or remove it from the policy.",
        )
    check_type(table, column, stored)
    return stored


def _run(connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
    try:
        return connection.sql(statement).to_arrow_table()
    except (duckdb.Error, pa.ArrowException, MemoryError, OverflowError, RuntimeError):
        pass
    raise EngineFailed()


def _numbers(
    found: pa.Table, columns: tuple[Column, ...], letter: str, combinations: tuple[tuple[Any, ...], ...], kept: Truths
) -> Integers:
    """Return the number of each row's combination."""
    number = np.zeros(int(kept.sum()), dtype=np.int64)
    for at, column in enumerate(columns):
        values = sorted({combination[at] for combination in combinations})
        places: dict[Any, int] = {value: place for place, value in enumerate(values)}
        given = found.column(f"{letter}{at}").to_pylist()
        if column.type is ColumnType.BOOLEAN:
            given = [None if value is None else bool(value) for value in given]
        chosen = [value for value, keep in zip(given, kept, strict=True) if keep]
        if any(value not in places for value in chosen):
            raise BadSource(
                f"The column {quote_value(column.name)} holds NULL, or a value that the policy does not list.",
                "Such a row would belong to no cell.",
                "List the value in the policy, or leave out or replace it before sealing.",
            )
        number = number * len(values) + np.array([places[value] for value in chosen], dtype=np.int64).reshape(-1)
    return number


def _absent(layout: Layout, column: Column, remedy: str) -> BadSource:
    return BadSource(
        f"The measure {quote_value(column.name)} of tables.{layout.table.name} holds NULL, or a value that is no "
        "number.",
        "Every row of a measure counts, unless the policy says that some do not.",
        remedy,
    )
