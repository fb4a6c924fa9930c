r"""Texts from people, made harmless for whatever shows them: keys, names and questions may hold anything.

| where | what becomes of a text |
| --- | --- |
| terminal, tables, notebook, charts | what is not visible or turns the writing direction is U+FFFD |
| HTML | besides, `<`, `>`, `&` and quotes are entities |
| Markdown | besides, what begins a link, code, a tag or a cell is an entity |
| charts | besides, there is no `<`, and it is cut to 80 characters; different keys stay different |
| CSV | a text that a spreadsheet would compute begins with an apostrophe; numbers are never touched |
| JSON | the text itself: characters that could do harm are written as \uXXXX, and read back exactly |
| Arrow, pandas, polars, `rows()` | the text itself |
"""

import html
import json
import re
from collections.abc import Iterable

_REPLACED = "\N{REPLACEMENT CHARACTER}"
_MARKDOWN = {ord(letter): f"&#{ord(letter)};" for letter in "&<>|[]`*\\"}
_FORMULA = tuple("=+-@\t\r\n＝＋－＠'")
"""Spreadsheets read the wide signs too."""
_UNUSUAL = re.compile(r"[<>&]|[^ -~\n]")
_MAX_LABEL_CHARS = 80


def escape_unprintable(text: str) -> str:
    r"""Keep a text on its line: nothing that moves a cursor, begins a line or turns the direction of writing.

    >>> print(escape_unprintable("red \x1b[31m"))
    red �[31m
    """
    return "".join(letter if letter.isprintable() else _REPLACED for letter in text)


def for_html(text: str) -> str:
    """Return a text as the content of an element or attribute.

    >>> for_html("</script>")
    '&lt;/script&gt;'
    """
    return html.escape(escape_unprintable(text))


def for_markdown(text: str) -> str:
    """Return a text as the content of a cell: no link, code, tag or further cell.

    >>> for_markdown("a|b [c](d)")
    'a&#124;b &#91;c&#93;(d)'
    """
    return escape_unprintable(text).translate(_MARKDOWN)


def for_csv(text: str) -> str:
    """Return a text that no spreadsheet computes: take one leading apostrophe away to have it back.

    >>> for_csv("=1+1"), for_csv("er"), for_csv("'tis")
    ("'=1+1", 'er', "''tis")
    """
    shown = escape_unprintable(text)
    return f"'{shown}" if text.startswith(_FORMULA) or shown.lstrip().startswith(_FORMULA) else shown


def to_json(value: object, indent: int | None = 2) -> str:
    r"""Return JSON that is harmless in a page and on a terminal, and reads back exactly.

    >>> to_json("</script>", None)
    '"\\u003c/script\\u003e"'
    """
    # outside its texts, JSON has none of these characters
    return _UNUSUAL.sub(_escaped, json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False))


def labels(texts: Iterable[str]) -> dict[str, str]:
    """Return what each text is called in a picture: harmless in every format, short, and different for each.

    >>> labels(["er", "<b>"])
    {'er': 'er', '<b>': '‹b>'}
    """
    given: dict[str, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(texts):
        label = escape_unprintable(text[: _MAX_LABEL_CHARS + 1]).replace(
            "<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
        )
        label = label if len(label) <= _MAX_LABEL_CHARS else f"{label[: _MAX_LABEL_CHARS - 1]}…"
        name, number = label, 1
        while name in taken:
            number += 1
            name = f"{label} ({number})"
        taken.add(name)
        given[text] = name
    return given


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    if letter in "<>&":
        return f"\\u{ord(letter):04x}"
    return letter if letter.isprintable() else json.dumps(letter)[1:-1]
