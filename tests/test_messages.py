"""Messages are plain English: no word of the old dialect, and every refusal says what, why and what next.

Both laws run on the source and on planted violations of them. Docstrings are not messages.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sfumato.errors import REFUSALS, Refusal

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "sfumato"

DIALECT = re.compile(
    r"\b(?:whoever|nobody|everybody|somebody|so many|as the policy says|anew|told apart|on record"
    r"|let go|owner to see|owner's to see|made up|cannot be had|by itself|what they have beyond|crowd)\b",
    re.IGNORECASE,
)
"""Words of docs/prose.md that messages avoid; each has a plain replacement there."""

ALLOWED = {
    "What caps and bounds cut off (budget.truncation)": "stored in ledgers, where its text is part of the entry",
}


@cache
def _sources() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(PACKAGE)), path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    ]


def _literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield the text literals of a file but docstrings, each f-string as one text with … for its values."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(map(str, parts))


def _in_dialect(source: str) -> list[tuple[int, str]]:
    sentences = ((line, text) for line, text in _literals(source) if " " in text and text not in ALLOWED)
    return [(line, text) for line, text in sentences if DIALECT.search(text)]


def _incomplete(source: str) -> list[int]:
    """Return the lines that make a refusal of any class without its three parts."""
    refusals = {kind.__name__ for kind in (*REFUSALS, Refusal)}
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in refusals
        if _takes_parts(call.func.id) and not _has_parts(call)
    ]


def _takes_parts(name: str) -> bool:
    """Whether a refusal is given its parts; some classes know their own text."""
    (kind,) = {kind for kind in (*REFUSALS, Refusal) if kind.__name__ == name}
    return all("__init__" not in vars(base) for base in kind.__mro__[: kind.__mro__.index(Refusal)])


def _has_parts(call: ast.Call) -> bool:
    if any(isinstance(part, ast.Starred) for part in call.args):
        return True
    empty = [part for part in call.args if isinstance(part, ast.Constant) and not str(part.value).strip()]
    return len(call.args) + len(call.keywords) >= 3 and not empty


def test_no_message_speaks_the_old_dialect() -> None:
    assert {file: found for file, source in _sources() if (found := _in_dialect(source))} == {}


def test_every_refusal_says_what_why_and_what_next() -> None:
    assert {file: found for file, source in _sources() if (found := _incomplete(source))} == {}


@pytest.mark.parametrize(
    "planted",
    ['print("Nobody can read it.")', 'text = f"{count} rows: so many count."', 'raise ValueError("It was let go.")'],
)
def test_a_word_of_the_dialect_is_noticed(planted: str) -> None:
    assert len(_in_dialect(planted)) == 1
    assert _in_dialect(f'def read() -> None:\n    """{planted.replace(chr(34), "")}"""') == []


@pytest.mark.parametrize(
    "planted", ['BadParameter("It is wrong.", "It is.")', 'BadPolicy("It is wrong.", "", "Mend it.")']
)
def test_an_incomplete_refusal_is_noticed(planted: str) -> None:
    assert _incomplete(planted) == [1]


def test_what_is_allowed_is_still_there() -> None:
    texts = {text for _, source in _sources() for _, text in _literals(source)}
    assert set(ALLOWED) <= texts
