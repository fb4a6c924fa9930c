"""Two keepers, in two processes: their answers add up to noisy sums, and by themselves they say nothing."""

import multiprocessing
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from tests.sources import HashSource

from sfumato.errors import BadParameter
from sfumato.randomness.source import system_source
from sfumato.sealed.ashe import PRIMES
from sfumato.sealed.keys import Key
from sfumato.sealed.padding import Padding
from sfumato.sealed.shares import PolyaShare
from sfumato.sealed.split import Attempt, Padkeeper, SplitQuestion, Storekeeper, combine

MASK = bytes(range(32))
PADDING = Padding(Fraction(1), Fraction(1, 100), 1)
CELLS = [[5, 0, 7], [], [1], [100, 200]]
FAINT = Fraction(1, 60)
"""Noise of this scale is 0 but for a probability of 2·e^-60."""


def keepers(seed: str = "x", prime: int = PRIMES[0]) -> tuple[Storekeeper, Padkeeper]:
    store, pads = Storekeeper(MASK, prime), Padkeeper(Key(bytes(32)), MASK, prime)
    for batch in (CELLS, [[], [3], [], []]):
        store.store("cost", pads.seal("cost", batch, PADDING, HashSource(seed + str(batch))))
    return store, pads


def question(scale: Fraction = FAINT, threshold: int = 1) -> SplitQuestion:
    return SplitQuestion("cost", ((0,), (1, 2), (0, 1, 2, 3), ()), scale, threshold)


def begun(store: Storekeeper, pads: Padkeeper, asked: SplitQuestion, seed: object) -> Attempt:
    return Attempt(asked, store.begin(HashSource(f"s{seed}")), pads.begin(HashSource(f"p{seed}")))


@pytest.mark.parametrize("prime", PRIMES[:2])
def test_answers_add_up_to_the_sums(prime: int) -> None:
    store, pads = keepers(prime=prime)
    attempt = begun(store, pads, question(), 1)
    one, other = store.answer(attempt, HashSource(3)), pads.answer(attempt, HashSource(4))
    assert combine(one, other, attempt.question, prime) == (12, 4, 316, 0)


def test_noise_is_centred_and_negative_values_are_negative() -> None:
    store, pads = keepers()
    attempt = begun(store, pads, SplitQuestion("cost", ((),) * 400, Fraction(30), 2), 1)
    found = combine(store.answer(attempt, HashSource(3)), pads.answer(attempt, HashSource(4)), attempt.question)
    assert min(found) < -20
    assert max(found) > 20
    assert max(map(abs, found)) < 2000


def test_the_noise_of_both_is_the_sum_of_their_shares() -> None:
    store, pads = keepers()
    attempt = begun(store, pads, replace(question(), scale=Fraction(5), threshold=2), 1)
    found = combine(store.answer(attempt, HashSource(3)), pads.answer(attempt, HashSource(4)), attempt.question)
    shares = [PolyaShare(Fraction(5), 2).draw(4, HashSource(seed)) for seed in (3, 4)]
    assert [a - b for a, b in zip(found, (12, 4, 316, 0), strict=True)] == [
        int(a + b) for a, b in zip(*shares, strict=True)
    ]


def test_an_attempt_is_answered_once_and_two_attempts_do_not_mix() -> None:
    store, pads = keepers()
    one, two = begun(store, pads, question(), 1), begun(store, pads, question(), 2)
    first, second = store.answer(one, HashSource(3)), pads.answer(two, HashSource(4))
    with pytest.raises(BadParameter, match="once"):
        store.answer(one, HashSource(5))
    with pytest.raises(BadParameter, match="once"):
        pads.answer(two, HashSource(5))
    with pytest.raises(BadParameter, match="different attempts"):
        combine(first, second, question())
    forged = Attempt(question(), "00", "00")
    with pytest.raises(BadParameter, match="not begun"):
        store.answer(forged, HashSource(5))
    # nor do the numbers themselves fit: each attempt, and each question in it, has masks of its own
    assert combine(first, replace(second, attempt=first.attempt), question()) != (12, 4, 316, 0)
    other = replace(begun(store, pads, question(), 7), question=replace(question(), groups=((0,),)))
    mixed = replace(pads.answer(other, HashSource(4)), attempt=first.attempt, values=first.values)
    assert all(value == 0 for value in combine(first, mixed, question()))


