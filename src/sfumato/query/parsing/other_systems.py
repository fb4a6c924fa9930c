"""Words of BigQuery and Snowflake: read where they mean the same here, else refused by name with what does."""

from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

from sfumato.query.position import source_span

_BACKTICK = "`"
_BUDGET = (
    "sfumato has a budget of privacy loss, not of questions.",
    "Look at what is left: db.budget() in Python, SHOW sfumato.budget over PostgreSQL's protocol, sfumato budget "
    "POLICY in a terminal. `explain` says what a question would use.",
)
_SYSTEM_FUNCTIONS = {"ESTIMATE_REMAINING_DP_AGGREGATES": _BUDGET}
_POLICY = {
    "DOMAIN": (
        "a privacy domain is set here.",
        "The data owner declares what a column can hold in the policy file.",
        "Write into the policy: BETWEEN (0, 10) is `bounds = [0, 10]`, IN ('a', 'b') is `values = [\"a\", \"b\"]`, and "
        'REFERENCES airlines (carrier) is `values = "airlines.carrier"`.',
    ),
    "POLICY": (
        "a privacy policy is set here.",
        "The data owner declares budgets in the policy file.",
        "Write into the policy: BUDGET_LIMIT is `epsilon` in [budget] or [analysts.NAME]. In place of "
        "MAX_BUDGET_PER_AGGREGATE each question names its own `epsilon`, or costs the `price` of [analysts.NAME].",
    ),
}
"""Snowflake's statements about privacy, by the word after PRIVACY."""


def translate_tokens(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens of other systems as ours: names in backticks, and the bounds of CLAMPED BETWEEN."""
    return list(_rewrite_clamped([part for token in tokens for part in _split_dotted_name(token, text)]))


def refuse_other_systems(tokens: list[Token], text: str) -> None:
    """Refuse the words that have no meaning here, by name and with what to use instead."""
    for token in tokens:
        why = _SYSTEM_FUNCTIONS.get(token.text.upper()) if token.token_type is TokenType.VAR else None
        if why is not None:
            where = source_span(text, token.start, token.end + 1)
            raise where.unsupported(f"{token.text.upper()} is not answered.", *why)
    words = [token.text.upper() for token in tokens]
    if words and words[0] in ("ALTER", "CREATE"):
        for index, word in enumerate(words[:-1]):
            if word == "PRIVACY" and words[index + 1] in _POLICY:
                where = source_span(text, tokens[0].start, tokens[index + 1].end + 1)
                raise where.unsupported(*_POLICY[words[index + 1]])


def _split_dotted_name(token: Token, text: str) -> Iterator[Token]:
    """Give the parts of a name in backticks: `project.dataset.table` is three names."""
    if token.token_type is not TokenType.IDENTIFIER or text[token.start : token.start + 1] != _BACKTICK:
        yield token
        return
    start = token.start + 1
    for index, part in enumerate(token.text.split(".")):
        if index:
            yield Token(TokenType.DOT, ".", token.line, token.col, start - 1, start - 1)
        yield Token(TokenType.IDENTIFIER, part, token.line, token.col, start, start + max(len(part) - 1, 0))
        start += len(part) + 1


def _rewrite_clamped(tokens: list[Token]) -> Iterator[Token]:
    """Give `x CLAMPED BETWEEN a AND b` as `x, contribution_bounds_per_group => (a, b)`: both clip a person's total."""
    place, closes = 0, False
    while place < len(tokens):
        token, after = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
        begins = token.token_type is TokenType.VAR and token.text.upper() == "CLAMPED"
        if begins and after is not None and after.token_type is TokenType.BETWEEN:
            yield _make_token(TokenType.COMMA, ",", token)
            yield _make_token(TokenType.VAR, PER_GROUP, token)
            yield _make_token(TokenType.FARROW, "=>", token)
            yield _make_token(TokenType.L_PAREN, "(", after)
            place, closes = place + 2, True
            continue
        if closes and token.token_type is TokenType.AND:
            yield _make_token(TokenType.COMMA, ",", token)
        elif closes and token.token_type is TokenType.R_PAREN:
            yield _make_token(TokenType.R_PAREN, ")", token)
            yield token
            closes = False
        else:
            yield token
        place += 1


def _make_token(kind: TokenType, text: str, at: Token) -> Token:
    return Token(kind, text, at.line, at.col, at.start, at.end)


PER_GROUP = "contribution_bounds_per_group"
PER_ROW = "contribution_bounds_per_row"
"""BigQuery's named arguments: bounds of a person's total in a group, and of the value of each row."""
