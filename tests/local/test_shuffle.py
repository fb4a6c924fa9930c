"""Shuffling: the clone pair exactly, above what binary response really loses, below the closed form."""

from collections.abc import Callable
from fractions import Fraction
from math import comb, exp, log, sqrt

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.accounting.event import Approximate, Neighbours, Pure
from sfumato.errors import Refusal
from sfumato.local.shuffle import Shuffled

KNOWN = [
    (1, 10**4, "1e-6", 0.053005317),
    (2, 10**4, "1e-6", 0.155045243),
    (4, 10**4, "1e-6", 0.600908764),
    (1, 10**6, "1e-8", 0.006125477),
]


@pytest.mark.parametrize(("epsilon", "reports", "delta", "known"), KNOWN)
def test_known_values(epsilon: int, reports: int, delta: str, known: float) -> None:
    shuffled = Shuffled(epsilon, reports)  # type: ignore[arg-type]
    found = shuffled.epsilon_at(delta)
    assert found == pytest.approx(known, abs=1e-9)
    assert shuffled.delta_after(found) <= float(delta) * (1 + 1e-9)
    assert shuffled.delta_after(found * (1 - 1e-6)) > float(delta)


def clone_pair(local: float, reports: int, epsilon: float) -> float:
    """The divergence of the clone pair, summed over every (a, c - a) in 40 digits: another way than the code's."""
    with mp.workdps(40):
        e, x, kept = mp.exp(mpf(epsilon)), mp.exp(-mpf(local)), mp.exp(mpf(local)) / (mp.exp(mpf(local)) + 1)
        total = mpf(0)
        for clones in range(reports):
            weight = comb(reports - 1, clones) * x**clones * (1 - x) ** (reports - 1 - clones) / mpf(2) ** clones
            for ones in range(clones + 2):
                low = comb(clones, ones) if ones <= clones else 0
                high = comb(clones, ones - 1) if ones else 0
                left, right = kept * high + (1 - kept) * low, (1 - kept) * high + kept * low
                total += weight * max(mpf(0), left - e * right)
        return float(total)


@pytest.mark.parametrize(("local", "reports"), [("1", 2), ("1", 3), ("1/2", 9), ("3", 30), ("2", 61)])
@pytest.mark.parametrize("part", ["0", "1/10", "1/2", "9/10", "999/1000"])
def test_the_sum_is_that_of_the_pair_and_never_below_it(local: str, reports: int, part: str) -> None:
    epsilon = Fraction(local) * Fraction(part)
    found = Shuffled(local, reports).delta_after(epsilon)  # type: ignore[arg-type]
    by_hand = clone_pair(float(Fraction(local)), reports, float(epsilon))
    assert by_hand * (1 - 1e-12) <= found <= by_hand * (1 + 1e-9) + 1e-35


def binary_response(local: float, reports: int, epsilon: float) -> float:
    """What n shuffled binary responses really lose: the law of the number of ones, all others holding 0."""
    kept = exp(local) / (exp(local) + 1)
    others = np.ones(1)
    for _ in range(reports - 1):
        others = np.convolve(others, [kept, 1 - kept])
    zero, one = np.convolve(others, [kept, 1 - kept]), np.convolve(others, [1 - kept, kept])
    divergences = [np.maximum(0, p - exp(epsilon) * q).sum() for p, q in ((zero, one), (one, zero))]
    return float(max(divergences))


@pytest.mark.parametrize("local", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("reports", [2, 3, 10, 300])
def test_never_below_what_binary_response_loses(local: float, reports: int) -> None:
    shuffled = Shuffled(Fraction(local), reports)
    for part in (0.0, 0.05, 0.2, 0.5, 0.9, 1.0):
        truth = binary_response(local, reports, local * part)
        assert shuffled.delta_after(Fraction(local) * Fraction(str(part))) >= truth * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(("epsilon", "least"), [(1, 0.035658), (2, 0.087015), (4, 0.314643)])
def test_above_the_references_truth_for_ten_thousand(epsilon: int, least: float) -> None:
    assert Shuffled(epsilon, 10**4).epsilon_at("1e-6") > least  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "reports", "delta"), [("1/2", 5000, 1e-6), ("1", 10**5, 1e-8), ("3", 10**6, 1e-6)])
def test_below_the_closed_form(epsilon: str, reports: int, delta: float) -> None:
    e = exp(Fraction(epsilon))
    assert Fraction(epsilon) <= log(reports / (16 * log(2 / delta)))
    closed = log(1 + (e - 1) / (e + 1) * (8 * sqrt(e * log(4 / delta) / reports) + 8 * e / reports))
    found = Shuffled(epsilon, reports).epsilon_at(str(delta))  # type: ignore[arg-type]
    assert found < closed / 2
    assert found < Fraction(epsilon)


def test_never_more_than_one_report_alone() -> None:
    for epsilon, reports in ((1, 2), (7, 3), (300, 10**6), (64, 50)):
        shuffled = Shuffled(epsilon, reports)  # type: ignore[arg-type]
        assert shuffled.epsilon_at("1e-9") <= epsilon * (1 + 1e-9)
        assert shuffled.delta_after(epsilon) == shuffled.delta_after(epsilon + 1) == 0


def test_more_reports_and_more_noise_hide_more() -> None:
    crowds = [Shuffled(2, reports).epsilon_at("1e-6") for reports in (10, 100, 1000, 10_000)]  # type: ignore[arg-type]
    assert crowds == sorted(crowds, reverse=True)
    noise = [Shuffled(epsilon, 1000).epsilon_at("1e-6") for epsilon in ("1/2", "1", "2", "4")]  # type: ignore[arg-type]
    assert noise == sorted(noise)


def test_the_event_states_both_and_holds() -> None:
    shuffled = Shuffled(1, 2000)  # type: ignore[arg-type]
    event = shuffled.event("1e-6")
    assert isinstance(event, Approximate)
    assert event.delta == Fraction(1, 10**6)
    assert isinstance(event.event, Pure)
    assert event.event.neighbours is Neighbours.REPLACE
    assert shuffled.delta_after(event.event.epsilon) <= 1e-6


BAD: list[Callable[[], object]] = [
    lambda: Shuffled(0, 10),  # type: ignore[arg-type]
    lambda: Shuffled(0.5, 10),  # type: ignore[arg-type]
    lambda: Shuffled(1, 0),  # type: ignore[arg-type]
    lambda: Shuffled(1, 1),  # type: ignore[arg-type]  # one report is hidden among no others
    lambda: Shuffled(1, 1.5),  # type: ignore[arg-type]
    lambda: Shuffled(1, 10).delta_after(-1),  # type: ignore[arg-type]
    lambda: Shuffled(1, 10).delta_after("nan"),  # type: ignore[arg-type]
    lambda: Shuffled(1, 10).epsilon_at(0),  # type: ignore[arg-type]
    lambda: Shuffled(1, 10).epsilon_at(1),  # type: ignore[arg-type]
    lambda: Shuffled(1, 10).event("x"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(Refusal):
        bad()
