"""A policy before it is one: what is known of each table and column, and what its owner still has to say."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from sfumato.errors import BadParameter, UnknownName, quote_value, suggestion
from sfumato.policy.columns import read_column
from sfumato.policy.entry import Entry
from sfumato.policy.policy import PLAIN, ColumnType, CsvFormat, fold_name
from sfumato.policy_draft.literals import decimal_text, number_text, quoted_text, value_text
from sfumato.policy_draft.naming import own_key, personal
from sfumato.policy_draft.schema import SchemaColumn, SchemaTable, SourceSchema
from sfumato.policy_draft.unit_options import ROWS, Unit, declared_units, path_of, proposals, with_proposals

Wish = TypeVar("Wish")
DraftBounds = tuple[str, str]
"""A least and a greatest value, as TOML writes them."""
_BOUNDED_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE, ColumnType.TIMESTAMP)
DATE_TYPES = (ColumnType.DATE, ColumnType.TIMESTAMP)
_MIN_STEP = Fraction(1, 10**12)


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """One column; every text is as TOML writes it, and None is not known."""

    name: str
    type: ColumnType
    untyped: bool = False
    """The type is unknown: the source has none (CSV), and no option gave it."""
    bounds: DraftBounds | None = None
    step: str | None = None
    default_step: bool = False
    """The step is unknown."""
    values: tuple[str, ...] | None = None
    values_of: str | None = None
    """The column of a public table that holds the public keys."""
    unique: bool = False
    proposed_key: bool = False
    """Proposed as a key from its name alone."""
    format: str | None = None
    """How its dates are written, as TOML writes that; None means as ISO 8601 does."""
    personal: str | None = None
    """Kind of personal data that its name suggests, if it is left out for that."""
    inferred: bool = False
    """Something here was taken from the data."""
    type_read: bool = False
    """The type is the one as which every value of the source reads."""
    type_guessed: bool = False
    """The type follows from its bounds or step, which were given; the source has none."""
    listed: bool = False
    """The keys are the labels of its type in the source."""
    comment: str = ""
    """What the source's catalogue says about it."""

    @property
    def keyed(self) -> bool:
        """Whether its public keys are known."""
        return self.values is not None or self.values_of is not None


@dataclass(frozen=True, slots=True)
class DraftTable:
    """One table; `unit` is a column, "rows", a path, or None where it is not known who is protected."""

    name: str
    columns: tuple[DraftColumn, ...]
    unusable: tuple[str, ...] = ()
    """Columns that no policy can declare, by their names or by what they hold."""
    public: bool = False
    unit: str | None = None
    proposed: bool = False
    """The unit was inferred from column names, or from foreign keys."""
    by_reference: bool = False
    """The unit follows from a foreign key that the source declares."""
    choices: tuple[str, ...] = ()
    """Units that names propose, where there are several."""
    rows_per_unit: int | None = None
    inferred: bool = False
    stored: str | None = None
    """Name in the source, where it differs."""
    comment: str = ""
    """What the source's catalogue says about it."""

    @property
    def private(self) -> bool:
        """Whether it is known whom the table protects."""
        return not self.public and self.unit is not None

    @property
    def one_row(self) -> bool:
        """Whether a person has one row here, because the column that names them is a key."""
        return any(column.name == self.unit and column.unique for column in self.columns)

    @property
    def needs_rows(self) -> bool:
        """Whether `rows_per_unit` is required and not given yet."""
        return self.private and self.unit != ROWS and self.rows_per_unit is None and not self.one_row

    def column(self, name: str) -> DraftColumn | None:
        """Return the column of this name in any case, or None."""
        return next((column for column in self.columns if fold_name(column.name) == fold_name(name)), None)


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole policy under way."""

    scheme: str
    tables: tuple[DraftTable, ...]
    epsilon: str | None = None
    delta: str | None = None
    csv: CsvFormat = PLAIN
    analysts: tuple[tuple[str, str | None], ...] = ()
    """Names of analysts, each with the epsilon that was given; None is that of the whole budget."""
    remarks: tuple[str, ...] = ()
    """What was found when types were read, for the terminal."""

    def unknown(self) -> list[str]:
        """Return the entries that are still missing in the draft."""
        missing = [f"tables.{table.name}.rows_per_unit" for table in self.tables if table.needs_rows]
        missing += [f"budget.{key}" for key in ("epsilon", "delta") if getattr(self, key) is None]
        if not any(table.private or table.public for table in self.tables):
            missing.append(f"tables.{self.tables[0].name}.unit")
        return missing


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Options given by the owner. Columns are named as COLUMN or TABLE.COLUMN; texts are as they were typed."""

    units: tuple[str, ...] = ()
    rows_per_unit: Mapping[str, int] = field(default_factory=dict)
    """By table; the empty name stands for every table."""
    public: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, DraftBounds] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    unique: tuple[str, ...] = ()
    csv: Mapping[str, object] = field(default_factory=dict)
    """How CSV files are written, by the key of the policy."""
    epsilon: str | None = None
    delta: str | None = None
    analysts: Mapping[str, str | None] = field(default_factory=dict)
    """Epsilon by analyst; None where it was not given."""
    read_types: bool = False
    """Whether types of CSV columns are read from their values."""


