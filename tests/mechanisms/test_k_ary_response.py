"""k-ary response: every report's exact probability, the estimate of the histogram, intervals that cover."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import Neighbours, RandomizedResponse
from sfumato.errors import BadParameter
from sfumato.mechanisms.k_ary_response import KAryResponse

ONE = KAryResponse(Fraction(1), 4)


def rates(epsilon: float, categories: int) -> tuple[float, float]:
    keep = np.exp(epsilon) / (np.exp(epsilon) + categories - 1)
    return float(keep), float((1 - keep) / (categories - 1))


def test_its_event_says_what_it_is() -> None:
    assert ONE.event == RandomizedResponse(Fraction(1), 4, Neighbours.REPLACE)


def test_the_keep_threshold_is_the_references() -> None:
    assert ONE._keep_probability.bounds(64)[0] == 8768971294881393556  # e / (e + 3)


@pytest.mark.parametrize("categories", [2, 3, 5, 9])
def test_a_changed_answer_is_each_of_the_others_for_one_draw_of_the_uniform_integer(categories: int) -> None:
    mechanism, other = KAryResponse(Fraction(1), categories), categories - 1
    bits = (other - 1).bit_length()
    for true in range(categories):
        # an all-ones word is above every threshold below 1: not kept; then the integer's own byte
        octets = [bytes([draw << (8 - bits)]) if bits else b"" for draw in range(other)]
        reports = [int(mechanism.release([true], ScriptedSource(b"\xff\xff" + octet))[0]) for octet in octets]
        assert sorted(reports) == [category for category in range(categories) if category != true]


def test_a_kept_answer_is_the_true_one_and_the_other_draw_is_made_all_the_same() -> None:
    source = ScriptedSource(b"", after=b"\x00")
    mechanism = KAryResponse(Fraction(1), 5)
    assert mechanism.release([0, 1, 2, 3, 4], source).tolist() == [0, 1, 2, 3, 4]
    changed = ScriptedSource(b"\xff" * 10, after=b"\x00")
    mechanism.release([0, 1, 2, 3, 4], changed)
    assert source.given == changed.given == 15


def test_reports_follow_the_law_chi_square_at_1e_6() -> None:
    count, hit, false = 120_000, *rates(1.0, 4)
    for true in range(4):
        seen = np.bincount(ONE.release(np.full(count, true), HashSource(("k-ary", true))), minlength=4)
        expected = count * np.where(np.arange(4) == true, hit, false)
        assert ((seen - expected) ** 2 / expected).sum() < 30.66  # chi-square, 3 degrees of freedom: P < 1e-6


def test_the_estimate_is_unbiased_and_so_is_its_variance_summed_over_every_report() -> None:
    mechanism = KAryResponse(Fraction(3, 2), 3)
    hit, false = rates(1.5, 3)
    people = (0, 0, 1, 2, 0)
    mean, square, stated = np.zeros(3), np.zeros(3), np.zeros(3)
    for reports in product(range(3), repeat=len(people)):
        mass = np.prod([hit if report == true else false for report, true in zip(reports, people, strict=True)])
        tally = np.bincount(reports, minlength=3)
        mean += mass * mechanism.estimate(tally)
        square += mass * mechanism.estimate(tally) ** 2
        stated += mass * mechanism.variance(tally)
    assert mean == pytest.approx(np.bincount(people) / 5, abs=1e-12)
    assert stated == pytest.approx(square - mean**2, abs=1e-12)


def law_of_named(hit: float, false: float, holders: int, reports: int) -> list[float]:
    with mp.workdps(40):
        law = [mpf(1)]
        for person in range(reports):
            chance = mpf(hit if person < holders else false)
            law = [a * (1 - chance) + b * chance for a, b in zip([*law, mpf(0)], [mpf(0), *law], strict=True)]
        return [float(mass) for mass in law]


@pytest.mark.parametrize(("epsilon", "categories"), [(Fraction(1), 4), (Fraction(3), 10), (Fraction(1, 5), 3)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_intervals_and_margins_cover_every_true_share(epsilon: Fraction, categories: int, confidence: float) -> None:
    mechanism, reports = KAryResponse(epsilon, categories), 30
    rest = [0] * (categories - 2)
    intervals = [mechanism.intervals([named, reports - named, *rest], confidence)[0] for named in range(reports + 1)]
    estimates = [mechanism.estimate([named, reports - named, *rest])[0] for named in range(reports + 1)]
    margin = mechanism.margin(confidence, reports)
    for holders in range(reports + 1):
        law = law_of_named(*rates(float(epsilon), categories), holders, reports)
        share = Fraction(holders, reports)
        covered = sum(m for m, (low, high) in zip(law, intervals, strict=True) if low <= share <= high)
        within = sum(m for m, value in zip(law, estimates, strict=True) if abs(value - float(share)) <= margin)
        assert covered >= confidence - 1e-12
        assert within >= confidence - 1e-12


def test_the_interval_narrows_with_the_square_root_of_the_reports() -> None:
    hit, false = rates(1.0, 4)
    low, high = ONE.intervals([10**6, 10**6, 10**6, 10**6], 0.95)[0]
    spread = 0.25 * hit * (1 - hit) + 0.75 * false * (1 - false)
    assert float(high - low) / 2 == pytest.approx(1.96 * sqrt(spread / 4e6) / (hit - false), rel=0.01)


def test_a_huge_epsilon_hides_next_to_nothing_and_does_not_fail() -> None:
    mechanism = KAryResponse(Fraction(1000), 3)
    assert mechanism.release([0, 1, 2], HashSource(1)).tolist() == [0, 1, 2]
    assert mechanism.intervals([5, 6, 7], 0.95)[0] == (Fraction(5, 18), Fraction(5, 18))
    assert mechanism.margin(0.95, 18) < 1


@pytest.mark.parametrize(
    "bad",
    [
        lambda: KAryResponse(Fraction(0), 3),
        lambda: KAryResponse(Fraction(1), 1),
        lambda: KAryResponse(1.0, 3),  # type: ignore[arg-type]
        lambda: KAryResponse(Fraction(1001), 3),
        lambda: KAryResponse(Fraction(1), 2**33),
        lambda: ONE.release([4], HashSource(0)),
        lambda: ONE.release([-1], HashSource(0)),
        lambda: ONE.release([[1]], HashSource(0)),
        lambda: ONE.release([0.0], HashSource(0)),
        lambda: ONE.estimate([1, 2, 3]),
        lambda: ONE.estimate([0, 0, 0, 0]),
        lambda: ONE.estimate([-1, 2, 3, 4]),
        lambda: ONE.intervals([1, 2, 3, 4], 0),
    ],
)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(BadParameter):
        bad()
