"""The words of a statement: names, quoted texts and comments, and what stands outside of them."""

import re
from collections.abc import Iterator

_SKIPPED_TEXT = re.compile(
    r"'(?:[^']|'')*(?:'|$)|\"[^\"]*(?:\"|$)|--[^\n]*|/\*|\$(?P<tag>[A-Za-z_][A-Za-z0-9_]*)?\$|(?P<mark>[;()])", re.ASCII
)
_ESCAPED_TEXT = re.compile(r"'(?:[^'\\]|''|\\.)*(?:'|$)", re.DOTALL)
_BRACKET = re.compile(r"/\*|\*/")
BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]+", re.ASCII)
NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
_QUESTIONS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})


def outside_quotes(text: str, marks: str) -> Iterator[int]:
    """Give the positions of some of the marks `;()` that stand outside of quotes and comments."""
    position = 0
    while (match := _SKIPPED_TEXT.search(text, position)) is not None:
        position = match.end()
        if match["mark"]:
            if match["mark"] in marks:
                yield match.start()
        elif match[0] == "/*":
            position = _comment_end(text, match.start())
        elif match[0].endswith("$"):
            closing = text.find(match[0], position)
            position = len(text) if closing < 0 else closing + len(match[0])
        elif match[0][0] == "'" and _is_escape_string(text, match.start()):
            escaped = _ESCAPED_TEXT.match(text, match.start())
            position = escaped.end() if escaped else len(text)


def closing_bracket(text: str) -> int | None:
    """Return where the bracket closes with which a text begins; None where it does not.

    >>> closing_bracket("(SELECT ')') TO STDOUT")
    11
    """
    depth = 0
    for at in outside_quotes(text, "()"):
        depth += 1 if text[at] == "(" else -1
        if not depth:
            return at
    return None


def _is_escape_string(text: str, quote: int) -> bool:
    return (
        quote > 0
        and text[quote - 1] in "eE"
        and not (quote > 1 and (text[quote - 2].isalnum() or text[quote - 2] == "_"))
    )


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "/*" else -1
        if not depth:
            return bracket.end()
    return len(text)


def is_question(text: str) -> bool:
    """Whether a text begins as a question does, after its comments."""
    blank = BLANK.match(text)
    begin = blank.end() if blank else 0
    word = WORD.match(text, begin)
    return text.startswith("(", begin) or (word is not None and word[0].upper() in _QUESTIONS)


def name_of(text: str) -> str:
    """Return what an identifier names: folded, unless it is quoted."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


def unquoted(word: str) -> str:
    """Return a word without its quotes; one without quotes as it is written."""
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    return name_of(word) if word.startswith('"') else word
