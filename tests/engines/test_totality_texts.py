"""Laws of functions of text and of casts from and to text, computed by every engine and compared with Python's own."""

import re
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from tests.engines.engines import engine_under_law
from tests.engines.scalar_values import assert_within_facts, columns_of, lowered, values

from sfumato.engines.duckdb import texts as duckdb_texts
from sfumato.engines.duckdb import times as duckdb_times
from sfumato.errors import QueryTooLarge, UnsupportedSql
from sfumato.language.calendar import DAY_MICROSECONDS
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.intervals import nearest
from sfumato.language.scalar import Operator
from sfumato.query.expression import Call, Cast, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

pytestmark = pytest.mark.usefixtures("every_engine")

TEXT = Facts(Type.TEXT, Kind.TEXT)
COUNT = Facts(Type.INTEGER, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1)
FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}"
TEXTS = [
    "",
    "a",
    "abc",
    " a b ",
    "aXbXc",
    "e\u0301x",
    FAMILY,
    "\0",
    "a\0b",
    "İß\u212a",
    "%_\\",
    "a\nb",
    "\u00a0x",
    "10%",
]
SPELLED = [
    *("1e400", "0x10", " 7 ", "١٢", "1_000", "+5", "--5", "NaN", "infinity", "-0", "007", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "1.5", ".5", "5.", ".", "-.0000000005", "0.0000000004999999999"),
    *("9223372036.8547758074", "9223372036.8547758075", "99999999999", "1" * 40, "0" * 39 + "7", "\t8\n", "8 8", "8\0"),
    *("2023-02-30", "0000-00-00", "99999-01-01", "2024-02-29", "2023-2-9", "0001-01-01", "9999-12-31", "-infinity"),
    *("2023-02-28 12:00", "2023-02-28T23:59:59.25", "2023-02-28 24:00", "2023-02-28 1:2", "2023-01-01 (BC)", "epoch"),
    *("2023-02-28 01:02:03.123456", "2023-02-28 01:02:03.1234567", "2023-02-28 01:02:03Z", "0000-01-01", "today"),
    *("t", "TRUE", "Yes", "oN", "of", "f", "no ", "0", "1", "o", "truee", "2"),
]
LONG = ["a" * 100_000, "é" * 100_000, "9" * 100_000, " " * 100_000, "\0" * 100_000, "ab" * 50_000]
COUNTS = [-STORED_LIMIT, -(2**32), -4, -1, 0, 1, 2, 5, 2**32, STORED_LIMIT - 1]


def word(text: str) -> Literal:
    return Literal(text, Type.TEXT)


def computed(expression: Expression, facts: list[Facts], rows: list[tuple[object, ...]]) -> list[object]:
    scalar = lowered(expression, facts)
    found = values(scalar, facts, rows)
    assert_within_facts(scalar, found)
    return found


def left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


def substring(text: str, start: int, count: int | None = None) -> str | None:
    if count is not None and count < 0:
        return None
    stop = len(text) if count is None else min(start + count - 1, len(text))
    return text[max(start, 1) - 1 : max(stop, 0)]


ALONE: dict[Function, tuple[Type, Callable[[str], object]]] = {
    Function.LENGTH: (Type.INTEGER, len),
    Function.TRIM: (Type.TEXT, lambda text: text.strip(" ")),
    Function.LTRIM: (Type.TEXT, lambda text: text.lstrip(" ")),
    Function.RTRIM: (Type.TEXT, lambda text: text.rstrip(" ")),
}
PAIRS: dict[Function, tuple[Type, Callable[[str, str], object]]] = {
    Function.CONCAT: (Type.TEXT, lambda first, second: first + second),
    Function.JOINED: (Type.TEXT, lambda first, second: first + second),
    Function.STARTS_WITH: (Type.BOOLEAN, str.startswith),
    Function.POSITION: (Type.INTEGER, lambda text, part: text.find(part) + 1),
}
SIDES: dict[Function, Callable[..., str | None]] = {
    Function.LEFT: left,
    Function.RIGHT: right,
    Function.SUBSTRING: substring,
}
PATTERNS = [
    "",
    "%",
    "a%",
    "%c",
    "%b%",
    "abc",
    "a_c",
    "_",
    "__",
    "%X_X%",
    r"\%\_\\",
    r"10\%",
    "a\0%",
    "a%_b",
    "%\u0301_",
]
SLOW = "%a%a%a%a%a%a%a%a_b"


