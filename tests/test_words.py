"""One meaning per word: no two rooms call different things by one name, and no two files of a folder either.

The law runs on the source and on planted violations of it. What it allows twice has its reason here.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "sfumato"

CLASSES = {
    "Answer": "of a store that sees no plaintext, and of a synthetic table (public in sfumato.synthesis)",
    "Budget": "what a policy grants, and what the ledger says of it",
    "Catalog": "what a query needs of the tables (a Protocol), and what analysis knows of them",
    "Column": "of a table: as a policy declares it, and as a query names it",
    "Entry": "one line of what was written down: of a policy, and of a ledger",
    "Filter": "a term of two fields: of privacy losses, and of rows",
    "Key": "a term of two fields: of a group, and of a cipher (public in sfumato.sealed)",
    "Kind": "how a value is kept: by an engine, and by a source",
    "Plan": "what will be done at which price: of a question, and of a search by prefixes (public in sfumato.local)",
    "Range": "of stored integers, and of a column's public domain (public in sfumato.synthesis)",
    "Table": "as a policy declares it, as a query needs it (a Protocol), and as analysis knows it",
}
FUNCTIONS = {
    "absolute": "of a scalar, and of the interval that it lies in",
    "audit": "one audit each: the same is asked of every one",
    "divided": "of scalars, and of the intervals that they lie in",
    "epsilon": "of an event, by each accountant",
    "main": "what `python -m` runs",
    "modulo": "of scalars, and of the intervals that they lie in",
    "run": "one attack or audit each: the same is asked of every one",
}


@cache
def _definitions(package: Path) -> list[tuple[type, str, Path]]:
    """Return the public classes and functions at the top of every file."""
    return [
        (type(node), node.name, path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]


ENGINE_FOLDERS = ("engines/duckdb", "engines/postgres", "engines/spark")
"""Engines have the same files with the same names, which mean the same in each."""


def _engine_folder(path: Path) -> str:
    return next((folder for folder in ENGINE_FOLDERS if path.is_relative_to(folder)), "")


def _named(package: Path, kind: type) -> dict[str, set[Path]]:
    """Return where each public class or function is defined."""
    found: dict[str, set[Path]] = defaultdict(set)
    for its_kind, name, path in _definitions(package):
        if its_kind is kind:
            found[name].add(path)
    return found


def classes_with_two_meanings(package: Path) -> list[str]:
    """Find public classes of one name anywhere in the house, and inside each folder with words of its own."""
    broken = []
    for name, paths in _named(package, ast.ClassDef).items():
        for country in ("", *ENGINE_FOLDERS):
            here = sorted(path for path in paths if _engine_folder(path) == country)
            if len(here) > 1 and name not in CLASSES:
                broken.append(f"{name}: {', '.join(map(str, here))}")
    return broken


def functions_with_two_meanings(package: Path) -> list[str]:
    """Find public functions of one name in two files of one folder."""
    broken = []
    for name, paths in _named(package, ast.FunctionDef).items():
        folders = [path.parent for path in paths if path.parent != Path()]
        twice = {folder for folder in folders if folders.count(folder) > 1}
        if twice and name not in FUNCTIONS:
            broken.append(f"{name}: {', '.join(str(path) for path in sorted(paths) if path.parent in twice)}")
    return broken


def test_a_class_has_one_meaning_in_the_whole_house() -> None:
    assert classes_with_two_meanings(PACKAGE) == []


def test_a_function_has_one_meaning_in_its_folder() -> None:
    assert functions_with_two_meanings(PACKAGE) == []


def test_what_is_allowed_twice_occurs_twice() -> None:
    classes, functions = _named(PACKAGE, ast.ClassDef), _named(PACKAGE, ast.FunctionDef)
    assert [name for name in CLASSES if len(classes[name]) < 2] == []
    assert [name for name in FUNCTIONS if len(functions[name]) < 2] == []


@pytest.mark.parametrize(
    ("texts", "classes", "functions"),
    [
        ({"query/a.py": "class Wave: ...\n", "ledger/b.py": "class Wave: ...\n"}, 1, 0),
        ({"query/a.py": "def wave(): ...\n", "query/b.py": "def wave(): ...\n"}, 0, 1),
        ({"query/a.py": "def wave(): ...\n", "ledger/b.py": "def wave(): ...\n"}, 0, 0),
        ({"engines/spark/a.py": "class Wave: ...\n", "ledger/b.py": "class Wave: ...\n"}, 0, 0),
        ({"engines/spark/a.py": "class Wave: ...\n", "engines/spark/b.py": "class Wave: ...\n"}, 1, 0),
        ({"query/a.py": "class _Wave: ...\n", "ledger/b.py": "class _Wave: ...\n"}, 0, 0),
    ],
)
def test_a_planted_homonym_is_found(tmp_path: Path, texts: dict[str, str], classes: int, functions: int) -> None:
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(classes_with_two_meanings(tmp_path)) == classes
    assert len(functions_with_two_meanings(tmp_path)) == functions
