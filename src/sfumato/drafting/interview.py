"""What names and types cannot say, asked of the owner: who, how many rows, how far, which keys, how much."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from sfumato.accounting.event import Neighbours
from sfumato.drafting.accuracy import what_it_buys
from sfumato.drafting.draft import Draft, DraftColumn, DraftTable, with_bounds, with_unit, with_values
from sfumato.drafting.literals import ends_text, number_text
from sfumato.errors import BadParameter, Refusal, shown
from sfumato.policy.policy import ColumnType, fold

Answer = TypeVar("Answer")
Ask = Callable[[str], str]
"""Puts a question and returns the line that was typed, without blanks at its ends."""
Say = Callable[[str], None]

_OFFERED = ("0.5", "1", "3", "10")


def interview(draft: Draft, ask: Ask, say: Say) -> Draft:
    """Ask for everything that is still unknown. An empty answer leaves it to be filled in later."""
    tables = _units(draft.tables, ask, say)
    draft = replace(draft, tables=tuple(_private(table, ask, say) if table.private else table for table in tables))
    return _budget(draft, ask, say)


def _units(tables: tuple[DraftTable, ...], ask: Ask, say: Say) -> tuple[DraftTable, ...]:
    if not any(table.private for table in tables):
        say("Who is protected? Name the column in which a person has the same value in all their rows;")
        say('or "rows", if each row is a person of its own.')
        found = dict.fromkeys(column.name for table in tables for column in table.columns)
        names = sorted(found, key=lambda name: not fold(name).endswith(("id", "key", "number")))
        unit = _answer(f"Column ({', '.join(names[:12])})", ask, say, lambda typed: _column_of(typed, names))
        tables = tuple(table if table.public else with_unit(table, unit) for table in tables)
    return tuple(table if table.private or table.public else _about_nobody(table, ask, say) for table in tables)


def _about_nobody(table: DraftTable, ask: Ask, say: Say) -> DraftTable:
    names = ", ".join(column.name for column in table.columns[:8])
    question = f"{table.name} ({names}) does not name the person. Is it public, about nobody? [y/n]"
    return replace(table, public=_answer(question, ask, say, _yes) or False)


def _private(table: DraftTable, ask: Ask, say: Say) -> DraftTable:
    say("")
    say(f"{table.name}: write what you know without looking at the data. Enter leaves a question open.")
    if table.needs_rows:
        rows = _answer("How many rows of one person may count? More rows, more noise", ask, say, _count)
        table = replace(table, rows_per_unit=rows)
    columns = tuple(column if column.name == table.unit else _column(column, ask, say) for column in table.columns)
    return replace(table, columns=columns)


def _column(column: DraftColumn, ask: Ask, say: Say) -> DraftColumn:
    if column.untyped:
        kind = _answer(f"{column.name}: its type ({', '.join(ColumnType)})", ask, say, _type)
        column = replace(column, type=kind or column.type, untyped=kind is None)
    if column.bounds is not None or column.values is not None or column.type is ColumnType.BOOLEAN:
        return column
    if column.type is ColumnType.TEXT:
        question = f"{column.name} (text): its public keys, as A, B, C; Enter: groups are chosen privately"
        return _answer(question, ask, say, lambda typed: with_values(column, typed.split(","))) or column
    without = "never summed" if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) else "keys are chosen privately"
    form = "LOW..HIGH" if column.type is ColumnType.TIMESTAMP else "LOW:HIGH"
    question = f"{column.name} ({column.type}): the least and greatest value that count, as {form}; Enter: {without}"
    bounded = _answer(question, ask, say, lambda typed: with_bounds(column, ends_text(typed)))
    if bounded is None or bounded.type is not ColumnType.DECIMAL or bounded.step is not None:
        return bounded or column
    step = _answer(f"{column.name}: the precision that matters, for example 0.01", ask, say, _step)
    return replace(bounded, step=step)


def _budget(draft: Draft, ask: Ask, say: Say) -> Draft:
    if draft.epsilon is None:
        rows = max([table.rows_per_unit or 1 for table in draft.tables if table.private], default=1)
        say("")
        say("How much may all answers together tell about one person? Epsilon, and what it buys:")
        for offer in _OFFERED:
            bought = what_it_buys(Fraction(offer), Fraction(1, 10**6), rows, Neighbours.ADD_REMOVE)
            say(f"  {offer:>4}  about {bought.tables} tables of counts, each count ±{bought.margin:,} (95 %)")
        draft = replace(draft, epsilon=_answer("Epsilon", ask, say, lambda typed: _positive(typed, "epsilon")))
    if draft.delta is None:
        question = "Delta, far below one in the number of people, for example 1e-6; 0: every key must be declared"
        draft = replace(draft, delta=_answer(question, ask, say, lambda typed: number_text(typed, "delta")))
    return draft


def _answer(question: str, ask: Ask, say: Say, read: Callable[[str], Answer]) -> Answer | None:
    """Ask until the answer can be read; nothing typed is no answer."""
    while typed := ask(question):
        try:
            return read(typed)
        except Refusal as refusal:
            say(f"  {refusal}")
    return None


def _column_of(typed: str, names: list[str]) -> str:
    if fold(typed) == "rows" or fold(typed) in map(fold, names):
        return typed
    raise BadParameter(f"There is no column {shown(typed)}.", "It must be one of the data.", "Write its name.")


def _yes(typed: str) -> bool:
    if fold(typed) in ("y", "yes", "n", "no"):
        return fold(typed).startswith("y")
    raise BadParameter(f"{shown(typed)} is no answer.", "It is yes or no.", "Write y or n.")


def _count(typed: str) -> int:
    if typed.isascii() and typed.isdigit() and 0 < int(typed[:12]) <= 10**9:
        return int(typed)
    raise BadParameter(f"{shown(typed)} is no number of rows.", "It is a whole number from 1.", "Write for example 20.")


def _type(typed: str) -> ColumnType:
    if fold(typed) in set(ColumnType):
        return ColumnType(fold(typed))
    raise BadParameter(f"There is no type {shown(typed)}.", "It is one of the six.", "Write for example integer.")


def _step(typed: str) -> str:
    return _positive(typed, "step")


def _positive(typed: str, name: str) -> str:
    text = number_text(typed, name)
    if Fraction(text.strip('"')) > 0:
        return text
    raise BadParameter(f"The {name} is {shown(typed)}.", "It is above zero.", "Write for example 1.")
