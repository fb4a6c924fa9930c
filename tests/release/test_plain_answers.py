"""Bars are found when somebody asks for them; where that is later than the notes, the notes need none of them."""

from pathlib import Path

import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.errors import Refusal
from sfumato.release import release as releasing
from sfumato.release.bars.intervals import Answered


def test_plain_answers_have_no_open_side_and_no_rows_that_noise_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Answered] = []
    answer = releasing.answer
    monkeypatch.setattr(releasing, "answer", lambda *given: (found.append(made := answer(*given)), made)[1])
    write(tmp_path, a_world(3, people=6))
    with sfumato.open(policy(tmp_path)) as database:
        for sql in SHAPES[::4]:
            try:
                database.ask(sql, epsilon=1)
            except Refusal:
                continue
    plain = [one for one in found if one.plain]
    assert len(plain) > 3
    assert len(found) - len(plain) > 3
    for one in plain:
        forms, chosen = one._find()
        assert not chosen
        assert not any(form.open for form in forms if form is not None)
