"""PostgreSQL's form of the operators on texts. Each takes time linear in its argument.

Texts are compared by code point: every constant and every column of the copy says COLLATE "C". That collation knows the
case of ASCII letters alone, so that other letters are translated one by one, by the table that DuckDB has. Numbers and
dates are cut out by a regular expression that admits only what a cast or a function of the calendar cannot refuse.
"""

from collections.abc import Sequence

from sfumato.engines.duckdb.case_mapping import letters
from sfumato.engines.postgres.numbers import NARROW, let
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.names import literal
from sfumato.engines.sql.numbers import integer
from sfumato.engines.sql.texts import (
    AROUND,
    CLOCK,
    DATE,
    DECIMAL,
    INTEGER,
    MAX_COUNT,
    MOMENT,
    SPACE,
    TextForms,
    called,
    truth_of,
)
from sfumato.language.facts import STORED_LIMIT
from sfumato.language.lower_texts import ANY
from sfumato.language.scalar import Operator, Scalar

_NOWHERE = "\uffff"
"""Stands for the character 0, which no text of PostgreSQL holds: no text has a character that Unicode says is none."""


def text_sql(text: str) -> str:
    """Return a text as a constant: no backslash is an escape, and it is compared by code point."""
    return f'(CAST({literal(text.replace(chr(0), _NOWHERE))} AS text) COLLATE "C")'


def _case_form(name: str) -> Form:
    def form(_: Scalar, arguments: list[str]) -> str:
        plain = f'{name}(v COLLATE "C")'
        others = ", ".join(literal(letter) for letter in letters(name))
        return let(
            f"CASE WHEN octet_length(v) = length(v) THEN {plain} ELSE translate({plain}, {others}) END", v=arguments[0]
        )

    return form


def _cut(name: str) -> Form:
    """Of a count that no text is as long as, nothing more than its sign matters."""

    def form(_: Scalar, arguments: list[str]) -> str:
        count = f"CAST(least(greatest(n, -{MAX_COUNT}), {MAX_COUNT}) AS integer)"
        return let(f"CASE WHEN n IS NOT NULL THEN {name}(v, {count}) END", v=arguments[0], n=arguments[1])

    return form


def _cut_out(text: str, expression: str) -> str:
    """Return the part in brackets of the one expression that the whole text is, or NULL."""
    return f"substring({text} FROM {text_sql(f'^{AROUND}({expression}){AROUND}$')})"


def narrowed(sql: str) -> str:
    """Return a numeric as a bigint; NULL beyond 64 bits."""
    return let(f"CASE WHEN v BETWEEN {-STORED_LIMIT} AND {STORED_LIMIT - 1} THEN CAST(v AS {NARROW}) END", v=sql)


def _read_integer(_: Scalar, arguments: list[str]) -> str:
    return narrowed(f"CAST({_cut_out(arguments[0], INTEGER)} AS numeric)")


def _read_decimal(_: Scalar, arguments: list[str]) -> str:
    return narrowed(f"round(CAST({_cut_out(arguments[0], DECIMAL)} AS numeric) * 1000000000)")


def _read_boolean(_: Scalar, arguments: list[str]) -> str:
    return truth_of(f'lower(btrim({arguments[0]}, {text_sql(SPACE)}) COLLATE "C")', text_sql)


def _days(date: str) -> str:
    """Return a date in figures as a day; NULL where the month has no such day."""
    leap = "CASE WHEN y % 4 = 0 AND (y % 100 <> 0 OR y % 400 = 0) THEN 29 ELSE 28 END"
    last = f"CASE WHEN m = 2 THEN {leap} ELSE 30 + (m + m / 8) % 2 END"
    day = f"CASE WHEN m BETWEEN 1 AND 12 AND d BETWEEN 1 AND {last} THEN make_date(y, m, d) - DATE '1970-01-01' END"
    parts = {name: f"CAST(split_part(f, '-', {at}) AS integer)" for at, name in enumerate(("y", "m", "d"), 1)}
    return f"CAST({let(let(day, **parts), f=date)} AS {NARROW})"


