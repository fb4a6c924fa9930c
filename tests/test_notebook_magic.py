"""`%%dp` asks a cell of SQL at the price in its line; refusals are printed without a trace."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from tests.made_up_clinic import fresh_clinic

import sfumato

BY_SEX = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    make: Any = InteractiveShell  # it has no types
    ipython = make()
    ipython.run_line_magic("load_ext", "sfumato")
    with sfumato.open(fresh_clinic(tmp_path), rehearsal=True) as database:
        ipython.user_ns["db"] = database
        yield ipython


@pytest.mark.parametrize("price", ["epsilon=0.5", "share=5%", "within.n=25"])
def test_a_cell_is_asked_at_its_price(shell: Any, price: str) -> None:
    release = shell.run_cell_magic("dp", f"db {price}", BY_SEX)
    assert isinstance(release, sfumato.Release)
    assert {row["sex"] for row in release.rows()} == {"female", "male"}
    assert shell.user_ns["_dp"] is release


def test_a_cell_can_be_explained_and_drawn(shell: Any) -> None:
    assert shell.run_cell_magic("dp", "db epsilon=0.5 explain", BY_SEX).loss.epsilon
    assert shell.user_ns["db"].charges() == 0
    assert "vconcat" in (chart := shell.run_cell_magic("dp", "db epsilon=0.5 plot", BY_SEX).to_dict()) or chart["layer"]


@pytest.mark.parametrize("line", ["", "nothing epsilon=1", "db", "db epsilon=0.5 pie", "db epsilon=-1"])
def test_a_refusal_is_printed_without_a_trace(shell: Any, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_cell_magic("dp", line, BY_SEX) is None
    assert "Refused (" in capsys.readouterr().out
    assert shell.user_ns["db"].charges() == 0
