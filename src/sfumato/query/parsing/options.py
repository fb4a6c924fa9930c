"""GoogleSQL's `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(…)` is read and cut out before the rest is parsed."""

from dataclasses import fields
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from sfumato.policy.policy import fold_name
from sfumato.query.literal import parse_number
from sfumato.query.position import SourceSpan, source_span
from sfumato.query.relation import Options

_NAMES = [field.name for field in fields(Options)]
_NUMBERS = frozenset({"epsilon", "delta"})
_COUNTS = frozenset({"max_groups_contributed", "max_rows_contributed"})


def cut_options(tokens: list[Token], text: str) -> tuple[list[Token], Options]:
    """Return the tokens without the clause, and what it said."""
    starts = [
        i for i in range(len(tokens) - 2) if _option_words(tokens, i) == ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY"]
    ]
    if not starts:
        return tokens, Options()
    first = starts[0] + 1
    if len(starts) > 1 or _depth(tokens[:first]):
        wrong = tokens[starts[-1] + 1 if len(starts) > 1 else first]
        raise source_span(text, wrong.start, tokens[starts[-1] + 2].end + 1).unsupported(
            "WITH DIFFERENTIAL_PRIVACY belongs to the outermost SELECT, once.",
            "The whole question is private, or none of it.",
            "Move it to the first SELECT that is not in brackets.",
        )
    after = first + 2
    if after >= len(tokens) or tokens[after].text.upper() != "OPTIONS":
        return tokens[:first] + tokens[after:], Options()
    end = _closing(tokens, after + 1, text)
    return tokens[:first] + tokens[end + 1 :], _read_options(tokens[after + 2 : end], text)


def _option_words(tokens: list[Token], start: int) -> list[str]:
    return [token.text.upper() for token in tokens[start : start + 3]]


def _depth(tokens: list[Token]) -> int:
    kinds = [token.token_type for token in tokens]
    return kinds.count(TokenType.L_PAREN) - kinds.count(TokenType.R_PAREN)


def _closing(tokens: list[Token], start: int, text: str) -> int:
    if start < len(tokens) and tokens[start].token_type is TokenType.L_PAREN:
        for i in range(start + 1, len(tokens)):
            if tokens[i].token_type is TokenType.R_PAREN:
                return i
    raise _token_span(tokens[start - 1], text).bad(
        "OPTIONS is not followed by a list in brackets.",
        "The clause is OPTIONS(name = value, …).",
        "Write for example OPTIONS(epsilon = 0.5).",
    )


def _token_span(token: Token, text: str) -> SourceSpan:
    return source_span(text, token.start, token.end + 1)


def _read_options(tokens: list[Token], text: str) -> Options:
    options: dict[str, Fraction | int | str] = {}
    while tokens:
        where = _token_span(tokens[0], text)
        if len(tokens) < 3 or tokens[1].token_type is not TokenType.EQ:
            raise where.bad("this option has no value.", "An option is name = value.", "Write epsilon = 0.5.")
        name = tokens[0].text.lower()
        if name not in _NAMES:
            raise where.unknown("option", tokens[0].text, _NAMES, "OPTIONS takes others.")
        if name in options:
            raise where.bad(f"{name} is given twice.", "One of them would be ignored.", "Remove one.")
        options[name] = _option_value(name, tokens[2], text)
        if len(tokens) > 3 and (tokens[3].token_type is not TokenType.COMMA or len(tokens) == 4):
            raise _token_span(tokens[3], text).bad(
                "a comma and another option are needed here.",
                "Options are separated by commas, and a value is one number or name.",
                "Write OPTIONS(epsilon = 0.5, delta = 1e-9).",
            )
        tokens = tokens[4:]
    return Options(**options)  # type: ignore[arg-type]


def _option_value(name: str, token: Token, text: str) -> Fraction | int | str:
    where = _token_span(token, text)
    if name in _NUMBERS | _COUNTS:
        if token.token_type is TokenType.NUMBER:
            value = parse_number(token.text, where).value
            if name in _NUMBERS and isinstance(value, int | Fraction) and value >= 0:
                return Fraction(value)
            if name in _COUNTS and isinstance(value, int) and value >= 1:
                return value
        wanted = "a positive whole number" if name in _COUNTS else "a number that is not negative"
        raise where.bad(f"{name} takes {wanted}.", "Anything else has no meaning here.", f"Write {name} = 1.")
    if token.token_type is TokenType.IDENTIFIER:
        return token.text
    if token.token_type is TokenType.VAR:
        return fold_name(token.text)
    raise where.bad(f"{name} takes the name of a column.", "The unit is a column.", f"Write {name} = patient_id.")
