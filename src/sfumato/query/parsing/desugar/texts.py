"""Functions and patterns of texts that others are made of: they are written out when they are read.

A regular expression is answered where it is nothing but LIKE in another spelling: letters, `.`, `.*`, anchors, and
alternatives of these. Patterns that repeat a part are refused: some of them take very long on some values.
"""

from collections.abc import Callable
from itertools import product

from sfumato.query.expression import Call, Case, Expression, Literal
from sfumato.query.functions import Form, Function, Takes
from sfumato.query.parsing.desugar.builders import a_number, a_text, build_call, check_count, joined_texts
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import call, cast, compare, convert_implicitly
from sfumato.query.types import Type

_MAX_PATTERNS = 50
_MAX_NESTING = 20
_MAX_PARTS = 4
_MAX_PADDED_CHARS = 200
_START, _END = object(), object()
_SPECIAL = frozenset("\\^$.|?*+()[]{}")

Patterns = tuple[str, ...]


def written_pattern(
    value: Expression, pattern: Expression, place: SourceSpan, *, similar: bool = False, ignore_case: bool = False
) -> Expression:
    """Return `value ~ pattern`, or `value SIMILAR TO pattern`, by LIKE; a pattern that says more is refused."""
    spelled = pattern.value if isinstance(pattern, Literal) else None
    patterns = _Patterns(spelled, similar=similar).read() if isinstance(spelled, str) else None
    if patterns is None:
        raise place.unsupported(*_PATTERN)
    function = Function.ILIKE if ignore_case else Function.LIKE
    expressions = [like(function, value, a_text(part, place), "\\", place) for part in dict.fromkeys(patterns)]
    return expressions[0] if len(expressions) == 1 else Call(Function.OR, tuple(expressions), Type.BOOLEAN, place.at)


