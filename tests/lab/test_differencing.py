"""Differences, trackers, refusals and averages recover what the old systems meant to keep, and not what ours keeps."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks import averaging, tracker
from sfumato.lab.attacks.auditing import read_refusals
from sfumato.lab.attacks.bounds import most_recovered
from sfumato.lab.attacks.historical import Auditor, Declined, SizeControl
from sfumato.lab.generators.seeded import Seeded, coins, single, subsets

FAILURE = 1e-6


@pytest.fixture(scope="module")
def differenced() -> tracker.Differencing:
    return tracker.run(400, Seeded("differencing"))


@pytest.fixture(scope="module")
def averaged() -> averaging.Averaging:
    return averaging.run(120, 32, Seeded("averaging"))


@pytest.mark.parametrize("seed", range(5))
def test_a_tracker_counts_every_set_that_may_not_be_asked(seed: int) -> None:
    rows, source = 80, Seeded(seed)
    secret = coins(rows, source)
    system = SizeControl(secret, 12)
    half = np.arange(rows) % 2 == 0  # between 2k and n - 2k rows
    for row in range(rows):
        assert isinstance(system.answer(single(row, rows)), Declined)
        assert tracker.count_by_tracker(system, single(row, rows), half) == secret[row]
    for small in subsets(20, rows, source) & (np.arange(rows) < 11):
        assert isinstance(system.answer(small), Declined)
        assert tracker.count_by_tracker(system, small, half) == (secret & small).sum()


def test_a_set_of_the_wrong_size_is_no_tracker() -> None:
    system = SizeControl(coins(80, Seeded(1)), 12)
    assert isinstance(tracker.count_by_tracker(system, single(0, 80), single(1, 80)), Declined)
    assert isinstance(tracker.difference(system, 0, single(1, 80)), Declined)


def test_refusals_give_away_every_database() -> None:
    for bits in product((False, True), repeat=7):
        read = read_refusals(Auditor(np.array(bits)), 7, own=bits[0])
        assert read.guess.tolist() == list(bits)


def test_exact_systems_lose_everything_to_differencing(differenced: tracker.Differencing) -> None:
    assert differenced.of("query-set-size control").recovered == 1
    assert differenced.of("query auditing").recovered == 1
    assert differenced.forbidden == differenced.truth


def test_a_sample_loses_exactly_the_sampled(differenced: tracker.Differencing) -> None:
    # half are sampled and known, the rest guessed as zero: 3/4 expected; Hoeffding: 2·exp(-2 · 400 · 0.15²) < 4e-8
    assert abs(differenced.of("subset release").recovered - Fraction(3, 4)) < Fraction(15, 100)


def test_perturbed_input_keeps_what_randomized_response_promises(differenced: tracker.Differencing) -> None:
    line = differenced.of("input perturbation")
    assert line.bound == 0.95
    # Hoeffding: exp(-2 · 400 · 0.14²) < 2e-7
    assert line.recovered > Fraction(81, 100)


def test_differencing_sfumato_stays_within_the_guarantee(differenced: tracker.Differencing) -> None:
    line = differenced.lines[-1]
    assert line.system.startswith("sfumato")
    assert line.declined == 0
    assert line.recovered <= Fraction(most_recovered(400, tracker.EPSILON, FAILURE), 400)


def test_the_differencing_report_has_a_line_for_each_system(differenced: tracker.Differencing) -> None:
    text = differenced.report()
    assert all(line.system in text and f"{float(line.recovered):.1%}" in text for line in differenced.lines)


@pytest.mark.parametrize(
    ("system", "same_set"), [("bounded noise", True), ("rounded output", False), ("sticky noise", False)]
)
def test_enough_questions_average_the_noise_away(averaged: averaging.Averaging, system: str, same_set: bool) -> None:
    # each bit is wrong with probability below 0.005 (a mean of 128 with variance 4, half a unit away);
    # more than 6 wrong of 32 have probability below 32^7 / 7! · 0.005^7 < 1e-7
    assert averaged.of(system, same_set=same_set).recovered[-1] >= Fraction(26, 32)


@pytest.mark.parametrize("system", ["rounded output", "sticky noise"])
def test_asking_the_same_again_adds_nothing_where_the_answer_is_the_same(
    averaged: averaging.Averaging, system: str
) -> None:
    assert len(set(averaged.of(system, same_set=True).recovered)) == 1


@pytest.mark.parametrize("repeats", [1, 8])
def test_averaging_sfumato_stays_within_the_guarantee(repeats: int) -> None:
    secret, loss = coins(200, Seeded(1)), PrivacyLoss(Fraction(1))
    recovered = averaging.against_sfumato(secret, 200, loss, repeats, Seeded(2))
    # a guess depends on one fair bit and fresh noise only, so the right ones are at most binomial: fails with 1e-6
    assert recovered <= Fraction(most_recovered(200, loss.epsilon, FAILURE), 200) < 1


def test_the_averaging_report_has_a_line_for_each_system(averaged: averaging.Averaging) -> None:
    assert all(line.label in averaged.report() for line in averaged.lines)
