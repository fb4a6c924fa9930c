"""A question goes down its path once: the steps of ARCHITECTURE.md run in their order, and no layer calls upward."""

import re
from typing import Any

import pytest
from tests.paths.path_trace import CHARGE, PACKAGE, Trace, layer_of, trace, trace_question
from tests.test_architecture import LAYERS, REPOSITORY

QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounds are chosen": {"rows_per_unit": {"most": 50, "choose": "private"}},
}
PASSED = frozenset({"analysis/catalog.py", "language/scalar.py"})
"""Data that lower layers know by a Protocol, or compare: its methods run there."""


def _steps() -> list[tuple[str, str]]:
    """Return the file and the function of each step in the table of ARCHITECTURE.md."""
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return re.findall(r"^\| \d+ \| `\w+` \| `src/sfumato/([\w/]+\.py)` \| `(\w+)` \|", text, re.MULTILINE)


@pytest.fixture(scope="module", params=QUESTIONS)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Ask one question of a policy, and follow it."""
    return trace_question(tmp_path_factory.mktemp("trace"), QUESTIONS[request.param])


def test_the_steps_run_in_the_order_of_the_page(traced: Trace) -> None:
    steps = _steps()
    assert len(steps) >= 9
    assert list(dict.fromkeys((file, name) for file, name, _ in traced.calls if (file, name) in steps)) == steps


def test_packages_come_in_the_order_of_the_layers(traced: Trace) -> None:
    ran = [layer_of(file) for file, name, _ in traced.calls if (file, name) in _steps()]
    packages = [package for package in dict.fromkeys(ran) if package not in ("database", "prepare")]
    assert packages == sorted(packages, key=LAYERS.index)
    assert packages == ["query", "analysis", "planning", "engines", "ledger", "release", "stored_answer"]


def test_private_rows_are_read_inside_the_charge_and_everything_else_is_planned_before(traced: Trace) -> None:
    inside = {name for file, name, charged in traced.calls if charged and (file, name) in _steps()}
    assert inside == {"charge_and_publish", "run", "publish", "answer_to_json", "settle"}


def test_no_lower_layer_calls_upward(traced: Trace) -> None:
    """Functions that an upper layer makes for a call are its own; inside the charge there is one of them."""
    calls = [call for call in traced.upward if call[1] not in PASSED]
    assert [call for call in calls if "<locals>" not in call[2]] == []
    assert {call[:3] for call in calls if call[3]} == {(CHARGE[0], "database.py", "Database._answer.<locals>.release")}


def test_a_planted_call_upward_is_found() -> None:
    lower, upper = (
        _planted("engines", "def run(choose):\n    return choose()\n"),
        _planted("release", "def choose():\n    return 1\n"),
    )
    found = trace(lambda: lower["run"](upper["choose"]))
    assert found.upward == {("engines/planted.py", "release/planted.py", "choose", False)}
    assert found.files() == ["engines/planted.py", "release/planted.py"]


def _planted(layer: str, text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, f"{PACKAGE}{layer}/planted.py", "exec"), names)  # noqa: S102
    return names
