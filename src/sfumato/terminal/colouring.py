"""Questions in colours: which words are SQL's."""

import re

from rich.text import Text

_TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|$))"
    r"|(?P<text>'(?:[^']|'')*'?)"
    r"|(?P<name>\"[^\"]*\"?)"
    r"|(?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)"
    r"|(?P<function>\b[A-Za-z_]\w*(?=\s*\())"
    r"|(?P<word>\b[A-Za-z_]\w*\b)"
    r"|(?P<command>^\\\w+|^\\\?)",
    re.DOTALL | re.ASCII,
)
_STYLES = {
    "comment": "dim",
    "text": "green",
    "number": "cyan",
    "function": "magenta",
    "command": "bold yellow",
    "keyword": "bold blue",
}
_WORDS = """
select from where group by having order limit offset join left right inner outer cross on using and or not between in is
null as distinct case when then else end with desc asc filter explain like ilike true false cast interval date timestamp
exists over partition union values all options differential_privacy
"""
KEYWORDS = frozenset(_WORDS.split())


def colour_sql(line: str) -> Text:
    """Return a line of SQL, or a command of the prompt, in colours."""
    text, position = Text(), 0
    for match in _TOKENS.finditer(line):
        text.append(line[position : match.start()])
        kind, words = match.lastgroup or "", match.group()
        if kind in {"word", "function"} and words.lower() in KEYWORDS:
            kind = "keyword"
        text.append(words, _STYLES.get(kind))
        position = match.end()
    return text.append(line[position:])