def like(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    shown = (re.escape(piece[-1]) if piece not in {"%", "_"} else {"%": ".*", "_": "."}[piece] for piece in pieces)
    return re.compile("".join(shown), re.DOTALL)


@pytest.mark.parametrize("function", ALONE)
def test_functions_of_one_text_count_code_points(function: Function) -> None:
    type, oracle = ALONE[function]
    found = computed(Call(function, columns_of([TEXT]), type), [TEXT], [(text,) for text in TEXTS])
    assert found == [oracle(text) for text in TEXTS]


@pytest.mark.parametrize("function", PAIRS)
def test_functions_of_two_texts_agree_with_python(function: Function) -> None:
    type, oracle = PAIRS[function]
    rows = [(first, second) for first in TEXTS for second in TEXTS]
    found = computed(Call(function, columns_of([TEXT, TEXT]), type), [TEXT, TEXT], list(rows))
    assert found == [oracle(*row) for row in rows]


@pytest.mark.parametrize("function", SIDES)
def test_parts_of_a_text_are_cut_as_postgresql_does(function: Function) -> None:
    rows = [(text, count) for text in TEXTS for count in COUNTS]
    found = computed(Call(function, columns_of([TEXT, COUNT]), Type.TEXT), [TEXT, COUNT], list(rows))
    assert found == [SIDES[function](*row) for row in rows]


def test_substring_takes_the_characters_from_start_for_a_count() -> None:
    facts = [TEXT, COUNT, COUNT]
    rows = [(text, start, count) for text in TEXTS[:8] for start in COUNTS for count in COUNTS]
    found = computed(Call(Function.SUBSTRING, columns_of(facts), Type.TEXT), facts, list(rows))
    assert found == [substring(*row) for row in rows]


@pytest.mark.parametrize("start", COUNTS)
def test_substring_is_the_same_where_its_numbers_are_spelled_out(start: int) -> None:
    (text,) = columns_of([TEXT])
    for count in (-1, 0, 2, 4, STORED_LIMIT - 1):
        places = (Literal(start, Type.INTEGER), Literal(count, Type.INTEGER))
        found = computed(Call(Function.SUBSTRING, (text, *places), Type.TEXT), [TEXT], [(each,) for each in TEXTS])
        assert found == [substring(each, start, count) for each in TEXTS]


def test_null_gives_null_except_in_concat() -> None:
    texts = columns_of([TEXT, TEXT])
    rows: list[tuple[object, ...]] = [("a", None), (None, "a"), (None, None)]
    assert computed(Call(Function.JOINED, texts, Type.TEXT), [TEXT, TEXT], rows) == [None] * 3
    assert computed(Call(Function.CONCAT, texts, Type.TEXT), [TEXT, TEXT], rows) == ["a", "a", ""]


@pytest.mark.parametrize(("old", "new"), [("X", "yy"), ("", "z"), ("\0", "0"), ("ab", ""), ("b", "b")])
def test_replace_replaces_from_the_left(old: str, new: str) -> None:
    (text,) = columns_of([TEXT])
    found = computed(
        Call(Function.REPLACE, (text, word(old), word(new)), Type.TEXT), [TEXT], [(text,) for text in TEXTS]
    )
    assert found == [text.replace(old, new) if old else text for text in TEXTS]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_like_matches_the_whole_text(pattern: str) -> None:
    (text,) = columns_of([TEXT])
    found = computed(Call(Function.LIKE, (text, word(pattern)), Type.BOOLEAN), [TEXT], [(text,) for text in TEXTS])
    assert found == [like(pattern).fullmatch(text) is not None for text in TEXTS]


def test_ilike_looks_past_case() -> None:
    (text,) = columns_of([TEXT])
    found = computed(
        Call(Function.ILIKE, (text, word("_\N{LATIN CAPITAL LETTER SHARP S}K")), Type.BOOLEAN),
        [TEXT],
        [("xßk",), ("İß\u212a",), ("ab",)],
    )
    assert found == [True, True, False]


@pytest.mark.parametrize("function", [Function.LOWER, Function.UPPER])
def test_case_changes_every_character_by_itself(function: Function) -> None:
    """So a text keeps its length, whatever it holds."""
    characters = [chr(code) for code in range(1, sys.maxunicode + 1, 7) if not 0xD800 <= code <= 0xDFFF]
    changed = Call(function, columns_of([TEXT]), Type.TEXT)
    lengths = computed(Call(Function.LENGTH, (changed,), Type.INTEGER), [TEXT], [("".join(characters),)])
    assert lengths == [len(characters)]
    ascii_text = "".join(map(chr, range(1, 128)))
    wanted = ascii_text.lower() if function is Function.LOWER else ascii_text.upper()
    assert computed(changed, [TEXT], [(ascii_text,)]) == [wanted]


def test_one_long_value_costs_little_whatever_the_pattern() -> None:
    """The limit is generous for busy machines; a matcher that backtracks would not end."""
    (text,) = columns_of([TEXT])
    for pattern in (SLOW, "%a__________b", "_" * 900 + "%", "%" + "a%" * 400 + "b"):
        scalar = lowered(Call(Function.LIKE, (text, word(pattern)), Type.BOOLEAN), [TEXT])
        begun = time.perf_counter()
        values(scalar, [TEXT], [("a" * 100_000,), ("ab" * 50_000,), ("é" * 100_000,)])
        assert time.perf_counter() - begun < 3


def test_texts_that_could_grow_without_end_are_refused() -> None:
    (text,) = columns_of([TEXT])
    with pytest.raises(QueryTooLarge, match="too long"):
        lowered(Call(Function.REPLACE, (text, word("a"), word("b" * 11)), Type.TEXT), [TEXT])
    with pytest.raises(QueryTooLarge, match="too long"):
        lowered(Call(Function.CONCAT, (text,) * 11, Type.TEXT), [TEXT])
    with pytest.raises(QueryTooLarge, match="pattern"):
        lowered(Call(Function.LIKE, (text, word("%a" + "_" * 11)), Type.BOOLEAN), [TEXT])


def read_integer(text: str) -> int | None:
    match = re.fullmatch(r"[ \t-\r]*([+-]?[0-9]{1,40})[ \t-\r]*", text)
    value = int(match[1]) if match else STORED_LIMIT
    return value if -STORED_LIMIT <= value < STORED_LIMIT else None


def read_decimal(text: str) -> int | None:
    match = re.fullmatch(r"[ \t-\r]*([+-]?)([0-9]*)(\.[0-9]*)?[ \t-\r]*", text)
    if not match or not (match[2] or len(match[3] or "") > 1):
        return None
    exact = Fraction(f"{match[1]}{match[2] or 0}{match[3] or ''}0" if match[3] else f"{match[1]}{match[2]}") * 10**9
    value = nearest(exact.numerator, exact.denominator)
    return value if -STORED_LIMIT <= value < STORED_LIMIT else None


def test_numbers_are_read_from_digits_and_nothing_else() -> None:
    (text,) = columns_of([TEXT])
    rows: list[tuple[object, ...]] = [(spelled,) for spelled in SPELLED + TEXTS]
    assert computed(Cast(text, Type.INTEGER), [TEXT], rows) == [read_integer(each) for each in SPELLED + TEXTS]
    assert computed(Cast(text, Type.DECIMAL), [TEXT], rows) == [read_decimal(each) for each in SPELLED + TEXTS]


def test_truth_values_and_times_are_read_as_postgresql_spells_them() -> None:
    (text,) = columns_of([TEXT])
    true, false = ["t", "TRUE", "Yes", "oN", "1"], ["of", "f", "no ", "0"]
    found = computed(Cast(text, Type.BOOLEAN), [TEXT], [(each,) for each in SPELLED])
    assert found == [True if each in true else False if each in false else None for each in SPELLED]
    days = {"2024-02-29": 19782, "2023-2-9": 19397, "0001-01-01": -719162, "9999-12-31": 2932896}
    clocks = {"2023-02-28 12:00": 43_200_000_000, "2023-02-28T23:59:59.25": 86_399_250_000}
    clocks |= {"2023-02-28 01:02:03.123456": 3_723_123_456}
    found = computed(Cast(text, Type.DATE), [TEXT], [(each,) for each in SPELLED])
    assert found == [19416 if each in clocks else days.get(each) for each in SPELLED]
    found = computed(Cast(text, Type.TIMESTAMP), [TEXT], [(each,) for each in SPELLED])
    moments = {each: day * DAY_MICROSECONDS for each, day in days.items()} | {
        each: 19416 * DAY_MICROSECONDS + at for each, at in clocks.items()
    }
    assert found == [moments.get(each) for each in SPELLED]


@pytest.mark.parametrize("step", ["1", "10", "0.01", "0.25", "0.000000001"])
def test_numbers_are_printed_exactly(step: str) -> None:
    grid = Fraction(step)
    facts = Facts(Type.DECIMAL, Kind.INTEGER, step=grid, low=-(10**9), high=10**9)
    (number,) = columns_of([facts])
    integers = [-(10**9), -101, -1, 0, 1, 99, 100, 10**9]
    found = computed(Cast(number, Type.TEXT), [facts], [(integer,) for integer in integers])
    assert [Fraction(str(text)) for text in found] == [integer * grid for integer in integers]


def test_thirds_are_printed_to_twelve_places_and_truth_by_its_name() -> None:
    thirds = Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 3), low=-10, high=10)
    assert computed(Cast(columns_of([thirds])[0], Type.TEXT), [thirds], [(-1,), (2,)]) == [
        "-0.333333333333",
        "0.666666666667",
    ]
    truth = Facts(Type.BOOLEAN, Kind.BOOLEAN)
    assert computed(Cast(columns_of([truth])[0], Type.TEXT), [truth], [(True,), (False,), (None,)]) == [
        "true",
        "false",
        None,
    ]
    real = Facts(Type.DECIMAL, Kind.REAL)
    doubles = [0.1, -1.7976931348623157e308, 5e-324, -2.2250738585072014e-308, 1e20]
    found = computed(Cast(columns_of([real])[0], Type.TEXT), [real], [(double,) for double in doubles])
    assert [float(str(text)) for text in found] == doubles


