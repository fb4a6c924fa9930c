r"""The text of an array, as PostgreSQL writes it: `{a,"b c",NULL}`, of one dimension."""

import re

_ITEM = re.compile(r'\s*+(?:"((?:[^"\\]|\\.)*+)"\s*+|([^,{}"]++))[,}]', re.DOTALL)
"""One item and what follows it; nothing is tried twice."""


def array_items(text: str) -> list[str | None]:
    r"""Return the items of an array's text.

    >>> array_items('{a,"b \\" c",NULL}')
    ['a', 'b " c', None]
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("an array is written in braces")
    items: list[str | None] = []
    at = len(text) if not text[1:-1].strip() else 1
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise ValueError("an array is a list of items of one dimension")
        at = match.end()
        word = match[2].strip() if match[2] is not None else re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)
        items.append(None if match[2] is not None and word.lower() == "null" else word)
        if text[at - 1] == "}" and at < len(text):
            raise ValueError("there is text after the end of the array")
    return items
