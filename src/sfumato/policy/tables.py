"""The tables of a policy: public ones, and private ones with their unit; then what one table says of another."""

from dataclasses import replace

from sfumato.errors import suggestion
from sfumato.policy.account_keys import MAX_TABLES
from sfumato.policy.columns import read_column
from sfumato.policy.entry import Entry, missing, named, quote_entry, refuse, text
from sfumato.policy.kinds import SectionValues
from sfumato.policy.policy import (
    Column,
    ColumnType,
    OwnerPair,
    PrivacyUnit,
    Reference,
    RowUnit,
    Sealing,
    Table,
    UnitColumn,
    UnitPath,
    fold_name,
)
from sfumato.policy.sealing import check_unsealed, sealed_table
from sfumato.policy.table_keys import MAX_COLUMNS, MAX_UNIT_CHARS, TABLE
from sfumato.policy.two_owners import check_owner_pair, read_owner_pair

_EXAMPLE = 'unit = "orders.o_custkey via l_orderkey = o_orderkey"'
REMOVED_ROWS = "removed_rows"
"""The column that says how many rows of a person were left out, in the table that queries call "TABLE.removed"."""
_TYPES_THAT_ARE_NO_UNIT = (ColumnType.BOOLEAN, ColumnType.DECIMAL)


def read_tables(entry: Entry, sealed: Sealing | None = None) -> tuple[Table, ...]:
    """Read every table, then check the units and public keys that point into another one."""
    entries = named(entry, "table", MAX_TABLES)
    if not entries:
        raise refuse(entry, "is empty.", "A policy must declare at least one table.", "Add [tables.NAME].")
    tables = {fold_name(name): _table(name, below, sealed) for name, below in entries.items()}
    return tuple(_resolve_references(tables[fold_name(name)], below, tables) for name, below in entries.items())


def _table(name: str, entry: Entry, sealed: Sealing | None) -> Table:
    keys = TABLE.read_keys(entry)
    table = _plain_table(name, keys)
    if sealed is None:
        check_unsealed(table, keys)
        return table
    if "from" in keys:
        raise refuse(
            keys["from"],
            "is written for a sealed table.",
            "Its rows are sealed under its own name, and there is no source.",
            "Remove from.",
        )
    return sealed_table(table, keys, sealed)


def _plain_table(name: str, keys: SectionValues) -> Table:
    columns = _columns(keys["columns"]) if "columns" in keys else ()
    fields = {key: value for key, value in keys.fields.items() if key not in ("public", "capacity")}
    if keys.values["public"]:
        _check_public(columns, keys)
        return Table(name, columns, None, None, **fields)
    if "unit" not in keys:
        raise missing(
            keys.entry,
            "unit",
            "The policy must say whom each table is about; sfumato does not guess it.",
            'Add unit = "COLUMN" (one value, one person) or unit = "rows" (each row is a person), or public = true.',
        )
    unit = _read_unit(keys["unit"], columns)
    if isinstance(unit, OwnerPair):
        check_owner_pair(keys, columns)
        return Table(name, columns, unit, keys.values["rows_per_unit"][0], **fields)
    rows, rows_chosen = _rows_per_unit(keys, unit, columns)
    _check_totals(keys, unit, columns, rows_chosen)
    groups, groups_chosen = keys.values["groups_per_unit"] or (None, False)
    return Table(
        name,
        columns,
        unit,
        rows,
        groups,
        rows_chosen=rows_chosen,
        groups_chosen=groups_chosen and not isinstance(unit, RowUnit),
        **fields,
    )


def _check_totals(keys: SectionValues, unit: PrivacyUnit, columns: tuple[Column, ...], rows_chosen: bool) -> None:
    """Refuse a total that nothing would read: where questions choose it, and where each row is a person."""
    for column in columns:
        if column.total_per_unit is not None and (rows_chosen or isinstance(unit, RowUnit)):
            raise refuse(
                keys["columns"].below(column.name, None).below("total_per_unit", None),
                "has no effect in this table.",
                "Each question selects the total per person itself."
                if rows_chosen
                else "Each row is a person, so one value is the person's total.",
                "Leave it out.",
            )


def _columns(entry: Entry) -> tuple[Column, ...]:
    return tuple(read_column(name, below) for name, below in named(entry, "column", MAX_COLUMNS).items())


