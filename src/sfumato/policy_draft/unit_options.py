"""Whom each table protects: as the owner says it, and as the names of columns propose it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sfumato.errors import BadParameter, UnknownName, quote_value, suggestion
from sfumato.policy.policy import fold_name
from sfumato.policy_draft.naming import is_bare_key, links, own_key
from sfumato.policy_draft.schema import SchemaTable, SourceSchema

ROWS = "rows"
_FORMS = '--unit COLUMN, --unit TABLE.COLUMN, or --unit "TABLE=OTHER.COLUMN via HERE = THERE"'


@dataclass(frozen=True, slots=True)
class Unit:
    """Whom a table protects, in the words of a policy: a column, "rows", or a path to another table's unit."""

    words: str
    proposed: bool = False
    """Inferred from column names, or from foreign keys."""
    by_reference: bool = False
    """Follows from a foreign key that the source declares."""

    @property
    def path(self) -> bool:
        """Whether another table names the person."""
        return _is_path(self.words)


def declared_units(schema: SourceSchema, options: Iterable[str], public: Iterable[str]) -> dict[str, Unit]:
    """Return the units that the owner wrote, by table: COLUMN, rows, TABLE.COLUMN, TABLE=COLUMN or TABLE=PATH."""
    named: dict[str, Unit] = {}
    everywhere: dict[str, Unit] = {}
    hidden = set(map(fold_name, public))
    for option in options:
        table, words = _parse_unit_option(schema, option)
        if table is None:
            table_units = {
                name: unit for name, unit in _everywhere(schema, words).items() if fold_name(name) not in hidden
            }
            if not table_units:
                raise _without_effect(option, "Every table that has it is public.")
            everywhere = {**table_units, **everywhere}
        elif fold_name(table.name) in hidden:
            raise _without_effect(option, f"The table {table.name} is also named by --public, so it has no unit.")
        elif table.name in named:
            raise _without_effect(option, f"Whom {table.name} protects is given twice.")
        else:
            named[table.name] = Unit(words)
    return {**everywhere, **named}


def read_unit(table: SchemaTable, typed: str) -> Unit:
    """Read whom one table protects: a column of it, rows, or a path."""
    words = typed.strip()
    if fold_name(words) == ROWS or _is_path(words):
        return Unit(ROWS if fold_name(words) == ROWS else words)
    return Unit(_find_column(table, words))


def with_proposals(schema: SourceSchema, declared: Mapping[str, Unit], public: Iterable[str]) -> dict[str, Unit]:
    """Return the units together with those that follow from them by names: a person's rows in other tables."""
    units, hidden = dict(declared), set(map(fold_name, public))
    while True:
        open_tables = [
            candidate
            for candidate in schema.tables
            if candidate.name not in units and fold_name(candidate.name) not in hidden
        ]
        proposed = {
            table.name: Unit(choices[0], True, bool(_references(schema, units, table)))
            for table in open_tables
            if len(choices := proposals(schema, units, table)) == 1
        }
        if not proposed:
            return units
        units |= proposed


def proposals(schema: SourceSchema, units: Mapping[str, Unit], table: SchemaTable) -> list[str]:
    """Return the units that foreign keys, or else names, propose for a table.

    Each is a column that names the same person; where there is none, a path to one.
    """
    if declared := _references(schema, units, table):
        return declared
    named = [(other, units[other.name].words) for other in schema.tables if _names_people(units.get(other.name))]
    direct = [
        column.name
        for column in table.columns
        if any(links(table.names, column.name, other.names, unit) for other, unit in named)
    ]
    if direct:
        return direct
    return [
        f"{other.name}.{unit} via {column.name} = {key}"
        for other, unit in named
        for key in filter(None, [own_key(other.names, schema.names)])
        if key != unit
        for column in table.columns
        if links(table.names, column.name, other.names, key)
    ]


