"""RAPPOR and the sketches: known losses, decoding with candidates, variances with the term of collisions.

Where samples are drawn, seeds are fixed, and a test of a right program fails with probability below 1e-5.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import Refusal
from sfumato.local.hashing import places
from sfumato.local.rappor import Rappor
from sfumato.local.sketch import CountMeanSketch, HadamardSketch

REFERENCE = Rappor(32, 2, "1/2", "1/2", "3/4")  # type: ignore[arg-type]
SKETCHES = (CountMeanSketch, HadamardSketch)
both = pytest.mark.parametrize("kind", SKETCHES, ids=lambda kind: kind.__name__)


def test_both_losses_are_the_references() -> None:
    assert float(REFERENCE.epsilon_forever) == pytest.approx(4.394449154672, abs=2e-12)
    assert float(REFERENCE.epsilon_once) == pytest.approx(1.074285864167, abs=2e-12)
    ratio = REFERENCE.q_star * (1 - REFERENCE.p_star) / (REFERENCE.p_star * (1 - REFERENCE.q_star))
    assert ratio**2 == Fraction(5929, 2025)
    assert REFERENCE.event == Pure(REFERENCE.epsilon_forever, Neighbours.REPLACE)  # a lifetime is what is charged


def test_bits_of_the_filters_come_back_unbiased() -> None:
    """Over 60,000 people the share of each bit is within 5 standard errors."""
    items = np.arange(60_000) % 3
    reports = REFERENCE.release(REFERENCE.memo(items, HashSource(1)), HashSource(2))
    truth = REFERENCE.bloom(items).mean(axis=0)
    error = 0.5 / np.sqrt(60_000) / float(REFERENCE.q_star - REFERENCE.p_star)
    assert np.abs(REFERENCE.set_bits(reports) - truth).max() < 5 * error


def test_reports_of_one_memo_differ_and_their_mean_is_the_memo_not_the_filter() -> None:
    memo = REFERENCE.memo([7], HashSource(5))
    reports = REFERENCE.release(np.repeat(memo, 20_000, axis=0), HashSource(6))
    shown = reports.mean(axis=0) > 0.625
    assert np.array_equal(shown, memo[0])  # for ever the same: that is what ε∞ pays for
    assert not np.array_equal(memo, REFERENCE.bloom([7]))


def test_shares_of_candidates_are_told_with_their_errors() -> None:
    items = np.repeat(np.arange(5), [20_000, 10_000, 6_000, 3_000, 1_000])
    truth = np.array([0.5, 0.25, 0.15, 0.075, 0.025])
    scores = []
    for seed in range(20):
        reports = REFERENCE.release(REFERENCE.memo(items, HashSource(seed)), HashSource(-seed - 1))
        shares, errors = REFERENCE.estimate(reports, np.arange(5))
        scores.append((shares - truth) / errors)
    statistic = float((np.array(scores) ** 2).sum())
    assert chi2.isf(1 - 1e-6, 100) < statistic < chi2.isf(1e-6, 100)


BAD_RAPPOR: list[Callable[[], object]] = [
    lambda: Rappor(32, 2, 0, "1/2", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(32, 2, 1, "1/2", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(32, 2, "1/2", "3/4", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(32, 2, "1/2", "-1/4", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(32, 2, "1/2", "1/4", "5/4"),  # type: ignore[arg-type]
    lambda: Rappor(32, 2, 0.5, "1/4", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(1, 1, "1/2", "1/4", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(8, 9, "1/2", "1/4", "3/4"),  # type: ignore[arg-type]
    lambda: Rappor(8, 2, "1/2", "1/4", "3/4", key="text"),  # type: ignore[arg-type]
    lambda: REFERENCE.memo([-1], HashSource(0)),
    lambda: REFERENCE.memo([1.5], HashSource(0)),
    lambda: REFERENCE.release([[True]], HashSource(0)),
    lambda: REFERENCE.release(np.zeros((2, 32)), HashSource(0)),
    lambda: REFERENCE.set_bits(np.zeros((0, 32), dtype=bool)),
    lambda: REFERENCE.set_bits([True]),
    lambda: REFERENCE.estimate(np.ones((5, 32), dtype=bool), np.arange(100)),
    lambda: REFERENCE.estimate(np.ones((5, 32), dtype=bool), [1, 1]),
    lambda: REFERENCE.likelihood([True], 1, 10),
    lambda: REFERENCE.likelihood(np.ones(32, dtype=bool), -1, 10),
]


@pytest.mark.parametrize("bad", BAD_RAPPOR)
def test_what_rappor_cannot_mean_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(Refusal):
        bad()


# --- sketches ---


def test_the_coins_and_variances_of_the_sketches_are_the_references() -> None:
    sketch = CountMeanSketch(2, 4, 16)  # type: ignore[arg-type]
    assert sketch.flip.bounds(64)[0] == 4961093570831980853
    assert sketch.bit_variance(np.zeros(1))[0] == pytest.approx(0.9206735942078)


@both
def test_over_hash_families_shares_are_unbiased_and_vary_as_stated(kind: Any) -> None:
    """250 families, one survey each: bias within 5 standard errors, each variance within what chi-square allows."""
    counts = np.array([400, 300, 200, 60, 40])
    items, truth = np.repeat(np.arange(5) * 10**12 + 7, counts), counts / 1000
    errors = []
    for family in range(250):
        sketch = kind(4, 3, 16, key=b"%d" % family)
        tally = sketch.tally(sketch.release(items, HashSource((kind.__name__, family))))
        errors.append(sketch.estimate(tally, np.arange(5) * 10**12 + 7) - truth)
    seen, stated = np.array(errors), kind(4, 3, 16).variance(truth, 1000)
    assert np.abs(seen.mean(axis=0)).max() < 5 * np.sqrt(stated.max() / 250)
    ratio = (seen**2).mean(axis=0) / stated
    # errors of one family depend on each other, and their tails are heavier than a normal's: a wide band
    assert 0.7 < ratio.min() <= ratio.max() < 1.4
    # without the collisions the error bars would be false
    coins = kind(4, 3, 16).bit_variance(truth) / 1000
    assert (seen**2).mean(axis=0)[2:].min() > 2 * coins.max()


@both
def test_more_reports_do_not_remove_the_collisions(kind: Any) -> None:
    sketch = kind(2, 8, 64)
    shares = np.full(10, 0.1)
    floor = (64 / 63) ** 2 / 64 * (1 - 1 / 64) * 0.09 / 8
    assert sketch.variance(shares, 10**12) == pytest.approx(np.full(10, floor), rel=1e-4)


@both
def test_parts_of_a_sketch_add_up_and_survive_the_wire(kind: Any) -> None:
    sketch = kind(2, 5, 32, key=b"k")
    reports = sketch.release(np.arange(700), HashSource(1))
    assert sketch.tally(reports[:99]) + sketch.tally(reports[99:]) == sketch.tally(reports)
    message = sketch.encode(reports)
    assert len(message) <= 64 + 700 * sketch.report_bits / 8
    assert np.array_equal(sketch.decode(message), reports)


def test_three_items_fall_independently_over_the_families() -> None:
    """Chi-square of the 27 joint cells of three places, over 30,000 tables; fails by chance below 1e-6."""
    items = np.array([3, 2**62, 2**62 + 3])
    found = np.array([places(b"independent", 30_000, 3, np.arange(30_000), item) for item in items])
    cells = np.bincount(found[0] * 9 + found[1] * 3 + found[2], minlength=27)
    assert ((cells - 30_000 / 27) ** 2 / (30_000 / 27)).sum() < chi2.isf(1e-6, 26)


BAD_SKETCH: list[Callable[[Any], object]] = [
    lambda kind: kind(0, 2, 16),
    lambda kind: kind(1.0, 2, 16),
    lambda kind: kind(1, 0, 16),
    lambda kind: kind(1, 2, 1),
    lambda kind: kind(1, 2**16, 2**16),
    lambda kind: kind(1, 2, 16, key="k"),
    lambda kind: kind(1, 2, 16).release([-1], HashSource(0)),
    lambda kind: kind(1, 2, 16).release([2**63], HashSource(0)),
    lambda kind: kind(1, 2, 16).release(["name"], HashSource(0)),
    lambda kind: kind(1, 2, 16).tally([[7, 7, 7, 7, 7]]),
    lambda kind: kind(1, 2, 16).tally([10**6]),
    lambda kind: kind(1, 2, 16).estimate(kind(1, 2, 16).tally([]), [1]),
    lambda kind: kind(1, 2, 16).estimate(kind(1, 2, 16, key=b"other").tally(kind(1, 2, 16).release([1])), [1]),
    lambda kind: kind(1, 2, 16).variance([float("nan")], 10),
    lambda kind: kind(1, 2, 16).variance([[0.5]], 10),
    lambda kind: kind(1, 2, 16).variance([0.5], 0),
    lambda kind: kind(1, 2**6, 2**15).report_space(),
]


@both
@pytest.mark.parametrize("bad", BAD_SKETCH)
def test_what_a_sketch_cannot_mean_is_refused(kind: Any, bad: Callable[[Any], object]) -> None:
    with pytest.raises(Refusal):
        bad(kind)


def test_the_hadamard_sketch_needs_a_power_of_two() -> None:
    with pytest.raises(Refusal):
        HadamardSketch(1, 2, 24)  # type: ignore[arg-type]


@both
def test_the_variance_of_an_estimate_beyond_one_is_that_of_one(kind: Any) -> None:
    sketch = kind(8, 16, 256)
    assert sketch.variance([1.2, -0.1], 100) == pytest.approx(sketch.variance([1, 0], 100))
    assert (sketch.variance([1.2, -0.1], 100) > 0).all()
