"""A test or audit that expects refusals does not take a failure of the engine for one.

A question that fails after its charge may fail because of one person's rows, which tells that the person is there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.refusals import refusing

from sfumato.errors import BadSource, EngineFailed

REPOSITORY = Path(__file__).resolve().parents[1]
ASKS = (".ask(", ".ask_all(", ".explain(", "analyse(", ".plan(", ".plan_of(")
"""What a module holds that asks questions."""
KEPT = frozenset({"tests/refusals.py", "tests/test_engine_failures.py", "tests/engines/spark/laws_connect.py"})
"""The last one ends Spark under a question, and prints the code."""


def _modules() -> Iterator[Path]:
    for folder in ("tests", "src/sfumato/lab"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            asks = any(text in path.read_text(encoding="utf-8") for text in ASKS)
            if asks and str(path.relative_to(REPOSITORY)) not in KEPT:
                yield path


def _names(node: ast.expr | None) -> set[str]:
    """Return the last names of an exception, or of a tuple of them."""
    if isinstance(node, ast.Tuple):
        return {name for part in node.elts for name in _names(part)}
    return {node.attr} if isinstance(node, ast.Attribute) else {node.id} if isinstance(node, ast.Name) else set()


def broad(tree: ast.Module) -> list[int]:
    """Return the lines that take any refusal, one of the engine among them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            known: set[str] = set()
            for handler in node.handlers:
                if "Refusal" in _names(handler.type) and "EngineFailed" not in known:
                    found.append(handler.lineno)
                known |= _names(handler.type)
        if isinstance(node, ast.Call) and _names(node.func) & {"raises", "suppress"}:
            taken = {name for argument in node.args for name in _names(argument)}
            says_which = any(keyword.arg == "match" for keyword in node.keywords)
            found += [node.lineno] * ("Refusal" in taken and not says_which)
    return found


def test_no_test_or_audit_takes_a_failure_of_the_engine_for_a_refusal() -> None:
    found = {
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in _modules()
        for line in broad(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(), "catch EngineFailed first, or write `with refusing():` of tests/refusals.py"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("try:\n    ask()\nexcept Refusal:\n    pass", [3]),
        ("try:\n    ask()\nexcept (ValueError, sfumato.Refusal) as one:\n    pass", [3]),
        ("try:\n    ask()\nexcept EngineFailed:\n    raise\nexcept Refusal:\n    pass", []),
        ("with pytest.raises(Refusal):\n    ask()", [1]),
        ("with suppress(Refusal):\n    ask()", [1]),
        ("with pytest.raises(BadSource):\n    ask()", []),
        ("with pytest.raises(Refusal, match='bounds'):\n    ask()", []),
    ],
)
def test_what_is_broad_is_found(text: str, lines: list[int]) -> None:
    assert broad(ast.parse(text)) == lines


def test_a_failure_of_the_engine_is_no_refusal() -> None:
    with refusing() as caught:
        raise BadSource("a", "b", "c")
    assert caught.value.code == "bad_source"
    with pytest.raises(AssertionError, match="the engine failed"), refusing():
        raise EngineFailed()
