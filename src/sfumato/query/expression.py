"""Scalar expressions: five frozen nodes, each with its type and the place in the text it came from.

Two nodes are equal when they mean the same; where they were written does not count, nor what PostgreSQL calls their
number: `number` is known where the text casts or an aggregate decides it, and None where it follows from the parts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from sfumato.query.functions import INFIX, Function
from sfumato.query.types import Interval, NumberType, Type


class Position(NamedTuple):
    """Where something was written: line and column, both counted from 1, and the words that stand there."""

    line: int
    column: int
    fragment: str = ""


Value = int | Fraction | bool | str | date | datetime | Interval | None
"""The value of a literal, exact."""

NOWHERE = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the relation below: `of` is the label of the node that made it, `name` its name there."""

    of: str
    name: str
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    number: NumberType | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{identifier(self.of)}.{identifier(self.name)}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value spelled out in the text. A decimal is a Fraction, so 0.1 is one tenth."""

    value: Value
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    number: NumberType | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return _literal(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of our closed table, its arguments already of the types it takes."""

    function: Function
    arguments: tuple["Expression", ...]
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    number: NumberType | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return call_text(self.function, [str(argument) for argument in self.arguments])


@dataclass(frozen=True, slots=True)
class Case:
    """The first branch whose condition is true, else `otherwise`; `CASE x WHEN v` is written out as `x = v`."""

    branches: tuple[tuple["Expression", "Expression"], ...]
    otherwise: "Expression"
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    number: NumberType | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return case_text([(str(when), str(then)) for when, then in self.branches], str(self.otherwise))


@dataclass(frozen=True, slots=True)
class Cast:
    """The argument as another type; a value that cannot be converted is NULL."""

    argument: "Expression"
    type: Type
    at: Position = field(default=NOWHERE, compare=False, repr=False)
    number: NumberType | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"cast({self.argument}, {self.type})"


Expression = Column | Literal | Call | Case | Cast


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly below."""
    match expression:
        case Call(_, arguments):
            return arguments
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Cast(argument):
            return (argument,)
        case Column() | Literal():
            return ()


def rebuild(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    """Return the same node over other parts, given in the order of `children`."""
    match expression:
        case Call():
            return replace(expression, arguments=parts)
        case Case():
            pairs = tuple(zip(parts[0:-1:2], parts[1:-1:2], strict=True))
            return replace(expression, branches=pairs, otherwise=parts[-1])
        case Cast():
            return replace(expression, argument=parts[0])
        case Column() | Literal():
            return expression


def walk(expression: Expression) -> Iterator[tuple[Expression, int]]:
    """Give every node with its depth, without recursion: a caller may stop before a large tree ends."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in children(node))


def sources(expression: Expression) -> set[str]:
    """Return the labels of the relations whose columns are used."""
    return {node.of for node, _ in walk(expression) if isinstance(node, Column)}


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of a conjunction; any other expression is its own only one."""
    if isinstance(expression, Call) and expression.function is Function.AND:
        return expression.arguments
    return (expression,)


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    """Return `parts` joined by AND, as one flat call; what is written twice counts once."""
    flat = tuple(dict.fromkeys(operand for part in parts for operand in conjuncts(part)))
    return flat[0] if len(flat) == 1 else Call(Function.AND, flat, Type.BOOLEAN, flat[0].at)


def factor_out_common(either: Call) -> Expression:
    """Return an OR with what all its operands need taken out: (a AND b) OR (a AND c) is a AND (b OR c), also of NULLs.

    A join by an equality that each of several cases repeats is then a join by that equality.
    """
    cases = [conjuncts(operand) for operand in either.arguments]
    shared = tuple(part for part in cases[0] if all(part in case for case in cases[1:]))
    if not shared:
        return either
    rests = [tuple(part for part in case if part not in shared) for case in cases]
    if any(not rest for rest in rests):  # one case needs nothing else: the others add nothing
        return conjunction(shared)
    left = tuple(dict.fromkeys(conjunction(rest) for rest in rests))
    other = left[0] if len(left) == 1 else Call(Function.OR, left, Type.BOOLEAN, either.at)
    return conjunction((*shared, other))


def identifier(name: str) -> str:
    """Return a name as it is printed: quoted unless it is plain."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*(#\d+)?", name) else '"' + name.replace('"', '""') + '"'


def call_text(function: Function, arguments: list[str]) -> str:
    """Return a call as it is printed: operators between their operands, everything else in brackets."""
    if function in INFIX and len(arguments) > 1:
        return f"({f' {function} '.join(arguments)})"
    return f"{function}({', '.join(arguments)})"


def case_text(branches: list[tuple[str, str]], otherwise: str) -> str:
    """Return a CASE as it is printed."""
    return f"case({'; '.join(f'{when}: {then}' for when, then in branches)}; else {otherwise})"


def _literal(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Fraction():
            return _decimal_text(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"timestamp '{value.isoformat(sep=' ')}'"
        case date():
            return f"date '{value.isoformat()}'"
        case Interval():
            return f"interval '{value}'"


def _decimal_text(value: Fraction) -> str:
    """Return the decimal text of a literal, which always ends; the point tells it from an integer."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    text = format(Decimal((value * 10**digits).numerator).scaleb(-digits), "f")
    return text if "." in text else f"{text}.0"
