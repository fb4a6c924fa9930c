"""Bars are found when somebody asks for them; where that is later than the notes, the notes need none of them."""

from pathlib import Path

import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.errors import EngineFailed, Refusal
from sfumato.planning.plan import Plan
from sfumato.release import release as releasing
from sfumato.release.intervals.confidence import EvaluatedAnswer, answer
from sfumato.release.intervals.row_forms import Evaluate
from sfumato.release.noisy import NoisyResult


def test_plain_answers_have_no_open_side_and_no_rows_that_noise_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[EvaluatedAnswer] = []

    def seen(plan: Plan, noisy: NoisyResult, evaluate: Evaluate) -> EvaluatedAnswer:
        found.append(answer(plan, noisy, evaluate))
        return found[-1]

    monkeypatch.setattr(releasing, "answer", seen)
    write(tmp_path, a_world(3, people=6))
    with sfumato.open(policy(tmp_path)) as database:
        for sql in SHAPES[::4]:
            try:
                database.ask(sql, epsilon=1)
            except EngineFailed:
                raise
            except Refusal:
                continue
    plain = [one for one in found if one.plain]
    assert len(plain) > 3
    assert len(found) - len(plain) > 3
    for one in plain:
        found_forms = one._find()
        assert not found_forms.candidates
        assert not any(form.has_no_interval for form in found_forms.forms if form is not None)