def _references(schema: SourceSchema, units: Mapping[str, Unit], table: SchemaTable) -> list[str]:
    """Return the units that the foreign keys of a table lead to."""
    keys = {
        (here, other.name, there): units[other.name].words
        for here, name, there in table.references
        for other in schema.tables
        if fold_name(other.name) == fold_name(name)
        and other.name != table.name
        and _names_people(units.get(other.name))
    }
    direct = [here for (here, _, there), unit in keys.items() if fold_name(unit) == fold_name(there)]
    paths = [f"{other}.{unit} via {here} = {there}" for (here, other, there), unit in keys.items()]
    return list(dict.fromkeys(direct or paths))


def _names_people(unit: Unit | None) -> bool:
    return unit is not None and unit.words != ROWS and not unit.path


def path_of(words: str) -> tuple[str, str, str]:
    """Return the table that a path leads to, the column here and the column there.

    >>> path_of("orders.o_custkey via l_orderkey = o_orderkey")
    ('orders', 'l_orderkey', 'o_orderkey')
    """
    place = fold_name(words).find(" via ")
    table, _, _ = words[:place].partition(".")
    here, _, there = words[place + len(" via ") :].partition("=")
    return table.strip(), here.strip(), there.strip()


def _is_path(words: str) -> bool:
    return " via " in fold_name(words)


def _parse_unit_option(schema: SourceSchema, option: str) -> tuple[SchemaTable | None, str]:
    """Return the table that an option is about, None for all that have the column, and the unit."""
    words = option.strip()
    before, equals, after = words.partition("=")
    if equals and " via " not in fold_name(before):
        table = _find_table(schema, before.strip(), option)
        return table, read_unit(table, after).words
    if _is_path(words):
        raise BadParameter(
            f"--unit {quote_value(option)} does not name the table of the unit.",
            "A path leads from one table to the one that names the person.",
            f'Write the table first: --unit "TABLE={words}".',
        )
    if fold_name(words) == ROWS or any(table.column(words) for table in schema.tables):
        return None, words
    name, dot, column = words.partition(".")
    if dot and any(fold_name(table.name) == fold_name(name) for table in schema.tables):
        table = _find_table(schema, name, option)
        return table, _find_column(table, column)
    raise _unknown_table_or_column(words, [column.name for table in schema.tables for column in table.columns])


def _everywhere(schema: SourceSchema, words: str) -> dict[str, Unit]:
    if fold_name(words) == ROWS:
        return {table.name: Unit(ROWS) for table in schema.tables}
    having = [table for table in schema.tables if table.column(words)]
    if len(having) > 1 and is_bare_key(words):
        names = ", ".join(table.name for table in having)
        raise BadParameter(
            f"--unit {quote_value(words)} is a column of several tables: {names}.",
            "A column of such a name numbers the rows of its own table, so it does not name the same person in each.",
            f"Say in which table it names the person: --unit {having[0].name}.{words}. Say it of each table.",
        )
    return {table.name: Unit(_find_column(table, words)) for table in having}


def _find_table(schema: SourceSchema, name: str, option: str) -> SchemaTable:
    found = next((table for table in schema.tables if fold_name(table.name) == fold_name(name)), None)
    if found is not None:
        return found
    known = [table.name for table in schema.tables]
    raise UnknownName(
        f"--unit {quote_value(option)}: there is no table {quote_value(name)} in the data.",
        f"A unit is written {_FORMS}.",
        f"{suggestion(name, known)}There are: {', '.join(known[:20])}.",
    )


def _find_column(table: SchemaTable, name: str) -> str:
    found = table.column(name.strip())
    if found is not None:
        return found.name
    raise _unknown_table_or_column(name, [column.name for column in table.columns], f" in {table.name}")


def _unknown_table_or_column(name: str, known: Iterable[str], where: str = "") -> UnknownName:
    listed = list(dict.fromkeys(known))
    return UnknownName(
        f"There is no column {quote_value(name)} in the data{where}.",
        "Only the names of the source can be declared.",
        f"{suggestion(name, listed)}There are: {', '.join(listed[:20])}{', …' if len(listed) > 20 else ''}.",
    )


def _without_effect(option: str, why: str) -> BadParameter:
    return BadParameter(
        f"--unit {quote_value(option)} would have no effect.", why, "Remove it, or the option that conflicts with it."
    )
