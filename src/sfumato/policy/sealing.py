"""Read the sealing entries of a policy: key, store and price of sizes; cells and measures of each table."""

import os
from dataclasses import replace
from math import prod
from pathlib import Path

from sfumato.errors import suggestion
from sfumato.policy.entry import Entry, items, quote_entry, refuse, text
from sfumato.policy.kinds import SectionValues
from sfumato.policy.locations import KEY_FILES, SEALED_STORES, read_location
from sfumato.policy.policy import (
    Column,
    ColumnType,
    Location,
    SealedTable,
    Sealing,
    Table,
    UnitColumn,
    UnitPath,
    fold_name,
)
from sfumato.policy.table_keys import MAX_COLUMNS, SEALED_TABLE

MAX_CELLS = 1 << 16
MAX_SPLAYED_COLUMNS = 32


def read_sealing(keys: SectionValues, folder: Path) -> Sealing:
    """Read [sealed]; relative paths start at `folder`."""
    key_file = read_location(keys["key"], KEY_FILES, folder)
    store = read_location(keys["store"], SEALED_STORES, folder)
    if not are_apart(key_file, store):
        raise refuse(
            keys["key"],
            "lies in the folder of the store, or below it.",
            "Anyone who can read both the key and the store can read the data.",
            "Keep the key in another folder that the operator of the store cannot read.",
        )
    return Sealing(key_file, store, **keys.fields)


def are_apart(key: Location, store: Location) -> bool:
    """Whether the key lies outside the folder of the store, links followed: else a reader of one can read the other."""
    if key.path is None or store.path is None:
        return True
    place, around = (Path(os.path.realpath(path)).parent for path in (key.path, store.path))
    return place != around and around not in place.parents


def check_unsealed(table: Table, keys: SectionValues) -> None:
    """Refuse words about sealing in a policy that seals nothing."""
    for column in table.columns:
        if column.joins:
            raise refuse(
                keys.entry.below("columns", {}).below(column.name, {}).below("join", "deterministic"),
                "is written in a policy without [sealed].",
                "Tables that are not sealed are joined by any column.",
                "Remove join.",
            )
    for key in (key.name for key in SEALED_TABLE):
        if key in keys:
            raise refuse(
                keys[key],
                "is written in a policy without [sealed].",
                "This key is for sealed tables only.",
                f"Add [sealed] in place of source, or remove {key}.",
            )


def sealed_table(table: Table, keys: SectionValues, sealing: Sealing) -> Table:
    """Return the table with what is sealed of it, or refuse what a store of ciphertexts cannot hold."""
    _check_kind(table, keys)
    unit = fold_name(table.unit.column) if isinstance(table.unit, UnitColumn) else None
    _check_joins(table, keys, unit, sealing.accept_leak)
    cells = _named_columns(table, keys.written.get("cells"), unit)
    splayed = _named_columns(table, keys.written.get("splayed"), unit)
    measures = _named_columns(table, keys.written.get("measures"), unit)
    squares, nulls = (_named_columns(table, keys.written.get(key), unit) for key in ("squares", "nulls"))
    _check_once(keys, cells, splayed, measures)
    for key, columns in (("cells", cells), ("splayed", splayed)):
        for column in columns:
            _check_values(keys[key], column)
    for column in measures:
        _check_measure(keys["measures"], column)
    for key, columns in (("squares", squares), ("nulls", nulls)):
        for column in columns:
            if column not in measures:
                raise refuse(
                    keys[key],
                    f"names {quote_entry(column.name)}, which is not a measure.",
                    "Only columns listed in measures can have squares and NULLs.",
                    f"Add it to measures, or remove it from {key}.",
                )
    _check_number(keys.written.get("cells"), cells, MAX_CELLS)
    _check_number(keys.written.get("splayed"), splayed, MAX_SPLAYED_COLUMNS)
    capacity = keys.values["capacity"]
    sealed = SealedTable(_names(cells), _names(measures), _names(squares), _names(nulls), _names(splayed), capacity)
    return replace(table, sealed=sealed)


def values_of(column: Column) -> tuple[bool | int | str, ...]:
    """Return the public values of a column of cells as an engine keeps them, in an order that no spelling changes."""
    if column.type is ColumnType.BOOLEAN and column.values is None:
        return (False, True)
    listed = column.values if isinstance(column.values, tuple) else ()
    encoded = [value if isinstance(value, str | bool) else column.steps(value) for value in listed]
    return tuple(sorted(encoded, key=lambda value: (str(type(value)), value)))


