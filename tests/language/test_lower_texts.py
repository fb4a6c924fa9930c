"""What is known of functions of text before any data is read."""

import pytest

from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_texts import MAX_PART_CHARS
from sfumato.language.lowering import lower
from sfumato.language.scalar import column
from sfumato.query.expression import Call, Column, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

X = Column("t", "x", Type.TEXT)


def known(expression: Expression, longest: int | None, nullable: bool = True) -> Facts:
    facts = Facts(Type.TEXT, Kind.TEXT, nullable, max_chars=longest)
    return lower(expression, {("t", "x"): column("t", "x", facts)}).facts


def call(function: Function, *arguments: Expression, type: Type = Type.TEXT) -> Call:
    return Call(function, (X, *arguments), type)


def number(value: int) -> Literal:
    return Literal(value, Type.INTEGER)


def word(value: str) -> Literal:
    return Literal(value, Type.TEXT)


@pytest.mark.parametrize(
    ("expression", "longest", "wanted"),
    [
        (call(Function.UPPER), 7, 7),
        (call(Function.LEFT, number(3)), None, 3),
        (call(Function.LEFT, number(-3)), 7, 7),
        (call(Function.RIGHT, number(9)), 7, 7),
        (call(Function.SUBSTRING, number(2), number(4)), None, 5),
        (call(Function.JOINED, word("abc")), 7, 10),
        (call(Function.JOINED, word("abc")), None, MAX_PART_CHARS + 3),
        (call(Function.REPLACE, word("ab"), word("xyz")), 7, 10),
        (call(Function.REPLACE, word("ab"), word("")), 7, 7),
        (call(Function.TRIM), None, None),
    ],
    ids=str,
)
def test_the_longest_text_is_known_from_the_expression(
    expression: Expression, longest: int | None, wanted: int | None
) -> None:
    assert known(expression, longest).max_chars == wanted


def test_a_length_is_bounded_where_the_text_is() -> None:
    length = call(Function.LENGTH, type=Type.INTEGER)
    assert known(length, 7).bounded
    assert (known(length, 7).low, known(length, 7).high) == (0, 7)
    assert not known(length, None).bounded


def test_null_comes_from_null_alone() -> None:
    assert not known(call(Function.LOWER), 7, nullable=False).nullable
    assert known(call(Function.SUBSTRING, number(1), number(-1)), 7, nullable=False).nullable
    assert not known(call(Function.CONCAT), 7).nullable


def test_nested_replacing_is_cut_and_cannot_blow_up() -> None:
    grown: Expression = X
    for _ in range(50):
        grown = Call(Function.REPLACE, (grown, word("a"), word("aa")), Type.TEXT)
    assert known(grown, None).max_chars == 2 * MAX_PART_CHARS
