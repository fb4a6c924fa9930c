"""Heavy hitters by prefixes: what is found, with intervals that hold together, and a plan that says it beforehand.

Where samples are drawn, seeds are fixed, and a test of a right program fails with probability below 1e-5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.sources import HashSource

from sfumato.errors import Refusal
from sfumato.local.prefixes import Prefixes, plan


def zipf(count: int) -> Any:
    shares = 1 / np.arange(1, count + 1)
    return shares / shares.sum()


def survey(alphabet: int, length: int, values: int, people: int, seed: int) -> tuple[Any, Any, Any]:
    """Made-up names with Zipf's shares, and people who hold them."""
    random = np.random.default_rng(seed)
    names = random.choice(alphabet**length, values, replace=False)
    shares = zipf(values)
    return names, shares, names[random.choice(values, people, p=shares)]


@pytest.mark.parametrize(
    ("epsilon", "alphabet", "length", "wanted"), [(4, 26, 5, 20), (3, 16, 6, 10), (2, 10, 4, 10), (4, 40, 2, 30)]
)
def test_the_plan_says_what_will_be_found(epsilon: int, alphabet: int, length: int, wanted: int) -> None:
    """Recall of three surveys of 300,000 people is within 0.1 of the plan's."""
    found = []
    proposed = plan(epsilon, 300_000, alphabet, length, wanted)
    for seed in range(3):
        names, shares, values = survey(alphabet, length, 1500, 300_000, seed)
        reports = proposed.prefixes.release(values, HashSource((epsilon, seed)))
        found.append(np.isin(names[:wanted], proposed.prefixes.find(reports, wanted).values).mean())
    assert np.mean(found) == pytest.approx(proposed.recall(shares), abs=0.1)


def test_the_plan_says_when_nothing_can_be_found() -> None:
    hopeless = plan(1, 100, 26, 6, 5)
    assert hopeless.least_share > 1
    assert "no value" in str(hopeless)
    assert hopeless.recall(zipf(1000)) < 0.1
    assert "nine times in ten" in str(plan(4, 10**6, 26, 6, 5))


def test_recall_grows_with_people_and_epsilon() -> None:
    shares = zipf(2000)
    crowds = [plan(2, people, 26, 6, 50).recall(shares) for people in (10**4, 10**6, 10**7)]
    losses = [plan(epsilon, 10**6, 26, 6, 50).recall(shares) for epsilon in (1, 2, 4)]
    assert crowds == sorted(crowds)
    assert losses == sorted(losses)
    assert crowds[-1] > 0.8


@pytest.mark.parametrize("buckets", [1000, 64])
def test_intervals_hold_for_the_selected_together_for_all_people(buckets: int) -> None:
    """40 surveys at 90 %, listed and hashed; at least as many hold as a binomial with that chance, but for 1e-5."""
    prefixes = Prefixes(3, 10, 3, (1, 3) if buckets == 1000 else (1, 2, 3), 4, buckets)  # type: ignore[arg-type]
    _, _, values = survey(10, 3, 60, 4000, 8)
    truth = {name: (values == name).mean() for name in range(1000)}
    held = 0
    for seed in range(40):
        found = prefixes.find(prefixes.release(values, HashSource((buckets, seed))), 10, "0.9")
        held += all(
            low <= truth[value] <= high
            for value, (low, high) in zip(found.values.tolist(), found.intervals.tolist(), strict=True)
        )
        assert found.shares.tolist() == sorted(found.shares, reverse=True)
    assert binom.cdf(held, 40, 0.9) > 1e-5
    assert np.unique(found.intervals[:, 0]).size > 1 or buckets == 64  # where values share buckets, an end is 0
    assert buckets == 1000 or not found.intervals[:, 0].any()


def test_few_values_are_found_wholly() -> None:
    prefixes = plan(5, 20_000, 5, 2, 3).prefixes
    values = np.repeat([7, 11, 24], [12_000, 6_000, 2_000])
    found = prefixes.find(prefixes.release(values, HashSource(1)), 3)
    assert found.values.tolist() == [7, 11, 24]
    assert found.shares == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    assert (found.intervals[:, 0] > 0.05).all()


def test_the_event_is_that_of_one_report() -> None:
    prefixes = plan(2, 1000, 26, 4, 5).prefixes
    assert prefixes.event.epsilon == 2
    assert prefixes.release([], HashSource(0)).shape == (0, 2)


SMALL = Prefixes(2, 3, 2, (1, 2), 2, 4)  # type: ignore[arg-type]
BAD: list[Callable[[], object]] = [
    lambda: plan(0, 100, 26, 3, 5),
    lambda: plan(1.5, 100, 26, 3, 5),
    lambda: plan(1, 0, 26, 3, 5),
    lambda: plan(1, 100, 1, 3, 5),
    lambda: plan(1, 100, 26, 0, 5),
    lambda: plan(1, 100, 26, 30, 5),
    lambda: plan(1, 100, 2**21, 2, 5),
    lambda: plan(1, 100, 26, 3, 0),
    lambda: plan(1, 100, 26, 3, 5).recall([]),
    lambda: plan(1, 100, 26, 3, 5).recall([float("nan")]),
    lambda: plan(1, 100, 26, 3, 5).recall([-0.1, 0.5]),
    lambda: plan(1, 100, 26, 3, 5).recall([0.9, 0.9]),
    lambda: Prefixes(1, 3, 2, (2, 1), 2, 9),  # type: ignore[arg-type]
    lambda: Prefixes(1, 3, 2, (1,), 2, 9),  # type: ignore[arg-type]
    lambda: Prefixes(1, 3, 2, (1, 2), 2, 2),  # type: ignore[arg-type]
    lambda: Prefixes(1, 3, 2, "12", 2, 9),  # type: ignore[arg-type]
    lambda: SMALL.release([9], HashSource(0)),
    lambda: SMALL.release([-1], HashSource(0)),
    lambda: SMALL.release([0.0], HashSource(0)),
    lambda: SMALL.find([], 2),
    lambda: SMALL.find([[0, 0]], 2),
    lambda: SMALL.find([[2, 0]], 2),
    lambda: SMALL.find([[0, 99]], 2),
    lambda: SMALL.find([[0, 1, 1]], 2),
    lambda: SMALL.find(SMALL.release(np.zeros(99, dtype=int), HashSource(0)), 0),
    lambda: SMALL.find(SMALL.release(np.zeros(99, dtype=int), HashSource(0)), 2, 1),
    lambda: SMALL.likelihood([0, 99], 0, 10),
    lambda: SMALL.likelihood([0, 1], 9, 10),
]


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_meant_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(Refusal):
        bad()