def _names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _check_kind(table: Table, keys: SectionValues) -> None:
    if table.unit is None:
        raise refuse(
            keys.entry.below("public", True),
            "is written in a policy with [sealed].",
            "A sealed store holds private tables only.",
            "Put public tables into a policy of their own, or their columns into the sealed rows.",
        )
    if table.has_two_owners:
        raise refuse(
            keys["unit"],
            "gives rows two owners.",
            "A sealed store bounds the rows of one person each, and cannot bound what two people share.",
            "Keep this table in a policy with source.",
        )
    if isinstance(table.unit, UnitPath):
        raise refuse(
            keys["unit"],
            f"is {quote_entry(keys['unit'].value)}, a path to another table.",
            "A sealed store cannot follow a path from table to table.",
            "Join before sealing, so that each row names its person, and write that column.",
        )
    if table.groups_per_unit is not None:
        raise refuse(
            keys["groups_per_unit"],
            "is written in a policy with [sealed].",
            "This limit is applied person by person in each question, and a sealed store cannot tell people apart.",
            "Remove it; rows_per_unit bounds the groups, too.",
        )


def _check_joins(table: Table, keys: SectionValues, unit: str | None, accepted: bool) -> None:
    for column in table.columns:
        if not column.joins:
            continue
        place = keys.entry.below("columns", {}).below(column.name, {}).below("join", "deterministic")
        if fold_name(column.name) != unit:
            raise refuse(
                place,
                "is written for a column that names no person.",
                "Only rows of the same person are joined, so sealed tables are joined by their unit.",
                "Write it for the column that unit names, or remove it.",
            )
        if not accepted:
            raise refuse(
                place,
                "shows the store which rows are of one person.",
                "The store could then identify people by how many rows they have in which cells; padded sizes do "
                "not prevent this.",
                "Join before sealing. If the store may know this, add accept_leak = true to [sealed].",
            )
        if "splayed" in keys:
            raise refuse(
                place,
                "is written for a table with splayed columns.",
                "Of joined rows only sums of cells are added up.",
                "Name these columns in cells, or remove join.",
            )


def _named_columns(table: Table, entry: Entry | None, unit: str | None) -> tuple[Column, ...]:
    columns: list[Column] = []
    for element in items(entry, MAX_COLUMNS) if entry is not None else ():
        name = text(element, 100)
        column = table.column(name)
        if column is None or fold_name(name) == unit:
            raise refuse(
                element,
                f"is {quote_entry(name)}, which is {'the unit' if column else 'not a declared column'} of this table.",
                "Cells and measures are declared columns other than the unit.",
                f"{suggestion(name, [known.name for known in table.columns])}Declare the column, or correct the name.",
            )
        if column in columns:
            raise refuse(element, f"repeats {quote_entry(name)}.", "A column is named once.", "Remove it here.")
        if column.unique:
            raise refuse(
                element,
                f"is {quote_entry(name)}, which is declared unique.",
                "A sealed store cannot enforce it, because it cannot compare encrypted values.",
                "Remove unique, and leave out the repeated rows before sealing.",
            )
        columns.append(column)
    return tuple(columns)


def _check_once(keys: SectionValues, *groups: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for key, columns in zip(("cells", "splayed", "measures"), groups, strict=True):
        for column in columns:
            if column.name in seen:
                raise refuse(
                    keys[key],
                    f"names {quote_entry(column.name)}, which is sealed in another way already.",
                    "Each column is sealed in one way only.",
                    "Name it once: in cells, in splayed or in measures.",
                )
            seen.add(column.name)


def _check_values(entry: Entry, column: Column) -> None:
    if not values_of(column):
        raise refuse(
            entry,
            f"names {quote_entry(column.name)}, which lists no values.",
            "The store must not learn which cells are in use, so all of them are listed in advance.",
            f"Add values = [...] to the column {quote_entry(column.name)}, or make it a measure.",
        )


def _check_measure(entry: Entry, column: Column) -> None:
    number_type = column.type in (ColumnType.INTEGER, ColumnType.DECIMAL)
    if not number_type or column.bounds is None or column.values is not None:
        raise refuse(
            entry,
            f"names {quote_entry(column.name)}, which is not a number with bounds and without values.",
            "Measures are summed as whole steps between their bounds.",
            "Give the column bounds, and a step if it is a decimal; a column with values belongs into cells.",
        )


def _check_number(entry: Entry | None, columns: tuple[Column, ...], most: int) -> None:
    cells = prod(len(values_of(column)) for column in columns)
    if entry is not None and cells > most:
        raise refuse(
            entry,
            f"makes {cells} combinations.",
            f"There are at most {most} combinations, because each takes space in the store.",
            "Name fewer columns, or columns with fewer values.",
        )