def like(function: Function, value: Expression, pattern: Expression, escape: str, place: SourceSpan) -> Expression:
    """Return `value LIKE pattern`, or ILIKE."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise place.unsupported(
            "the pattern is not spelled out.",
            "How long a match takes may not depend on the data.",
            f"Write {function.upper()} 'pattern', or use STARTS_WITH or POSITION.",
        )
    text = Literal(_with_backslash(pattern.value, escape, place), Type.TEXT, pattern.at)
    form = Form(function, (Takes.TEXT, Takes.WORD), Type.BOOLEAN, ())
    return call(form, [value, text], function.upper(), place)


def _with_backslash(pattern: str, escape: str, where: SourceSpan) -> str:
    """Return the pattern with the backslash as its escape, used only where it is needed."""
    written, rest = "", iter(pattern)
    for char in rest:
        literal = char == escape
        kept_char = next(rest, None) if literal else char
        if kept_char is None:
            raise where.bad("the pattern ends with its escape.", "It escapes nothing.", "Double it.")
        written += f"\\{kept_char}" if kept_char in {"\\", "%", "_"} and (literal or kept_char == "\\") else kept_char
    return written


class _Patterns:
    """Reads a pattern into the alternatives that it stands for, each a list of letters, `%`, `_` and anchors."""

    def __init__(self, pattern: str, *, similar: bool) -> None:
        self.left, self.similar, self.known, self.depth = list(reversed(pattern)), similar, True, 0

    def read(self) -> Patterns | None:
        """Return all alternatives as patterns of LIKE."""
        alternatives = self._alternatives()
        if not self.known or self.left:
            return None
        written = [self._as_pattern(alternative) for alternative in alternatives]
        return tuple(text for text in written if text is not None) if None not in written else None

    def _alternatives(self) -> list[list[object]]:
        alternatives = self._sequence()
        while self.known and self.left and self.left[-1] == "|":
            self.left.pop()
            alternatives += self._sequence()
            self.known &= len(alternatives) <= _MAX_PATTERNS
        return alternatives

    def _sequence(self) -> list[list[object]]:
        alternatives: list[list[object]] = [[]]
        while self.known and self.left and self.left[-1] not in "|)":
            parts = self._part()
            alternatives = [[*prefix, *more] for prefix, more in product(alternatives, parts)]
            self.known &= len(alternatives) <= _MAX_PATTERNS
        return alternatives

    def _part(self) -> list[list[object]]:
        letter = self.left.pop()
        if letter == "(":
            if self.left[-2:] == [":", "?"]:
                del self.left[-2:]
            self.depth += 1
            self.known &= self.depth <= _MAX_NESTING
            inside = self._alternatives() if self.known else [[]]
            self.depth -= 1
            self.known &= bool(self.left) and self.left.pop() == ")"
        elif self.similar and letter in "%_":
            inside = [[("any", letter)]]
        elif not self.similar and letter == ".":
            inside = [[("any", "_")]]
            if self.left and self.left[-1] in "*+":
                inside = [[("any", "%")]] if self.left.pop() == "*" else [[("any", "_"), ("any", "%")]]
        elif not self.similar and letter in "^$":
            inside = [[_START if letter == "^" else _END]]
        elif letter == "\\":
            inside = [[self.left.pop() if self.left else ""]]
            self.known &= not str(inside[0][0]).isalnum() and inside != [[""]]  # \d, \m … mean something
        else:
            inside = [[letter]]
            self.known &= letter not in _SPECIAL or (self.similar and letter in ".^$")
        self.known &= not (self.left and self.left[-1] in "*+?{")  # a part that repeats
        return inside

    def _as_pattern(self, parts: list[object]) -> str | None:
        first, last = self.similar, self.similar
        if parts and parts[0] is _START:
            first, parts = True, parts[1:]
        if parts and parts[-1] is _END:
            last, parts = True, parts[:-1]
        if any(part is _START or part is _END for part in parts):
            return None
        inside = "".join(part[1] if isinstance(part, tuple) else _escape_pattern(str(part)) for part in parts)
        return f"{'' if first else '%'}{inside}{'' if last else '%'}"


def _escape_pattern(letters: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\%_" else letter for letter in letters)


# ── functions ──


def _choice(when: Expression, then: Expression, otherwise: Expression, place: SourceSpan) -> Expression:
    return Case(((when, then),), otherwise, Type.TEXT, place.at)


def _add_integer(expression: Expression, more: int, place: SourceSpan) -> Expression:
    form = Form(Function.ADD, (Takes.INTEGER, Takes.INTEGER), Type.INTEGER, ())
    return call(form, [expression, a_number(more, place)], "+", place)


def _spelled_text(value: Expression, name: str, place: SourceSpan) -> str:
    if isinstance(value, Literal) and isinstance(value.value, str):
        return value.value
    raise place.unsupported(
        f"{name} takes a text that is spelled out in the query here.",
        "What it does may not differ from row to row.",
        "Write the text itself, not a column or expression.",
    )


def _spelled_count(value: Expression, least: int, most: int, name: str, place: SourceSpan) -> int:
    if isinstance(value, Literal) and isinstance(value.value, int) and least <= value.value <= most:
        return value.value
    raise place.unsupported(
        f"{name} takes a number from {least} to {most} here.", "It has to be spelled out.", "Write the number itself."
    )


def _as_text(value: Expression, place: SourceSpan) -> Expression:
    if value.type in {Type.TEXT, Type.NULL} or isinstance(value, Literal):
        return convert_implicitly(value, Type.TEXT, place) if value.type is Type.NULL else value
    return cast(value, Type.TEXT, place)


def _contains(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Whether a text is somewhere inside another."""
    check_count(arguments, 2, 2, name, place)
    return compare(Function.LESS, a_number(0, place), build_call("strpos", arguments, place), place)


