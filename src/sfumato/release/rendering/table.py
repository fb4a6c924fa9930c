"""An answer as a text table: every noisy number with its margin, cut to the digits that mean something."""

from collections.abc import Sequence
from math import floor, log10

from sfumato.release.decode import Value
from sfumato.release.rendering.escaping import escape_unprintable

_MIN_GROUPED_VALUE = 10_000

IntervalEnds = tuple[Value, Value]
MARK = "*"
MARK_MEANING = "Without bounds and clipping, the value may lie outside its margin."
MARK_LEGEND = f"{MARK} {MARK_MEANING}"
_DIGITS = 2
"""Number of digits of a margin that are shown; a person reads no more into it."""


def text_table(names: Sequence[str], columns: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """Return aligned columns under their names: numbers to the right, the rest to the left.

    >>> print(text_table(["dept", "n"], [["er", "icu"], ["12 ± 3", "7 ± 3"]], [False, True]))
    dept       n
    ----  ------
    er    12 ± 3
    icu    7 ± 3
    """
    clean = [[escape_unprintable(cell) for cell in (name, *cells)] for name, cells in zip(names, columns, strict=True)]
    widths = [max(map(len, cells)) for cells in clean]
    rows = [list(row) for row in zip(*clean, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in rows
    )


def format_value(value: Value, ends: IntervalEnds | None, *, marked: bool = False) -> str:
    """Return a value with its margin, and a mark where it may lie outside without bounds and clipping.

    >>> format_value(1234, (1204, 1264)), format_value(1234, (1204, 1264), marked=True)
    ('1,234 ± 30', '1,234 ± 30 *')
    """
    shown = _with_margin(value, ends)
    return f"{shown} {MARK}" if marked and ends is not None and value is not None else shown


def _with_margin(value: Value, ends: IntervalEnds | None) -> str:
    """Return a value with its margin: `±` where both sides are alike, else with the ends of its interval.

    A number without noise is a key or an exact answer and is written as it is: a year is 1980. Thousands are set apart
    in noisy counts and sums. A noisy number may be one that the true one cannot be; then its interval lies beside it.

    >>> _with_margin(1234, (1204, 1264)), _with_margin(41.237, (38.1, 46.2)), _with_margin(None, None)
    ('1,234 ± 30', '41.2 (38.1 to 46.2)', 'NULL')
    >>> _with_margin(91738, (0, 100000)), _with_margin(0.5, (None, 0.75))
    ('91,738 (0 to 100,000)', '0.50 (-∞ to 0.75)')
    >>> _with_margin(660, (0, 100)), _with_margin(1980, None), _with_margin(1980.25, (1975.0, 1985.5))
    ('660 (0 to 100)', '1980', '1980.2 ± 5.2')
    >>> _with_margin("4814", (4770, 4858))
    '4814 ± 44'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    number = _spelled(value) if isinstance(value, str) and ends is not None else value
    if not isinstance(number, int | float):
        return str(value)
    if ends is None:
        return f"{number:.15g}" if isinstance(number, float) else str(number)
    if ends[0] == ends[1] == number:
        return _number(number, None)
    below, above = (_distance(number, end) for end in ends)
    known = [distance for distance in (below, above) if distance]
    places = None if isinstance(number, int) or not known else _places(min(known))
    written = value if isinstance(value, str) else _number(number, places)
    less, more = (None if distance is None else _number(distance, places) for distance in (below, above))
    beside = any(
        isinstance(end, int | float) and (end - number) * side < 0 for end, side in zip(ends, (-1, 1), strict=True)
    )
    if less == more is not None and not beside:
        return f"{written} ± {less}"
    low, high = (_number(end, places) if isinstance(end, int | float) else "∞" for end in ends)
    return f"{written} ({'-' * (ends[0] is None)}{low} to {high})"


def _spelled(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _distance(value: int | float, end: Value) -> int | float | None:
    return abs(end - value) if isinstance(end, int | float) else None


def _places(margin: float) -> int:
    return max(_DIGITS - 1 - floor(log10(margin)), 0)


def _number(value: int | float, places: int | None) -> str:
    """Write a noisy number: counts in groups of three digits, measured values only from five digits on."""
    if isinstance(value, int):
        return f"{value:,}"
    grouped = "," if abs(value) >= _MIN_GROUPED_VALUE else ""
    return f"{value:{grouped}.6g}" if places is None else f"{value:{grouped}.{min(places, 12)}f}"
