"""Names: how they fold, what they stand for, and what the columns of an answer are called."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sfumato.policy.policy import fold_name
from sfumato.query.expression import Expression
from sfumato.query.position import SourceSpan

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier: called by its small letters, or in quotes as it is written. It is found whatever its case."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return self.text if self.quoted else fold_name(self.text)

    def matches(self, other: str) -> bool:
        """Whether this may mean `other`: the case of A to Z does not count."""
        return fold_name(self.text) == fold_name(other)

    def chosen(self, known: Iterable[str]) -> frozenset[str]:
        """Return which of these are meant: the one that is spelled exactly so, else all that differ in case alone."""
        meant = frozenset(other for other in known if self.matches(other))
        return meant & {str(self)} or meant


def lookup(name: Name, known: Mapping[str, T]) -> T | None:
    """Look up a name: an exact match, else the only one that differs in case alone."""
    meant = name.chosen(known)
    return known[min(meant)] if len(meant) == 1 else None


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column that can be named: what it stands for over the relation, and the table or alias it belongs to."""

    of: str | None
    name: str
    expression: Expression
    bare: bool = True  # False for the two halves of a USING column, which need their table's name


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that the FROM clause offers, in order."""

    entries: tuple[NamedColumn, ...] = ()
    tables: frozenset[str] = field(default=frozenset())

    def find(self, table: Name | None, name: Name, place: SourceSpan) -> Expression:
        """Return the column of a name; refuse unknown and ambiguous names."""
        if table is not None and not table.chosen(self.tables):
            why = "It is neither a table of this FROM clause nor an alias in it."
            raise place.unknown("table", str(table), sorted(self.tables), why)
        columns = self.candidates(table, name)
        if len(columns) == 1:
            return columns[0].expression
        if not columns:
            known = [entry.name for entry in self.entries if table is None or entry.of in table.chosen(self.tables)]
            raise place.undeclared("column", str(name), sorted(set(known)), "No table in FROM declares it.")
        raise place.bad(
            f"the column name {name} is ambiguous.",
            "More than one table in FROM has it.",
            f"Write the table's name before it: {columns[0].of or '…'}.{name}.",
        )

    def candidates(self, table: Name | None, name: Name) -> list[NamedColumn]:
        """Return the columns that a name may mean; one that is spelled exactly so comes before others."""
        offered = self.star(table)
        meant = name.chosen(entry.name for entry in offered)
        return [entry for entry in offered if entry.name in meant]

    def star(self, table: Name | None) -> list[NamedColumn]:
        """Return the columns of `*` or `table.*`."""
        if table is None:
            return [entry for entry in self.entries if entry.bare]
        tables = table.chosen(self.tables)
        return [entry for entry in self.entries if entry.of in tables]


def number_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names, a repeated one with the number of its occurrence.

    >>> number_duplicates(["count", "sum", "count"])
    ['count', 'sum', 'count#2']
    """
    used: set[str] = set()
    result = []
    for name in names:
        result.append(unused_name(name, used))
        used.add(result[-1])
    return result


def unused_name(name: str, used: set[str]) -> str:
    """Return `name`, or the first of name#2, name#3, … that is not used.

    >>> unused_name("visits", {"visits", "visits#2"})
    'visits#3'
    """
    candidate, number = name, 1
    while candidate in used:
        number += 1
        candidate = f"{name}#{number}"
    return candidate
