"""Spark's form of the operators on texts. Each takes time linear in its argument.

Spark compares texts by code point and counts code points. Its regular expressions are Java's, which go back as often
as they can: ours are written so that they cannot. Its own LIKE is such an expression and is not used. Numbers and dates
are cut out before they are cast, so that Spark's further spellings (now, epoch, 2024) are not read.
"""

from collections.abc import Sequence

from sfumato.engines.duckdb.case_mapping import letters
from sfumato.engines.spark.numbers import NARROW, WIDE, given
from sfumato.engines.spark.times import day_sql
from sfumato.engines.sql.dialect import Form
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
    TRUTHS,
    TextForms,
    called,
)
from sfumato.language.lower_texts import ANY
from sfumato.language.scalar import Operator, Scalar

_PLAIN = frozenset(" ,.:;-_/+*()<>=!?#@%&[]")


def text_sql(text: str) -> str:
    """Return a text as a constant: whatever could mean more to the parser stands there by its number."""
    return f"'{''.join(map(_escape_character, text))}'"


def _escape_character(character: str) -> str:
    if character in _PLAIN or (character.isascii() and character.isalnum()):
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def _regular(character: str) -> str:
    """Return a character in Java's syntax, by its number."""
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"


def _pattern(text: str, pieces: Sequence[str]) -> str:
    """Each part between two % is looked for once, and where it is found first it stays: (?>…) never goes back."""
    parts = [""]
    for piece in pieces:
        if piece == "%":
            parts.append("")
        else:
            parts[-1] += "." if piece in ANY else _regular(piece[1:])
    first, *middle = parts
    last = f".*{middle.pop()}" if middle else ""
    expression = rf"(?s)\A{first}{''.join(f'(?>.*?{part})' for part in middle if part)}{last}\z"
    return f"rlike({text}, {text_sql(expression)})"


def _case_form(name: str) -> Form:
    """Spark's own knows letters that become two; ours keep their length, by one table for every engine."""

    def form(_: Scalar, arguments: list[str]) -> str:
        others = ", ".join(text_sql(letter) for letter in letters(name))
        return given(
            arguments,
            lambda v: (
                f"CASE WHEN octet_length({v}) = length({v}) THEN {name}({v}) "
                f"ELSE translate({_ascii(name, v)}, {others}) END"
            ),
        )

    return form


def _ascii(name: str, text: str) -> str:
    small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    here, there = (large, small) if name == "lower" else (small, large)
    return f"translate({text}, '{here}', '{there}')"


def _count(sql: str) -> str:
    """Of a count that no text is as long as, nothing more than its sign matters."""
    return f"CAST(least(greatest({sql}, -{MAX_COUNT}L), {MAX_COUNT}L) AS INT)"


def _cut(body: str) -> Form:
    """Return the form of a cut of a text {v} at a count {n}."""

    def form(_: Scalar, arguments: list[str]) -> str:
        def whole(v: str, n: str) -> str:
            return f"CASE WHEN {n} IS NOT NULL THEN {body.format(v=v, n=_count(n), size=f'length({v})')} END"

        return given(arguments, whole)

    return form


_LEFT = "substr({v}, 1, CASE WHEN {n} < 0 THEN greatest({size} + {n}, 0) ELSE {n} END)"
_RIGHT = "substr({v}, 1 + CASE WHEN {n} < 0 THEN least(-({n}), {size}) ELSE greatest({size} - {n}, 0) END)"
_FROM = "substr({v}, greatest({n}, 1))"


def cut_out(text: str, expression: str, after: str = "") -> str:
    """Return the part in brackets of the one expression that the whole text is, or the empty text."""
    around = AROUND.replace(r"\v", r"\x0b") + "+"  # \v is more to Java; what it took it does not give back
    pattern = rf"\A{around}({expression}){after}{around}\z"
    return f"regexp_extract({text}, {text_sql(pattern)}, 1)"


def _read_integer(_: Scalar, arguments: list[str]) -> str:
    return f"try_cast({cut_out(arguments[0], INTEGER)} AS {NARROW})"


def _read_decimal(_: Scalar, arguments: list[str]) -> str:
    number = f"try_cast({cut_out(arguments[0], DECIMAL)} AS DECIMAL(19,9))"
    return f"try_cast({number} * CAST('1000000000' AS DECIMAL(10,0)) AS {NARROW})"


