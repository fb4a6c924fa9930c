"""The survey of the command line: truth beside estimates, a picture, and refusals."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato import local
from sfumato.errors import Refusal
from sfumato.local.commands import survey
from sfumato.local.survey import run


def test_it_estimates_what_is_true() -> None:
    """One seed: intervals at 95 % hold for at least 65 of 80 emoji; below that, P < 1e-5."""
    found = run(20_000, "2", HashSource(1))
    held = (found.intervals[:, 0] <= found.truth) & (found.truth <= found.intervals[:, 1])
    assert held.sum() >= 65
    assert found.truth.sum() == pytest.approx(1)
    text = found.report()
    assert "epsilon 2 per question" in text
    assert "epsilon 104" in text
    assert re.search(r"\d+ of 80 intervals hold", text)
    assert np.isfinite(found.shares).all()


def test_it_draws_what_it_found(tmp_path: Path) -> None:
    path = tmp_path / "survey.svg"
    assert str(path) in survey(2000, "3", path)
    assert path.read_text(encoding="utf-8").startswith("<svg")


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    for people, epsilon, plot in (
        (10, "1", None),
        (10**8, "1", None),
        (2000, "0", None),
        (2000, "x", None),
        (2000, "1", tmp_path / "survey.docx"),
        (2000, "1", tmp_path / "missing" / "survey.svg"),
    ):
        with pytest.raises(Refusal):
            survey(people, epsilon, plot)


def test_the_workshop_names_its_classes_and_loads_them_when_used() -> None:
    for name in local.__all__:
        assert getattr(local, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute"):
        local.nothing  # noqa: B018
