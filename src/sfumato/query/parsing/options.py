"""GoogleSQL's `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(…)` is read and cut out before the rest is parsed.

WITH ANONYMIZATION is its older name.
"""

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
_THRESHOLD = "AGGREGATION_THRESHOLD"
_CLAUSES = frozenset({"DIFFERENTIAL_PRIVACY", "ANONYMIZATION", _THRESHOLD})
_THRESHOLD_REFUSAL = (
    "WITH AGGREGATION_THRESHOLD is not answered.",
    "It shows exact numbers of groups with enough people, which is not private.",
    "Leave the clause out. Groups that the policy does not declare are selected privately; to see large groups alone, "
    "write HAVING COUNT(DISTINCT patient_id) > 50 with the column that names people.",
)
_OLDER = {"kappa": "max_groups_contributed"}
_THRESHOLD_OPTIONS = frozenset({"min_privacy_units_per_group", "k_threshold"})
_STRATEGY = "group_selection_strategy"


def cut_options(tokens: list[Token], text: str) -> tuple[list[Token], Options]:
    """Return the tokens without the clause, and what it said."""
    starts = [
        i
        for i in range(len(tokens) - 2)
        if _option_words(tokens, i)[:2] == ["SELECT", "WITH"] and _option_words(tokens, i)[2] in _CLAUSES
    ]
    for start in starts:
        if _option_words(tokens, start)[2] == _THRESHOLD:
            raise source_span(text, tokens[start + 1].start, tokens[start + 2].end + 1).unsupported(*_THRESHOLD_REFUSAL)
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
        name = _OLDER.get(tokens[0].text.lower(), tokens[0].text.lower())
        if name in _THRESHOLD_OPTIONS:
            raise where.unsupported(
                f"{name} is not an option here.",
                "How many people a group needs follows from delta, so that one person decides about no group.",
                "Leave it out; to see large groups alone, write HAVING COUNT(DISTINCT patient_id) >= 5 with the column "
                "that names people.",
            )
        if name == _STRATEGY:
            _check_strategy(tokens[2], text)
            tokens = _next_option(tokens, text)
            continue
        if name not in _NAMES:
            raise where.unknown("option", tokens[0].text, _NAMES, "OPTIONS takes others.")
        if name in options:
            raise where.bad(f"{name} is given twice.", "One of them would be ignored.", "Remove one.")
        options[name] = _option_value(name, tokens[2], text)
        tokens = _next_option(tokens, text)
    return Options(**options)  # type: ignore[arg-type]


def _next_option(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens after an option and its comma."""
    if len(tokens) > 3 and (tokens[3].token_type is not TokenType.COMMA or len(tokens) == 4):
        raise _token_span(tokens[3], text).bad(
            "a comma and another option are needed here.",
            "Options are separated by commas, and a value is one number or name.",
            "Write OPTIONS(epsilon = 0.5, delta = 1e-9).",
        )
    return tokens[4:]


def _check_strategy(token: Token, text: str) -> None:
    """LAPLACE_THRESHOLD is what is done here where groups are not declared; public groups are declared elsewhere."""
    if token.text.upper() != "LAPLACE_THRESHOLD":
        raise _token_span(token, text).unsupported(
            f"{token.text[:40]} is not a strategy here.",
            "Groups are public where the policy declares their values, or where the query lists them.",
            "Leave the option out, and list the groups: WHERE dept IN ('er', 'icu').",
        )


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
