"""w-event privacy: the charges of every window, decisions included, sum to at most epsilon, in exact fractions."""

from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from tests.sources import HashSource
from tests.streams.plans_of_all_kinds import ADD

from sfumato.accounting.event import LaplaceNoise
from sfumato.streams.plans import NextShare, WindowEvents
from sfumato.streams.stream import Stream

SCHEMES = ("distribution", "absorption")


def costs(charges: tuple[tuple[LaplaceNoise, ...], ...]) -> list[Fraction]:
    return [sum((event.sensitivity / event.scale for event in step), Fraction(0)) for step in charges]


def heaviest(spent: list[Fraction], window: int) -> Fraction:
    return max(sum(spent[start : start + window], Fraction(0)) for start in range(len(spent)))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_whatever_is_decided_no_window_spends_more_than_epsilon(scheme: str, window: int) -> None:
    """All 2^10 sequences of decisions, by what the plan gives each step."""
    plan = WindowEvents(Fraction(3, 7), window, ADD, scheme=scheme)
    most = Fraction(0)
    for decisions in product((False, True), repeat=10):
        following, spent = NextShare(plan), []
        for wanted in decisions:
            published = wanted and following.share > 0
            cost = plan.epsilon / (2 * window) + (following.share * plan.epsilon if published else 0)
            spent.append(cost)
            following = following.next_step(published)
        most = max(most, heaviest(spent, window))
        assert most <= plan.epsilon
    assert most >= plan.epsilon * Fraction(3, 4)  # and most of it can be used


def test_absorbed_shares_silence_as_many_steps_and_are_never_absorbed_again() -> None:
    plan = WindowEvents(Fraction(1), 3, ADD, scheme="absorption")
    following, shares = NextShare(plan), []
    for published in (False, True, False, True, True):
        shares.append(following.share * 6)
        following = following.next_step(published and following.share > 0)
    assert shares == [1, 2, 0, 1, 1]


def test_halving_for_ever_ends_at_a_share_of_nothing() -> None:
    plan = WindowEvents(Fraction(1), 100, ADD)
    following, shares = NextShare(plan), []
    for _ in range(60):
        shares.append(following.share)
        following = following.next_step(following.share > 0)
    assert shares[:3] == [Fraction(1, 4), Fraction(1, 8), Fraction(1, 16)]
    assert all(share.denominator <= 2**32 for share in shares)
    assert shares[-1] == 0


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(4))
def test_the_charges_of_a_stream_keep_to_epsilon_in_every_window(tmp_path: Path, scheme: str, seed: int) -> None:
    window, epsilon = 4, Fraction(2)
    plan = WindowEvents(epsilon, window, ADD, cells=3, scheme=scheme, change=2)
    source = HashSource(("window", seed))
    with Stream.create(tmp_path / "s", plan) as stream:
        for step in range(40):
            stream.observe([step // 9 * 400] * 3 if seed % 2 else [0, step * 100, 7], source)
        charges = stream.charges
        raw = stream.raw
    assert len(charges) == 40
    assert all(step[0] == plan.decision for step in charges)
    assert heaviest(costs(charges), window) <= epsilon
    published = [len(step) == 2 for step in charges]
    assert any(published)
    if seed % 2:  # what grows at every step may be published at each; what stays the same for nine is not
        assert not all(published)
    repeats = [bool((later == earlier).all()) for earlier, later in pairwise(raw)]
    assert [not one for one in published[1:]] == repeats  # nothing but a publication changes what is shown


def test_values_that_stay_are_published_once_and_values_that_jump_again(tmp_path: Path) -> None:
    plan = WindowEvents(Fraction(1000), 5, ADD, cells=2, scheme="absorption")
    with Stream.create(tmp_path / "s", plan) as stream:
        for values in [(50, 90)] * 6 + [(500, 10)] * 6:
            stream.observe(values, HashSource(values))
        published = [len(step) == 2 for step in stream.charges]
        assert published == [True] + [False] * 5 + [True] + [False] * 5
        assert stream.released[-1] == pytest.approx([500, 10], abs=1)
        assert np.array_equal(stream.window(3), 3 * stream.released[-1])


def test_reopened_streams_remember_what_was_spent(tmp_path: Path) -> None:
    plan = WindowEvents(Fraction(2), 3, ADD)
    with Stream.create(tmp_path / "s", plan) as stream:
        for step in range(7):
            stream.observe([step * 50], HashSource(step))
        before = stream.charges
    with Stream.open(tmp_path / "s") as stream:
        assert stream.charges == before
