"""A source that may be biased says so, every wrapper passes it on, and no draw that needs fair bits takes it."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter, EntropyFailed, ImperfectSource
from sfumato.mechanisms.exponential import Exponential
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.k_ary_response import KAryResponse
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.randomized_response import Warner
from sfumato.randomness.health import Watched
from sfumato.randomness.imperfect import Combined, Declared, SingleUse
from sfumato.randomness.source import Metered, Source, declared_gamma, read_exactly, system_source

TENTH = Fraction(1, 10)
ADD = Neighbours.ADD_REMOVE


def biased() -> Declared:
    return Declared(HashSource(1), TENTH, "dice")


def test_a_source_that_declares_nothing_counts_as_fair() -> None:
    assert declared_gamma(system_source()) == declared_gamma(HashSource(1)) == 0


@pytest.mark.parametrize("gamma", [0.1, "2", -1, True, None, "nan", Fraction(11, 10)])
def test_a_bias_is_an_exact_number_between_zero_and_one(gamma: object) -> None:
    with pytest.raises(BadParameter):
        Declared(HashSource(1), gamma, "dice")


def test_a_statement_does_not_make_a_source_better_than_it_says() -> None:
    with pytest.raises(BadParameter, match="less than"):
        Declared(biased(), 0, "laundered")
    assert Declared(biased(), "1/5", "more careful").gamma == Fraction(1, 5)


WRAPPERS: dict[str, Callable[[Source], Source]] = {
    "metered": Metered,
    "watched": Watched,
    "single use": SingleUse,
    "declared": lambda source: Declared(source, TENTH, "again"),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper_passes_the_bias_on(name: str) -> None:
    wrapped = WRAPPERS[name](biased())
    assert declared_gamma(wrapped) == TENTH
    assert declared_gamma(WRAPPERS[name](WRAPPERS[name](biased()))) == TENTH
    with pytest.raises(ImperfectSource):
        read_exactly(wrapped, 1)


@pytest.mark.parametrize(
    "release",
    [
        lambda source: Laplace(1, Fraction(10), ADD).release([1, 2], source),
        lambda source: Gaussian(1, Fraction(100), ADD).release([1, 2], source),
        lambda source: Gaussian(1, Fraction(10**9), ADD).release([1, 2], source),
        lambda source: Exponential(1, Fraction(1), ADD).release([1, 2, 3], source),
        lambda source: Warner(Fraction(1, 2)).release([0, 1], source),
        lambda source: KAryResponse(Fraction(1), 3).release([0, 1], source),
        lambda source: OptimalSelection(Fraction(1), Fraction(1, 10**6), 1, ADD).release([5, 100], source),
    ],
    ids=["laplace", "gaussian", "wide gaussian", "exponential", "warner", "k-ary", "selection"],
)
def test_whatever_needs_fair_bits_is_refused_before_any_is_drawn(release: object) -> None:
    metered = Metered(HashSource(1))
    assert callable(release)
    with pytest.raises(ImperfectSource, match=r"extractor.*consistent") as refused:
        release(Declared(metered, TENTH, "dice"))
    assert metered.bits == 0
    assert refused.value.code == "imperfect_source"
    release(Declared(metered, 0, "fair dice"))
    assert metered.bits > 0


def test_combined_sources_are_as_fair_as_the_product_of_their_biases() -> None:
    one, other = Declared(HashSource(1), TENTH, "one"), Declared(HashSource(2), "1/5", "other")
    both = Combined([one, other])
    assert both.gamma == Fraction(1, 50)
    assert "one" in both.name
    assert "other" in both.name
    plain = np.frombuffer(HashSource(1).read(64), np.uint8) ^ np.frombuffer(HashSource(2).read(64), np.uint8)
    assert both.read(64) == plain.tobytes()
    assert Combined([one, HashSource(3)]).gamma == 0
    assert Combined([Declared(HashSource(4), 1, "nothing known"), other]).gamma == Fraction(1, 5)


def test_a_source_is_not_combined_with_itself() -> None:
    same = HashSource(1)
    refused: tuple[list[Source], ...] = ([], [same], [same, same])
    for sources in refused:
        with pytest.raises(BadParameter):
            Combined(sources)


def test_the_bias_of_an_xor_is_the_product_of_the_biases() -> None:
    """All pairs of biases that two bits may have, by enumeration."""
    one, other = TENTH, Fraction(1, 5)
    worst = max(
        abs(2 * (first * second + (1 - first) * (1 - second)) - 1)
        for first in ((1 + one) / 2, (1 - one) / 2, Fraction(1, 2))
        for second in ((1 + other) / 2, (1 - other) / 2, Fraction(1, 2))
    )
    assert worst == one * other


def test_a_source_for_single_use_gives_nothing_after_it_was_closed() -> None:
    source = SingleUse(biased())
    assert source.read(4) == HashSource(1).read(4)
    source.close()
    source.close()
    for count in (0, 1, 100):
        with pytest.raises(EntropyFailed, match="one release"):
            source.read(count)
    with SingleUse(biased()) as again:
        again.read(1)
    with pytest.raises(EntropyFailed):
        again.read(1)


def test_a_short_read_is_refused_through_every_wrapper() -> None:
    class Short:
        name = "short"

        def read(self, count: int) -> bytes:
            return bytes(max(0, count - 1))

    for wrapped in (Declared(Short(), 0, "short"), SingleUse(Short()), Watched(Short()), Combined([Short(), Short()])):
        with pytest.raises(EntropyFailed):
            wrapped.read(8)