def test_what_a_keeper_sends_is_different_each_time_though_the_sums_are_not() -> None:
    store, pads = keepers()
    sent: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for seed in range(100):
        attempt = begun(store, pads, question(), seed)
        sent[0].update(store.answer(attempt, HashSource(seed)).values)
        sent[1].update(pads.answer(attempt, HashSource(seed)).values)
    for values in sent:
        assert max(values.values()) == 1
        # 400 uniform residues: so few in the lower half, or in the upper, with probability below 1e-8
        assert 140 < sum(value < PRIMES[0] // 2 for value in values) < 260


def test_with_too_few_shares_nothing_is_combined() -> None:
    store, pads = keepers()
    asked = question(threshold=3)
    attempt = begun(store, pads, asked, 1)
    one, other = store.answer(attempt, HashSource(3)), pads.answer(attempt, HashSource(4))
    with pytest.raises(BadParameter, match="2 shares of noise, and 3"):
        combine(one, other, asked)
    helpers = [PolyaShare(asked.scale, asked.threshold).draw(4, HashSource(seed)).tolist() for seed in (5, 6)]
    attempt = begun(store, pads, asked, 2)
    one, other = store.answer(attempt, HashSource(3), helpers), pads.answer(attempt, HashSource(4))
    assert combine(one, other, asked, colluders=1) == (12, 4, 316, 0)
    with pytest.raises(BadParameter, match="never replaced"):
        combine(one, other, asked, colluders=2)
    with pytest.raises(BadParameter, match="one number per group"):
        store.answer(begun(store, pads, asked, 3), HashSource(3), [[1]])


def test_what_means_nothing_is_refused() -> None:
    store, pads = keepers()
    with pytest.raises(BadParameter, match="twice"):
        SplitQuestion("cost", ((1, 1),), FAINT, 1)
    for nothing in (None, 5, (1,), ((None,),), ((1.5,),)):
        with pytest.raises(BadParameter):
            SplitQuestion("cost", nothing, FAINT, 1)  # type: ignore[arg-type]
    for groups in (((9,),), ((-1,),)):
        attempt = begun(store, pads, replace(question(), groups=groups), str(groups))
        for answer in (store.answer, pads.answer):
            with pytest.raises(BadParameter, match="cell of the question"):
                answer(attempt, HashSource(1))
    with pytest.raises(BadParameter, match="32 bytes"):
        Storekeeper(b"short")
    with pytest.raises(BadParameter, match="prime"):
        Storekeeper(MASK, 7)


def _serve(pipe: Any, keeper: Any) -> None:
    """Answer until told to stop: what crosses the pipe is plain data."""
    while (asked := pipe.recv()) is not None:
        pipe.send(keeper.begin(system_source()) if asked == "begin" else keeper.answer(asked, system_source()))


def test_two_processes_share_nothing_but_the_mask() -> None:
    context = multiprocessing.get_context("fork")
    ends = []
    for keeper in keepers():
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, keeper))
        process.start()
        ends.append((here, process))
    (store, _), (pads, _) = ends
    for _ in range(2):
        store.send("begin")
        pads.send("begin")
        attempt = Attempt(question(), store.recv(), pads.recv())
        store.send(attempt)
        pads.send(attempt)
        assert combine(store.recv(), pads.recv(), question()) == (12, 4, 316, 0)
    for here, process in ends:
        here.send(None)
        process.join(20)
        assert process.exitcode == 0