def _check_public(columns: tuple[Column, ...], keys: SectionValues) -> None:
    for key in ("unit", "rows_per_unit", "groups_per_unit"):
        if key in keys:
            raise refuse(
                keys[key],
                "is written for a public table.",
                "A public table contains no personal data, so it has no privacy unit.",
                f"Remove {key}, or remove public = true.",
            )
    for column in columns:
        if column.total_per_unit is not None:
            raise refuse(
                keys["columns"].below(column.name, None).below("total_per_unit", None),
                "is written in a public table.",
                "A public table contains no personal data.",
                "Leave it out.",
            )
        if isinstance(column.values, Reference):
            raise refuse(
                keys["columns"].below(column.name, None).below("values", None),
                "refers to another table, in a public table.",
                "All values of a public table are public already.",
                "Leave out values.",
            )


def _read_unit(entry: Entry, columns: tuple[Column, ...]) -> PrivacyUnit:
    if isinstance(entry.value, list):
        return read_owner_pair(entry, columns, lambda below, words: _unit(below, words, columns))
    return _unit(entry, text(entry, MAX_UNIT_CHARS).strip(), columns)


def _unit(entry: Entry, words: str, columns: tuple[Column, ...]) -> PrivacyUnit:
    declared = _find(columns, words)
    if fold_name(words) == "rows":
        if declared is not None:
            raise refuse(
                entry,
                'is "rows", and there is a column of that name.',
                "It could mean that each row is a person, or that this column names the person.",
                "Rename the column, here and in the source.",
            )
        return RowUnit()
    if declared is not None:
        if fold_name(words) == REMOVED_ROWS:
            raise refuse(
                entry,
                f"is {quote_entry(entry.value)}.",
                f"The table of removed rows has the unit and a column {REMOVED_ROWS}, so the names would collide.",
                "Rename the column of the person, here and in the source.",
            )
        return UnitColumn(_check_unit_column(entry, declared).name)
    path = _path(words)
    if path is not None:
        _check_no_column_reads_as_path(entry, columns)
        return path
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}, which is not a declared column of this table.",
        "The privacy unit is the column that names the person.",
        f"{suggestion(words, [column.name for column in columns])}"
        f'Declare it, for example {{ type = "integer" }} below columns; or write "rows", or a path such as {_EXAMPLE}.',
    )


def _check_no_column_reads_as_path(entry: Entry, columns: tuple[Column, ...]) -> None:
    for column in columns:
        if _path(column.name) is not None:
            raise refuse(
                entry,
                f"is a path, and the column {quote_entry(column.name)} reads as one too.",
                "The unit could then be read in two ways.",
                "Rename the column, here and in the source.",
            )


def _check_unit_column(entry: Entry, column: Column) -> Column:
    if column.type in _TYPES_THAT_ARE_NO_UNIT:
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}, a column of type {column.type}.",
            "The column that identifies people is of type integer, text, date or timestamp.",
            "Choose the column that names the person, or declare its type as it is.",
        )
    return column


def _path(words: str) -> UnitPath | None:
    target, _, link = _split(words, " via ")
    table, _, column = _split(target, ".")
    here, equals, there = _split(link, "=")
    if not (table and column and here and there and equals):
        return None
    return UnitPath(table, column, here, there)


def _split(words: str, separator: str) -> tuple[str, str, str]:
    """Return the text before and after the first `separator`, in any case, without blanks."""
    place = fold_name(words).find(separator)
    if place < 0:
        return words.strip(), "", ""
    return words[:place].strip(), separator, words[place + len(separator) :].strip()


def _rows_per_unit(keys: SectionValues, unit: PrivacyUnit, columns: tuple[Column, ...]) -> tuple[int, bool]:
    """Return the most rows that one person keeps, and whether each question chooses how many of them count."""
    if "rows_per_unit" in keys:
        rows, is_chosen = keys.values["rows_per_unit"]
        if isinstance(unit, RowUnit) and rows != 1:
            raise refuse(
                keys["rows_per_unit"],
                f'is {rows}, with unit = "rows".',
                "If each row is its own person, every person has exactly one row.",
                "Remove rows_per_unit, or name the column of the person in unit.",
            )
        return rows, is_chosen and rows > 1
    own = _find(columns, unit.column) if isinstance(unit, UnitColumn) else None
    if isinstance(unit, RowUnit) or (own is not None and own.unique):
        return 1, False
    raise missing(
        keys.entry,
        "rows_per_unit",
        "The noise depends on how many rows one person can have, so the policy must state it.",
        "Add rows_per_unit = N: of each person, at most N rows are kept.",
    )


