"""Functions of dates that others are made of: they are written out when they are read, and mean what those mean."""

from collections.abc import Callable, Iterator

from sfumato.query.arithmetic import arithmetic
from sfumato.query.expression import Call, Case, Expression, Literal
from sfumato.query.functions import Form, Function, Takes
from sfumato.query.parsing.desugar.builders import a_number, a_text, build_call, check_count, joined_texts
from sfumato.query.parsing.desugar.time_zones import to_date, to_timestamp
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import call, cast, compare, convert_implicitly, type_with_article
from sfumato.query.types import TIMES, Interval, Type

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_PER_YEAR = {"year": 1, "quarter": 4, "month": 12}

ReadDatePart = Callable[[Expression, SourceSpan], Expression]


def _call_function(function: Function, first: Expression, second: Expression, place: SourceSpan) -> Expression:
    form = Form(function, (Takes.INTEGER, Takes.INTEGER), Type.INTEGER, ())
    return call(form, [first, second], str(function), place)


def _date_part(part: str, time: Expression, place: SourceSpan) -> Expression:
    """Return a part of a date or timestamp as an integer."""
    if part == "second":
        seconds = build_call("date_part", [a_text("second", place), time], place)
        return cast(build_call("floor", [seconds], place), Type.INTEGER, place)
    names = {"doy": "dayofyear", "dow": "dayofweek"}
    return build_call(names.get(part, part), [time], place)


def _timestamp(time: Expression, place: SourceSpan) -> Expression:
    return time if time.type is Type.TIMESTAMP else convert_implicitly(time, Type.TIMESTAMP, place)


def _check_time(value: Expression, name: str, place: SourceSpan) -> Expression:
    if isinstance(value, Literal) and (value.type is Type.TEXT or value.value is None):
        return convert_implicitly(value, Type.TIMESTAMP, place)
    if value.type in TIMES:
        return value
    raise place.bad(
        f"{name} takes a date or timestamp, and this is {type_with_article(value.type)}.",
        "Types are checked before any data is read.",
        "Use another column, or CAST(… AS date).",
    )


def _spelled_word(value: Expression, name: str, place: SourceSpan) -> str:
    if isinstance(value, Literal) and isinstance(value.value, str):
        return value.value
    raise place.unsupported(
        f"{name} takes a text that is spelled out in the query.",
        "What it does may not differ from row to row.",
        "Write the text itself, not a column or expression.",
    )


# ── differences ──


