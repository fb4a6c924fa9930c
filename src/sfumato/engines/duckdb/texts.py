"""DuckDB's form of the operators on texts. Each mentions its argument once and takes time linear in it.

DuckDB counts characters as code points, searches by a linear algorithm, and matches regular expressions by RE2, which
never backtracks; its own LIKE does and is not used. Numbers and dates are cut out by a regular expression before they
are cast, so that DuckDB's further spellings (0x10, 1_000, infinity, BC) are not read.
"""

from collections.abc import Callable

from sfumato.engines.duckdb.times import day_sql, integer
from sfumato.engines.sql.names import literal
from sfumato.language.lower_texts import ANY, like_pieces
from sfumato.language.scalar import Operator, Scalar

_SPACE = "\t\n\v\f\r "
_AROUND = r"[\t\n\v\f\r ]*"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = f"{_YEAR}-[0-9]{{1,2}}-[0-9]{{1,2}}"
_CLOCK = r"[ T](?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_INTEGER = "[+-]?[0-9]{1,40}"
_DECIMAL = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")


def _called(name: str) -> Callable[[Scalar, list[str]], str]:
    def form(_: Scalar, arguments: list[str]) -> str:
        return f"{name}({', '.join(arguments)})"

    return form


def _joined(_: Scalar, arguments: list[str]) -> str:
    return f"({' || '.join(arguments)})"


def _trimmed(name: str) -> Callable[[Scalar, list[str]], str]:
    def form(scalar: Scalar, arguments: list[str]) -> str:
        return f"{name}({arguments[0]}, {literal(str(scalar.constant))})"

    return form


def _replace(scalar: Scalar, arguments: list[str]) -> str:
    match scalar.constant:
        case (str(old), str(new)):
            return f"replace({arguments[0]}, {literal(old)}, {literal(new)})"
        case _:
            raise AssertionError("what is replaced comes with what replaces it")


def _like(scalar: Scalar, arguments: list[str]) -> str:
    (text,) = arguments
    pieces = like_pieces(str(scalar.constant))
    front, back = bool(pieces) and pieces[0] == "%", len(pieces) > 1 and pieces[-1] == "%"
    middle = pieces[front : len(pieces) - back]
    if not ANY.isdisjoint(middle):
        expression = "".join(_regular(piece) for piece in pieces)
        return f"regexp_full_match({text}, {literal(expression)}, 's')"
    plain = literal("".join(piece[1:] for piece in middle))
    match front, back:
        case False, False:
            return f"({text} = {plain})"
        case False, True:
            return f"starts_with({text}, {plain})"
        case True, False:
            return f"suffix({text}, {plain})"
        case _:
            return f"contains({text}, {plain})"


def _regular(piece: str) -> str:
    """Return a piece of a pattern in RE2's syntax, by the number of the character where that could mean more."""
    if piece in ANY:
        return ".*" if piece == "%" else "."
    character = piece[1:]
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"


def _cut_out(text: str, expression: str) -> str:
    """Return the part in brackets of the one expression that the whole text is, or the empty text."""
    pattern = rf"\A{_AROUND}({expression}){_AROUND}\z"
    return f"regexp_extract({text}, {literal(pattern)}, 1)"


def _read_integer(_: Scalar, arguments: list[str]) -> str:
    return f"TRY_CAST({_cut_out(arguments[0], _INTEGER)} AS BIGINT)"


def _read_decimal(_: Scalar, arguments: list[str]) -> str:
    number = f"TRY_CAST({_cut_out(arguments[0], _DECIMAL)} AS DECIMAL(19,9))"
    return f"TRY_CAST({number} * CAST(1000000000 AS DECIMAL(10,0)) AS BIGINT)"


def _read_boolean(_: Scalar, arguments: list[str]) -> str:
    words = " ".join(
        f"WHEN {literal(word)} THEN {truth}" for truth, words in (("true", _TRUE), ("false", _FALSE)) for word in words
    )
    return f"(CASE lower(trim({arguments[0]}, {literal(_SPACE)})) {words} END)"


def _read_day(_: Scalar, arguments: list[str]) -> str:
    pattern = rf"\A{_AROUND}({_DATE})(?:{_CLOCK})?{_AROUND}\z"
    return day_sql(f"TRY_CAST(regexp_extract({arguments[0]}, {literal(pattern)}, 1) AS DATE)")


def _read_moment(_: Scalar, arguments: list[str]) -> str:
    return f"epoch_us(TRY_CAST({_cut_out(arguments[0], f'{_DATE}(?:{_CLOCK})?')} AS TIMESTAMP))"


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


FORMS: dict[Operator, Callable[[Scalar, list[str]], str]] = {
    Operator.LOWER: _called("lower"),
    Operator.UPPER: _called("upper"),
    Operator.LENGTH: _called("length"),
    Operator.LEFT: _called("left"),
    Operator.RIGHT: _called("right"),
    Operator.FROM: _called("substring"),
    Operator.CONCAT: _called("concat"),
    Operator.JOINED: _joined,
    Operator.TRIM: _trimmed("trim"),
    Operator.LTRIM: _trimmed("ltrim"),
    Operator.RTRIM: _trimmed("rtrim"),
    Operator.REPLACE: _replace,
    Operator.STARTS_WITH: _called("starts_with"),
    Operator.POSITION: _called("strpos"),
    Operator.LIKE: _like,
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
