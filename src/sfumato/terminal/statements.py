"""Questions as they are typed: where each ends."""

import re
from pathlib import Path

from sfumato.errors import BadParameter

_SKIPPED_TEXT = re.compile(r"'(?:[^']|'')*'?|\"[^\"]*\"?|--[^\n]*|/\*.*?(?:\*/|$)|;", re.DOTALL)


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the questions that a semicolon ends, and what is left. Those in quotes and comments end nothing.

    >>> split_statements("SELECT 1; SELECT ';' ; SELECT")
    (['SELECT 1', "SELECT ';'"], 'SELECT')
    """
    statements, start = [], 0
    for match in _SKIPPED_TEXT.finditer(text):
        if match.group() == ";":
            statements.append(text[start : match.start()].strip())
            start = match.end()
    return [question for question in statements if question], text[start:].strip()


def read_questions(file: Path) -> list[str]:
    """Return the questions of a file; the last one needs no semicolon."""
    try:
        statements, rest = split_statements(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadParameter(
            "The file of questions cannot be read.", "It is a text in UTF-8.", "Check the path after --file."
        ) from None
    return [*statements, rest] if rest else statements
