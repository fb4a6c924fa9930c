"""Ask the owner for what names and types do not show: units, rows per unit, bounds, keys and budget.

Each answer is checked at once: an invalid one is asked again, and earlier answers are kept.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter, Refusal, quote_value
from sfumato.policy.policy import ColumnType, fold_name
from sfumato.policy_draft.accuracy import estimate_budget_use
from sfumato.policy_draft.draft import (
    DATE_TYPES,
    Draft,
    DraftColumn,
    DraftTable,
    public_keys,
    with_bounds,
    with_format,
    with_one_type,
    with_step,
    with_unit,
    with_values,
)
from sfumato.policy_draft.literals import ends_text, number_text
from sfumato.policy_draft.schema import SchemaTable, SourceSchema
from sfumato.policy_draft.unit_options import Unit, declared_units, path_of, proposals, read_unit, with_proposals

Answer = TypeVar("Answer")
Ask = Callable[[str], str]
"""Puts a question and returns the line that was typed, without blanks at its ends."""
Say = Callable[[str], None]

PUBLIC = "public"
"""The word that makes a table public. A key that is hit by mistake does not."""
_OFFERED_EPSILONS = ("0.5", "1", "3", "10")
_MAX_OFFERED_NAMES = 12


def interview(draft: Draft, schema: SourceSchema, ask: Ask, say: Say) -> Draft:
    """Ask for everything that is still unknown. An empty answer leaves it to be filled in later."""
    tables = with_one_type(_units(draft.tables, schema, ask, say))
    public = [table.name for table in tables if table.public]
    answered = [_private(table, schema, public, ask, say) if table.private else table for table in tables]
    return _budget(replace(draft, tables=tuple(answered)), ask, say)


def _units(tables: tuple[DraftTable, ...], schema: SourceSchema, ask: Ask, say: Say) -> tuple[DraftTable, ...]:
    """Ask first who is protected, then about each table what its names propose."""
    if not any(table.private for table in tables):
        say("Who is protected? Name the column in which a person has the same value in all their rows;")
        say('or "rows", if each row is a separate person.')
        hidden = [table.name for table in tables if table.public]
        question = f"Column ({', '.join(_offered_columns(schema))})"
        first = _ask_until_valid(question, ask, say, lambda typed: declared_units(schema, [typed], hidden)) or {}
        tables = _with(tables, schema, with_proposals(schema, first, hidden) if first else {})
    return _ask_open_tables(tables, schema, ask, say)


def _ask_open_tables(
    tables: tuple[DraftTable, ...], schema: SourceSchema, ask: Ask, say: Say
) -> tuple[DraftTable, ...]:
    """Ask for the unit of each table without one; tables that others reference come first."""
    decided = {table.name: table for table in tables if table.public or (table.private and not table.proposed)}
    waiting = [table for table in tables if table.name not in decided]
    if waiting:
        say("")
        say(
            "Whom do the other tables protect? Answer with a column, with rows if each row is a person, or with a path:"
        )
        say(f'TABLE.COLUMN via HERE = THERE. Type the whole word "{PUBLIC}" if a table contains no personal data.')
    while waiting:
        units = {name: Unit(table.unit) for name, table in decided.items() if table.unit is not None}
        choices = {table.name: proposals(schema, units, _schema_table(schema, table)) for table in waiting}
        table = min(waiting, key=lambda candidate: _turn(choices[candidate.name]))
        waiting.remove(table)
        decided[table.name] = _ask_unit(table, choices[table.name], units, schema, ask, say)
    return tuple(decided[table.name] for table in tables)


def _turn(choices: list[str]) -> int:
    """Return whose turn it is: who names the person, who leads to them, who has nothing to do with them."""
    return 2 if not choices else int(any(Unit(choice).path for choice in choices))


def _offered_columns(schema: SourceSchema) -> list[str]:
    """Return the columns to choose from, likely ones first."""
    found = dict.fromkeys(column.name for table in schema.tables for column in table.columns)
    names = sorted(found, key=lambda name: not fold_name(name).endswith(("id", "key", "number")))
    return [*names[:_MAX_OFFERED_NAMES], "…"] if len(names) > _MAX_OFFERED_NAMES else names


def _with(tables: tuple[DraftTable, ...], schema: SourceSchema, units: dict[str, Unit]) -> tuple[DraftTable, ...]:
    return tuple(table if table.public else with_unit(table, schema, units.get(table.name)) for table in tables)


def _ask_unit(
    table: DraftTable, choices: list[str], units: dict[str, Unit], schema: SourceSchema, ask: Ask, say: Say
) -> DraftTable:
    """Ask whom a table protects. Enter accepts the proposal made from names; `public` is typed."""
    known = _schema_table(schema, table)
    names = ", ".join(column.name for column in table.columns[:8])
    say("")
    say(f"{table.name} ({names}{', …' if len(table.columns) > 8 else ''})")
    proposed = choices[0] if len(choices) == 1 else None
    if len(choices) > 1:
        say(f"  By their names these could be meant: {'; '.join(choices)}.")
    question = f"Unit of {table.name} ({f'Enter: {proposed}' if proposed else 'Enter leaves the table out'})"
    undecided = replace(table, unit=None, proposed=False)
    answer = _ask_until_valid(question, ask, say, lambda typed: _whom(undecided, known, schema, units, typed))
    if answer is not None:
        return answer
    return with_unit(undecided, schema, Unit(proposed)) if proposed else undecided


def _whom(
    table: DraftTable, known: SchemaTable, schema: SourceSchema, units: dict[str, Unit], typed: str
) -> DraftTable:
    if typed == PUBLIC:
        return replace(table, public=True)
    if fold_name(typed) in {"y", "yes", "n", "no", "p"}:
        raise BadParameter(
            f"{quote_value(typed)} is not a unit.",
            "Answers about a public table are exact and free.",
            (
                f"Write the whole word {PUBLIC} if the table contains no personal data; press Enter to accept the "
                "value in brackets."
            ),
        )
    unit = read_unit(known, typed)
    if unit.path:
        _check_path(unit.words, known, schema, units)
    return with_unit(table, schema, unit)


def _check_path(words: str, known: SchemaTable, schema: SourceSchema, units: dict[str, Unit]) -> None:
    """Refuse a path that leads nowhere now, and not after the last question."""
    tables = {fold_name(table.name): table for table in schema.tables}
    target, here, there = path_of(words)
    column = words.partition(".")[2].strip().split(" ")[0]
    table = tables.get(fold_name(target))
    whole = table is not None and table.column(there) and known.column(here)
    unit = units.get(table.name) if table is not None else None
    if not whole or unit is None or fold_name(unit.words) != fold_name(column):
        raise BadParameter(
            f"{quote_value(words)} does not lead to a privacy unit.",
            "A path is TABLE.COLUMN via HERE = THERE, where TABLE.COLUMN is the unit of another table.",
            "Check the four names, or press Enter to fill this in later.",
        )


def _private(table: DraftTable, schema: SourceSchema, public: list[str], ask: Ask, say: Say) -> DraftTable:
    say("")
    say(f"{table.name}: write what you know without looking at the data. Enter leaves a question open.")
    left = [column.name for column in table.columns if column.personal is not None]
    if left:
        say(f"  Left out, because they look like names, addresses or free text: {', '.join(left)}.")
    if table.needs_rows:
        rows = _ask_until_valid(
            "How many rows may each person contribute? More rows, more noise", ask, say, _parse_count
        )
        table = replace(table, rows_per_unit=rows)
    linked = {table.unit, path_of(table.unit)[1] if table.unit and Unit(table.unit).path else None}
    columns = tuple(
        column if column.name in linked or column.personal else _ask_column(column, schema, public, ask, say)
        for column in table.columns
    )
    return replace(table, columns=columns)


def _ask_column(column: DraftColumn, schema: SourceSchema, public: list[str], ask: Ask, say: Say) -> DraftColumn:
    if column.untyped:
        kind = _ask_until_valid(f"{column.name}: its type ({', '.join(ColumnType)})", ask, say, _parse_type)
        column = replace(column, type=kind or column.type, untyped=kind is None)
        if column.type in DATE_TYPES and column.format is None:
            question = f"{column.name}: how it is written, for example %d/%m/%Y; Enter: as 2024-12-31"
            column = _ask_until_valid(question, ask, say, lambda typed: with_format(column, typed)) or column
    if column.bounds is not None or column.keyed or column.type is ColumnType.BOOLEAN or column.unique:
        return column
    if column.type is ColumnType.TEXT:
        from_table = ", or TABLE.COLUMN of a public table" if public else ""
        question = f"{column.name} (text): its public keys, as A, B, C{from_table}; Enter: groups are chosen privately"
        return _ask_until_valid(question, ask, say, lambda typed: _parse_keys(column, schema, public, typed)) or column
    without = "never summed" if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) else "keys are chosen privately"
    form = "LOW..HIGH" if column.type is ColumnType.TIMESTAMP else "LOW:HIGH"
    question = f"{column.name} ({column.type}): the least and greatest value that count, as {form}; Enter: {without}"
    bounded = _ask_until_valid(question, ask, say, lambda typed: with_bounds(column, ends_text(typed)))
    if bounded is None or not bounded.default_step:
        return bounded or column
    question = f"{column.name}: the precision that matters; Enter: {bounded.step}"
    return _ask_until_valid(question, ask, say, lambda typed: with_step(bounded, typed)) or bounded


def _parse_keys(column: DraftColumn, schema: SourceSchema, public: list[str], typed: str) -> DraftColumn:
    values = tuple(typed.split(","))
    reference = public_keys(schema, values, public)
    return with_values(column, values) if reference is None else replace(column, values_of=reference)


def _budget(draft: Draft, ask: Ask, say: Say) -> Draft:
    if draft.epsilon is None:
        rows = max([table.rows_per_unit or 1 for table in draft.tables if table.private], default=1)
        say("")
        say("How much may all answers together reveal about one person? Epsilon, and what it allows:")
        for offer in _OFFERED_EPSILONS:
            bought = estimate_budget_use(Fraction(offer), Fraction(1, 10**6), rows, Neighbours.ADD_REMOVE)
            say(f"  {offer:>4}  about {bought.tables} tables of counts, each count ±{bought.margin:,} (95 %)")
        draft = replace(draft, epsilon=_ask_until_valid("Epsilon", ask, say, lambda typed: _positive(typed, "epsilon")))
    if draft.delta is None:
        question = "Delta, far below one in the number of people, for example 1e-6; 0: every key must be declared"
        draft = replace(draft, delta=_ask_until_valid(question, ask, say, _parse_delta))
    return draft


def _ask_until_valid(question: str, ask: Ask, say: Say, read: Callable[[str], Answer]) -> Answer | None:
    """Ask until the answer can be read; nothing typed is no answer."""
    while typed := ask(question):
        try:
            return read(typed)
        except Refusal as refusal:
            say(f"  {refusal}")
    return None


def _schema_table(schema: SourceSchema, table: DraftTable) -> SchemaTable:
    return next(candidate for candidate in schema.tables if candidate.name == table.name)


def _parse_count(typed: str) -> int:
    if typed.isascii() and typed.isdigit() and 0 < int(typed[:12]) <= 10**9:
        return int(typed)
    raise BadParameter(
        f"{quote_value(typed)} is not a number of rows.", "It is a whole number from 1.", "Write for example 20."
    )


def _parse_type(typed: str) -> ColumnType:
    if fold_name(typed) in set(ColumnType):
        return ColumnType(fold_name(typed))
    raise BadParameter(f"There is no type {quote_value(typed)}.", "It is one of the six.", "Write for example integer.")


def _positive(typed: str, name: str) -> str:
    text = number_text(typed, name)
    if Fraction(text.strip('"')) > 0:
        return text
    raise BadParameter(f"The {name} is {quote_value(typed)}.", "It is above zero.", "Write for example 1.")


def _parse_delta(typed: str) -> str:
    text = number_text(typed, "delta")
    if 0 <= Fraction(text.strip('"')) < 1:
        return text
    raise BadParameter(
        f"The delta is {quote_value(typed)}.", "It is a probability, below 1.", "Write for example 1e-6."
    )
