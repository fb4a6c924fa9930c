"""Operators of catalogue queries, with SQL's third truth value."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sfumato.server.wire.catalogue.functions import limited
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
def like_pattern(pattern: str, ignore_case: bool, escape: str = "\\") -> re.Pattern[str]:
    """Return LIKE's pattern; runs of % are one, so that matching stays short."""
    if len(pattern) > _LONGEST_PATTERN or len(re.findall(r"%+", pattern)) > 8:
        raise WireError("54000", "A pattern is too long.")
    written, rest = "", iter(re.sub(r"%+", "%", pattern))
    for letter in rest:
        if letter == escape:
            written += re.escape(next(rest, ""))
        else:
            written += {"%": ".*", "_": "."}.get(letter, re.escape(letter))
    return re.compile(written, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


@lru_cache(256)
def regular_pattern(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """Return a regular expression of the few that clients send: names, alternatives, anchors, .* and no more."""
    if len(pattern) > _LONGEST_PATTERN or pattern.count("*") > 4 or not _is_simple(pattern):
        raise WireError(
            "0A000", "This regular expression is not supported here.", "Some take very long on some texts.", "Use LIKE."
        )
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        raise WireError("2201B", "This regular expression cannot be read.") from None


def _is_simple(pattern: str) -> bool:
    """Only .* repeats, and never inside what repeats: matching is then polynomial of a small degree."""
    without = re.sub(r"\\.", "x", pattern).replace(".*", "").replace(".+", "")
    without = re.sub(r"\[[^\]]*\]", "x", without).replace("(?:", "(")
    return not re.search(r"[*+?{}]", without)


def like(value: Any, pattern: Any, ignore_case: bool, escape: str = "\\") -> Any:
    """LIKE and ILIKE."""
    if value is None or pattern is None:
        return None
    return like_pattern(str(pattern), ignore_case, escape).fullmatch(_text(value)[:4000]) is not None


def matches(value: Any, pattern: Any, ignore_case: bool) -> Any:
    """~ and ~*."""
    if value is None or pattern is None:
        return None
    return regular_pattern(str(pattern), ignore_case).search(_text(value)[:4000]) is not None