def _difference(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """DuckDB's date_diff: how many years, months, … begin between two times; of weeks, a seventh of the days."""
    part, start, end = _span(name, arguments, place)
    if part in _PER_YEAR:
        numbers = [_periods_since_year_0(part, time, place) for time in (start, end)]
        return _call_function(Function.SUBTRACT, numbers[1], numbers[0], place)
    unit = a_text("day" if part == "week" else part, place)
    begun = [build_call("date_trunc", [unit, _timestamp(time, place)], place) for time in (start, end)]
    return _elapsed_units(begun[0], begun[1], _SECONDS[part], place)


def _whole_difference(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """DuckDB's date_sub: how many whole days, hours, … lie between two times."""
    part, start, end = _span(name, arguments, place)
    if part in _PER_YEAR:
        raise place.unsupported(
            f"{name} of whole {part}s is not supported.",
            "Months have different lengths.",
            f"Use date_diff('{part}', …), which counts how often one begins, or whole days.",
        )
    return _elapsed_units(_timestamp(start, place), _timestamp(end, place), _SECONDS[part], place)


def _span(name: str, arguments: list[Expression], place: SourceSpan) -> tuple[str, Expression, Expression]:
    check_count(arguments, 3, 3, name, place)
    word = _spelled_word(arguments[0], name, place).lower()
    part = word if word in (*_PER_YEAR, *_SECONDS) else word.removesuffix("s")
    if part not in (*_PER_YEAR, *_SECONDS):
        raise place.unknown("part of a date", word, [*_PER_YEAR, *_SECONDS], f"{name} knows others.")
    start, end = (_check_time(value, name, place) for value in arguments[1:])
    return part, start, end


def _periods_since_year_0(part: str, time: Expression, place: SourceSpan) -> Expression:
    """Return how many of these have begun since the year 0."""
    year = _date_part("year", time, place)
    if part == "year":
        return year
    whole = _call_function(Function.MULTIPLY, year, a_number(_PER_YEAR[part], place), place)
    return _call_function(Function.ADD, whole, _date_part(part, time, place), place)


def _elapsed_units(start: Expression, end: Expression, seconds: int, place: SourceSpan) -> Expression:
    span = Call(Function.ELAPSED, (end, start), Type.INTERVAL, place.at)
    passed = build_call("date_part", [a_text("epoch", place), span], place)
    whole = cast(build_call("trunc", [passed], place), Type.INTEGER, place)
    return whole if seconds == 1 else build_call("div", [whole, a_number(seconds, place)], place)


# ── texts ──


def _pad_number(number: Expression, width: int, place: SourceSpan) -> Expression:
    digits = cast(number, Type.TEXT, place)
    joined = joined_texts([a_text("0" * (width - 1), place), digits], place)
    return build_call("right", [joined, a_number(width, place)], place)


def _pick_word(number: Expression, words: list[str], place: SourceSpan) -> Expression:
    """Return the word of a number, the first being that of 1."""
    branches = tuple(
        (compare(Function.EQUAL, number, a_number(index, place), place), a_text(word, place))
        for index, word in enumerate(words, 1)
    )
    return Case(branches, Literal(None, Type.TEXT, place.at), Type.TEXT, place.at)


def _half(time: Expression, words: tuple[str, str], place: SourceSpan) -> Expression:
    half = build_call("div", [_date_part("hour", time, place), a_number(12, place)], place)
    return _pick_word(_call_function(Function.ADD, half, a_number(1, place), place), list(words), place)


def _twelve(time: Expression, place: SourceSpan) -> Expression:
    """Return the hour from 1 to 12."""
    before = _call_function(Function.ADD, _date_part("hour", time, place), a_number(11, place), place)
    return _call_function(
        Function.ADD, _call_function(Function.MODULO, before, a_number(12, place), place), a_number(1, place), place
    )


def _sunday_first(time: Expression, place: SourceSpan) -> Expression:
    return _call_function(Function.ADD, _date_part("dow", time, place), a_number(1, place), place)


def _number_reader(part: str) -> ReadDatePart:
    return lambda time, position: _date_part(part, time, position)


def _short_year(time: Expression, place: SourceSpan) -> Expression:
    return _call_function(Function.MODULO, _date_part("year", time, place), a_number(100, place), place)


_NUMBERS: dict[str, tuple[ReadDatePart, int, bool]] = {
    "YYYY": (_number_reader("year"), 4, False),
    "YY": (_short_year, 2, False),
    "Q": (_number_reader("quarter"), 1, False),
    "MM": (_number_reader("month"), 2, False),
    "IW": (_number_reader("week"), 2, False),
    "DDD": (_number_reader("doy"), 3, False),
    "DD": (_number_reader("day"), 2, False),
    "D": (_sunday_first, 1, False),
    "ID": (_number_reader("isodow"), 1, False),
    "HH24": (_number_reader("hour"), 2, True),
    "HH12": (_twelve, 2, True),
    "HH": (_twelve, 2, True),
    "MI": (_number_reader("minute"), 2, True),
    "SS": (_number_reader("second"), 2, True),
}
"""Numbers of to_char: how they are computed, how many digits they have, and whether they are of the clock."""
_WORDS = ("MONTH", "Month", "month", "MON", "Mon", "mon", "DAY", "Day", "day", "DY", "Dy", "dy", "AM", "PM", "am", "pm")
_STRFTIME = {
    "Y": "YYYY",
    "y": "YY",
    "m": "MM",
    "d": "DD",
    "H": "HH24",
    "I": "HH12",
    "M": "MI",
    "S": "SS",
    "j": "DDD",
    "B": "FMMonth",
    "b": "Mon",
    "A": "FMDay",
    "a": "Dy",
    "p": "AM",
    "u": "ID",
    "V": "IW",
}
_UNPADDED_CODES = frozenset("mdHIMSj")


def _to_char(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """PostgreSQL's to_char of a date or timestamp."""
    check_count(arguments, 2, 2, name, place)
    time, pattern = _check_time(arguments[0], name, place), _spelled_word(arguments[1], name, place)
    return _format_pieces(list(_patterns(pattern, name, place)), time, place)


def _patterns(pattern: str, name: str, place: SourceSpan) -> Iterator[tuple[str, str]]:
    """Give the pieces of a pattern: (what it is, or nothing for plain text; the text)."""
    known = sorted({*_NUMBERS, *_WORDS}, key=len, reverse=True)
    position = 0
    while position < len(pattern):
        if pattern[position] == '"':
            end = pattern.find('"', position + 1)
            end = len(pattern) if end < 0 else end
            yield "", pattern[position + 1 : end]
            position = end + 1
            continue
        mark = "FM" if pattern.startswith("FM", position) else ""
        rest = pattern[position + len(mark) :]
        piece = next((pattern for pattern in known if rest.startswith(pattern)), None)
        piece = piece or next((pattern for pattern in _NUMBERS if rest.upper().startswith(pattern)), None)
        if piece is not None:
            yield f"{mark}{piece}", ""
            position += len(mark) + len(piece)
        elif pattern[position].isalnum() or mark:
            raise place.unsupported(
                f"{name} does not know what `{pattern[position : position + 6]}` is.",
                f"It knows {', '.join([*_NUMBERS, 'Month', 'Mon', 'Day', 'Dy', 'AM'])}, and FM before them.",
                'Use these, and put other words into double quotes: YYYY"w"IW.',
            )
        else:
            yield "", pattern[position]
            position += 1


def _strftime(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """DuckDB's strftime: the date and the format in either order."""
    check_count(arguments, 2, 2, name, place)
    first = arguments[0]
    swapped = isinstance(first, Literal) and isinstance(first.value, str) and "%" in first.value
    time, pattern = arguments[::-1] if swapped else arguments
    written, letters = [], iter(_spelled_word(pattern, name, place))
    for letter in letters:
        if letter != "%":
            written.append(("", letter))
            continue
        code = next(letters, "")
        dashed = code == "-"
        code = next(letters, "") if dashed else code
        if code == "%":
            written.append(("", "%"))
        elif code in _STRFTIME and (not dashed or code in _UNPADDED_CODES):
            written.append((f"{'FM' * dashed}{_STRFTIME[code]}", ""))
        elif code == "w":
            written.append(("DOW", ""))
        else:
            raise place.unsupported(
                f"{name} does not know %{'-' * dashed}{code}.",
                f"It knows %{' %'.join([*_STRFTIME, 'w', '%'])}, and %- before m, d, H, I, M, S and j.",
                "Use these.",
            )
    return _format_pieces(written, _check_time(time, name, place), place)


def _format_pieces(pieces: list[tuple[str, str]], time: Expression, place: SourceSpan) -> Expression:
    """Return a date as text, piece by piece."""
    clock = {"FM" * fm + pattern for pattern, (_, _, of_clock) in _NUMBERS.items() if of_clock for fm in (0, 1)}
    clock |= {"AM", "PM", "am", "pm"}
    if any(piece in clock for piece, _ in pieces):
        time = _timestamp(time, place)
    parts: list[Expression] = [a_text("", place)]
    for piece, text in pieces:
        parts.append(_piece(piece, time, place) if piece else a_text(text, place))
    return joined_texts(parts, place)


def _piece(piece: str, time: Expression, place: SourceSpan) -> Expression:
    plain, bare = piece.removeprefix("FM"), piece.startswith("FM")
    if plain == "DOW":
        return cast(_date_part("dow", time, place), Type.TEXT, place)
    if plain in _NUMBERS:
        read, width, _ = _NUMBERS[plain]
        number = read(time, place)
        return cast(number, Type.TEXT, place) if bare or width == 1 else _pad_number(number, width, place)
    if plain in {"AM", "PM", "am", "pm"}:
        return _half(time, ("AM", "PM") if plain.isupper() else ("am", "pm"), place)
    months = plain.lower() in {"month", "mon"}
    words = [word[:3] if plain.lower() in {"mon", "dy"} else word for word in (_MONTHS if months else _DAYS)]
    words = [word.upper() if plain.isupper() else word.lower() if plain.islower() else word for word in words]
    if plain.lower() in {"month", "day"} and not bare:
        words = [word.ljust(9) for word in words]  # as PostgreSQL pads them
    return _pick_word(_date_part("month" if months else "isodow", time, place), words, place)


def _name_of(part: str) -> Callable[[str, list[Expression], SourceSpan], Expression]:
    def read(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
        check_count(arguments, 1, 1, name, place)
        return _format_pieces([(part, "")], _check_time(arguments[0], name, place), place)

    return read


def _make_date(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """make_date(year, month, day): the date that is written so, or NULL where there is none."""
    check_count(arguments, 3, 3, name, place)
    numbers = [convert_implicitly(value, Type.INTEGER, place) for value in arguments]
    digits = [_pad_number(value, width, place) for value, width in zip(numbers, (4, 2, 2), strict=True)]
    dash = a_text("-", place)
    written = joined_texts([digits[0], dash, digits[1], dash, digits[2]], place)
    present = [_has_digits(value, most, place) for value, most in zip(numbers, (9999, 12, 31), strict=True)]
    expression = call(Form(Function.AND, (Takes.BOOLEAN,), Type.BOOLEAN, (), repeats=True), present, "and", place)
    return Case(
        ((expression, cast(written, Type.DATE, place)),), Literal(None, Type.DATE, place.at), Type.DATE, place.at
    )


def _has_digits(number: Expression, most: int, place: SourceSpan) -> Expression:
    """Whether a number has the digits that stand for it."""
    part = compare(Function.AT_MOST, a_number(1, place), number, place)
    other = compare(Function.AT_MOST, number, a_number(most, place), place)
    return call(Form(Function.AND, (Takes.BOOLEAN,), Type.BOOLEAN, (), repeats=True), [part, other], "and", place)


def _day(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """date(x) is CAST(x AS date)."""
    check_count(arguments, 1, 1, name, place)
    return cast(_check_time(arguments[0], name, place), Type.DATE, place)


def _last_day(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Return the last day of a month: the one before the next month begins."""
    check_count(arguments, 1, 1, name, place)
    begun = build_call("date_trunc", [a_text("month", place), _check_time(arguments[0], name, place)], place)
    for moved in (Interval(months=1), Interval(days=-1)):
        begun = arithmetic(Function.ADD, begun, Literal(moved, Type.INTERVAL, place.at), place)
    return cast(begun, Type.DATE, place)


def _later(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """date_add(x, INTERVAL …) is x + INTERVAL …."""
    check_count(arguments, 2, 2, name, place)
    return arithmetic(Function.ADD, _check_time(arguments[0], name, place), arguments[1], place)


def _part_named(part: str) -> Callable[[str, list[Expression], SourceSpan], Expression]:
    def read(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
        check_count(arguments, 1, 1, name, place)
        return _date_part(part, _check_time(arguments[0], name, place), place)

    return read


WRITTEN_OUT: dict[str, Callable[[str, list[Expression], SourceSpan], Expression]] = {
    "to_char": _to_char,
    "strftime": _strftime,
    "date_diff": _difference,
    "datediff": _difference,
    "date_sub": _whole_difference,
    "datesub": _whole_difference,
    "monthname": _name_of("FMMonth"),
    "dayname": _name_of("FMDay"),
    "make_date": _make_date,
    "to_timestamp": to_timestamp,
    "to_date": to_date,
    "date": _day,
    "last_day": _last_day,
    "date_add": _later,
    "weekday": _part_named("dow"),
    "weekofyear": _part_named("week"),
    "dayofmonth": _part_named("day"),
}
"""Functions by name, and how a call of one is written out."""
