"""DuckDB's form of the operators on texts. Each mentions its argument once and takes time linear in it.

DuckDB counts characters as code points, searches by a linear algorithm, and matches regular expressions by RE2, which
never backtracks; its own LIKE does and is not used. Numbers and dates are cut out by a regular expression before they
are cast, so that DuckDB's further spellings (0x10, 1_000, infinity, BC) are not read.
"""

from collections.abc import Sequence

from sfumato.engines.duckdb.numbers import named
from sfumato.engines.duckdb.times import day_sql
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.names import literal
from sfumato.engines.sql.numbers import integer
from sfumato.engines.sql.texts import AROUND, CLOCK, DATE, DECIMAL, INTEGER, MOMENT, SPACE, TextForms, called, truth_of
from sfumato.language.lower_texts import ANY
from sfumato.language.scalar import Operator, Scalar


def _regular(piece: str) -> str:
    """Return a piece of a pattern in RE2's syntax, by the number of the character where that could mean more."""
    if piece in ANY:
        return ".*" if piece == "%" else "."
    character = piece[1:]
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"


def _cut_out(text: str, expression: str) -> str:
    """Return the part in brackets of the one expression that the whole text is, or the empty text."""
    pattern = rf"\A{AROUND}({expression}){AROUND}\z"
    return f"regexp_extract({text}, {literal(pattern)}, 1)"


def _read_integer(_: Scalar, arguments: list[str]) -> str:
    return f"TRY_CAST({_cut_out(arguments[0], INTEGER)} AS BIGINT)"


def _read_decimal(_: Scalar, arguments: list[str]) -> str:
    number = f"TRY_CAST({_cut_out(arguments[0], DECIMAL)} AS DECIMAL(19,9))"
    return f"TRY_CAST({number} * CAST(1000000000 AS DECIMAL(10,0)) AS BIGINT)"


def _read_boolean(_: Scalar, arguments: list[str]) -> str:
    """The engine writes what a CASE compares once for each word: it is computed before, and named."""
    return named([f"lower(trim({arguments[0]}, {literal(SPACE)}))"], lambda words: truth_of(words, literal))


def _read_day(_: Scalar, arguments: list[str]) -> str:
    pattern = rf"\A{AROUND}({DATE})(?:{CLOCK})?{AROUND}\z"
    return day_sql(f"TRY_CAST(regexp_extract({arguments[0]}, {literal(pattern)}, 1) AS DATE)")


def _read_moment(_: Scalar, arguments: list[str]) -> str:
    return f"epoch_us(TRY_CAST({_cut_out(arguments[0], MOMENT)} AS TIMESTAMP))"


def _number_text(scalar: Scalar, arguments: list[str]) -> str:
    places = integer(scalar)
    if places == 0:
        return f"CAST({arguments[0]} AS VARCHAR)"
    unit = f"CAST('0.{'0' * (places - 1)}1' AS DECIMAL({places + 1},{places}))"
    return f"CAST(CAST({arguments[0]} AS DECIMAL(38,0)) * {unit} AS VARCHAR)"


def _plain_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST({arguments[0]} AS VARCHAR)"


def _real_text(_: Scalar, arguments: list[str]) -> str:
    """Zero has no sign in a text: where it could be told, an expression could tell equal doubles apart."""
    return f"CAST(({arguments[0]} + 0::DOUBLE) AS VARCHAR)"  # -0.0 + 0.0 is 0.0


def text_sql(text: str) -> str:
    """Return a text as a constant."""
    return f"{literal(text)}::VARCHAR"


def _pattern(text: str, pieces: Sequence[str]) -> str:
    expression = "".join(_regular(piece) for piece in pieces)
    return f"regexp_full_match({text}, {literal(expression)}, 's')"


_TEXT_FORMS = TextForms(
    literal,
    ("trim({0}, {1})", "ltrim({0}, {1})", "rtrim({0}, {1})"),
    starts=lambda text, other: f"starts_with({text}, {other})",
    ends=lambda text, other, length: f"suffix({text}, {other})",
    contains=lambda text, other: f"contains({text}, {other})",
    like=_pattern,
)

FORMS: dict[Operator, Form] = {
    **_TEXT_FORMS.forms(),
    Operator.LOWER: called("lower"),
    Operator.UPPER: called("upper"),
    Operator.LENGTH: called("length"),
    Operator.LEFT: called("left"),
    Operator.RIGHT: called("right"),
    Operator.FROM: called("substring"),
    Operator.CONCAT: called("concat"),
    Operator.STARTS_WITH: called("starts_with"),
    Operator.POSITION: called("strpos"),
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
