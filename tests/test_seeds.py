"""No test depends on luck: whoever runs the same commit sees the same examples and the same draws."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TESTS = Path(__file__).parent
BY_COMMAND = {"longer.py", "torture.py"}  # run by a person, never by `make test`
GENERATORS = {"Random", "default_rng", "RandomState", "SystemRandom"}
OVERRIDDEN = {"derandomize", "deadline", "database"}


def unseeded(source: str) -> list[int]:
    """Return the lines that make a generator without a seed, or draw from the one that a module shares."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        *owner, name = ast.unparse(node.func).split(".")
        bare = name in GENERATORS and not node.args and not node.keywords
        shared = owner in (["random"], ["np", "random"], ["numpy", "random"]) and name not in GENERATORS
        if bare or (shared and not _local(source, owner[0])):
            lines.append(node.lineno)
    return lines


def _local(source: str, name: str) -> bool:
    """Tell whether `name` is not the module but a seeded generator that a function made or was given."""
    return f"import {name}\n" not in source and name == "random"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def changed_profile(source: str) -> list[int]:
    """Return the lines whose settings say otherwise than the profile: random examples, or a deadline."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _name(node.func) == "settings"
        for keyword in node.keywords
        if keyword.arg in OVERRIDDEN and not (keyword.arg == "deadline" and ast.unparse(keyword.value) == "None")
    ]


FILES = sorted(path for path in TESTS.rglob("*.py") if path.name not in BY_COMMAND | {"conftest.py", "test_seeds.py"})


@pytest.mark.parametrize("check", [unseeded, changed_profile], ids=lambda check: check.__name__)
def test_no_test_is_random(check: Callable[[str], list[int]]) -> None:
    found = [f"{path.relative_to(TESTS)}:{line}" for path in FILES for line in check(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "bad",
    [
        "import random\nx = random.Random()\n",
        "import random\nx = random.uniform(0, 1)\n",
        "import numpy as np\nx = np.random.default_rng()\n",
        "import numpy as np\nx = np.random.normal(3)\n",
        "from random import Random\nx = Random()\n",
    ],
)
def test_a_generator_without_a_seed_is_noticed(bad: str) -> None:
    assert unseeded(bad) == [2]
    assert (
        unseeded(bad.replace("()", "(7)").replace("uniform(0, 1)", "Random(3)").replace("normal", "default_rng")) == []
    )


def test_settings_that_say_otherwise_are_noticed() -> None:
    assert changed_profile("@settings(max_examples=3, derandomize=False)\ndef test(): ...\n") == [1]
    assert changed_profile("@settings(deadline=200)\ndef test(): ...\n") == [1]
    assert changed_profile("@settings(max_examples=3, deadline=None)\ndef test(): ...\n") == []


def test_two_runs_draw_the_same_examples() -> None:
    if not settings().derandomize:
        pytest.skip("asked for other examples in every run")

    def drawn() -> list[int]:
        seen: list[int] = []

        @given(st.integers())
        def law(number: int) -> None:
            seen.append(number)

        law()
        return seen

    assert drawn() == drawn()
    assert len(set(drawn())) > 10