def make_draft(schema: SourceSchema, wishes: DraftOptions) -> Draft:
    """Return the draft that follows from names, types and options alone."""
    _check_names(schema, wishes)
    units = with_proposals(schema, declared_units(schema, wishes.units, wishes.public), wishes.public)
    return Draft(
        schema.scheme,
        with_one_type(
            _with_rows_of_all(tuple(_draft_table(schema, table, units, wishes) for table in schema.tables), wishes)
        ),
        None if wishes.epsilon is None else number_text(wishes.epsilon, "epsilon"),
        None if wishes.delta is None else number_text(wishes.delta, "delta"),
        schema.csv,
        tuple(
            (name, None if epsilon is None else number_text(epsilon, f"epsilon of {name}"))
            for name, epsilon in wishes.analysts.items()
        ),
    )


def _with_rows_of_all(tables: tuple[DraftTable, ...], wishes: DraftOptions) -> tuple[DraftTable, ...]:
    """Return the tables with the number that was said of all; where none would take it, it is stronger than a proposal.

    Otherwise a table whose key names the person keeps one row of each.
    """
    rows = wishes.rows_per_unit.get("")
    named = set(map(fold_name, wishes.rows_per_unit))
    if rows is None or any(table.rows_per_unit is not None and fold_name(table.name) not in named for table in tables):
        return tables
    return tuple(_with_rows(table, rows) if table.private and table.unit != ROWS else table for table in tables)


def _with_rows(table: DraftTable, rows: int) -> DraftTable:
    columns = tuple(
        replace(column, unique=False, proposed_key=False)
        if column.name == table.unit and column.proposed_key and rows > 1
        else column
        for column in table.columns
    )
    return replace(table, columns=columns, rows_per_unit=table.rows_per_unit or rows)


def with_unit(table: DraftTable, schema: SourceSchema, unit: Unit | None) -> DraftTable:
    """Return the table under this unit, with what its names propose: its key, and columns that are left out."""
    if unit is None:
        return table
    known = next(candidate for candidate in schema.tables if candidate.name == table.name)
    own = own_key(known.names, schema.names)
    columns = tuple(_propose_column(column, own, unit, table.rows_per_unit) for column in table.columns)
    return replace(
        table,
        unit=unit.words,
        proposed=unit.proposed,
        by_reference=unit.by_reference,
        choices=(),
        columns=columns,
    )


