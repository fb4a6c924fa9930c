"""Text becomes sqlglot's tree, in which every node knows its place. Text too large or strange is refused first."""

import logging
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Refusal
from sfumato.query.parsing.desugar.aggregates import write_out
from sfumato.query.parsing.desugar.other_names import write_other_names
from sfumato.query.parsing.desugar.quantifiers import write_memberships
from sfumato.query.parsing.options import cut_options
from sfumato.query.parsing.other_systems import PER_GROUP, PER_ROW, refuse_other_systems, translate_tokens
from sfumato.query.position import source_span
from sfumato.query.relation import Options

MAX_SQL_CHARS = 20_000
MAX_NESTING = 60
GOOGLE_CLAUSE = "with differential privacy"
"""The note on a tree whose text had GoogleSQL's clause."""

_MAX_STACK_FRAMES = 8_000
"""The recursion limit that reading a question needs: sqlglot descends about 25 Python frames per bracket."""
_MAX_NESTED_JOINS = 6

_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_SYNTAX = ("CAST", "TRY_CAST", "SAFE_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
_STARTS = frozenset(
    {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.PIVOT, TokenType.L_PAREN}
)

_FOREIGN = {
    TokenType.PARAMETER: "a parameter",
    TokenType.PLACEHOLDER: "a parameter",
    TokenType.COLON: "a colon",
    TokenType.DOLLAR: "a parameter",
    TokenType.L_BRACE: "a struct",
    TokenType.BLOCK_START: "a template",
    TokenType.HEREDOC_STRING: "a dollar-quoted string",
    TokenType.BYTE_STRING: "an escape string",
    TokenType.BIT_STRING: "a bit string",
    TokenType.HEX_STRING: "a hexadecimal string",
    TokenType.NATIONAL_STRING: "a national string",
    TokenType.RAW_STRING: "a raw string",
    TokenType.UNICODE_STRING: "a Unicode-escape string",
    TokenType.HINT: "a hint",
    TokenType.ARROW: "an arrow",
    TokenType.DARROW: "an arrow",
    TokenType.FARROW: "a named argument",
    TokenType.SESSION_PARAMETER: "a parameter",
}

ARRAY_REFUSAL = (
    "an array stands here.",
    "A column holds single values, not lists. An array can only be compared with: x = ANY(ARRAY['a', 'b']).",
    "Write each value separately: several quantiles as QUANTILE_CONT(x, 0.25), QUANTILE_CONT(x, 0.75), which are "
    "measured together; several values as x IN ('a', 'b').",
)
_PARAMETERS = frozenset({TokenType.PARAMETER, TokenType.COLON})
_STANDING = _PARAMETERS | {TokenType.PLACEHOLDER}
"""Parameter markers of other systems."""
_PARAMETERS_REMEDY = "; or give values beside the text, by `parameters`: a list for $1, $2, …, or a dict for :name."
_RESERVED_TOKENS = frozenset(
    {TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.HAVING, TokenType.LIMIT, TokenType.OFFSET}
    | {TokenType.JOIN, TokenType.ON, TokenType.USING, TokenType.AND, TokenType.OR, TokenType.IN, TokenType.CASE}
    | {TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END, TokenType.UNION, TokenType.DISTINCT}
    | {TokenType.INTERSECT, TokenType.EXCEPT, TokenType.BETWEEN, TokenType.LIKE, TokenType.IS, TokenType.ALIAS}
)
"""Words that are no type and begin no subquery: after AS they can only be names."""
_AFTER_LABEL = frozenset({TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, None})
_PLAIN = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER})

logging.getLogger("sqlglot").addHandler(logging.NullHandler())