def _ends_with(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Whether a text ends with another: as many letters of its end as that one has are equal to it."""
    check_count(arguments, 2, 2, name, place)
    end = convert_implicitly(arguments[1], Type.TEXT, place)
    length = (
        a_number(len(end.value), place)
        if isinstance(end, Literal) and isinstance(end.value, str)
        else build_call("length", [end], place)
    )
    return compare(Function.EQUAL, build_call("right", [arguments[0], length], place), end, place)


def _joined_with(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """PostgreSQL's concat_ws: what is not NULL, with a text between them."""
    check_count(arguments, 2, 20, name, place)
    between, values = (
        a_text(_spelled_text(arguments[0], name, place), place),
        [_as_text(expression, place) for expression in arguments[1:]],
    )
    parts: list[Expression] = [values[0]]
    for index, value in enumerate(values[1:], 1):
        before = values[0] if index == 1 else build_call("coalesce", values[:index], place)
        first = Call(Function.IS_NULL, (before,), Type.BOOLEAN, place.at)
        absent = Call(Function.IS_NULL, (value,), Type.BOOLEAN, place.at)
        none = Call(Function.OR, (first, absent), Type.BOOLEAN, place.at)
        parts += [_choice(none, a_text("", place), between, place), value]
    return build_call("concat", parts, place)


def _part_of(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """PostgreSQL's split_part: the n-th of the parts between separators, an empty text where there are fewer."""
    check_count(arguments, 3, 3, name, place)
    separator = _spelled_text(arguments[1], name, place)
    number = _spelled_count(arguments[2], 1, _MAX_PARTS, name, place)
    value = convert_implicitly(arguments[0], Type.TEXT, place)
    if not separator:
        return value if number == 1 else a_text("", place)
    for _ in range(number - 1):
        position = build_call("strpos", [value, a_text(separator, place)], place)
        rest = build_call("substring", [value, _add_integer(position, len(separator), place)], place)
        value = _choice(compare(Function.EQUAL, position, a_number(0, place), place), a_text("", place), rest, place)
    position = build_call("strpos", [value, a_text(separator, place)], place)
    before = build_call("left", [value, _add_integer(position, -1, place)], place)
    return _choice(compare(Function.EQUAL, position, a_number(0, place), place), value, before, place)


def _write_padding(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """PostgreSQL's lpad and rpad: a text of the given length, padded or cut."""
    check_count(arguments, 2, 3, name, place)
    width = _spelled_count(arguments[1], 0, _MAX_PADDED_CHARS, name, place)
    fill = _spelled_text(arguments[2], name, place) if len(arguments) == 3 else " "
    if len(fill) != 1:
        raise place.unsupported(f"{name} fills with one letter.", "Others are cut in the middle.", "Write one letter.")
    value, filling = convert_implicitly(arguments[0], Type.TEXT, place), a_text(fill * width, place)
    if name == "rpad":
        return build_call("left", [joined_texts([value, filling], place), a_number(width, place)], place)
    longer = build_call("greatest", [build_call("length", [value], place), a_number(width, place)], place)
    filled = build_call("right", [joined_texts([filling, value], place), longer], place)
    return build_call("left", [filled, a_number(width, place)], place)  # no CASE: its labels would all be keys


def _matches_regexp(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """DuckDB's regexp_matches, PostgreSQL's regexp_like."""
    check_count(arguments, 2, 3, name, place)
    flags = _spelled_text(arguments[2], name, place) if len(arguments) == 3 else ""
    if flags not in {"", "i"}:
        raise place.unsupported(*_PATTERN)
    return written_pattern(arguments[0], arguments[1], place, ignore_case=flags == "i")


def _whole_match(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """DuckDB's regexp_full_match."""
    check_count(arguments, 2, 2, name, place)
    return written_pattern(arguments[0], a_text(f"^({_spelled_text(arguments[1], name, place)})$", place), place)


_PATTERN = (
    "this regular expression is not supported.",
    "Some of them take very long on some values, and time is a side channel. Letters, `.`, `.*`, `^`, `$` and "
    "alternatives such as (a|b) are answered.",
    "Write it with these, or with LIKE, STARTS_WITH, CONTAINS or SPLIT_PART.",
)
TEXTS_WRITTEN_OUT: dict[str, Callable[[str, list[Expression], SourceSpan], Expression]] = {
    "contains": _contains,
    "ends_with": _ends_with,
    "suffix": _ends_with,
    "concat_ws": _joined_with,
    "split_part": _part_of,
    "lpad": _write_padding,
    "rpad": _write_padding,
    "regexp_matches": _matches_regexp,
    "regexp_like": _matches_regexp,
    "regexp_full_match": _whole_match,
}
"""Functions by name, and how a call of one is written out."""
