"""Operators of catalogue queries, with SQL's third truth value."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sfumato.server.wire.catalogue.functions import MOST_ITEMS, limited
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

_LONGEST_PATTERN = 500

Binary = Callable[[Any, Any], Any]


def null_safe(operator: Binary) -> Binary:
    """Return an operator that is NULL where an operand is."""

    def safe(left: Any, right: Any) -> Any:
        return None if left is None or right is None else operator(left, right)

    return safe


def _ordered(compare: Callable[[Any, Any], bool]) -> Binary:
    def ordered(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            left, right = _text(left), _text(right)
        return compare(left, right)

    return null_safe(ordered)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else (text_of(value, 0) or b"").decode()


COMPARISONS: dict[str, Binary] = {
    "EQ": _ordered(lambda left, right: left == right),
    "NEQ": _ordered(lambda left, right: left != right),
    "LT": _ordered(lambda left, right: left < right),
    "LTE": _ordered(lambda left, right: left <= right),
    "GT": _ordered(lambda left, right: left > right),
    "GTE": _ordered(lambda left, right: left >= right),
}


def _divided(left: Any, right: Any) -> Any:
    if not right:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left / right


def _bounded(operator: Binary) -> Binary:
    def bounded(left: Any, right: Any) -> Any:
        result = operator(left, right)
        if isinstance(result, int) and abs(result) >= 1 << 63:
            raise WireError("22003", "integer out of range")
        return result

    return null_safe(bounded)


ARITHMETIC: dict[str, Binary] = {
    "Add": _bounded(lambda left, right: left + right),
    "Sub": _bounded(lambda left, right: left - right),
    "Mul": _bounded(lambda left, right: left * right),
    "Div": _bounded(_divided),
    "Mod": _bounded(lambda left, right: left % right if right else None),
    "BitwiseAnd": _bounded(lambda left, right: left & right),
    "BitwiseOr": _bounded(lambda left, right: left | right),
}


def joined(left: Any, right: Any) -> Any:
    """|| of texts, or of lists."""
    if isinstance(left, list) or isinstance(right, list):
        parts = [one if isinstance(one, list) else [] if one is None else [one] for one in (left, right)]
        if len(parts[0]) + len(parts[1]) > MOST_ITEMS:
            raise WireError("54000", "A list has grown too long.")
        return parts[0] + parts[1]
    return None if left is None or right is None else limited(_text(left) + _text(right))


def conjunction(left: Any, right: Any) -> Any:
    """AND."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def disjunction(left: Any, right: Any) -> Any:
    """OR."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def member(value: Any, values: list[Any], compare: Binary = COMPARISONS["EQ"]) -> Any:
    """IN and = ANY: true where one is equal, NULL where one might be."""
    unknown = False
    for one in values:
        equal = compare(value, one)
        if equal:
            return True
        unknown = unknown or equal is None
    return None if unknown else False


def every(value: Any, values: list[Any], compare: Binary) -> Any:
    """<> ALL and the like."""
    unknown = False
    for one in values:
        holds = compare(value, one)
        if holds is False:
            return False
        unknown = unknown or holds is None
    return None if unknown else True


@lru_cache(256)
def like_parts(pattern: str, escape: str) -> tuple[tuple[str | None, ...], ...]:
    """Return what stands between the % of a pattern, letter by letter; None for any letter."""
    parts: list[list[str | None]] = [[]]
    rest = iter(pattern)
    for letter in rest:
        if letter == escape:
            parts[-1].append(next(rest, ""))
        elif letter == "%":
            parts.append([])
        else:
            parts[-1].append(None if letter == "_" else letter)
    return tuple(map(tuple, parts))


def _fits(text: str, part: tuple[str | None, ...], at: int) -> bool:
    return all(letter is None or text[at + place] == letter for place, letter in enumerate(part))


def is_like(text: str, parts: tuple[tuple[str | None, ...], ...]) -> bool:
    """Tell whether a text is what % and _ describe: each part at its first place, so that nothing is tried twice."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(first) and _fits(text, first, 0)
    at, end = len(first), len(text) - len(last)
    if end < at or not _fits(text, first, 0) or not _fits(text, last, end):
        return False
    for part in parts[1:-1]:
        found = next((place for place in range(at, end - len(part) + 1) if _fits(text, part, place)), None)
        if found is None:
            return False
        at = found + len(part)
    return True


@lru_cache(256)
def regular_pattern(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """Return a regular expression of the few that clients send: names, alternatives, anchors, .* and no more."""
    if len(pattern) > _LONGEST_PATTERN or not _is_simple(pattern):
        raise WireError(
            "0A000", "This regular expression is not supported here.", "Some take very long on some texts.", "Use LIKE."
        )
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        raise WireError("2201B", "This regular expression cannot be read.") from None


def _is_simple(pattern: str) -> bool:
    """Whether only .* repeats, twice at most, and there is one group of alternatives: nothing is tried very often."""
    plain = re.sub(r"\\.", "x", pattern)
    bracketed = re.sub(r"\[[^\]]*\]", "x", plain).replace("(?:", "(")
    repeated = bracketed.count(".*") + bracketed.count(".+")
    rest = bracketed.replace(".*", "").replace(".+", "")
    return repeated <= 2 and rest.count("(") <= 2 and not re.search(r"[*+?{}]", rest)


def effort(value: Any, pattern: Any) -> int:
    """Return how many steps a match may take at most, in the currency of a run."""
    if value is None or pattern is None:
        return 1
    length, text = len(_text(value)), str(pattern)
    tries = 1 + text.count("|")
    repeated: int = text.count(".*") + text.count(".+")
    return 1 + tries * int(length ** (1 + min(repeated, 3))) // 20


def like(value: Any, pattern: Any, ignore_case: bool, escape: str = "\\") -> Any:
    """LIKE and ILIKE."""
    if value is None or pattern is None:
        return None
    text, wanted = _text(value), str(pattern)
    if ignore_case:
        text, wanted = text.lower(), wanted.lower()
    return is_like(text, like_parts(wanted, escape))


def matches(value: Any, pattern: Any, ignore_case: bool) -> Any:
    """~ and ~*."""
    if value is None or pattern is None:
        return None
    return regular_pattern(str(pattern), ignore_case).search(_text(value)) is not None