class _Tokenizer(Postgres.Tokenizer):
    """PostgreSQL's tokens, DuckDB's // and **, and BigQuery's names in backticks."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    KEYWORDS = {**Postgres.Tokenizer.KEYWORDS, "//": TokenType.DIV, "**": TokenType.DSTAR}  # noqa: RUF012


class _PlainTokenizer(_Tokenizer):
    """The same without dollar quotes: `$1,$2` is two parameters, where sqlglot would look for the end of a string."""

    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
    SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012


_DOLLAR_QUOTE = re.compile(r"\$(?:[A-Za-z_]\w*)?\$")


class _Parser(PostgresParser):
    """Leaves the meaning of functions to us: all but those with a syntax of their own arrive with the name as typed."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS = {name: PostgresParser.FUNCTION_PARSERS[name] for name in _SYNTAX}  # noqa: RUF012
    EXPONENT = {**PostgresParser.EXPONENT, TokenType.DSTAR: exp.Pow}  # noqa: RUF012

    _joining = 0

    def expression(self, instance, token=None, comments=None):  # type: ignore[no-untyped-def]
        node = super().expression(instance, token, comments)
        here = token or self._prev
        if here is not None:
            node.meta.setdefault("last", here.end)
            if isinstance(node, exp.Condition) and not any(node.iter_expressions()):
                node.meta.setdefault("first", here.start)
        return node

    def _parse_function_call(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._with_span(self._curr, super()._parse_function_call(*args, **kwargs))

    def _parse_select(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._with_span(self._curr, super()._parse_select(*args, **kwargs))

    def _parse_grouping_sets(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._with_span(self._curr, super()._parse_grouping_sets(*args, **kwargs))

    def _parse_cube_or_rollup(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._with_span(self._curr, super()._parse_cube_or_rollup(*args, **kwargs))

    def _parse_bracket(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        opening, node = self._prev, super()._parse_bracket(*args, **kwargs)
        return self._with_span(opening, node) if isinstance(node, exp.Array) else node

    def _with_span(self, opening: Token | None, node: Any) -> Any:
        """Return a node with its span, from this token to the last one read."""
        if isinstance(node, exp.Expr) and opening is not None and self._prev is not None:
            node.meta["first"] = opening.start
            node.meta["last"] = self._prev.end
        return node

    def _parse_join(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        opening = self._curr
        # JOIN without ON makes sqlglot try every bracketing of what follows: exponential, so only a few levels of it
        if self._joining >= _MAX_NESTED_JOINS:
            return self.raise_error("JOIN needs ON")
        self._joining += 1
        try:
            join = super()._parse_join(*args, **kwargs)
        finally:
            self._joining -= 1
        if join is not None and opening is not None:
            join.meta["comma"] = opening.token_type is TokenType.COMMA
        return join


def read_tree(text: str, parameters: bool = False) -> tuple[exp.Query, Options]:
    """Return the tree of the only statement in `text`, and the options that GoogleSQL lets it carry.

    With `parameters`, `$1` and `:name` may stand for values.
    """
    _check_text(text)
    text = _without_comments(text)
    read = _labels(_check_tokens(_tokens(text), text, parameters))
    tokens, options = cut_options(read, text)
    tree = _parse(translate_tokens(tokens, text), text)
    tree.meta[GOOGLE_CLAUSE] = len(tokens) < len(read)
    _locate(tree)
    write_other_names(tree)
    write_memberships(tree)
    write_out(tree)
    _check_depth(tree, text)
    return tree, options


def parameters_of(text: str) -> tuple[str, ...]:
    """Return the names of the parameters in `text`, each once, in the order in which they come."""
    _check_text(text)
    names = [
        after.text
        for token, after in pairwise(_tokens(_without_comments(text)))
        if token.token_type in _PARAMETERS and after.start == token.end + 1
    ]
    return tuple(dict.fromkeys(names))


def foreign_tree(text: str) -> exp.Expr:
    """Return the tree of one statement in all of PostgreSQL's language, within the limits of size and depth.

    It is for questions about the catalogue, which are not answered from data; `parse` never sees it.
    """
    _check_text(text)
    tokens = _labels(_array_types(_tokens(_without_comments(text))))
    if not tokens or tokens[0].token_type not in _STARTS:
        raise source_span(text, 0, 60).bad("there is no question.", "A question begins with SELECT.", "Write SELECT ….")
    _check_nesting(tokens, text)
    _check_brackets(tokens, text)
    tree = _trees(tokens, text)
    if not isinstance(tree, exp.Query | exp.Values):
        raise source_span(text, 0, 60).bad(
            "this is not a question.", "A question begins with SELECT.", "Write SELECT …."
        )
    _check_depth(tree, text)
    return tree


def _array_types(tokens: list[Token]) -> list[Token]:
    """Return the tokens with `oid[]` as `_oid`, PostgreSQL's other name for it: sqlglot does not read the first."""
    found: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.R_BRACKET and len(found) > 1:
            opening, named = found[-1], found[-2]
            if opening.token_type is TokenType.L_BRACKET and named.token_type is TokenType.OBJECT_IDENTIFIER:
                del found[-2:]
                start, end = named.start, token.end
                found.append(Token(TokenType.VAR, f"_{named.text}", named.line, named.col, start, end))
                continue
        found.append(token)
    return found


def keywords(text: str) -> list[tuple[int, int]]:
    """Return where the words stand that SQL has a use of its own for; nothing where the text has no words."""
    try:
        tokens = _tokens(_without_comments(text))
    except Refusal:
        return []
    return [
        (token.start, token.end + 1) for token in tokens if token.token_type not in _PLAIN and token.text.isidentifier()
    ]


def span(node: exp.Expr) -> tuple[int, int]:
    """Return where a node begins and ends in the text."""
    return node.meta.get("first", 0), node.meta.get("last", -1) + 1


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise source_span("", 0, 0).bad("the query is not text.", "SQL is read from a str.", "Give the query as a str.")
    if len(text) > MAX_SQL_CHARS:
        raise source_span(text, 0, 60).too_large(
            f"the text has {len(text)} characters.",
            f"A query may have {MAX_SQL_CHARS}.",
            "Ask a shorter question, or several.",
        )
    strange = _STRANGE.search(text)
    if strange:
        raise source_span(text, *strange.span()).bad(
            f"this character is not allowed in SQL (U+{ord(strange.group()):04X}).",
            "Control characters and lone surrogates can hide text.",
            "Remove it.",
        )


_SKIPPED_TEXT = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*")
_BRACKET = re.compile(r"/\*|\*/")


def _without_comments(text: str) -> str:
    """Return the text with its comments blank, every place kept: GROUP /* … */ BY is two words for sqlglot."""
    pieces, position = [], 0
    while (match_ := _SKIPPED_TEXT.search(text, position)) is not None:
        end = match_.end()
        if match_.group() == "/*":
            end = _comment_end(text, match_.start())
        pieces.append(text[position : match_.start()])
        comment = match_.group().startswith(("--", "/*"))
        pieces.append(re.sub(r"[^\n]", " ", text[match_.start() : end]) if comment else match_.group())
        position = end
    return "".join(pieces) + text[position:]


def _comment_end(text: str, start: int) -> int:
    """Return where a comment ends; comments nest, as in PostgreSQL."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() == "/*" else -1
        if not depth:
            return bracket.end()
    raise source_span(text, start, len(text)).bad(
        "the comment is not closed.", "It hides the rest.", "Close it with */."
    )


def _tokens(text: str) -> list[Token]:
    try:
        kind = _Tokenizer if _DOLLAR_QUOTE.search(text) else _PlainTokenizer
        tokens = kind(dialect=Postgres).tokenize(text)
    except (TokenError, ValueError, OverflowError, RecursionError) as error:
        quote = max(text.rfind("'"), text.rfind('"'), text.rfind("/*"), 0)
        raise source_span(text, quote, len(text)).bad(
            "the text cannot be split into words.",
            "A string, a quoted name or a comment is not closed, or a number or character is malformed.",
            "Close it: ' for text, \" for names, */ for comments.",
        ) from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def _check_tokens(tokens: list[Token], text: str, parameters: bool) -> list[Token]:
    if not tokens:
        raise source_span(text, 0, 60).bad("there is no statement.", "The text is empty.", "Write SELECT … FROM ….")
    refuse_other_systems(tokens, text)
    if tokens[0].token_type not in _STARTS:
        raise source_span(text, tokens[0].start, tokens[0].end + 1).unsupported(
            f"a statement that begins with {tokens[0].text.upper()[:40]} is not a question.",
            "Only SELECT is answered: nothing here can change data, settings or files.",
            "Write SELECT … FROM …, or WITH … SELECT ….",
        )
    for (before, token), after in zip(pairwise([tokens[-1], *tokens]), [*tokens[1:], None], strict=True):
        if token.start == before.end + 1 and before.token_type is TokenType.NUMBER and token.text[:1].isidentifier():
            raise source_span(text, before.start, token.end + 1).bad(
                "letters follow a number.", "It would be read as a number and a name.", "Put a space between."
            )
        if token.token_type is before.token_type is TokenType.COMMA and token is not before:
            raise source_span(text, before.start, token.end + 1).bad(
                "one comma follows another.", "Nothing stands between them.", "Remove one."
            )
        if token.token_type is TokenType.SEMICOLON:
            raise source_span(text, token.start, len(text)).unsupported(
                "a second statement follows.", "One call asks one question.", "Ask them one after the other."
            )
        is_type = after is not None and after.token_type is TokenType.R_BRACKET
        if token.token_type is TokenType.L_BRACKET and not (before.token_type is TokenType.ARRAY or is_type):
            raise source_span(text, token.start, token.end + 1).unsupported(*ARRAY_REFUSAL)
        named = token.token_type is TokenType.FARROW and before.text.lower() in (PER_GROUP, PER_ROW)
        if token.token_type in _FOREIGN and not named and not (parameters and token.token_type in _PARAMETERS):
            raise source_span(text, token.start, token.end + 1).unsupported(
                f"{_FOREIGN[token.token_type]} stands here.",
                "A query is complete in its text, and its values are numbers, text, dates and booleans.",
                "Write the value itself: 12.5, 'text', DATE '2024-12-31'"
                + (_PARAMETERS_REMEDY if token.token_type in _STANDING else "."),
            )
    _check_nesting(tokens, text)
    _check_brackets(tokens, text)
    return tokens


def _labels(tokens: list[Token]) -> list[Token]:
    """Return the tokens with keywords that name a column as names: AS takes every word, as in PostgreSQL."""
    found = list(tokens)
    for at in range(1, len(tokens)):
        token, after = tokens[at], tokens[at + 1].token_type if at + 1 < len(tokens) else None
        ends = after in _AFTER_LABEL
        if tokens[at - 1].token_type is TokenType.ALIAS and token.token_type in _RESERVED_TOKENS and ends:
            found[at] = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return found


def _check_nesting(tokens: list[Token], text: str) -> None:
    depth = 0
    for token in tokens:
        depth = _depth_after(token, depth)
        if depth > MAX_NESTING:
            raise source_span(text, token.start, token.end + 1).too_large(
                f"the text is nested more than {MAX_NESTING} deep.",
                "Brackets, CASE and NOT count.",
                "Use a WITH clause or fewer brackets.",
            )


def _check_brackets(tokens: list[Token], text: str) -> None:
    """Refuse brackets that do not pair: the parser would guess where the missing one belongs."""
    opened: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN:
            if not opened:
                raise source_span(text, token.start, token.end + 1).bad(
                    "this bracket closes nothing.", "None is open here.", "Remove it, or open one before."
                )
            opened.pop()
    if opened:
        raise source_span(text, opened[-1].start, opened[-1].end + 1).bad(
            "this bracket is never closed.", "The text ends before.", "Close it where it belongs."
        )


def _depth_after(token: Token, depth: int) -> int:
    if token.token_type in {TokenType.L_PAREN, TokenType.CASE}:
        return depth + 1
    if token.token_type in {TokenType.R_PAREN, TokenType.END}:
        return max(depth - 1, 0)
    return depth


def _parse(tokens: list[Token], text: str) -> exp.Query:
    tree = _trees(tokens, text)
    if isinstance(tree, exp.Pivot) and isinstance(tree.this, exp.Table | exp.Subquery):
        table = tree.this.pop()  # PIVOT t ON … USING … is SELECT * FROM t PIVOT (…)
        table.set("pivots", [tree])
        tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
    if not isinstance(tree, exp.Query):
        raise source_span(text, tokens[0].start, tokens[-1].end + 1).unsupported(
            "this is not a question.", "Only SELECT is answered.", "Write SELECT … FROM …."
        )
    return tree


def _require_stack_frames() -> None:
    """Raise the recursion limit for the first question: whether a text is accepted may not depend on the caller.

    It is not lowered afterwards, because other threads may be deep.
    """
    if sys.getrecursionlimit() < _MAX_STACK_FRAMES:
        sys.setrecursionlimit(_MAX_STACK_FRAMES)


def _trees(tokens: list[Token], text: str) -> exp.Expr | None:
    """Return the tree of the only statement; None where there are several."""
    _require_stack_frames()
    try:
        trees = _Parser(dialect=Postgres).parse(tokens, text)
    except RecursionError as error:
        raise source_span(text, 0, 60).too_large(
            "the text is nested too deeply.",
            f"Expressions may be {MAX_NESTING} deep.",
            "Use a WITH clause or fewer brackets.",
        ) from error
    except ParseError as error:
        raise _syntax(error, text) from error
    except Exception as error:
        # sqlglot meets text it does not expect with whatever its code runs into; all of it means the same
        raise source_span(text, 0, 60).bad(
            "this is not SQL that can be read.", "The words do not form a SELECT statement.", "Check the syntax."
        ) from error
    return trees[0] if len(trees) == 1 else None


def _syntax(error: ParseError, text: str) -> Exception:
    details = error.errors[0] if error.errors else {}
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    word = str(details.get("highlight") or "")
    lines = text.split("\n")
    start = sum(len(row) + 1 for row in lines[: line - 1]) + max(column - len(word), 0)
    start = min(max(text.find(word, max(start - 2, 0)), 0), len(text))
    return source_span(text, start, start + max(len(word), 1)).bad(
        "the text cannot be read as SQL from about here.",
        "This does not continue the text before it.",
        "Look for a missing comma, bracket, operator or quote.",
    )


def _locate(tree: exp.Expr) -> None:
    """Give every node the span of its parts where it has none of its own."""
    order, below = [tree], []
    for node in order:
        below.append(list(node.iter_expressions()))
        order.extend(below[-1])
    for node, children in zip(reversed(order), reversed(below), strict=True):
        meta = node.meta
        if "start" in meta and "first" not in meta:
            meta["first"] = meta["start"]
        parts = [child.meta for child in children]
        firsts = [part["first"] for part in parts if "first" in part]
        lasts = [part["last"] for part in parts if "last" in part]
        if firsts:
            meta["first"] = min([meta.get("first", firsts[0]), *firsts])
        if lasts:
            meta["last"] = max([meta.get("last", lasts[0]), *lasts])


_CHAINS = (exp.And, exp.Or, exp.DPipe)
_FREE = (exp.Paren, exp.Identifier, exp.Var, exp.DataType, exp.DataTypeParam)


def _check_depth(tree: exp.Expr, text: str) -> None:
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > 5 * MAX_NESTING:  # one subquery is four nodes deep; expressions are measured again when read
            raise source_span(text, *span(node)).too_large(
                f"the expression is nested more than {MAX_NESTING} deep.",
                "A chain of operators counts like brackets, except AND, OR and ||.",
                "Use a WITH clause, or split the expression.",
            )
        for child in node.iter_expressions():
            chained = isinstance(node, _CHAINS) and type(child) is type(node)
            waiting.append((child, depth if chained or isinstance(child, _FREE) else depth + 1))
