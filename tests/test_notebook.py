"""The notebook runs from top to bottom, and shows something wherever it says that it does."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "notebook.ipynb"


def _cells() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return cells


def _run(source: str, names: dict[str, object]) -> tuple[str, object]:
    """Run a cell as a notebook does; return what it printed, and the value of its last line."""
    tree = ast.parse(source)
    last = tree.body[-1]
    before = ast.Module(tree.body[:-1] if isinstance(last, ast.Expr) else tree.body, [])
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(before, NOTEBOOK.name, "exec"), names)  # noqa: S102  (our own notebook)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def test_every_cell_runs_and_shows_what_is_stored_with_it() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    shown = 0
    for cell in _cells():
        if cell["cell_type"] != "code":
            continue
        printed, value = _run("".join(cell["source"]), names)
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds == {*(["stream"] if printed else []), *(["execute_result"] if value is not None else [])}
        assert "error" not in kinds
        shown += len(kinds)
    assert shown > 10


def test_its_links_lead_somewhere_and_its_cells_are_told_apart() -> None:
    cells = _cells()
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = [target.split(")")[0] for target in text.split("](")[1:]]
    assert targets
    assert [target for target in targets if not (NOTEBOOK.parent / target).exists()] == []
    assert len({cell["id"] for cell in cells}) == len(cells)
