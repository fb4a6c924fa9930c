"""Text functions as total scalars. Characters are Unicode code points.

Text that could grow is kept short: what is joined or replaced in is cut to its first LONGEST_PART characters where it
may be longer, and an expression whose result could exceed LONGEST_TEXT characters is refused from its text.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_times import null_beyond
from sfumato.language.numbers import add_scalars, clip_scalar, constant, shifted, to_finer_grid
from sfumato.language.scalar import Constant, Operator, Scalar, Substitution
from sfumato.query.expression import Call, Literal
from sfumato.query.functions import Function
from sfumato.query.position import SourceSpan
from sfumato.query.types import Type

MAX_PART_CHARS = 1_000
MAX_LITERAL_CHARS = 10_000
MAX_PATTERN_CHARS = 1_000
MAX_SINGLE_WILDCARDS = 10
"""How many _ may follow a %: each can double the states in which matching may be, so that time stays linear."""
_MAX_TEXT_CHARS = 1 << 31
"""An upper bound of the characters of any text."""
_MAX_TEXT_POSITION = 1 << 62
_PIECE = re.compile(r"\\.|.", re.DOTALL)


def _text_scalar(
    operator: Operator, arguments: tuple[Scalar, ...], longest: int | None, extra: Constant = None
) -> Scalar:
    nullable = any(argument.facts.nullable for argument in arguments)
    return Scalar(operator, arguments, Facts(Type.TEXT, Kind.TEXT, nullable, max_chars=longest), extra)


def _truth_scalar(operator: Operator, arguments: tuple[Scalar, ...], extra: Constant = None) -> Scalar:
    nullable = any(argument.facts.nullable for argument in arguments)
    return Scalar(operator, arguments, Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable), extra)


def _count_scalar(operator: Operator, arguments: tuple[Scalar, ...], low: int, longest: int | None) -> Scalar:
    nullable = any(argument.facts.nullable for argument in arguments)
    high = _MAX_TEXT_CHARS if longest is None else longest
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable, low=low, high=high, declared_high=longest is not None)
    return Scalar(operator, arguments, facts)


def _lower_case_mapping(operator: Operator) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    def lowered(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
        return _text_scalar(operator, arguments, arguments[0].facts.max_chars)

    return lowered


def _lower_length(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return _count_scalar(Operator.LENGTH, arguments, 0, arguments[0].facts.max_chars)


def _lower_left(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return _side(Operator.LEFT, *arguments)


def _right(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return _side(Operator.RIGHT, *arguments)


def _side(operator: Operator, text: Scalar, count: Scalar) -> Scalar:
    near = clip_scalar(count, -_MAX_TEXT_CHARS, _MAX_TEXT_CHARS)
    longest = text.facts.max_chars
    if near.facts.low >= 0 and near.facts.high < _MAX_TEXT_CHARS:
        longest = near.facts.high if longest is None else min(longest, near.facts.high)
    return _text_scalar(operator, (text, near), longest)


def _lower_substring(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    """SUBSTRING(x, a, n) is the characters from a to a + n - 1 that there are: those of the first a + n - 1 from a on.

    A negative n, for which PostgreSQL raises an error, gives NULL.
    """
    text, start = arguments[0], clip_scalar(arguments[1], -_MAX_TEXT_POSITION, _MAX_TEXT_POSITION)
    if len(arguments) == 3:
        count = null_beyond(clip_scalar(arguments[2], -1, _MAX_TEXT_POSITION), 0, _MAX_TEXT_POSITION)
        # constants may share a coarser grid
        beyond = to_finer_grid(add_scalars(start, count, Type.INTEGER), Fraction(1))
        last = clip_scalar(shifted(beyond, 1), 0, _MAX_TEXT_CHARS)
        text = _side(Operator.LEFT, text, last)
    return _text_scalar(Operator.FROM, (text, clip_scalar(start, 1, _MAX_TEXT_CHARS)), text.facts.max_chars)


def _shorten(text: Scalar) -> Scalar:
    longest = text.facts.max_chars
    if longest is not None and longest <= MAX_PART_CHARS:
        return text
    return _side(Operator.LEFT, text, constant(MAX_PART_CHARS, Type.INTEGER))


def _grown_chars(call: Call, longest: int) -> int:
    if longest > MAX_LITERAL_CHARS:
        raise SourceSpan(call.at).too_large(
            "this text could become too long.",
            f"No text that a query makes has more than {MAX_LITERAL_CHARS:,} characters.",
            "Join or replace fewer or shorter texts, or cut them with LEFT.",
        )
    return longest


def _lower_concatenation(operator: Operator) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    def lowered(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
        parts = tuple(_shorten(argument) for argument in arguments)
        joined = _text_scalar(operator, parts, _grown_chars(call, sum(part.facts.max_chars or 0 for part in parts)))
        if operator is Operator.JOINED:
            return joined
        return replace(joined, facts=replace(joined.facts, nullable=False))

    return lowered


def _lower_trimming(operator: Operator) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    def lowered(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
        characters = _spelled_word(call, 1) if len(call.arguments) > 1 else " "
        return _text_scalar(operator, arguments[:1], arguments[0].facts.max_chars, "".join(dict.fromkeys(characters)))

    return lowered


def _lower_replace(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    old, new = _spelled_word(call, 1), _spelled_word(call, 2)
    if not old:
        return arguments[0]  # as in PostgreSQL, an empty text stands nowhere
    text = _shorten(arguments[0])
    longest = text.facts.max_chars or 0
    grown = longest + longest // len(old) * max(len(new) - len(old), 0)
    return _text_scalar(Operator.REPLACE, (text,), _grown_chars(call, grown), Substitution(old, new))


def _starts_with(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return _truth_scalar(Operator.STARTS_WITH, arguments)


def _position(_: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    longest = arguments[0].facts.max_chars
    return _count_scalar(Operator.POSITION, arguments, 0, None if longest is None else max(longest, 1))


def _lower_like(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    return _match_pattern(call, arguments[0], _spelled_word(call, 1))


def _ilike(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    text = _text_scalar(Operator.LOWER, arguments[:1], arguments[0].facts.max_chars)
    return _match_pattern(call, text, "".join(character.lower()[0] for character in _spelled_word(call, 1)))


def _match_pattern(call: Call, text: Scalar, pattern: str) -> Scalar:
    wildcards = [escaped for escaped in like_pieces(pattern) if escaped in ANY]
    singles = wildcards[wildcards.index("%") :].count("_") if "%" in wildcards else 0
    if len(pattern) > MAX_PATTERN_CHARS or singles > MAX_SINGLE_WILDCARDS:
        raise SourceSpan(call.at).too_large(
            "this pattern is too large.",
            f"A pattern has at most {MAX_PATTERN_CHARS:,} characters, and at most {MAX_SINGLE_WILDCARDS} _ after "
            "its first %.",
            "Use a simpler pattern, or STARTS_WITH, POSITION or SUBSTRING.",
        )
    return _truth_scalar(Operator.LIKE, (text,), pattern)


ANY = frozenset({"%", "_"})
"""The pieces of a pattern that are no text: any characters, and any one."""


def like_pieces(pattern: str) -> list[str]:
    r"""Return the pieces of a pattern, in which a character that means itself is written after a backslash.

    >>> print(*like_pieces(r"a%\%"))
    \a % \%
    """
    return [piece if piece in ANY or len(piece) == 2 else f"\\{piece}" for piece in _PIECE.findall(pattern)]


def _spelled_word(call: Call, place: int) -> str:
    argument = call.arguments[place]
    return str(argument.value) if isinstance(argument, Literal) else ""


TEXTS: dict[Function, Callable[[Call, tuple[Scalar, ...]], Scalar]] = {
    Function.LOWER: _lower_case_mapping(Operator.LOWER),
    Function.UPPER: _lower_case_mapping(Operator.UPPER),
    Function.LENGTH: _lower_length,
    Function.SUBSTRING: _lower_substring,
    Function.LEFT: _lower_left,
    Function.RIGHT: _right,
    Function.CONCAT: _lower_concatenation(Operator.CONCAT),
    Function.JOINED: _lower_concatenation(Operator.JOINED),
    Function.TRIM: _lower_trimming(Operator.TRIM),
    Function.LTRIM: _lower_trimming(Operator.LTRIM),
    Function.RTRIM: _lower_trimming(Operator.RTRIM),
    Function.REPLACE: _lower_replace,
    Function.STARTS_WITH: _starts_with,
    Function.POSITION: _position,
    Function.LIKE: _lower_like,
    Function.ILIKE: _ilike,
}
"""How each function of texts is lowered."""