def _resolve_references(table: Table, entry: Entry, tables: dict[str, Table]) -> Table:
    """Return the table with the names of other tables spelt as they are declared, or refuse what they miss."""
    columns = tuple(_with_keys(column, entry, tables) for column in table.columns)
    unit = table.unit
    if isinstance(unit, UnitPath):
        unit = _find_path(unit, _entry_at(entry, "unit"), table, tables)
    if isinstance(unit, OwnerPair):
        place = _entry_at(entry, "unit")
        first, second = (_resolved_owner(owner, place, table, tables) for owner in unit.owners)
        unit = replace(unit, owners=(first, second))
        types = [_owner_type(owner, table, tables) for owner in unit.owners]
        if unit.kinds is None and types[0] is not types[1]:
            raise refuse(
                place,
                f"names one owner by type {types[0]} and the other by type {types[1]}.",
                "Owners of the same kind are compared, and values of different types are never equal.",
                'Declare both with one type, or name two kinds: unit = ["KIND: …", "KIND: …"].',
            )
    return replace(table, columns=columns, unit=unit)


def _resolved_owner(
    owner: UnitColumn | UnitPath, entry: Entry, table: Table, tables: dict[str, Table]
) -> UnitColumn | UnitPath:
    return _find_path(owner, entry, table, tables) if isinstance(owner, UnitPath) else owner


def _owner_type(owner: UnitColumn | UnitPath, table: Table, tables: dict[str, Table]) -> ColumnType | None:
    named = tables[fold_name(owner.table)] if isinstance(owner, UnitPath) else table
    column = named.column(owner.column)
    return None if column is None else column.type


def _with_keys(column: Column, entry: Entry, tables: dict[str, Table]) -> Column:
    if not isinstance(column.values, Reference):
        return column
    place = _entry_at(entry, "columns", column.name, "values")
    table = _known_table(place, column.values.table, tables)
    if not table.public:
        raise refuse(
            place,
            f"is {quote_entry(place.value)}, and {quote_entry(table.name)} is not a public table.",
            "Keys taken from a private table would reveal what is in it.",
            f"List the keys, or declare public = true in [tables.{table.name}] if it is.",
        )
    if not table.columns:  # its columns are the source's, which is not read here
        return replace(column, values=Reference(table.name, column.values.column))
    target = _known_column(place, column.values.column, table)
    if target.type is not column.type:
        raise _different_types(place, column, target)
    return replace(column, values=Reference(table.name, target.name))


def _find_path(path: UnitPath, entry: Entry, table: Table, tables: dict[str, Table]) -> UnitPath:
    here = _known_column(entry, path.here, table)
    target = _known_table(entry, path.table, tables)
    column = _known_column(entry, path.column, target)
    there = _known_column(entry, path.there, target)
    if here.type is not there.type:
        raise _different_types(entry, here, there)
    if target.unit != UnitColumn(column.name):
        raise refuse(
            entry,
            f"leads to {quote_entry(f'{target.name}.{column.name}')}, "
            f"which is not the unit of {quote_entry(target.name)}.",
            "Both tables must protect the same person.",
            f"Write unit = {quote_entry(column.name)} in [tables.{target.name}], "
            "or lead the path to that table's unit.",
        )
    return UnitPath(target.name, column.name, here.name, there.name)


def _known_table(entry: Entry, name: str, tables: dict[str, Table]) -> Table:
    if fold_name(name) in tables:
        return tables[fold_name(name)]
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}, and there is no table {quote_entry(name)}.",
        "Every table that a policy refers to must be declared in it.",
        f"{suggestion(name, [table.name for table in tables.values()])}"
        f"Declare [tables.{quote_entry(name)}] or correct it.",
    )


def _known_column(entry: Entry, name: str, table: Table) -> Column:
    column = _find(table.columns, name)
    if column is not None:
        return column
    raise refuse(
        entry,
        f"is {quote_entry(entry.value)}, and {quote_entry(table.name)} declares no column {quote_entry(name)}.",
        f"A path is written TABLE.COLUMN via HERE = THERE, as in {_EXAMPLE}; keys are TABLE.COLUMN.",
        f"{suggestion(name, [known.name for known in table.columns])}Declare the column or correct the name.",
    )


def _different_types(entry: Entry, first: Column, second: Column) -> Exception:
    return refuse(
        entry,
        f"compares {quote_entry(first.name)} of type {first.type} "
        f"with {quote_entry(second.name)} of type {second.type}.",
        "Values of different types are never equal.",
        "Declare both columns with one type.",
    )


def _find(columns: tuple[Column, ...], name: str) -> Column | None:
    return next((column for column in columns if fold_name(column.name) == fold_name(name)), None)


def _entry_at(entry: Entry, *keys: str) -> Entry:
    for key in keys:
        value = entry.value[key] if isinstance(entry.value, dict) else None
        entry = entry.below(key, value)
    return entry