def truth_sql(text: str) -> str:
    """Return the truth value that a text spells."""
    words = ", ".join(f"'{word}', {str(truth).lower()}" for truth, spelled in TRUTHS.items() for word in spelled)
    trimmed = f"trim(BOTH {text_sql(SPACE)} FROM {text})"
    small = _ascii("lower", trimmed)
    return f"try_element_at(map({words}), {small})"


def _read_boolean(_: Scalar, arguments: list[str]) -> str:
    return truth_sql(arguments[0])


def day_of(text: str) -> str:
    """Return the day that a text spells, alone or before a time."""
    return day_sql(f"try_cast({cut_out(text, DATE, f'(?:{CLOCK})?')} AS DATE)")


def moment_of(text: str) -> str:
    """Return the moment that a text spells."""
    moment = f"try_cast({cut_out(text, MOMENT)} AS TIMESTAMP_NTZ)"
    return f"unix_micros(CAST({moment} AS TIMESTAMP))"


def _read_day(_: Scalar, arguments: list[str]) -> str:
    return day_of(arguments[0])


def _read_moment(_: Scalar, arguments: list[str]) -> str:
    return moment_of(arguments[0])


def _number_text(scalar: Scalar, arguments: list[str]) -> str:
    places = integer(scalar)
    if places == 0:
        return f"CAST({arguments[0]} AS STRING)"
    unit = f"CAST('0.{'0' * (places - 1)}1' AS DECIMAL({places + 1},{places}))"
    return f"CAST(CAST({arguments[0]} AS {WIDE}) * {unit} AS STRING)"


def _real_text(_: Scalar, arguments: list[str]) -> str:
    """Zero has no sign in a text. Java writes 1.0E16 and 1.0E-5, and from 10^7 on with an exponent."""

    def written(t: str) -> str:
        digits, power = f"substring_index({t}, 'E', 1)", f"CAST(substring_index({t}, 'E', -1) AS INT)"
        short = f"CASE WHEN {digits} LIKE '%.0' THEN substring_index({digits}, '.', 1) ELSE {digits} END"
        plain = f"CAST(CAST({t} AS DECIMAL(38,18)) AS STRING)"
        whole = f"regexp_replace({plain}, '(\\\\.[0-9]*?)0+$', '$1')"
        sign = f"CASE WHEN {power} < 0 THEN '-' ELSE '+' END"
        exponent = f"concat({sign}, CASE WHEN abs({power}) < 10 THEN '0' ELSE '' END, CAST(abs({power}) AS STRING))"
        return (
            f"CASE WHEN instr({t}, 'E') = 0 THEN {t} WHEN {power} BETWEEN -4 AND 15 "
            f"THEN CASE WHEN {whole} LIKE '%.' THEN concat({whole}, '0') ELSE {whole} END "
            f"ELSE concat({short}, 'e', {exponent}) END"
        )

    text = given(arguments, lambda v: f"CAST(CASE WHEN {v} = 0 THEN CAST('0.0' AS DOUBLE) ELSE {v} END AS STRING)")
    return given([text], written)


def _ends(text: str, other: str, length: int) -> str:
    return f"endswith({text}, {other})"


_TEXT_FORMS = TextForms(
    text_sql,
    ("trim(BOTH {1} FROM {0})", "trim(LEADING {1} FROM {0})", "trim(TRAILING {1} FROM {0})"),
    starts=lambda text, other: f"startswith({text}, {other})",
    ends=_ends,
    contains=lambda text, other: f"contains({text}, {other})",
    like=_pattern,
)

FORMS: dict[Operator, Form] = {
    **_TEXT_FORMS.forms(),
    Operator.LOWER: _case_form("lower"),
    Operator.UPPER: _case_form("upper"),
    Operator.LENGTH: called("length", NARROW),
    Operator.LEFT: _cut(_LEFT),
    Operator.RIGHT: _cut(_RIGHT),
    Operator.FROM: _cut(_FROM),
    Operator.CONCAT: lambda scalar, texts: f"concat_ws('', {', '.join(texts)})",
    Operator.STARTS_WITH: called("startswith"),
    Operator.POSITION: called("instr", NARROW),
    Operator.READ_INTEGER: _read_integer,
    Operator.READ_DECIMAL: _read_decimal,
    Operator.READ_BOOLEAN: _read_boolean,
    Operator.READ_DAY: _read_day,
    Operator.READ_MOMENT: _read_moment,
    Operator.NUMBER_TEXT: _number_text,
    Operator.REAL_TEXT: _real_text,
    Operator.BOOLEAN_TEXT: lambda scalar, texts: f"CAST({texts[0]} AS STRING)",
}
"""One form per operator on texts."""
