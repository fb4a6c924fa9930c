"""In which line of a TOML text each key stands: `tomllib` forgets it, and a refusal should name it.

The text has already been read by `tomllib`, so nothing is validated here: values are only skipped.
"""

import re
import tomllib
from bisect import bisect_left
from contextlib import suppress

KeyPath = tuple[str | int, ...]
"""Keys from the root, and positions in arrays: ("tables", "visits", "columns", "dept", "values", 2)."""

_MAX_KEY_DEPTH = 8
"""No policy has deeper keys, and a line of half a million dots should not cost a minute."""
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*(\.?)""")
_QUOTED_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}(?!")|'{3}.*?'{3,5}(?!')|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class _LostError(Exception):
    """The text is not where the scanner thinks it is."""


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line, from 1, of every key, table and array element.

    >>> key_lines("name = 'clinic'\n[budget]\nepsilon = 3\n")
    {('name',): 1, ('budget',): 2, ('budget', 'epsilon'): 3}
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    with suppress(_LostError, RecursionError):  # a line number is a courtesy: a refusal without it names the key
        scanner.document()
    return scanner.found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.newlines = [index for index, character in enumerate(text) if character == "\n"]
        self.found: dict[KeyPath, int] = {}
        self.lengths: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.offset < len(self.text):
            if self.peek("["):
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK)

    def header(self) -> KeyPath:
        line, many = self.line(), self.peek("[[")
        self.offset += 2 if many else 1
        path: KeyPath = ()
        for part in self.key():
            path = (*path, part)
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)  # below an array of tables, the last one is meant
        if many:
            array = path[:-1] if path and isinstance(path[-1], int) else path
            self.lengths[array] = self.lengths.get(array, 0) + 1
            path = (*array, self.lengths[array] - 1)
        self.record(path, line)
        self.offset += 2 if many else 1
        return path

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        path = (*table, *self.key())
        self.record(path, line)
        self.expect("=")
        self.value(path)

    def value(self, path: KeyPath) -> None:
        self.skip(_SPACE)
        if self.peek("["):
            self.array(path)
        elif self.peek("{"):
            self.inline_table(path)
        elif self.peek('"') or self.peek("'"):
            self.skip(_QUOTED_TEXT)
        else:
            self.skip(_SCALAR)

    def array(self, path: KeyPath) -> None:
        self.expect("[")
        place = 0
        while self.skip(_BLANK) and not self.peek("]"):
            self.record((*path, place), self.line())
            self.value((*path, place))
            self.skip(_BLANK)
            place += 1
            if self.peek(","):
                self.offset += 1
        self.expect("]")

    def inline_table(self, path: KeyPath) -> None:
        self.expect("{")
        while self.skip(_BLANK) and not self.peek("}"):
            self.pair(path)
            self.skip(_BLANK)
            if self.peek(","):
                self.offset += 1
        self.expect("}")

    def key(self) -> KeyPath:
        parts: list[str] = []
        more = True
        while more:
            match = _KEY.match(self.text, self.offset)
            if match is None:
                raise _LostError
            self.offset = match.end()
            parts.append(_unquote(match[1]))
            more = bool(match[2])
        return tuple(parts)

    def record(self, path: KeyPath, line: int) -> None:
        for length in range(1, min(len(path), _MAX_KEY_DEPTH) + 1):
            self.found.setdefault(path[:length], line)

    def line(self) -> int:
        return bisect_left(self.newlines, self.offset) + 1

    def peek(self, start: str) -> bool:
        return self.text.startswith(start, self.offset)

    def expect(self, character: str) -> None:
        self.skip(_SPACE)
        if not self.peek(character):
            raise _LostError
        self.offset += 1

    def skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self.text, self.offset)
        if match is None:
            raise _LostError
        self.offset = match.end()
        return True


def _unquote(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        value: str = tomllib.loads(f"key = {key}")["key"]
    except tomllib.TOMLDecodeError:  # an escape that TOML does not know: such a text is refused elsewhere
        raise _LostError from None
    return value
