"""The systems of the past do what their designers meant, so that what breaks them is not a straw man."""

import numpy as np
import pytest

from sfumato.errors import BadParameter
from sfumato.lab.attacks.historical import (
    MAX_AUDITED_ROWS,
    Auditor,
    BoundedNoise,
    Declined,
    InputPerturbation,
    RoundedOutput,
    SizeControl,
    StickyNoise,
    SubsetRelease,
)
from sfumato.lab.generators.seeded import Mask, Seeded, coins, single, subsets

ROWS = 60
SECRET = coins(ROWS, Seeded("secret"))
SETS = subsets(200, ROWS, Seeded("sets"))


def _true(mask: Mask) -> int:
    return int((SECRET & mask).sum())


def test_size_control_is_exact_between_its_limits_and_silent_beyond() -> None:
    system = SizeControl(SECRET, 10)
    for size in range(ROWS + 1):
        mask = np.arange(ROWS) < size
        answer = system.answer(mask)
        assert isinstance(answer, Declined) if size < 10 or size > ROWS - 10 else answer == _true(mask)


@pytest.mark.parametrize("seed", range(20))
def test_the_answers_of_the_auditor_alone_never_determine_a_bit(seed: int) -> None:
    rows = 8
    secret = coins(rows, Seeded(seed))
    auditor = Auditor(secret)
    masks = subsets(60, rows, Seeded(("sets", seed)))
    answered = [(mask, answer) for mask in masks if not isinstance(answer := auditor.answer(mask), Declined)]
    everything = (np.arange(1 << rows)[:, np.newaxis] >> np.arange(rows) & 1).astype(np.bool_)
    fits = np.array([all((one & mask).sum() == answer for mask, answer in answered) for one in everything])
    left = everything[fits]
    assert answered
    assert (left == secret).all(axis=1).any()
    assert not (left == left[0]).all(axis=0).any()


def test_the_auditor_refuses_more_databases_than_it_can_list() -> None:
    with pytest.raises(BadParameter):
        Auditor(np.zeros(MAX_AUDITED_ROWS + 1, dtype=np.bool_))


def test_noise_that_is_bounded_stays_within_its_bound_and_reaches_it() -> None:
    fresh, sticky = BoundedNoise(SECRET, 2, Seeded(1)), StickyNoise(SECRET, 2, key=1)
    for system in (fresh, sticky):
        # each of five values is missing from 200 draws with probability below 5 · 0.8^200 < 1e-18
        assert {system.answer(mask) - _true(mask) for mask in SETS} == {-2, -1, 0, 1, 2}  # type: ignore[operator]


def test_sticky_noise_is_the_same_for_the_same_set_only() -> None:
    system = StickyNoise(SECRET, 50, key=1)
    again, other = StickyNoise(SECRET, 50, key=1), StickyNoise(SECRET, 50, key=2)
    assert [system.answer(mask) for mask in SETS] == [again.answer(mask) for mask in SETS]
    assert [system.answer(mask) for mask in SETS] != [other.answer(mask) for mask in SETS]


def test_rounding_goes_to_the_nearest_multiple() -> None:
    system = RoundedOutput(np.ones(ROWS, dtype=np.bool_), 5)
    answers = [system.answer(np.arange(ROWS) < size) for size in range(11)]
    assert answers == [0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]


def test_a_subset_release_counts_the_sampled_only() -> None:
    system = SubsetRelease.drawn(SECRET, 3, Seeded(1))
    for row in range(ROWS):
        assert system.answer(single(row, ROWS)) == (3 if SECRET[row] and system.sampled[row] else 0)


def test_perturbed_input_differs_from_the_truth_about_as_often_as_announced() -> None:
    secret = coins(20_000, Seeded(1))
    system = InputPerturbation.flipped(secret, 20, Seeded(2))
    flipped = float((system.reported != secret).mean())
    assert abs(flipped - 0.05) < 0.02  # Hoeffding: fails with probability 2·exp(-2 · 20,000 · 0.02²) < 3e-7
    assert system.answer(np.ones(20_000, dtype=np.bool_)) == system.reported.sum()
