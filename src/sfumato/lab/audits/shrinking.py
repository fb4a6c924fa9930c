"""A failing question made as short as it can be while it still fails: what a person gets to read.

Pieces of the text are left out, large ones first, as long as the failure stays. Whether what is left is still a
question needs no care: what does not parse is refused everywhere alike, and so does not fail.
"""

import re
from collections.abc import Callable, Iterator

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_][A-Za-z_0-9.]*|\d+(?:\.\d+)?|<=|>=|<>|::|\|\||//|\S")
_SMALL_QUERY_TOKENS = 20
_TIGHT = re.compile(r"\s*([(),])\s*")


def shrink(text: str, fails: Callable[[str], bool], most: int = 400) -> str:
    """Return a shortest text that still fails, found by leaving out tokens; at most `most` texts are tried.

    >>> shrink("SELECT a, b FROM t WHERE a > 1 AND bad(b) ORDER BY a", lambda text: "bad" in text)
    'bad'
    """
    tokens, tried = _TOKEN.findall(text), 0
    progress = True
    while progress and tried < most:
        progress = False
        for shorter in filter(_is_balanced, _shorter_queries(tokens)):
            tried += 1
            if fails(_join_tokens(shorter)):
                tokens, progress = shorter, True
                break
            if tried >= most:
                break
    return _join_tokens(tokens) if len(tokens) < len(_TOKEN.findall(text)) else text


def _shorter_queries(tokens: list[str]) -> Iterator[list[str]]:
    for size in _sizes(len(tokens)):
        stride = max(1, size // 2) if len(tokens) > _SMALL_QUERY_TOKENS else 1
        for start in range(0, len(tokens) - size + 1, stride):
            yield tokens[:start] + tokens[start + size :]
    for start, end in _parentheses(tokens):
        yield tokens[:start] + tokens[start + 1 : end] + tokens[end + 1 :]
        if start and tokens[start - 1][0].isalpha():
            yield tokens[: start - 1] + tokens[start + 1 : end] + tokens[end + 1 :]
            yield [*tokens[: start - 1], "1", *tokens[end + 1 :]]


def _sizes(length: int) -> list[int]:
    """Return how many tokens are left out at once: every number of them where there are few, else halves of halves."""
    if length <= _SMALL_QUERY_TOKENS:
        return list(range(length - 1, 0, -1))
    return [length >> halvings for halvings in range(1, length.bit_length())]


def _parentheses(tokens: list[str]) -> Iterator[tuple[int, int]]:
    begun = []
    for index, letter in enumerate(tokens):
        if letter == "(":
            begun.append(index)
        elif letter == ")" and begun:
            yield begun.pop(), index


def _is_balanced(tokens: list[str]) -> bool:
    """Whether parentheses meet: a reader expects it, even where a parser does not."""
    depth = 0
    for letter in tokens:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0


def _join_tokens(tokens: list[str]) -> str:
    return _TIGHT.sub(r"\1", " ".join(tokens)).replace(",", ", ")
