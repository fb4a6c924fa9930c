"""The commands of the tutorials run one after another, in the folder that the page's first block makes."""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli import main

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("tutorial_owner.md", "tutorial_analyst.md", "tutorial_schema.md")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```[ ]*$", page.read_text(encoding="utf-8"))


def _commands(page: Path) -> list[tuple[str, str]]:
    """Return each command, its lines joined as a shell joins them, and what is shown after it."""
    found = []
    for block in _blocks(page, "shell"):
        for part in re.split(r"(?m)^\$ ", block.replace("\\\n", " "))[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_tutorial_say_what_the_page_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(_blocks(DOCS / name, "python")[0], name, "exec"), names)  # noqa: S102  (our own page)
    monkeypatch.chdir(str(names["folder"]))
    commands = _commands(DOCS / name)
    assert commands
    for command, shown in commands:
        program, *options = shlex.split(command)
        assert program == "sfumato"
        result = CliRunner().invoke(main, options)
        assert result.exit_code in {0, 2}, result.output
        assert doctest.OutputChecker().check_output(shown, result.output, FLAGS), f"$ {command}\n{result.output}"