def _propose_column(column: DraftColumn, own: str | None, unit: Unit, rows: int | None) -> DraftColumn:
    if column.name == own and not column.unique and unit.words != ROWS:
        names_people = column.name == unit.words
        if not (names_people and rows is not None):  # how many rows count was said
            column = replace(column, unique=True, proposed_key=True)
    needed = column.unique or column.name == unit.words or (unit.path and column.name == path_of(unit.words)[1])
    return replace(column, personal=None) if needed else column


def with_bounds(column: DraftColumn, ends: DraftBounds) -> DraftColumn:
    """Return the column with these bounds, which were typed; a decimal without a step gets one."""
    if column.type not in _BOUNDED_TYPES:
        raise BadParameter(
            f"The column {quote_value(column.name)} is of type {column.type}, and bounds would have no effect.",
            f"Bounds are for columns of type {', '.join(_BOUNDED_TYPES)}.",
            "List its public keys with --values, or say its --type.",
        )
    low, high = (value_text(end, column.type, f"bounds of {column.name}") for end in ends)
    return _check_column(_with_step(replace(column, bounds=(low, high)), (low, high)))


def with_values(column: DraftColumn, values: Iterable[str]) -> DraftColumn:
    """Return the column with these public keys, which were typed."""
    keys = tuple(value_text(value, column.type, f"values of {column.name}") for value in values)
    return _check_column(_with_step(replace(column, values=keys, values_of=None), keys))


def with_step(column: DraftColumn, step: str) -> DraftColumn:
    """Return the column with this step, which was typed."""
    return _check_column(replace(column, step=number_text(step, f"step of {column.name}"), default_step=False))


def with_format(column: DraftColumn, form: str) -> DraftColumn:
    """Return the column with the form of its dates, which was typed."""
    if column.type not in DATE_TYPES:
        raise BadParameter(
            f"The column {quote_value(column.name)} is of type {column.type}, and a format would have no effect.",
            "A format says how dates and timestamps are written.",
            f"Say its type, too: --type {column.name}=date.",
        )
    return _check_column(replace(column, format=quoted_text(form)))


def _with_step(column: DraftColumn, numbers: Iterable[str]) -> DraftColumn:
    if column.type is not ColumnType.DECIMAL or (column.step is not None and not column.default_step):
        return column
    return replace(column, step=default_step(numbers), default_step=True)


def default_step(numbers: Iterable[str]) -> str:
    """Return a hundredth, or the finer power of ten that divides these numbers and their range into a thousand.

    >>> default_step(["0", "5000"]), default_step(["0", "1"]), default_step(["0", "0.0005"])
    ('0.01', '0.001', '0.0000001')
    """
    exact = [Fraction(number) for number in numbers]
    step, width = Fraction(1, 100), max(exact) - min(exact)
    while step > _MIN_STEP and (0 < width < 1000 * step or any((number / step).denominator != 1 for number in exact)):
        step /= 10
    return decimal_text(step)


def _check_column(column: DraftColumn) -> DraftColumn:
    """Return the column, or refuse at once what no policy would accept of it."""
    if column.type is not ColumnType.DECIMAL or column.step is not None:
        lines = tomllib.loads(f"column = {column_text(column)}", parse_float=Decimal)
        read_column(column.name, Entry(lines["column"], (column.name,)))
    return column


def column_text(column: DraftColumn, names_people: bool = False) -> str:
    """Return the policy entry of a column, as TOML."""
    parts = [f'type = "{column.type}"']
    grid = column.type is not ColumnType.DECIMAL or column.step is not None
    if not names_people and column.bounds is not None and grid:
        parts.append(f"bounds = [{', '.join(column.bounds)}]")
    if not names_people and column.values is not None and grid:
        parts.append(f"values = [{', '.join(column.values)}]")
    if not names_people and column.values_of is not None:
        parts.append(f"values = {quoted_text(column.values_of)}")
    if column.step is not None and column.type is ColumnType.DECIMAL:
        parts.append(f"step = {column.step}")
    if column.format is not None and column.type in DATE_TYPES:
        parts.append(f"format = {column.format}")
    if column.unique:
        parts.append("unique = true")
    return f"{{ {', '.join(parts)} }}"


