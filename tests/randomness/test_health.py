"""Health tests: broken sources are noticed, sources within their bias pass, and an alarm is for ever."""

import os
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness import health
from sfumato.randomness.health import Watched, examine, proportion_cutoff, repetition_cutoff
from sfumato.randomness.imperfect import Declared
from sfumato.randomness.source import Metered, declared_gamma, system_source


def biased(bits: int, gamma: Fraction, seed: object, sticky: bool = False) -> bytes:
    """Bits that fall on one side with probability (1 + gamma) / 2; sticky: on the side of the bit before."""
    words = np.frombuffer(HashSource(seed).read(4 * bits), dtype="<u4")
    falls = words < int((1 + gamma) / 2 * 2**32)
    if sticky:
        falls = np.cumsum(~falls) % 2 == 0
    return bytes(np.packbits(falls))


@pytest.mark.parametrize(
    ("gamma", "repetition", "proportion"),
    [
        (Fraction(0), (21, 41), (589, 625)),
        (Fraction(1, 20), (23, 45), (614, 650)),
        (Fraction(1, 10), (25, 48), (640, 675)),
        (Fraction(1, 5), (29, 56), (689, 724)),
        (Fraction(1, 2), (50, 98), (833, 862)),
    ],
)
def test_cut_offs_are_the_printed_ones(gamma: Fraction, repetition: object, proportion: object) -> None:
    assert (repetition_cutoff(gamma, 20), repetition_cutoff(gamma)) == repetition
    assert (proportion_cutoff(gamma, alpha_bits=20), proportion_cutoff(gamma)) == proportion


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 10), Fraction(7, 9)])
@pytest.mark.parametrize(("trials", "alpha"), [(1, 1), (7, 3), (50, 20), (200, 41), (333, 8)])
def test_a_cut_off_is_the_least_in_exact_fractions(gamma: Fraction, trials: int, alpha: int) -> None:
    likeliest = (1 + gamma) / 2

    def tail(count: int) -> Fraction:
        return sum(
            (comb(trials, n) * likeliest**n * (1 - likeliest) ** (trials - n) for n in range(count, trials + 1)),
            Fraction(0),
        )

    found = proportion_cutoff(gamma, window=trials, alpha_bits=alpha)
    assert tail(found) <= Fraction(1, 2**alpha) < tail(found - 1)


def test_a_bias_without_a_cut_off_is_refused_and_a_source_of_it_is_not_judged() -> None:
    for cutoff in (repetition_cutoff, proportion_cutoff):
        with pytest.raises(BadParameter):
            cutoff(1)
    assert examine(bytes(10_000), 1).alarms == ()
    assert Watched(Declared(ScriptedSource(b"", b"\0"), 1, "stuck")).read(5000) == bytes(5000)


BROKEN = {
    "stuck at 0": (bytes(2048), "repetition"),
    "stuck at 1": (b"\xff" * 2048, "repetition"),
    "alternating": (b"\x55" * 2048, "lag"),
    "period of 3 bytes": (b"\x12\x34\x9b" * 4096, "lag"),
    "biased to a half": (biased(65_536, Fraction(1, 2), "half"), "balance"),
    "biased within a window": (HashSource(5).read(512) + b"\xf7" * 128 + HashSource(6).read(512), "proportion"),
    "sticky": (biased(65_536, Fraction(1, 2), "sticky", sticky=True), "lag"),
    "a block again": (HashSource(7).read(4096) * 2, "repeat"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 10)])
def test_a_broken_source_is_noticed(name: str, gamma: Fraction) -> None:
    data, alarm = BROKEN[name]
    assert alarm in examine(data, gamma).alarms
    with pytest.raises(EntropyFailed, match=alarm):
        Watched(Declared(ScriptedSource(data, HashSource(9).read(65_536)), gamma, "broken")).read(len(data))


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("sticky", [False, True], ids=["leaning", "sticky"])
def test_a_source_within_its_bias_passes(gamma: Fraction, sticky: bool) -> None:
    """Each of some 2,000 tests raises a false alarm once in 2^40; a bias of more than that is seen."""
    data = biased(1 << 18, gamma, ("good", sticky), sticky)
    assert examine(data, gamma).alarms == ()
    assert examine(data, gamma).estimate == pytest.approx(float(gamma), abs=0.12)
    if gamma:
        assert examine(data, gamma / 8).alarms


def test_data_of_any_length_is_examined() -> None:
    assert examine(b"", 0) == health.Health((), 0.0)
    for length in (1, 2, 15, 16, 17, 127, 1023, 1024, 1025, 8193):
        assert examine(HashSource(length).read(length), 0).alarms == ()


def test_cutting_data_into_reads_changes_nothing() -> None:
    data, source = HashSource(3).read(1 << 14), Watched(HashSource(3))
    assert b"".join(source.read(size) for size in (1, 0, 1000, 3000, 5, 12_378)) == data


def test_an_alarm_is_at_once_and_for_ever() -> None:
    metered = Metered(ScriptedSource(HashSource(1).read(4096) + bytes(1024), HashSource(2).read(65_536)))
    watched = Watched(metered)
    watched.read(4000)
    with pytest.raises(EntropyFailed, match="repetition"):
        watched.read(97)  # what is left of the good block is not served with bad bits behind it
    drawn = metered.bits
    for _ in range(3):
        with pytest.raises(EntropyFailed):
            watched.read(1)
    assert metered.bits == drawn
    assert watched.alarms


def test_nothing_is_served_before_it_was_examined() -> None:
    metered = Metered(HashSource(1))
    Watched(metered).read(1)
    assert metered.bits == 8192


def test_a_child_does_not_serve_what_its_parent_serves() -> None:
    watched = Watched(system_source())
    watched.read(8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, watched.read(16))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 16)
    assert theirs != watched.read(16)
    os.close(reading)
    os.close(writing)


def test_the_bias_is_passed_on() -> None:
    watched = Watched(Declared(HashSource(1), "1/10", "dice"))
    assert (declared_gamma(watched), watched.name) == (Fraction(1, 10), "dice")
