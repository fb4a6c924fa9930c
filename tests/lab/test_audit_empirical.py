"""A lower bound on epsilon is a bound: above the true one with probability 1e-9 at most, and near it with samples."""

from fractions import Fraction
from functools import partial
from math import exp

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.accounting.event import Neighbours
from sfumato.accounting.pld import delta_bounds
from sfumato.lab.audits import enumeration, sampling
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.empirical import audit_draws, epsilon_lower_bound, samples_needed
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import system_source


def _laplace(value: int, scale: Fraction, samples: int) -> npt.NDArray[np.int64]:
    mechanism = Laplace(1, scale, Neighbours.ADD_REMOVE)
    return np.asarray(mechanism.release(np.full(samples, value, dtype=np.int64), system_source()))


def test_the_bound_stays_below_the_truth_and_comes_near_it() -> None:
    # below: error rate 1e-9; near: the best event has probabilities 0.73 and 0.27, which leaves 0.12 of room
    bound = epsilon_lower_bound(_laplace(0, Fraction(1), 40_000), _laplace(1, Fraction(1), 40_000))
    assert 0.8 < bound.epsilon <= 1.0


def test_too_little_noise_is_an_alarm_and_enough_is_none() -> None:
    # error rate 1e-9: the noise loses 1.25 in truth, and 40,000 samples show 1.1
    assert len(_audit(Fraction(4, 5))) == 1
    assert _audit(Fraction(1)) == []


def _audit(scale: Fraction) -> list[Finding]:
    first, second = partial(_laplace, 0, scale), partial(_laplace, 1, scale)
    return audit_draws("test", "noise", first, second, 1.0, 0.0, 40_000)


def test_a_delta_forgives_what_happens_that_rarely() -> None:
    first, second = np.zeros(4000), np.r_[np.ones(400), np.zeros(3600)]
    shuffled = second[np.argsort(_laplace(0, Fraction(10**6), 4000), kind="stable")]
    assert epsilon_lower_bound(first, shuffled).epsilon > 1
    assert epsilon_lower_bound(first, shuffled, delta=0.2).epsilon == 0


def test_a_classifier_sees_what_no_single_number_shows() -> None:
    """Ten numbers move by a little each: together they lose ten times as much as one alone."""
    first, second = (np.stack([_laplace(value, Fraction(5), 20_000) for _ in range(10)], axis=1) for value in (0, 1))
    alone = epsilon_lower_bound(first[:, :1], second[:, :1])
    together = epsilon_lower_bound(first, second)
    assert alone.epsilon < 0.2 < together.epsilon <= 2
    assert together.event == "a linear classifier"


def test_so_many_samples_are_enough_and_half_of_them_are_not() -> None:
    likely, unlikely = 0.5, 0.5 * exp(-1.3)
    needed = samples_needed(likely, unlikely, 1.0)

    def bound(samples: int) -> float:
        first, second = (np.arange(samples) % 1000 < 1000 * share for share in (likely, unlikely))
        return epsilon_lower_bound(first, second).epsilon

    assert bound(needed + 2000 - needed % 2000) > 1.0 > bound(needed // 4000 * 2000)
    with pytest.raises(ValueError, match="refutes nothing"):
        samples_needed(0.5, 0.4, 1.0)


def test_the_exact_laws_are_what_the_accountant_claims() -> None:
    assert enumeration.run() == []


def test_a_wrong_claim_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        enumeration, "delta_bounds", lambda event, epsilon: tuple(0.99 * end for end in delta_bounds(event, epsilon))
    )
    monkeypatch.setattr(enumeration, "pure_epsilon", lambda event: Fraction(1, 3))
    text = " ".join(alarm.what for alarm in enumeration.run())
    assert "more than the claimed" in text
    assert "the event says" in text


def test_the_noise_of_the_house_has_its_law() -> None:
    # 43 checks of 1e-9 each
    assert sampling.run() == []


@pytest.mark.parametrize(("hits", "surprising"), [(5000, False), (5200, False), (5400, True), (4600, True)])
def test_a_share_surprises_when_its_chance_is_below_the_failure(hits: int, surprising: bool) -> None:
    assert sampling.unlikely(hits, 10_000, 0.5) is surprising
