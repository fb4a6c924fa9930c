"""What holds for every test: the examples are the same in every run, and none fails for being slow.

A commit is green or red by its own doing, so the examples that Hypothesis draws are derived from the test itself. New
ones are looked for by command, `python -m tests.longer`; what it finds is kept as an `@example`.
"""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from sfumato.query.parsing.tree import _require_stack_frames

RANDOM = "SFUMATO_RANDOM_EXAMPLES"

settings.register_profile("the same examples in every run", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("other examples in every run", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("other examples in every run" if os.environ.get(RANDOM) else "the same examples in every run")

# The first question raises the recursion limit. If a test of Hypothesis were the first, Hypothesis would warn.
_require_stack_frames()

# A child that a test forks does not collect what other tests left behind: engines whose threads are not in the child.
os.register_at_fork(after_in_child=gc.disable)


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """Hide from the collector what other tests left: a test that collects often would walk through it every time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