def _read_day(_: Scalar, arguments: list[str]) -> str:
    return _days(f"substring({arguments[0]} FROM {text_sql(f'^{AROUND}({DATE})(?:{CLOCK})?{AROUND}$')})")


def _read_moment(_: Scalar, arguments: list[str]) -> str:
    clock = "translate(c, 'T', ' ')"
    second = f"nullif(split_part({clock}, ':', 3), '')"
    time = (
        f"coalesce(CAST(nullif(split_part({clock}, ':', 1), '') AS {NARROW}), 0) * 3600000000 + "
        f"coalesce(CAST(nullif(split_part({clock}, ':', 2), '') AS {NARROW}), 0) * 60000000 + "
        f"coalesce(CAST(CAST({second} AS numeric) * 1000000 AS {NARROW}), 0)"
    )
    day, rest = _days("substring(w FROM '^[0-9-]+')"), "substring(w FROM '[ T](.*)$')"
    return let(let(f"d * 86400000000 + {time}", "m", d=day, c=rest), w=_cut_out(arguments[0], MOMENT))


def _number_text(scalar: Scalar, arguments: list[str]) -> str:
    places = integer(scalar)
    if places == 0:
        return f"CAST({arguments[0]} AS text)"
    return f"CAST(CAST({arguments[0]} AS numeric) * 0.{'0' * (places - 1)}1 AS text)"


def _plain_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST({arguments[0]} AS text)"


def _real_text(_: Scalar, arguments: list[str]) -> str:
    """Zero has no sign in a text; 15 and 16 digits are written out, and whole numbers have a place."""
    long = "abs(v) >= 1e15 AND abs(v) < 1e16"
    shortest = f"CASE WHEN {long} THEN CAST(CAST(CAST(v AS text) AS numeric) AS text) ELSE CAST(v AS text) END"
    written = let("CASE WHEN t ~ '^-?[0-9]+$' THEN t || '.0' ELSE t END", t=shortest)
    return let(f"CASE WHEN v = 0 THEN '0.0' ELSE {written} END", v=arguments[0])


def _pattern(text: str, pieces: Sequence[str]) -> str:
    pattern = "".join(piece if piece in ANY else f"\\{piece[1:]}" for piece in pieces)
    return f"({text} LIKE {text_sql(pattern)})"


_TEXT_FORMS = TextForms(
    text_sql,
    ("btrim({0}, {1})", "ltrim({0}, {1})", "rtrim({0}, {1})"),
    starts=lambda text, other: f"starts_with({text}, {other})",
    ends=lambda text, other, length: f"(right({text}, {length}) = {other})",
    contains=lambda text, other: f"(strpos({text}, {other}) > 0)",
    like=_pattern,
)

FORMS: dict[Operator, Form] = {
    **_TEXT_FORMS.forms(),
    Operator.LOWER: _case_form("lower"),
    Operator.UPPER: _case_form("upper"),
    Operator.LENGTH: called("length", NARROW),
    Operator.LEFT: _cut("left"),
    Operator.RIGHT: _cut("right"),
    Operator.FROM: _cut("substr"),
    Operator.CONCAT: called("concat"),
    Operator.STARTS_WITH: called("starts_with"),
    Operator.POSITION: called("strpos", NARROW),
    Operator.READ_INTEGER: _read_integer,
    Operator.READ_DECIMAL: _read_decimal,
    Operator.READ_BOOLEAN: _read_boolean,
    Operator.READ_DAY: _read_day,
    Operator.READ_MOMENT: _read_moment,
    Operator.NUMBER_TEXT: _number_text,
    Operator.REAL_TEXT: _real_text,
    Operator.BOOLEAN_TEXT: _plain_text,
}
"""One form per operator on texts."""
