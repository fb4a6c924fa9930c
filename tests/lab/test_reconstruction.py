"""Reconstruction does what the theorems say: it ruins bounded noise, and gets no more out of ours than allowed."""

from fractions import Fraction
from itertools import pairwise
from math import ceil, sqrt

import numpy as np
import pytest

from sfumato.errors import BadParameter
from sfumato.lab.attacks import exhaustive, reconstruction
from sfumato.lab.attacks.bounds import most_recovered
from sfumato.lab.attacks.exhaustive import databases_that_fit, every_subset
from sfumato.lab.attacks.historical import Auditor, BoundedNoise, RoundedOutput, share_equal
from sfumato.lab.attacks.least_squares import LeastSquares, ask_all_masks, linear_programme
from sfumato.lab.generators.seeded import Seeded, coins, subsets


@pytest.fixture(scope="module")
def found() -> reconstruction.Reconstruction:
    return reconstruction.run(1000, Seeded("reconstruction"))


def test_more_than_95_percent_of_a_thousand_rows_fall_at_noise_of_a_tenth_root(
    found: reconstruction.Reconstruction,
) -> None:
    assert found.tenth_root == ceil(sqrt(1000) / 10) == 4
    assert found.at(found.tenth_root) > Fraction(95, 100)
    assert found.at(2) > Fraction(99, 100)  # below n/400


def test_the_curve_falls_from_everything_to_little_more_than_a_coin(found: reconstruction.Reconstruction) -> None:
    shares = [point.recovered for point in found.curve]
    assert [point.bound for point in found.curve] == sorted({1 << k for k in range(9)})
    assert shares[0] == 1
    # by then a bit is right with probability below 0.54, nearly independently of the others (the questions are nearly
    # orthogonal): above 0.64 with probability about exp(-2 · 1000 · 0.1²) < 3e-9
    assert shares[-1] < Fraction(64, 100)
    assert all(later <= earlier + Fraction(1, 10) for earlier, later in pairwise(shares))


def test_as_many_questions_to_sfumato_recover_no_more_than_the_guarantee(found: reconstruction.Reconstruction) -> None:
    assert found.guarded
    for guarded in found.guarded:
        if guarded.most is not None:  # exceeded with probability 1e-6 by the theorem of lab/attacks/bounds.py
            assert guarded.recovered <= guarded.most == Fraction(most_recovered(1000, guarded.loss.epsilon, 1e-6), 1000)
        else:
            assert guarded.recovered <= guarded.expected
    assert {guarded.loss.delta > 0 for guarded in found.guarded} == {True, False}


def test_the_report_states_the_numbers(found: reconstruction.Reconstruction) -> None:
    text = found.report()
    assert f"{float(found.at(4)):.1%}   √n/10, rounded up" in text
    assert f"{float(found.guarded[1].recovered):.1%}" in text
    assert found.small.report() in text
    assert found.single.report() in text


@pytest.mark.parametrize("bound", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_every_database_that_fits_agrees_on_all_but_4e_rows(seed: int, bound: int) -> None:
    small = exhaustive.run(8, bound, Seeded((seed, bound)))
    assert small.fitting >= 1  # the true one fits
    assert small.most_wrong <= small.allowed == min(8, 4 * bound)


def test_rounded_answers_are_bounded_noise_for_the_theorem() -> None:
    secret = coins(10, Seeded(5))
    assert exhaustive.exhaust(RoundedOutput(secret, 3), secret, 1).most_wrong <= 4


@pytest.mark.parametrize("bound", [1, 2])
def test_4e_is_tight(bound: int) -> None:
    """Answers half-way between two databases 4E apart are within E of both: no attack can tell which was true."""
    rows = 10
    first = np.arange(rows) < 2 * bound
    second = (np.arange(rows) >= 2 * bound) & (np.arange(rows) < 4 * bound)
    everything = every_subset(rows)
    half_way = (everything @ first.astype(float) + everything @ second.astype(float)) / 2
    candidates = {candidate.tobytes() for candidate in databases_that_fit(half_way, rows, bound)}
    assert {first.tobytes(), second.tobytes()} <= candidates
    assert int((first != second).sum()) == 4 * bound


def test_too_many_rows_for_all_subsets_are_refused() -> None:
    with pytest.raises(BadParameter, match="too many subsets"):
        exhaustive.run(exhaustive.MAX_ATTACKED_ROWS + 1, 1, Seeded(1))


def test_the_linear_programme_survives_a_tenth_of_wild_answers() -> None:
    rows = 60
    secret, questions = coins(rows, Seeded(1)), subsets(6 * rows, rows, Seeded(2))
    answers = ask_all_masks(BoundedNoise(secret, 0, Seeded(3)), questions)
    answers[::10] = 1000.0
    assert share_equal(linear_programme(questions, answers), secret) == 1
    assert share_equal(LeastSquares(questions).decode(answers), secret) < Fraction(9, 10)


def test_an_attack_that_is_declined_says_so() -> None:
    with pytest.raises(BadParameter, match="declined"):
        ask_all_masks(Auditor(coins(8, Seeded(1))), every_subset(8))
