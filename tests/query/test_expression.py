"""Expressions: equal when they mean the same, typed, exact, and printable without loss."""

# ruff: noqa: S608  (SQL is what is tested here, and no engine sees it)

from datetime import date, datetime
from fractions import Fraction

import pytest
from tests.query.clinic import CLINIC

from sfumato.query.expression import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Position,
    Value,
    children,
    conjunction,
    conjuncts,
    rebuild,
    sources,
    walk,
)
from sfumato.query.functions import Function
from sfumato.query.parse import parse
from sfumato.query.types import Interval, Type


def read(text: str) -> Expression:
    return parse(f"SELECT {text} FROM visits", CLINIC).relation.items[0].expression


def test_position_is_not_part_of_meaning() -> None:
    first, second = Literal(1, Type.INTEGER, Position(1, 1)), Literal(1, Type.INTEGER, Position(9, 9))
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)


def test_every_node_knows_where_it_was_written() -> None:
    query = parse("SELECT\n  age + 1,\n  lower(dept) FROM visits", CLINIC)
    assert [item.expression.at for item in query.relation.items] == [
        Position(2, 3, "age + 1"),
        Position(3, 3, "lower(dept)"),
    ]


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("1", 1, Type.INTEGER),
        ("-1", -1, Type.INTEGER),
        ("0.1", Fraction(1, 10), Type.DECIMAL),
        ("1e-3", Fraction(1, 1000), Type.DECIMAL),
        ("9223372036854775808", Fraction(2**63), Type.DECIMAL),
        ("'1'::decimal", Fraction(1), Type.DECIMAL),
        ("'-2.50'::decimal", Fraction(-5, 2), Type.DECIMAL),
        ("'yes'::boolean", True, Type.BOOLEAN),
        ("'x'", "x", Type.TEXT),
        ("NULL", None, Type.TEXT),
        ("NULL::integer", None, Type.INTEGER),
        ("DATE '2024-02-29'", date(2024, 2, 29), Type.DATE),
        ("'2024-02-29 01:02:03.4'::timestamp", datetime(2024, 2, 29, 1, 2, 3, 400000), Type.TIMESTAMP),
        ("INTERVAL '1 year 2 days'", Interval(12, 2, 0), Type.INTERVAL),
        ("INTERVAL '90' DAY (3)", Interval(0, 90, 0), Type.INTERVAL),  # SQL's number of digits, as TPC-H writes it
        ("INTERVAL '2' YEAR(2)", Interval(24, 0, 0), Type.INTERVAL),
        ("- INTERVAL '1 hour'", Interval(0, 0, -3_600_000_000), Type.INTERVAL),
    ],
)
def test_a_literal_is_exact(text: str, value: Value, type: Type) -> None:
    expression = read(text)
    assert isinstance(expression, Literal)
    assert (expression.value, expression.type) == (value, type)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("age / 2", Type.INTEGER),
        ("age / 2.0", Type.DECIMAL),
        ("age * cost", Type.DECIMAL),
        ("day - day", Type.INTEGER),
        ("seen - seen", Type.INTERVAL),
        ("seen - day", Type.INTERVAL),
        ("day + 1", Type.DATE),
        ("day + INTERVAL '1 day'", Type.TIMESTAMP),
        ("coalesce(NULL, day, seen)", Type.TIMESTAMP),
        ("CASE WHEN urgent THEN 1 ELSE 0.5 END", Type.DECIMAL),
        ("EXTRACT(year FROM day)", Type.DECIMAL),
        ("year(day)", Type.INTEGER),
        ("age > cost", Type.BOOLEAN),
    ],
)
def test_types_follow_postgresql(text: str, type: Type) -> None:
    assert read(text).type is type


def test_the_arguments_of_a_comparison_have_one_type() -> None:
    for text in ("age < cost", "seen > day", "age IN (1, 2.5)", "cost = '3'", "coalesce(age, cost) > age"):
        for node, _ in walk(read(text)):
            if isinstance(node, Call):
                assert len({argument.type for argument in node.arguments}) == 1


def test_parts_can_be_taken_out_and_put_back() -> None:
    texts = ["age", "1", "age + 1", "CASE WHEN urgent THEN 1 WHEN age > 2 THEN 2 ELSE 3 END", "age::text"]
    for expression in map(read, texts):
        assert rebuild(expression, children(expression)) == expression
    assert {type(read(text)) for text in texts} == {Column, Literal, Call, Case, Cast}


def test_a_conjunction_is_flat_and_names_each_operand_once() -> None:
    a, b = read("urgent"), read("age > 1")
    both = conjunction((a, conjunction((b, a))))
    assert conjuncts(both) == (a, b)
    assert conjunction((a, a)) == a
    assert sources(both) == {"visits"}


def test_decimals_and_integers_print_differently() -> None:
    assert [str(read(text)) for text in ("1", "1.0", "'1'", "12.50", "1e3")] == ["1", "1.0", "'1'", "12.5", "1000.0"]


def test_nodes_are_frozen() -> None:
    with pytest.raises(AttributeError):
        read("age + 1").function = Function.SUBTRACT  # type: ignore[union-attr,misc]


@pytest.mark.parametrize(
    ("text", "bracketed"),
    [
        ("-2 ^ 2", "(-2) ^ 2"),
        ("2 ^ 3 ^ 2", "(2 ^ 3) ^ 2"),
        ("8 / 2 * 3 % 4 - 1 - 2", "((((8 / 2) * 3) % 4) - 1) - 2"),
        ("'a' || 1 + 2", "'a' || (1 + 2)"),
        ("NOT age = 1", "NOT (age = 1)"),
        ("NOT urgent AND urgent OR urgent", "((NOT urgent) AND urgent) OR urgent"),
        ("age = 1 IS NULL", "(age = 1) IS NULL"),
        ("age BETWEEN 1 AND 2 AND urgent", "(age BETWEEN 1 AND 2) AND urgent"),
        ("-age::decimal", "-(age::decimal)"),
    ],
)
def test_operators_bind_as_in_postgresql(text: str, bracketed: str) -> None:
    assert read(text) == read(bracketed)
