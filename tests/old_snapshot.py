"""What a data owner is told who opens a source that has changed and cannot be read; other warnings are errors here."""

from contextlib import AbstractContextManager, nullcontext

import pytest

from sfumato.engines.opening import OldSnapshot


def told_of_the_old_snapshot(refresh: str, reason: str = "") -> AbstractContextManager[object]:
    """Expect the warning, with its reason, where opening takes a snapshot of what has changed; else expect none."""
    if refresh != "on-change":
        return nullcontext()
    return pytest.warns(OldSnapshot, match=f"(?s)Answers still come from the previous one.*{reason}")