def test_an_interval_is_not_printed() -> None:
    span = Facts(Type.INTERVAL, Kind.INTEGER, low=0, high=DAY_MICROSECONDS)
    with pytest.raises(UnsupportedSql, match="epoch"):
        lowered(Cast(columns_of([span])[0], Type.TEXT), [span])


def test_no_function_of_texts_raises_or_leaves_its_facts_on_any_text() -> None:
    first, second, count = columns_of([TEXT, TEXT, COUNT])
    facts = [TEXT, TEXT, COUNT]
    everything: list[Expression] = [
        *(Call(function, (first,), type) for function, (type, _) in ALONE.items()),
        *(Call(function, (first, second), type) for function, (type, _) in PAIRS.items()),
        *(Call(function, (first, count), Type.TEXT) for function in SIDES),
        Call(Function.LOWER, (first,), Type.TEXT),
        Call(Function.UPPER, (first,), Type.TEXT),
        Call(Function.SUBSTRING, (first, count, count), Type.TEXT),
        Call(Function.REPLACE, (first, word("a"), word("bcd")), Type.TEXT),
        Call(Function.TRIM, (first, word("ba\0é")), Type.TEXT),
        *(Call(Function.LIKE, (first, word(pattern)), Type.BOOLEAN) for pattern in PATTERNS),
        *(Cast(first, type) for type in (Type.INTEGER, Type.DECIMAL, Type.BOOLEAN, Type.DATE, Type.TIMESTAMP)),
    ]
    hostile = [*TEXTS, *SPELLED, *LONG, None]
    rows = [(text, hostile[-1 - i], COUNTS[i % len(COUNTS)]) for i, text in enumerate(hostile)]
    for expression in everything:
        computed(expression, facts, list(rows))


NO_FORM = (Operator.COLUMN, Operator.STORED, Operator.INTERVAL_END)
"""Columns have names; ends of error bars exist above the noise alone, where no engine computes."""


def test_every_operator_has_one_form() -> None:
    assert {*engine_under_law().dialect.operator_sql, *NO_FORM} == set(Operator)
    assert duckdb_times.FORMS.keys().isdisjoint(duckdb_texts.FORMS)


def test_the_documentation_lists_every_operator_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "totality.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert listed == [str(operator) for operator in Operator]
