"""Operators of catalogue queries, with SQL's third truth value."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sfumato.server.wire.pg_catalog.compiled import Execution
from sfumato.server.wire.pg_catalog.functions import MAX_ARRAY_ITEMS, limited
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

_MAX_PATTERN_CHARS = 500
_MAX_SEARCH_STEPS = 500_000

BinaryFunction = Callable[[Any, Any], Any]


def null_safe(operator: BinaryFunction) -> BinaryFunction:
    """Return an operator that is NULL where an operand is."""

    def safe(left: Any, right: Any) -> Any:
        return None if left is None or right is None else operator(left, right)

    return safe


def _order_operator(compare: Callable[[Any, Any], bool]) -> BinaryFunction:
    def ordered(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            left, right = _text(left), _text(right)
        return compare(left, right)

    return null_safe(ordered)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else (text_of(value, 0) or b"").decode()


COMPARISONS: dict[str, BinaryFunction] = {
    "EQ": _order_operator(lambda left, right: left == right),
    "NEQ": _order_operator(lambda left, right: left != right),
    "LT": _order_operator(lambda left, right: left < right),
    "LTE": _order_operator(lambda left, right: left <= right),
    "GT": _order_operator(lambda left, right: left > right),
    "GTE": _order_operator(lambda left, right: left >= right),
}


def _divide(left: Any, right: Any) -> Any:
    if not right:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left / right


_OPERANDS = (int, float, Decimal, date, timedelta)
_MAX_EXPONENT = 1000


def _bound_operator(operator: BinaryFunction) -> BinaryFunction:
    """Return arithmetic on numbers and moments alone: Python would repeat and format texts by the same signs."""

    def bounded(left: Any, right: Any) -> Any:
        if not (isinstance(left, _OPERANDS) and isinstance(right, _OPERANDS)):
            raise WireError("42883", "operator does not exist for these types")
        try:
            result = operator(left, right)
        except TypeError:
            raise WireError("42883", "operator does not exist for these types") from None
        except (ArithmeticError, ValueError):
            raise WireError("22003", "value out of range") from None
        if isinstance(result, int) and abs(result) >= 1 << 63:
            raise WireError("22003", "integer out of range")
        if isinstance(result, Decimal) and abs(result.adjusted()) > _MAX_EXPONENT:
            raise WireError("22003", "value out of range")
        return result

    return null_safe(bounded)


ARITHMETIC: dict[str, BinaryFunction] = {
    "Add": _bound_operator(lambda left, right: left + right),
    "Sub": _bound_operator(lambda left, right: left - right),
    "Mul": _bound_operator(lambda left, right: left * right),
    "Div": _bound_operator(_divide),
    "Mod": _bound_operator(lambda left, right: left % right if right else None),
    "BitwiseAnd": _bound_operator(lambda left, right: left & right),
    "BitwiseOr": _bound_operator(lambda left, right: left | right),
}


def joined(left: Any, right: Any) -> Any:
    """|| of texts, or of lists."""
    if isinstance(left, list) or isinstance(right, list):
        parts = [side if isinstance(side, list) else [] if side is None else [side] for side in (left, right)]
        if len(parts[0]) + len(parts[1]) > MAX_ARRAY_ITEMS:
            raise WireError("54000", "A list has grown too long.")
        return parts[0] + parts[1]
    return None if left is None or right is None else limited(_text(left) + _text(right))


def member(value: Any, values: list[Any], compare: BinaryFunction = COMPARISONS["EQ"]) -> Any:
    """IN and = ANY: true where one is equal, NULL where one might be."""
    unknown = False
    for item in values:
        equal = compare(value, item)
        if equal:
            return True
        unknown = unknown or equal is None
    return None if unknown else False


def every(value: Any, values: list[Any], compare: BinaryFunction) -> Any:
    """<> ALL and the like."""
    unknown = False
    for item in values:
        holds = compare(value, item)
        if holds is False:
            return False
        unknown = unknown or holds is None
    return None if unknown else True


def like_parts(pattern: str, escape: str) -> list[list[str | None]]:
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
    return parts


def _fits(text: str, part: list[str | None], at: int, run: Execution) -> bool:
    run.spend(1 + len(part))
    return all(letter is None or text[at + index] == letter for index, letter in enumerate(part))


def _find_part(text: str, part: list[str | None], at: int, end: int, run: Execution) -> int | None:
    """Return the first place of a part between `at` and `end`; a part without _ is found in linear time."""
    if None not in part:
        wanted = "".join(letter for letter in part if letter is not None)
        run.spend(1 + len(part) + (end - at) // 16)
        found = text.find(wanted, at, end)
        return None if found < 0 else found
    return next((index for index in range(at, end - len(part) + 1) if _fits(text, part, index, run)), None)


def is_like(text: str, pattern: str, escape: str, run: Execution) -> bool:
    """Tell whether a text is what % and _ describe; every letter that is compared is a step."""
    run.spend(len(pattern))
    parts = like_parts(pattern, escape)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(text) == len(first) and _fits(text, first, 0, run)
    at, end = len(first), len(text) - len(last)
    if end < at or not _fits(text, first, 0, run) or not _fits(text, last, end, run):
        return False
    for part in parts[1:-1]:
        found = _find_part(text, part, at, end, run)
        if found is None:
            return False
        at = found + len(part)
    return True


@lru_cache(256)
def regular_pattern(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """Return a regular expression of the few that clients send: names, alternatives, anchors, .* and no more."""
    if len(pattern) > _MAX_PATTERN_CHARS or not _is_simple(pattern):
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


def regex_effort(length: int, pattern: str) -> int:
    """Return an upper bound of the letters that a search compares, in steps.

    Each .* multiplies by the text, so does the place where the search begins unless ^ fixes it, each group by its
    alternatives; each attempt reads the pattern.
    """
    plain = re.sub(r"\\.", "x", pattern)
    repeated = plain.count(".*") + plain.count(".+")
    anchored = plain.startswith("^") and "|" not in re.sub(r"\([^()]*\)", "", plain)
    tries: int = (1 + plain.count("|")) ** max(plain.count("("), 1)
    places: int = (1 + length) ** (repeated + (not anchored))
    return 1 + tries * (1 + len(pattern)) * places // 20


def like(run: Execution, value: Any, pattern: Any, ignore_case: bool, escape: str = "\\") -> Any:
    """LIKE and ILIKE."""
    if value is None or pattern is None:
        return None
    text, wanted = _text(value), str(pattern)
    if ignore_case:
        text, wanted = text.lower(), wanted.lower()
    return is_like(text, wanted, escape, run)


def matches(run: Execution, value: Any, pattern: Any, ignore_case: bool) -> Any:
    """~ and ~*. A search cannot be interrupted, so that one that might take long is refused."""
    if value is None or pattern is None:
        return None
    compiled, text = regular_pattern(str(pattern), ignore_case), _text(value)
    steps = regex_effort(len(text), str(pattern))
    if steps > _MAX_SEARCH_STEPS:
        raise WireError(
            "54000",
            "This regular expression may take too long on this text.",
            f"The limit is {_MAX_SEARCH_STEPS:,} steps for one search.",
            "Use LIKE.",
        )
    run.spend(steps)
    return compiled.search(text) is not None
