"""Read rows to be sealed: values on their grid as in the bounded copy, units as keyed hashes."""

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

from sfumato.diagnostics import record_engine_failure
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
_ROW_NUMBER = '"place"'
"""Quotation marks are not allowed in column names of a policy."""
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False)
class Intake:
    """Rows as integers, in their order: unit, cell, slot, and presence and value of each measure."""

    units: tuple[bytes, ...] | None
    """None if each row is its own unit."""
    cells: Integers
    slots: Integers
    present: Mapping[str, Truths]
    values: Mapping[str, Integers]
    equal: tuple[bytes, ...] | None = None
    """For joined tables: a token of the unit, equal in every table, that the store sees."""

    def __len__(self) -> int:
        return len(self.cells)

    def select_rows(self, mask: Truths) -> "Intake":
        """Return the rows of the mask."""
        units = None if self.units is None else tuple(unit for unit, keep in zip(self.units, mask, strict=True) if keep)
        present = {name: column[mask] for name, column in self.present.items()}
        values = {name: column[mask] for name, column in self.values.items()}
        equal = (
            None if self.equal is None else tuple(token for token, keep in zip(self.equal, mask, strict=True) if keep)
        )
        return Intake(units, self.cells[mask], self.slots[mask], present, values, equal)

    def digest(self, key: bytes) -> str:
        """Return a keyed digest: equal for the same rows in the same order."""
        code = hmac.new(key, digestmod=sha256)
        for unit in self.units or ():
            code.update(unit)
        for column in (self.cells, self.slots, *self.present.values(), *self.values.values()):
            code.update(len(column).to_bytes(8, "big") + column.tobytes())
        return code.hexdigest()


def read_rows(rows: pa.Table, layout: Layout, key: bytes, joining: bytes) -> Intake:
    """Read rows; refuse a missing column, and NULL or an undeclared value where the policy allows none.

    `key` belongs to this table, `joining` to all joined tables.
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
        if any(sealed_column.measure == fold_name(column.name) for sealed_column in layout.columns)
    )
    converted = _convert_rows(rows, layout, owner, measures)
    units, equal, kept = None, None, np.ones(rows.num_rows, dtype=bool)
    if owner is not None:
        people = converted.column("unit").to_pylist()
        kept = np.array([person is not None for person in people], dtype=bool)  # rows without a unit are dropped
        known_people = {person for person in people if person is not None}
        hashes = {person: blake2b(person.encode(), digest_size=UNIT_BYTES, key=key).digest() for person in known_people}
        units = tuple(hashes[person] for person in people if person is not None)
        if layout.joins:
            tokens = join_tokens(known_people, joining)
            equal = tuple(tokens[person] for person in people if person is not None)
    cells = _combination_numbers(converted, layout.cell_columns, "k", layout.cells, kept)
    slots = _combination_numbers(converted, layout.slot_columns, "s", layout.slots, kept)
    present, values = {}, {}
    nulls = {fold_name(name) for name in (layout.table.sealed.nulls if layout.table.sealed else ())}
    for index, column in enumerate(measures):
        measure = converted.column(f"m{index}").combine_chunks()
        valid = np.asarray(measure.is_valid().to_numpy(zero_copy_only=False), dtype=bool)[kept]
        if fold_name(column.name) not in nulls and not valid.all():
            raise _null_measure(layout, column, "Name it in nulls, or leave out those rows.")
        name = fold_name(column.name)
        present[name] = valid
        values[name] = np.asarray(measure.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)[kept]
    return Intake(units, cells, slots, present, values, equal)


def join_tokens(people: Collection[str], key: bytes) -> dict[str, bytes]:
    """Return 128 bits per unit, equal in every table: the synthetic IV of AES-SIV (RFC 5297).

    Only equality is used: units are never decrypted, and the ciphertext after the IV is discarded.
    """
    cipher = AESSIV(sha512(b"join" + key).digest())
    return {person: cipher.encrypt(person.encode() or b"\0", None)[:UNIT_BYTES] for person in people}


def _convert_rows(rows: pa.Table, layout: Layout, owner: Column | None, measures: tuple[Column, ...]) -> pa.Table:
    numbered = rows.append_column(_ROW_NUMBER, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    with closed_connection([], Limits()) as connection:
        connection.register("given", numbered)
        types = {fold_name(row[0]): as_stored(quoted(row[0]), row[1]) for row in execute(connection, "DESCRIBE given")}
        if len(types) != numbered.num_columns:
            raise BadSource(
                "Two columns of the rows have the same name.", "Names are not case-sensitive.", "Rename one of them."
            )
        table = layout.table.name
        items = [] if owner is None else [f"{unit_sql(owner, _require_column(types, table, owner))} AS unit"]
        for letter, columns in (("k", layout.cell_columns), ("s", layout.slot_columns), ("m", measures)):
            for index, column in enumerate(columns):
                stored = _require_column(types, table, column)
                check_range(table, column, stored)
                items.append(f"{keyed(column, column_sql(column, stored), DUCKDB)} AS {letter}{index}")
        return _fetch_arrow(connection, select([*items, "TRUE"], "given", order_by=quoted(_ROW_NUMBER)))


def _require_column(types: Mapping[str, Stored], table: str, column: Column) -> Stored:
    stored = types.get(fold_name(column.name))
    if stored is None:
        raise BadSource(
            f"The rows have no column {quote_value(column.name)}.",
            f"tables.{table} seals it.",
            "Add the column, or remove it from the policy.",
        )
    check_type(table, column, stored)
    return stored


def _fetch_arrow(connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
    try:
        return connection.sql(statement).to_arrow_table()
    except (duckdb.Error, pa.ArrowException, MemoryError, OverflowError, RuntimeError) as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


def _combination_numbers(
    converted: pa.Table,
    columns: tuple[Column, ...],
    letter: str,
    combinations: tuple[tuple[Any, ...], ...],
    kept: Truths,
) -> Integers:
    """Return the number of each row's combination of values."""
    number = np.zeros(int(kept.sum()), dtype=np.int64)
    for index, column in enumerate(columns):
        values = sorted({combination[index] for combination in combinations})
        positions: dict[Any, int] = {value: position for position, value in enumerate(values)}
        values_read = converted.column(f"{letter}{index}").to_pylist()
        if column.type is ColumnType.BOOLEAN:
            values_read = [None if value is None else bool(value) for value in values_read]
        selected = [value for value, keep in zip(values_read, kept, strict=True) if keep]
        if any(value not in positions for value in selected):
            raise BadSource(
                f"The column {quote_value(column.name)} holds NULL, or a value that the policy does not list.",
                "Such a row would belong to no cell.",
                "List the value in the policy, or leave out or replace it before sealing.",
            )
        number = number * len(values) + np.array([positions[value] for value in selected], dtype=np.int64).reshape(-1)
    return number


def _null_measure(layout: Layout, column: Column, remedy: str) -> BadSource:
    return BadSource(
        f"The measure {quote_value(column.name)} of tables.{layout.table.name} holds NULL, or a value that is not "
        "a number.",
        "Every row of a measure counts, unless the policy lists the column in nulls.",
        remedy,
    )
