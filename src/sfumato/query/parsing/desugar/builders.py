"""Builders for desugared functions: calls by name, constants and joined texts."""

from sfumato.query.expression import Expression, Literal
from sfumato.query.functions import FUNCTION_NAMES, Form, Function, Takes
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import call
from sfumato.query.types import Type


def build_call(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Return a call of a function by its name."""
    return call(FUNCTION_NAMES[name], arguments, name, place)


def a_text(value: str, place: SourceSpan) -> Literal:
    """Return a text as the question would spell it."""
    return Literal(value, Type.TEXT, place.at)


def a_number(value: int, place: SourceSpan) -> Literal:
    """Return a whole number as the question would spell it."""
    return Literal(value, Type.INTEGER, place.at)


def joined_texts(parts: list[Expression], place: SourceSpan) -> Expression:
    """Return texts one after the other."""
    return call(Form(Function.JOINED, (Takes.TEXT,), Type.TEXT, (), repeats=True), parts, "||", place)


def check_count(arguments: list[Expression], least: int, most: int, name: str, place: SourceSpan) -> None:
    """Refuse a call with fewer or more arguments."""
    if not least <= len(arguments) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise place.bad(
            f"{name} was given {len(arguments)} arguments.", f"It takes {expected}.", "Add or remove arguments."
        )
