"""Bounds that a question selects: none far above the evidence, and groups that are shown weigh. Fixed bits of noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.release.bars_clinic import opened, released
from tests.statistical.levels import plan_for

from sfumato.planning.bounding.selection import histogram_of, laplace_noise_of
from sfumato.release.bounding.selection import select_bound
from sfumato.release.bounding.tail_counts import estimate_tail_counts
from sfumato.release.intervals.noise_law import quantile_of_sum

LEVELS = np.array([2.0**place for place in range(21)])


def test_a_cap_of_a_million_does_not_spoil_a_sum_of_which_people_have_a_few() -> None:
    """26,000 people with one to seven each, of whom noise may suggest any: 800 answers at epsilon 0.1.

    6.5 of 1,000 bounds were 64 or more (2 were 1,024 or more), and the mean error was five times the median.
    """
    rng = np.random.default_rng(21)
    plan = plan_for(10**6, "0.1")
    (measured,) = [one for group in plan.groups if not group.is_bound_selection for one in group.measured]
    (choice,) = [one for group in plan.groups if group.is_bound_selection for one in group.measured]
    assert choice.candidates is not None
    amounts = choice.candidates.thresholds
    totals = rng.binomial(60, 0.0052, 100_000)
    exact = [int(np.minimum(totals, amount).sum()) for amount in amounts]
    people, own = np.array(histogram_of(exact, amounts), dtype=np.float64), laplace_noise_of(measured)
    errors, far = [], 0
    for _ in range(800):
        noisy = people + rng.laplace(0, float(laplace_noise_of(choice).scale), len(people))
        taken = select_bound([round(float(value)) for value in noisy], choice, plan)
        far += amounts[taken.index] >= 64
        noise = rng.laplace(0, float(own.scale) * amounts[taken.index] / own.sensitivity)
        errors.append(abs(exact[taken.index] + taken.above + noise - totals.sum()))
    assert np.median(errors) < 100
    assert far <= 2
    assert np.mean(errors) < 6 * np.median(errors)


@pytest.mark.parametrize("scale", [5.0, 50.0])
def test_evidence_grows_with_the_bound(scale: float) -> None:
    """Of people who are not there, noise suggests the fewer the higher: 400 draws, each bound by itself."""
    rng = np.random.default_rng(3)
    exact = np.array([20_000.0, 4000, 300, *[0] * 18])
    found = [
        estimate_tail_counts(exact + rng.laplace(0, scale, len(LEVELS)), LEVELS, scale).credible for _ in range(400)
    ]
    sure = 2 if scale < 10 else 1
    assert min(found) >= sure
    assert np.mean(2.0 ** (np.array(found) - min(found))) < 12  # what mistakes may cost, beside what is needed
    for number in (30 * scale, 300 * scale):  # and people who are there are found, however high
        there = exact + np.append(np.zeros(20), number) + rng.laplace(0, scale, len(LEVELS))
        assert estimate_tail_counts(there, LEVELS, scale).credible == 20


@pytest.mark.parametrize("scale", [5.0, 50.0])
@pytest.mark.parametrize("place", [16, 18, 20])
def test_what_one_noise_in_ten_thousand_suggests_far_above_is_not_believed(place: int, scale: float) -> None:
    """With a million rows there are twenty bounds, and each gets its own noise: one answer in 1,000 took such a bound.

    What noise reaches once in 10,000 times at a bound of 65,536 or more is taken for noise; what it reaches once in
    10,000 times 2 to the power of the place is not.
    """
    parts = np.array([21.0 - place])
    exact = np.array([20_000.0, 4000, 300, *[0] * 18])
    for tail, believed in ((1e-4, False), (1e-4 / 2**place, True)):
        there = exact.copy()
        there[place] += 1.001 * scale * quantile_of_sum(2 * parts, 12 * parts, np.zeros(1), tail)[0]
        found = estimate_tail_counts(there, LEVELS, scale)
        assert (found.credible >= place) == believed
        assert (found.mean[place] > 1) == believed


def test_nothing_is_too_far_above_where_nothing_is_evident() -> None:
    few = np.array([0.0, 0, 0, 0, 0, 40, 30])
    assert estimate_tail_counts(few, np.array([1.0, 2, 4, 8, 16, 32, 50]), 50.0).credible == 6


def test_with_many_keys_the_bound_lets_large_groups_appear(tmp_path: Path) -> None:
    """100,000 rows of 1,000 people in 60 undeclared groups, sizes as their ranks fall: 10 answers at epsilon 1."""
    rng = np.random.default_rng(5)
    weights = 1 / np.arange(1, 61)
    people = np.repeat(np.arange(1000), rng.integers(1, 201, 1000))
    rows: dict[str, Any] = {
        "p": people,
        "town": [f"t{at}" for at in rng.choice(60, len(people), p=weights / weights.sum())],
    }
    table = {"rows_per_unit": {"most": 200, "choose": "private"}, "columns": {"town": {"type": "text"}}}
    truth = {name: rows["town"].count(name) for name in set(rows["town"])}
    with opened(tmp_path, rows, table) as database:
        answers = list(released(database, "SELECT town, COUNT(*) AS n FROM v GROUP BY town", 10, "1"))
    shown = [len(answer.rows()) for answer in answers]
    errors = [abs(row["n"] / truth[row["town"]] - 1) for answer in answers for row in answer.rows()]
    assert np.median(shown) >= 5
    assert np.median(errors) < 0.2