def with_one_type(tables: tuple[DraftTable, ...]) -> tuple[DraftTable, ...]:
    """Return the tables in which a person has one type: where CSV says none, the one that was said elsewhere."""
    by_name = {table.name: table for table in tables}
    for table in tables:
        if table.unit is None or table.unit == ROWS:
            continue
        for mine, (other_name, theirs) in joined_columns(table, tables):
            second = by_name.get(other_name)
            first, two = by_name[table.name].column(mine), second.column(theirs) if second else None
            if second is None or first is None or two is None or first.untyped == two.untyped:
                continue
            typed = two if first.untyped else first
            by_name[table.name] = _with_column_type(by_name[table.name], mine, typed.type)
            by_name[other_name] = _with_column_type(by_name[other_name], theirs, typed.type)
    return tuple(by_name.values())


def joined_columns(table: DraftTable, tables: tuple[DraftTable, ...]) -> list[tuple[str, tuple[str, str]]]:
    """Return the columns that hold the same values: of a path, or of the tables that name the same person."""
    if Unit(table.unit or "").path:
        target, here, there = path_of(table.unit or "")
        return [(here, (target, there))]
    others = [other for other in tables if other.unit not in (None, ROWS) and not Unit(other.unit or "").path]
    return [(table.unit or "", (other.name, other.unit or "")) for other in others if other.name != table.name]


