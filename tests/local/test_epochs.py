"""One report per public epoch: copies afterwards, whatever the value does meanwhile."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.accounting import pure
from sfumato.accounting.event import Repeated
from sfumato.errors import Refusal
from sfumato.local.direct import DirectResponse
from sfumato.local.epochs import Memo
from sfumato.local.mean import OneBitMean
from sfumato.local.unary import UnaryResponse

ORACLE = DirectResponse(1, 4)  # type: ignore[arg-type]


def test_within_an_epoch_a_changed_value_changes_nothing() -> None:
    memo = Memo(UnaryResponse(1, 9), 3)  # type: ignore[arg-type]
    first = memo.release([1, 2, 3], 0, HashSource(1))
    for values in ([1, 2, 3], [8, 8, 8]):
        assert np.array_equal(memo.release(values, 0, HashSource(2)), first)
    first[:] = 0  # what was handed out is a copy
    assert memo.release([0, 0, 0], 0).any()


def test_two_epochs_are_two_independent_reports() -> None:
    memo = Memo(OneBitMean(1, 9), 2)  # type: ignore[arg-type]
    values = np.full(1000, 4)
    one, other = (memo.release(values, epoch, HashSource(epoch)) for epoch in (0, 1))
    assert 350 < (one == other).sum() < 650


def test_all_epochs_are_charged_at_once() -> None:
    memo = Memo(ORACLE, 7)
    assert memo.event == Repeated(ORACLE.event, 7)
    assert pure.epsilon(memo.event) == 7


def test_a_source_that_dies_leaves_nothing_behind() -> None:
    memo = Memo(ORACLE, 2)
    with pytest.raises(SourceDied):
        memo.release([0, 1, 2], 0, ScriptedSource(b"\x01"))
    assert len(memo.release([0, 1, 2], 0, HashSource(3))) == 3


def test_a_memo_that_was_stored_gives_the_same_copies() -> None:
    memo = Memo(ORACLE, 2)
    first = memo.release([0, 1, 2], 1, HashSource(1))
    again = pickle.loads(pickle.dumps(memo))
    assert np.array_equal(again.release([3, 3, 3], 1), first)
    assert repr(again) == repr(memo)


BAD: list[Callable[[], object]] = [
    lambda: Memo(ORACLE, 0),
    lambda: Memo(ORACLE, 1.0),  # type: ignore[arg-type]
    lambda: Memo("oracle", 3),  # type: ignore[arg-type]
    lambda: Memo(ORACLE, 3).release([0], 3),
    lambda: Memo(ORACLE, 3).release([0], -1),
    lambda: Memo(ORACLE, 3).release([0], 0.5),  # type: ignore[arg-type]
    lambda: Memo(ORACLE, 3).release([4], 0),
    lambda: Memo(ORACLE, 3).release([[0], [1, 2]], 0),
]


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(Refusal):
        bad()


def test_other_people_are_refused() -> None:
    memo = Memo(ORACLE, 3)
    memo.release([0, 1], 0)
    for values in ([0], [0, 1, 2]):
        for epoch in (0, 1):
            with pytest.raises(Refusal):
                memo.release(values, epoch)
