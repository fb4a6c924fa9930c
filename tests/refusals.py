"""Refusals in tests of questions: a question that was asked and then failed in the engine was not refused."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sfumato.errors import EngineFailed, Refusal


@contextmanager
def refusing() -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """Expect a refusal of any code but `engine_failed`, which comes after the charge and may depend on a person."""
    with pytest.raises(Refusal) as caught:
        yield caught
    assert not isinstance(caught.value, EngineFailed), "the engine failed"


def spelled_question(refusal: Refusal) -> str:
    """Return the question that a remedy spells out."""
    question = re.search(r": `(.*)`\.$", refusal.remedy)
    assert question is not None, refusal.remedy
    return question[1]