def _with_column_type(table: DraftTable, name: str, kind: ColumnType) -> DraftTable:
    columns = tuple(
        replace(column, type=kind, untyped=False)
        if fold_name(column.name) == fold_name(name) and column.untyped
        else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def _draft_table(
    schema: SourceSchema, table: SchemaTable, units: Mapping[str, Unit], wishes: DraftOptions
) -> DraftTable:
    columns = tuple(_draft_column(schema, table, column, wishes) for column in table.columns if column.type is not None)
    unusable = tuple(column.name for column in table.columns if column.type is None)
    draft = DraftTable(table.name, columns, unusable, stored=table.stored, comment=table.comment)
    if fold_name(table.name) in map(fold_name, wishes.public):
        return replace(draft, public=True)
    unit = units.get(table.name)
    if unit is None or unit.words != ROWS:
        rows = {fold_name(name): rows for name, rows in wishes.rows_per_unit.items()}
        draft = replace(draft, rows_per_unit=rows.get(fold_name(table.name)))
    if unit is None:
        draft = replace(draft, choices=tuple(proposals(schema, units, table)))
    draft = with_unit(draft, schema, unit)
    if draft.rows_per_unit is None and not draft.one_row and (unit is None or unit.words != ROWS):
        draft = replace(draft, rows_per_unit=wishes.rows_per_unit.get(""))
    return draft


def _draft_column(schema: SourceSchema, table: SchemaTable, column: SchemaColumn, wishes: DraftOptions) -> DraftColumn:
    typed = option_for(wishes.types, table, column)
    bounds, values = option_for(wishes.bounds, table, column), option_for(wishes.values, table, column)
    step = option_for(wishes.steps, table, column)
    unique = option_for(dict.fromkeys(wishes.unique, True), table, column) or False
    untyped = column.stored == "unread text" and typed is None
    kind = _parse_type(typed) if typed is not None else column.type or ColumnType.TEXT
    guessed = untyped and bool(bounds or step)
    if guessed:
        kind, untyped = _guess_type(bounds or (), step), False
    draft = DraftColumn(
        column.name,
        kind,
        untyped and values is None,
        unique=unique,
        type_guessed=guessed,
        comment=column.comment,
    )
    if kind is ColumnType.TEXT and not (typed or values or unique):
        draft = replace(draft, personal=personal(column.name))
    if step is not None:
        draft = replace(draft, step=number_text(step, f"step of {column.name}"))
    elif column.step is not None and kind is ColumnType.DECIMAL:
        draft = replace(draft, step=decimal_text(column.step))
    if (form := option_for(wishes.formats, table, column)) is not None:
        draft = with_format(draft, form)
    if bounds is not None:
        draft = with_bounds(draft, bounds)
    if values is None:
        if column.values and kind is ColumnType.TEXT:
            return replace(draft, values=tuple(map(quoted_text, column.values)), listed=True)
        return draft
    if (reference := public_keys(schema, values, wishes.public)) is not None:
        return replace(draft, values_of=reference)
    return with_values(draft, values)


def public_keys(schema: SourceSchema, values: tuple[str, ...], public: Iterable[str]) -> str | None:
    """Return the column of a public table that was typed instead of keys, TABLE.COLUMN, or None."""
    if len(values) != 1:
        return None
    name, _, column = values[0].strip().partition(".")
    table = next((table for table in schema.tables if fold_name(table.name) == fold_name(name)), None)
    key_column = table.column(column) if table is not None and column else None
    if table is None or key_column is None:
        return None
    if fold_name(table.name) not in map(fold_name, public):
        raise BadParameter(
            f"--values {quote_value(values[0])} takes its keys from {table.name}, which is not public.",
            "Keys taken from a private table would name the people in it.",
            f"List the keys, or add --public {table.name} if it contains no personal data.",
        )
    return f"{table.name}.{key_column.name}"


def _guess_type(ends: Iterable[str], step: str | None) -> ColumnType:
    """Return the type of a CSV column from what the owner wrote of it: their words, not the data's."""
    words = " ".join(ends)
    if "T" in words:
        return ColumnType.TIMESTAMP
    if words.count("-") >= 4:
        return ColumnType.DATE
    return ColumnType.DECIMAL if step is not None or "." in words else ColumnType.INTEGER


def _parse_type(word: str) -> ColumnType:
    if word in set(ColumnType):
        return ColumnType(word)
    raise BadParameter(
        f"The type {quote_value(word)} does not exist.",
        f"A column is one of: {', '.join(ColumnType)}.",
        f"{suggestion(word, ColumnType)}Write --type COLUMN=TYPE.",
    )


def option_for(wishes: Mapping[str, Wish], table: SchemaTable, column: SchemaColumn) -> Wish | None:
    """Return the option for a column, given as TABLE.COLUMN or as COLUMN."""
    named = {fold_name(name): wish for name, wish in wishes.items()}
    return named.get(fold_name(f"{table.name}.{column.name}"), named.get(fold_name(column.name)))


def _check_names(schema: SourceSchema, wishes: DraftOptions) -> None:
    """Refuse a wish about something that is not there: a slip of the keyboard would leave a column unprotected."""
    tables = [table.name for table in schema.tables]
    columns = [column.name for table in schema.tables for column in table.columns]
    paths = [f"{table.name}.{column.name}" for table in schema.tables for column in table.columns]
    known = {fold_name(name) for name in (*columns, *paths)}
    for name in (*wishes.types, *wishes.bounds, *wishes.steps, *wishes.values, *wishes.formats, *wishes.unique):
        if fold_name(name) not in known:
            raise _unknown_name("column", name, paths if "." in name else columns)
    for name in (*wishes.public, *filter(None, wishes.rows_per_unit)):
        if fold_name(name) not in map(fold_name, tables):
            raise _unknown_name("table", name, tables)


def _unknown_name(what: str, name: str, known: Iterable[str]) -> UnknownName:
    listed = list(dict.fromkeys(known))
    return UnknownName(
        f"There is no {what} {quote_value(name)} in the data.",
        "Only the names of the source can be declared.",
        f"{suggestion(name, listed)}There are: {', '.join(listed[:20])}{', …' if len(listed) > 20 else ''}.",
    )
